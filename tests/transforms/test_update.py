from pathlib import Path

import pytest
from cases import NoOp, Rewrite, converted_by
from scripts import PARTS, edited

from transformer import convert

FIXTURES = Path(__file__).parents[2] / "fixtures"

PARAMS = "b_obs, mb_inds, b_actions, b_logprobs, clipfracs, b_advantages, b_returns"
FUNCTION = f'''
    def update({PARAMS}):
        """Optimize the networks on one minibatch."""
        <minibatch>
        return clipfracs, v_loss.detach()
'''
CALL = f"clipfracs, v_loss = update({PARAMS})"
PLAIN = {"metrics": "", "report": "print(iteration, global_step)"}
PLAIN_PARAMS = PARAMS.replace("clipfracs, ", "")
PLAIN_FUNCTION = FUNCTION.replace(PARAMS, PLAIN_PARAMS).replace("        return clipfracs, v_loss.detach()\n", "")
PLAIN_CALL = f"update({PLAIN_PARAMS})"

OWNED_CALL = "trainer.agent.get_action_and_value(trainer.b_obs[mb_inds], trainer.b_actions."
OWNED_PARAMS = PARAMS.replace("b_obs, ", "").replace("b_actions, ", "")
OWNED = {
    "make_agent": "trainer = argparse.Namespace(agent=Agent().to(device))",
    "optimizer": "optimizer = optim.Adam(trainer.agent.parameters(), lr=args.learning_rate, eps=1e-5)",
    "act": edited("act", "agent.get", "trainer.agent.get"),
    "advantages": edited("advantages", "agent.get", "trainer.agent.get"),
    "flatten": PARTS["flatten"].replace("b_obs", "trainer.b_obs").replace("b_actions", "trainer.b_actions"),
    "minibatch": edited("minibatch", "agent.get_action_and_value(b_obs[mb_inds], b_actions.", OWNED_CALL),
    "optimize": edited("optimize", "agent.parameters", "trainer.agent.parameters"),
}
"""The network is an attribute of an object: nothing it returns may enter update() with its graph."""

KEPT = {
    **OWNED,
    "anneal": "",
    "make_agent": """class Trainer:
    def __init__(self):
        self.agent = Agent().to(device)
        self.optimizer = optim.Adam(self.agent.parameters())
trainer = Trainer()""",
    "optimizer": "",
    "optimize": OWNED["optimize"].replace("optimizer", "trainer.optimizer"),
}
"""The object makes the network, as its own attribute."""
IN_PARTS = {
    **KEPT,
    "make_agent": KEPT["make_agent"].replace(
        "self.agent.parameters()", "[*self.agent.actor.parameters(), *self.agent.critic.parameters()]"
    ),
}
"""The optimizer holds the parameters of the network's parts."""

REWRITES = [
    Rewrite(
        "a network that its object made",
        KEPT,
        {
            "functions": FUNCTION.replace(PARAMS, OWNED_PARAMS) + "\n\n",
            "learn": CALL.replace(PARAMS, OWNED_PARAMS),
        },
    ),
    Rewrite(
        "a network that its object made, whose parts the optimizer holds",
        IN_PARTS,
        {
            "functions": FUNCTION.replace(PARAMS, OWNED_PARAMS) + "\n\n",
            "learn": CALL.replace(PARAMS, OWNED_PARAMS),
        },
    ),
    Rewrite(
        "a network of another object",
        OWNED,
        {
            "functions": FUNCTION.replace(PARAMS, OWNED_PARAMS) + "\n\n",
            "learn": CALL.replace(PARAMS, OWNED_PARAMS),
        },
    ),
    Rewrite("under the main guard", {}, {"functions": FUNCTION + "\n\n", "learn": CALL}),
    Rewrite("in main()", {"main": "def main():", "end": "\n\nmain()"}, {"closures": FUNCTION + "\n", "learn": CALL}),
    Rewrite("nothing is read afterwards", PLAIN, {"functions": PLAIN_FUNCTION + "\n\n", "learn": PLAIN_CALL}),
    Rewrite(
        "the training loop's variable is called update",
        {"loop": "for update in range(1, args.num_iterations + 1):", "anneal": "", **PLAIN, "report": "print(update)"},
        {
            "functions": PLAIN_FUNCTION.replace("update(", "update_networks(") + "\n\n",
            "learn": PLAIN_CALL.replace("update", "update_networks"),
        },
    ),
    Rewrite(
        "code below the step stays",
        {**PLAIN, "learn": "<minibatch>\nprint(loss.item())"},
        {
            "functions": PLAIN_FUNCTION + "        return loss.detach()\n\n\n",
            "learn": f"loss = {PLAIN_CALL}\nprint(loss.item())",
        },
    ),
    Rewrite(
        "code above the tensors stays",
        {**PLAIN, "learn": "count = len(mb_inds)\nprint(count)\n<minibatch>"},
        {"functions": PLAIN_FUNCTION + "\n\n", "learn": f"count = len(mb_inds)\nprint(count)\n{PLAIN_CALL}"},
    ),
    *(
        Rewrite(
            f"what only a del reads is no result: {title}",
            {**PLAIN, "learn": f"<minibatch>\n{before}"},
            {"functions": PLAIN_FUNCTION + returned, "learn": f"{call}{after}"},
        )
        for title, before, returned, call, after in (
            ("all of it", "del ratio, loss", "\n\n", PLAIN_CALL, ""),
            (
                "a tuple",
                "# Free memory\ndel (ratio, mb_inds, loss)",
                "\n\n",
                PLAIN_CALL,
                "\n# Free memory\ndel mb_inds",
            ),
            ("in a block", "if iteration > 1:\n    del ratio", "\n\n", PLAIN_CALL, "\nif iteration > 1:\n    pass"),
            (
                "but what else is read",
                "print(loss.item())\ndel ratio, loss",
                "        return loss.detach()\n\n\n",
                f"loss = {PLAIN_CALL}",
                "\nprint(loss.item())\ndel loss",
            ),
            (
                "but an item of it",
                "del _[0], ratio",
                "        return _.detach()\n\n\n",
                f"_ = {PLAIN_CALL}",
                "\ndel _[0]",
            ),
            (
                "with a comment in it",
                "del loss  # free it",
                "        return loss.detach()\n\n\n",
                f"loss = {PLAIN_CALL}",
                "\ndel loss  # free it",
            ),
        )
    ),
    Rewrite(
        "what is deleted is returned where the script asks what is bound",
        {**PLAIN, "learn": "<minibatch>\ndel loss", "report": "if iteration < 0:\n    raise NameError(iteration)"},
        {
            "functions": PLAIN_FUNCTION + "        return loss.detach()\n\n\n",
            "learn": f"loss = {PLAIN_CALL}\ndel loss",
        },
    ),
    Rewrite(
        "results under no_grad need no detaching",
        {
            **PLAIN,
            "metrics": "with torch.no_grad():\n    kl = ((ratio - 1) - ratio.log()).mean()",
            "report": "print(kl.item())",
        },
        {"functions": PLAIN_FUNCTION + "        return kl\n\n\n", "learn": f"kl = {PLAIN_CALL}"},
    ),
]

NOOPS = [
    *(
        NoOp(
            f"two names of one loss: {asks}",
            {
                "optimize": PARTS["optimize"] + "\nfirst, kept = loss, [loss]",
                "report": f"print(iteration, {asks}, v_loss.item())",
            },
            "line {line} asks whether a result of update() is an object, which a detached result is not",
            at=asks,
        )
        for asks in ("first is loss", "v_loss is not loss", "loss in kept")
    ),
    *(
        NoOp(
            f"variables by their names: {look}",
            parts,
            "line {line} may look up, by name, a variable that the transform renames or removes",
            at="globals()",
        )
        for look, parts in {
            "read": {
                "metrics": "",
                "report": "print(iteration, global_step)",
                "before_loop": "print(globals().keys())",
            },
            "set": {"functions": "clip = 0.2\n\n\n", "anneal": "globals()['clip'] = 0.2 / iteration"},
        }.items()
    ),
    NoOp(
        "no backward",
        {"optimize": "optimizer.zero_grad()\noptimizer.step()"},
        "the minibatch loop steps the optimizer but calls no backward()",
    ),
    NoOp(
        "backward in a function of its own",
        {
            "functions": "def descend(loss):\n    loss.backward()\n\n\n",
            "optimize": "optimizer.zero_grad()\ndescend(loss)\noptimizer.step()",
        },
        "the minibatch loop steps the optimizer but calls no backward()",
    ),
    NoOp(
        "a continue",
        {"metrics": "if ratio.isnan().any():\n    continue"},
        "the continue on line {line} jumps out of the minibatch above optimizer.step(): move it below that",
        at="continue",
    ),
    NoOp(
        "a break",
        {"metrics": "if ratio.max() > 100:\n    break"},
        "the break on line {line} jumps out of the minibatch above optimizer.step(): move it below that, which",
        at="break",
    ),
    NoOp(
        "a return",
        {"main": "def main():", "end": "\n\nmain()", "metrics": "if ratio.isnan().any():\n    return  # give up"},
        "line {line} has a return statement",
        at="give up",
    ),
    NoOp(
        "a del",
        {"metrics": "del probs", "minibatch": edited("minibatch", "ratio =", "probs = newlogprob.exp()\nratio =")},
        "line {line} has a delete statement",
        at="del probs",
    ),
    *(
        NoOp(
            f"an object that tells its end: {line}",
            {
                "functions": "class Told:\n    def __del__(self):\n        print('gone')\n\n\n"
                "class More(Told):\n    pass\n\n\n",
                "metrics": line,
            },
            "line {line} makes an object whose __del__() would run at another time",
            at=line,
        )
        for line in ("told = Told()", "told = [More()]")
    ),
    NoOp(
        "a walrus",
        {"metrics": "if (spread := ratio.std()) > 1:\n    print(spread)"},
        "line {line} has a namedexpr expression",
        at="spread :=",
    ),
    NoOp(
        "a value that only some minibatches set, and whose name is a builtin's",
        {
            "metrics": "if epoch > 0:\n    sum = ratio.std()",
            "report": "if args.update_epochs > 1:\n    print(sum.item())",
        },
        "sum may be unset where line {line} begins, so it cannot be passed in",
        at="_, newlogprob",
    ),
    NoOp(
        "a closure over the minibatch",
        {"closures": "def tell():\n    print(loss)\n", "report": "tell()"},
        "tell (line {line}) reads loss from the training scope, which sets it here",
        at="def tell",
    ),
]


@pytest.mark.parametrize("rewrite", REWRITES, ids=str)
def test_rewrite(rewrite: Rewrite) -> None:
    rewrite.check("update")


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    noop.check("update")


@pytest.mark.parametrize("left", [("q_", "policy_"), ("policy_",), ()])
def test_compiling_the_temperature_alone_is_not_recommended(left: tuple[str, ...]) -> None:
    """That optimizer has a single tensor, so next to nothing would be compiled."""
    text = (FIXTURES / "tuned_entropy.py").read_text()
    for name in left:
        step = next(line for line in text.splitlines() if line.lstrip() == f"{name}optimizer.zero_grad()")
        indent = step[: -len(step.lstrip())]
        text = text.replace(step, f"{indent}if {name}loss.isnan():\n{indent}    continue\n{step}")
    assert ("compile" in converted_by(text, "update", "compile").recommended) is (len(left) < 2)


COLUMNS = "            columns = zip("
STEP = "            optimizer.zero_grad()\n"


def cleared_above(between: str, clears: str = STEP) -> str:
    """update() of a script that clears gradients above its sampling."""
    text = (FIXTURES / "deep_q.py").read_text(encoding="utf-8").replace(STEP, "")
    lines = "".join(f"            {line}\n" for line in between.splitlines())
    source = convert(text.replace(COLUMNS, f"{clears}{lines}{COLUMNS}"), select={"update"}).source
    return source[source.index("def update(") : source.index("if __name__")]


@pytest.mark.parametrize(
    "between",
    [
        "",
        "print(global_step)",
        "target_network.load_state_dict(q_network.state_dict())",
        "print(q_network(torch.Tensor(obs).to(device)).sum().item())",
        "if global_step % 7 == 0:\n    epsilon = max(epsilon, 0.1)",
    ],
)
def test_gradients_cleared_early_where_nothing_uses_them(between: str) -> None:
    assert "optimizer.zero_grad()" in cleared_above(between)


@pytest.mark.parametrize(
    "between",
    [
        "print([p.grad for p in q_network.parameters()])",
        "print([getattr(p, 'grad') for p in q_network.parameters()])",
        "q_network(torch.Tensor(obs).to(device)).sum().backward()",
        "nn.utils.clip_grad_norm_(q_network.parameters(), 1.0)",
        "norm = torch.nn.utils.get_total_norm([p for p in q_network.parameters()])",
        "optimizer = optim.Adam(q_network.parameters())",
        "optimizer.add_param_group({'params': [torch.zeros(1, requires_grad=True)]})",
        "optimizer.param_groups[0]['params'].pop()",
        "if global_step % 7 == 0:\n    continue",
        "env.unwrapped.look_at(q_network)",
    ],
)
def test_gradients_cleared_early_where_something_may_use_them(between: str) -> None:
    assert "optimizer.zero_grad()" not in cleared_above(between)


def test_gradients_of_two_optimizers_cleared_early() -> None:
    text = (FIXTURES / "deep_q.py").read_text(encoding="utf-8").replace(STEP, "")
    made = next(line for line in text.splitlines() if "optimizer = " in line)
    text = text.replace(made, f"{made}\n    other = optim.SGD(q_network.parameters(), lr=1e-5)")
    text = text.replace("            optimizer.step()\n", "            optimizer.step()\n            other.step()\n")
    source = convert(text.replace(COLUMNS, f"            other.zero_grad()\n{STEP}{COLUMNS}"), select={"update"}).source
    update = source[source.index("def update(") : source.index("if __name__")]
    assert 0 < update.find("other.zero_grad()") < update.find("optimizer.zero_grad()")


@pytest.mark.parametrize(
    "clears",
    [
        "            optimizer.zero_grad(set_to_none=False)\n",
        "            cleared = optimizer.zero_grad()\n",
        "            q_network.zero_grad()\n",
        f"            if args.seed:\n    {STEP}",
    ],
)
def test_gradients_cleared_in_other_ways(clears: str) -> None:
    assert "zero_grad" not in cleared_above("", clears)
