import textwrap
from pathlib import Path

import pytest
from cases import NoOp, turn
from compiled import compiled_check
from scripts import PARTS, edited, script

from transformer import Applied, Skipped, convert

PLAIN = {"metrics": "", "report": "print(iteration, global_step)", "anneal": ""}
UPDATE = ("tensor-lr", "update")

TWO = {
    "optimizer": "first = optim.Adam(agent.actor.parameters(), lr=args.learning_rate)\n"
    "second = optim.Adam(agent.critic.parameters(), lr=args.learning_rate)",
    "optimize": "first.zero_grad()\npg_loss.backward(retain_graph=True)\nfirst.step()\n"
    "second.zero_grad()\nv_loss.backward()\n"
    "nn.utils.clip_grad_norm_(agent.critic.parameters(), 0.5)\nsecond.step()",
}
"""One optimizer for the actor and one for the critic, which step one after the other."""

JOINT = {
    "optimizer": TWO["optimizer"],
    "optimize": "first.zero_grad()\nsecond.zero_grad()\nloss.backward()\nfirst.step()\nsecond.step()",
}
"""The same two, with one loss."""

OVERLAPPING = {
    "optimizer": TWO["optimizer"],
    "optimize": "first.zero_grad()\npg_loss.backward(retain_graph=True)\nsecond.zero_grad()\nloss.backward()\n"
    "nn.utils.clip_grad_norm_(agent.critic.parameters(), 0.5)\nfirst.step()\nsecond.step()",
}
"""The same two: the second computes gradients before the first one's are used, and adds to them."""

BETWEEN = {
    "optimizer": TWO["optimizer"],
    "optimize": "first.zero_grad()\nsecond.zero_grad()\nloss.backward(retain_graph=True)\n"
    "nn.utils.clip_grad_norm_(agent.actor.parameters(), 0.5)\nfirst.step()\nv_loss.backward()\nsecond.step()",
}
"""The same two, both cleared first: the first one steps before the second one's gradients are added to."""

CURIOUS = {
    "optimizer": PARTS["optimizer"] + "\ncurious, other = None, None\nif args.seed:\n    curious = Agent().to(device)\n"
    "    other = optim.Adam(curious.critic.parameters(), lr=args.learning_rate)",
    "optimize": PARTS["optimize"] + "\nif curious is not None:\n"
    "    error = (curious.get_value(b_obs[mb_inds]) - 1).pow(2).mean()\n"
    "    other.zero_grad()\n    error.backward()\n    other.step()",
    "report": "print(iteration, global_step)\nif curious is not None:\n    print(error.item())",
}
"""A module that exists only if an option is set, with its own loss and optimizer."""


def curious(old: str, new: str) -> dict[str, str]:
    assert any(old in part for part in CURIOUS.values()), old
    return {k: v.replace(old, new) for k, v in CURIOUS.items()}


MULTIPLIER = {
    "optimizer": "optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate)\n"
    "penalty = torch.tensor(0.5, requires_grad=True)\nsteady = optim.SGD([penalty], lr=0.1)",
    "report": "excess = float(b_returns.mean()) - args.learning_rate\nsteady.zero_grad()\n"
    "(-penalty * excess).backward()\nsteady.step()",
}
"""A Lagrange multiplier with its own optimizer, which steps after the minibatches."""


def multiplier(old: str, new: str) -> dict[str, str]:
    assert sum(part.count(old) for part in MULTIPLIER.values()) == 1, old
    return {**PLAIN, **{k: v.replace(old, new) for k, v in MULTIPLIER.items()}}


MULTIPLIERS = {
    "results of networks": ("* excess)", "* agent.get_value(b_obs).mean())"),
    "earlier results of networks": ("float(b_returns.mean())", "agent.get_value(b_obs).mean()"),
    "the networks' parameters": ("* excess)", "* agent.log_std)"),
    "parameters of the networks": ("[penalty]", "agent.parameters()"),
    "the result of a function": ("* excess)", "* parse_args())"),
}
"""Passes that may leave the networks gradients, which the update then clears."""
NOOPS = [
    *(
        NoOp(
            f"gradients that may be sparse: {layer}",
            {**PLAIN, "functions": f"words = {layer}\n\n\n"},
            "line {line} may make gradients sparse",
            at=layer,
            also=UPDATE,
        )
        for layer in (
            "nn.Embedding(4, 2, sparse=True)",
            "nn.Embedding(4, 2, None, None, 2.0, False, True)",
            "nn.EmbeddingBag(4, 2, sparse=args.sparse)",
            "nn.EmbeddingBag(4, 2, **options)",
            "nn.Embedding.from_pretrained(torch.ones(4, 2), sparse=True)",
            "torch.sparse.mm(torch.eye(2).to_sparse(), torch.eye(2))",
        )
    ),
    NoOp(
        "a layer without shapes",
        {**PLAIN, "functions": "words = nn.LazyLinear(4)\n\n\n"},
        "line {line} makes a layer whose parameters have no shape before its first call",
        at="nn.LazyLinear",
        also=UPDATE,
    ),
    NoOp(
        "gradients are read one by one",
        {**PLAIN, "optimize": edited("optimize", "optimizer.step()", "print(agent.a.grad)\noptimizer.step()")},
        "line {line} uses single gradients",
        at="print(agent.a.grad)",
        also=UPDATE,
    ),
    NoOp(
        "the graph is kept",
        {**PLAIN, "optimize": edited("optimize", "backward()", "backward(retain_graph=True)")},
        "backward() on line {line} takes arguments",
        at="retain_graph",
        also=UPDATE,
    ),
    NoOp(
        "the step is conditional",
        {**PLAIN, "optimize": edited("optimize", "optimizer.step()", "if args.seed:\n    optimizer.step()")},
        "line {line} runs under another condition than its backward pass",
        at="    optimizer.step()",
        also=UPDATE,
    ),
    NoOp(
        "the step depends on a number of the loop",
        {**PLAIN, "optimize": edited("optimize", "optimizer.step()", "if epoch:\n    optimizer.step()")},
        "line {line} is not a statement of its own that always runs",
        at="    optimizer.step()",
        also=UPDATE,
    ),
    NoOp(
        "gradients are summed over minibatches",
        {**PLAIN, "optimize": edited("optimize", "optimizer.zero_grad()\n", "")},
        "must run zero_grad(), backward() and step() once and in this order, but runs backward, step",
        also=UPDATE,
    ),
    NoOp(
        "gradients are cleared above the minibatches",
        {
            **PLAIN,
            "optimize": edited("optimize", "optimizer.zero_grad()\n", ""),
            "before_loop": "optimizer.zero_grad()",
        },
        "line {line} clears the gradients, and is not in update()",
        at="optimizer.zero_grad()",
        also=UPDATE,
    ),
    NoOp(
        "the rate is a float that changes",
        {**{k: v for k, v in PLAIN.items() if k != "anneal"}, "before_loop": "kept = [optimizer]"},
        "line {line} uses [optimizer], which may reach the parameters",
        at="kept = [optimizer]",
        also=("update",),
    ),
    NoOp(
        "another optimizer",
        {**PLAIN, "optimizer": "optimizer = optim.Adagrad(agent.parameters(), lr=args.learning_rate)"},
        "optimizer is torch.optim.Adagrad, whose step() may not be traceable",
        also=UPDATE,
    ),
    NoOp(
        "a fused optimizer",
        {**PLAIN, "optimizer": "optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate, fused=True)"},
        "made with options",
        also=UPDATE,
    ),
    NoOp(
        "another phase trains too",
        {**PLAIN, "report": "agent(b_obs).sum().backward()"},
        "line {line} uses gradients outside of the minibatch too",
        at="agent(b_obs).sum().backward()",
        also=UPDATE,
    ),
    *(
        NoOp(title, multiplier(*change), "line {line} uses gradients outside of the minibatch too", at=at, also=UPDATE)
        for title, change, at in (
            ("a multiplier whose gradients nothing clears", ("steady.zero_grad()\n", ""), "excess).backward"),
            ("a multiplier that nothing steps", ("\nsteady.step()", ""), "excess).backward"),
            ("a multiplier stepped by the other optimizer", ("steady.step()", "optimizer.step()"), "excess).backward"),
        )
    ),
    NoOp(
        "two backward passes with something between them",
        {
            **PLAIN,
            "optimize": edited(
                "optimize", "loss.backward()", "pg_loss.backward(retain_graph=True)\nprint(pg_loss)\nloss.backward()"
            ),
        },
        "between the backward passes",
        also=UPDATE,
    ),
    NoOp(
        "two optimizers that step, of which one is cleared",
        {**PLAIN, **JOINT, "optimize": JOINT["optimize"].replace("second.zero_grad()\n", "")},
        "the gradients of second are not cleared",
        also=UPDATE,
    ),
    NoOp(
        "an optimizer that is cleared and does not step",
        {**PLAIN, **JOINT, "optimize": JOINT["optimize"].replace("\nsecond.step()", "")},
        "line {line} clears gradients of another optimizer than first",
        at="second.zero_grad()",
        also=UPDATE,
    ),
    NoOp(
        "the clipped parameters are collected in the loop",
        {**PLAIN, "optimize": edited("optimize", "agent.parameters()", "[p for p in (agent.a, b_obs)][:1]")},
        "line {line} uses agent.a",
        at="[:1]",
        also=UPDATE,
    ),
    NoOp(
        "two optimizers, one of which clips the gradients of both",
        {**PLAIN, **TWO, "optimize": TWO["optimize"].replace("agent.critic.parameters()", "agent.parameters()")},
        "line {line} may clip gradients of several optimizers",
        at="clip_grad_norm_(agent.parameters()",
        also=UPDATE,
    ),
    NoOp(
        "two optimizers of which one steps twice",
        {**PLAIN, **TWO, "optimize": TWO["optimize"].replace("second.", "first.")},
        "first is stepped more than once",
        also=UPDATE,
    ),
    NoOp(
        "two optimizers that clear each other's gradients",
        {**PLAIN, **TWO, "optimize": TWO["optimize"].replace("second.zero_grad", "first.zero_grad")},
        "clears gradients of another optimizer than second",
        also=UPDATE,
    ),
    NoOp(
        "a module that training makes",
        {**PLAIN, **CURIOUS, "report": "", "head": "if iteration == 2:\n    curious = Agent()"},
        "line {line} is not a statement of its own that always runs",
        at="    other.zero_grad()",
        also=UPDATE,
    ),
    NoOp(
        "a network that may be false",
        {
            **PLAIN,
            **curious("curious is not None", "curious"),
            "agent": edited("agent", "class Agent(nn.Module):", "class Agent(nn.Module):\n    __len__ = lambda s: 0\n"),
        },
        "line {line} is not a statement of its own that always runs",
        at="    other.zero_grad()",
        also=UPDATE,
    ),
    NoOp(
        "passes that overlap, under different conditions",
        {
            **PLAIN,
            "optimizer": TWO["optimizer"],
            "optimize": "if args.seed:\n    first.zero_grad()\n    pg_loss.backward(retain_graph=True)\n"
            "second.zero_grad()\nloss.backward()\nif args.seed:\n    first.step()\nsecond.step()",
        },
        "line {line} runs under another condition than its backward pass",
        at="    pg_loss.backward",
        also=UPDATE,
    ),
    NoOp(
        "passes that overlap, one of which is cleared twice",
        {
            **PLAIN,
            **OVERLAPPING,
            "optimize": OVERLAPPING["optimize"].replace("second.z", "first.zero_grad()\nsecond.z"),
        },
        "once and in this order",
        also=UPDATE,
    ),
    NoOp(
        "gradients that are computed for no step",
        {**PLAIN, **OVERLAPPING, "optimize": "v_loss.backward(retain_graph=True)\n" + OVERLAPPING["optimize"]},
        "once and in this order",
        also=UPDATE,
    ),
]


FREEZE = "def freeze(net, on):\n    for p in net.parameters():\n        p.requires_grad = on\n\n\n"
THAW = """\
class Thaw:
    def __init__(self, net):
        self.net = net

    def step(self):
        self.net.requires_grad_(True)


"""
MAY = "line "
NOOPS += [
    NoOp(title, {**PLAIN, **parts}, reason, at=at, also=UPDATE)
    for title, parts, reason, at in (
        ("a part is frozen", {"head": "agent.actor.requires_grad_(iteration > 1)"}, MAY, "requires_grad_"),
        (
            "parameters are frozen",
            {"head": "for p in agent.parameters():\n    p.requires_grad = False"},
            MAY,
            "p.requires",
        ),
        ("a function freezes", {"functions": FREEZE, "head": "freeze(agent.actor, True)"}, MAY, "= on"),
        (
            "a function with two names",
            {"functions": FREEZE, "before_loop": "other = freeze", "head": "other(agent, True)"},
            MAY,
            "= on",
        ),
        (
            "a kept method",
            {"before_loop": "freeze = agent.requires_grad_", "head": "freeze(True)"},
            MAY,
            "requires_grad_",
        ),
        ("a lambda", {"before_loop": "do = lambda: agent.requires_grad_(True)", "head": "do()"}, MAY, "requires_grad_"),
        ("by a name", {"head": "getattr(agent.actor, 'requires_grad_')(True)"}, MAY, "getattr"),
        ("an object", {"functions": THAW, "before_loop": "t = Thaw(agent)", "head": "t.step()"}, MAY, "requires_grad_"),
        (
            "another package",
            {"third_party": "import frost", "head": "frost.melt(agent)"},
            "line {line} gives agent to frost.melt()",
            "melt",
        ),
        (
            "an object of another package",
            {"third_party": "import frost", "before_loop": "t = frost.Thaw(agent.actor)", "head": "t.step()"},
            "line {line} uses agent.actor",
            "Thaw",
        ),
        (
            "a parameter more in a group",
            {"head": "optimizer.param_groups[0]['params'].append(nn.Parameter(torch.zeros(1)))"},
            "line {line} uses optimizer.param_groups[0]['params']",
            "append(nn",
        ),
        (
            "the optimizer is wrapped",
            {"functions": "def same(x):\n    return x\n\n\n", "before_loop": "optimizer = same(optimizer)"},
            "whose step() may not be traceable",
            "",
        ),
    )
]


def test_what_is_frozen_before_the_training_stays() -> None:
    parts = {
        **PLAIN,
        "functions": FREEZE,
        "before_loop": "freeze(agent.critic[0], False)\nagent.actor[0].requires_grad_(False)",
    }
    shown = "print([p.requires_grad for p in agent.parameters()])\ntorch.save(agent.state_dict(), '/dev/null')"
    step = turn("one-graph", script({**parts, "report": shown}), UPDATE)
    assert step.applied, step.outcome


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    noop.check("one-graph")


def test_only_the_three_calls_change() -> None:
    step = turn("one-graph", script(PLAIN), UPDATE)
    assert isinstance(step.outcome, Applied), step.outcome
    before, after = step.before.splitlines(), step.after.splitlines()
    assert [line for line in before if line not in after] == [
        "    optimizer.zero_grad()",
        "    loss.backward()",
        "    optimizer.step()",
    ]
    new = [line.strip() for line in after if line not in before]
    assert "zero_grad, backward, optimizer_step = traceable(optimizer)" in new
    assert after.index("    backward(loss)") < after.index("    optimizer_step()")


def test_optimizers_that_step_one_after_the_other() -> None:
    step = turn("one-graph", script({**PLAIN, **TWO}), UPDATE)
    assert isinstance(step.outcome, Applied), step.outcome
    calls = (
        "zero_grad_first()",
        "backward_first(pg_loss, retain_graph=True)",
        "optimizer_step_first()",
        "zero_grad_second()",
        "backward_second(v_loss)",
        "nn.utils.clip_grad_norm_(agent.critic.parameters(), 0.5)",
        "optimizer_step_second()",
    )
    assert [line.strip() for line in step.after.splitlines() if line.strip() in calls] == list(calls)
    assert "    zero_grad_second, backward_second, optimizer_step_second = traceable(second)" in step.after
    compiled = turn("compile", script({**PLAIN, **TWO}), (*UPDATE, "one-graph")).after
    assert "update = torch.compile(update" in compiled


@pytest.mark.parametrize(
    ("parts", "made"),
    [
        (OVERLAPPING, "zero_grad_second, backward_second, optimizer_step_second = traceable(second, added=[first])"),
        (BETWEEN, "zero_grad_1, backward_1 = traceable(added=[second])"),
    ],
    ids=["one cleared between", "one stepped between"],
)
def test_passes_that_overlap(parts: dict[str, str], made: str) -> None:
    step = turn("one-graph", script({**PLAIN, **parts}), UPDATE)
    assert isinstance(step.outcome, Applied), step.outcome
    assert f"    {made}\n" in step.after
    assert ".backward(" not in step.after[step.after.index("def update(") :]


@pytest.mark.parametrize("test", ["curious is not None", "curious", "other is None or args.seed", "args.seed"])
def test_a_module_that_exists_only_for_an_option(test: str) -> None:
    """What is computed only for the option is no parameter of update(), and is returned without its graph."""
    step = turn("one-graph", script({**PLAIN, **curious("curious is not None", test)}), UPDATE)
    assert isinstance(step.outcome, Applied), step.outcome
    assert "traceable(other)" in step.after
    update = step.after[step.after.index("def update(") :]
    assert "error" not in update.partition("):")[0]
    assert "    error = None\n" in update
    assert "error if error is None else error.detach()" in update


def test_optimizers_that_share_a_loss() -> None:
    step = turn("one-graph", script({**PLAIN, **JOINT}), UPDATE)
    assert isinstance(step.outcome, Applied), step.outcome
    body = [line.strip() for line in step.after[step.after.index("def update(") :].splitlines()]
    calls = ("zero_grad()", "second.zero_grad()", "backward(loss)", "optimizer_step_first()", "optimizer_step_second()")
    assert [line for line in body if line in calls] == [c for c in calls if c != "second.zero_grad()"]
    assert (
        "    zero_grad, backward, optimizer_step_first, optimizer_step_second = traceable(first, second)" in step.after
    )


def test_losses_whose_gradients_are_summed() -> None:
    summed = edited("optimize", "loss.backward()", "pg_loss.backward(retain_graph=True)\nv_loss.backward()")
    step = turn("one-graph", script({**PLAIN, "optimize": summed}), UPDATE)
    assert isinstance(step.outcome, Applied), step.outcome
    assert "    backward(pg_loss, v_loss)\n" in step.after
    assert "pg_loss.backward" not in step.after


@pytest.mark.parametrize(
    ("optimizer", "clipped", "known"),
    [
        ("agent.parameters()", "agent.parameters()", True),
        ("agent.parameters()", "agent.actor.parameters()", True),
        ("agent.parameters()", "[p for p in agent.parameters() if p.ndim > 1]", True),
        ("agent.parameters()", "optimizer.param_groups[0]['params']", True),
        ("[*agent.actor.parameters(), *agent.critic.parameters()]", "agent.critic.parameters()", True),
        ("(p for _, p in agent.named_parameters() if p.requires_grad)", "agent.parameters()", True),
        ("[{'params': agent.actor.parameters()}, {'params': agent.critic.parameters()}]", "agent.parameters()", False),
        ("agent.actor.parameters()", "agent.parameters()", False),
        ("agent.actor.parameters()", "agent.actor_logstd.parameters()", False),
        ("[p for p in agent.parameters() if p.ndim > 1]", "agent.parameters()", False),
        ("filter(lambda p: p.ndim > 1, agent.parameters())", "agent.parameters()", False),
    ],
)
def test_clipped_parameters_that_the_optimizer_may_not_hold(optimizer: str, clipped: str, known: bool) -> None:
    parts = {
        "optimizer": f"optimizer = optim.Adam({optimizer}, lr=args.learning_rate)",
        "optimize": edited("optimize", "agent.parameters()", clipped),
    }
    step = turn("one-graph", script({**PLAIN, **parts}), UPDATE)
    assert isinstance(step.outcome, Applied), step.outcome
    assert (f"traceable(optimizer, clipped={clipped})" in step.after) is not known


def test_gradients_that_are_set_to_none_by_name() -> None:
    named = edited("optimize", "optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=True)")
    step = turn("one-graph", script({**PLAIN, "optimize": named}), UPDATE)
    assert isinstance(step.outcome, Applied), step.outcome
    assert "\n    zero_grad()\n" in step.after
    kept = named.replace("True", "False")
    assert isinstance(turn("one-graph", script({**PLAIN, "optimize": kept}), UPDATE).outcome, Skipped)


BEFORE_AND_AFTER = "optimizer.zero_grad()\nagent(torch.zeros(1, 3)).sum().backward()\noptimizer.step()"


@pytest.mark.parametrize(
    "parts",
    [MULTIPLIER, {"before_loop": BEFORE_AND_AFTER}, {"end": BEFORE_AND_AFTER}],
    ids=["a Lagrange multiplier", "before the training", "after the training"],
)
def test_gradients_elsewhere_that_do_not_meet(parts: dict[str, str]) -> None:
    step = turn("one-graph", script({**PLAIN, **parts}), UPDATE)
    assert isinstance(step.outcome, Applied), step.outcome


@pytest.mark.parametrize(
    ("hook", "is_run_by_graphs"),
    [
        ("agent.actor[0].weight.register_hook(print)", False),
        ("agent.actor[0].weight.register_post_accumulate_grad_hook(print)", False),
        ("agent.actor.register_full_backward_hook(print)", False),
        ("optimizer.register_step_post_hook(print)", False),
        ("agent.actor.register_forward_hook(lambda module, given, result: result * 2)", True),
    ],
)
def test_hooks(hook: str, is_run_by_graphs: bool) -> None:
    step = turn("one-graph", script({**PLAIN, "before_loop": hook}), UPDATE)
    assert isinstance(step.outcome, Applied if is_run_by_graphs else Skipped), step.outcome
    assert is_run_by_graphs or "registers a hook" in step.outcome.reason  # type: ignore[union-attr]


def test_gradients_cleared_after_the_step() -> None:
    late = edited("optimize", "optimizer.zero_grad()\n", "").rstrip() + "\noptimizer.zero_grad()\n"
    step = turn("one-graph", script({**PLAIN, "optimize": late}), UPDATE)
    assert isinstance(step.outcome, Applied), step.outcome
    assert step.after.index("    optimizer_step()") < step.after.index("\n    zero_grad()\n")


@pytest.mark.parametrize("changes", [PLAIN, {**PLAIN, **JOINT}], ids=["one optimizer", "two"])
def test_gradients_cleared_before_and_after(changes: dict[str, str]) -> None:
    optimize = changes.get("optimize", PARTS["optimize"])
    clears = [line for line in optimize.splitlines() if "zero_grad" in line]
    step = turn("one-graph", script({**changes, "optimize": "\n".join([optimize.rstrip(), *clears])}), UPDATE)
    assert isinstance(step.outcome, Applied), step.outcome
    assert step.after.count("\n    zero_grad()\n") == 2
    assert step.after.count(".zero_grad()") == ("for optimizer in optimizers" in step.after)


def test_some_gradients_cleared_after_the_step() -> None:
    after = {**JOINT, "optimize": f"{JOINT['optimize']}\nfirst.zero_grad()"}
    step = turn("one-graph", script({**PLAIN, **after}), UPDATE)
    assert isinstance(step.outcome, Skipped)
    assert "clears some of the gradients again" in step.outcome.reason


def test_other_gradients_cleared_after_the_step() -> None:
    after = {**TWO, "optimize": TWO["optimize"].rstrip() + "\nfirst.zero_grad()\n"}
    step = turn("one-graph", script({**PLAIN, **after}), UPDATE)
    assert isinstance(step.outcome, Skipped)
    assert "clears gradients of another optimizer than second" in step.outcome.reason


@pytest.mark.parametrize("changes", [PLAIN, {**PLAIN, **TWO}], ids=["one optimizer", "two"])
def test_traceable_is_defined_above_the_block_of_the_optimizer(
    changes: dict[str, str],
) -> None:
    main = 'if __name__ == "__main__":\n'
    head, body = script(changes).split(main)
    setup, loop = textwrap.dedent(body).split("\nfor iteration in ")
    step = turn("one-graph", f"{head}{setup}\n{main}{textwrap.indent(f'for iteration in {loop}', '    ')}", UPDATE)
    assert isinstance(step.outcome, Applied), step.outcome
    assert step.after.index("def traceable(") < step.after.index("= traceable(")


def test_names_that_are_taken() -> None:
    step = turn("one-graph", script({**PLAIN, "setup": "backward = traceable = 'cpu'\ndevice = backward"}), UPDATE)
    assert isinstance(step.outcome, Applied), step.outcome
    assert "zero_grad, backward_1, optimizer_step = traceable_1(optimizer)" in step.after
    assert "    backward_1(loss)" in step.after


FURTHER = """
for epoch in range(2):
    np.random.shuffle(b_inds)
    for first in range(0, args.batch_size, args.minibatch_size):
        rows = b_inds[first : first + args.minibatch_size]
        further_loss = ((agent.get_value(b_obs[rows]).view(-1) - b_returns[rows]) ** 2).mean()
        <further>
"""
PHASE = {**PLAIN, "further": "optimizer.zero_grad()\nfurther_loss.backward()\noptimizer.step()"}
LATER = {**PHASE, "report": PLAIN["report"] + FURTHER}
SOONER = {**PHASE, "flatten": PARTS["flatten"] + "\nb_inds = np.arange(args.batch_size)" + FURTHER}
"""The same optimizer fits the values below or above the policy's minibatches; the actor gets no gradient there."""


@pytest.mark.parametrize("parts", [LATER, SOONER], ids=["later", "sooner"])
def test_phases_of_one_optimizer_share_its_functions(parts: dict[str, str]) -> None:
    step = turn("one-graph", script(parts), (*UPDATE, "auxiliary-update"))
    assert isinstance(step.outcome, Applied), step.outcome
    assert step.after.count("= traceable(optimizer)") == 1
    for name in ("zero_grad()", "optimizer_step()", "backward(further_loss)", "backward(loss)"):
        assert step.after.count(f"\n    {name}\n") == (1 if "loss" in name else 2), name
    update = step.after.partition("def update(")[2].partition("\ndef ")[0]
    assert "ratio" in update
    assert "further_loss" not in update


@pytest.mark.parametrize(
    "further",
    [
        "optimizer.zero_grad()\nfurther_loss.backward()\nprint(agent.actor.weight.grad)\noptimizer.step()",
        "further_loss.backward()\noptimizer.step()",
        "optimizer.zero_grad()\nfurther_loss.backward(retain_graph=True)\noptimizer.step()",
        "optimizer.zero_grad()\nfurther_loss.backward()\nif first:\n    optimizer.step()",
        "for _ in range(2):\n    optimizer.zero_grad()\n    further_loss.backward()\n    optimizer.step()",
    ],
)
def test_phases_of_one_optimizer_that_do_more(further: str) -> None:
    step = turn("one-graph", script({**LATER, "further": further}), (*UPDATE, "auxiliary-update"))
    assert isinstance(step.outcome, Skipped)
    assert "uses gradients outside of the minibatch too" in step.outcome.reason


@pytest.mark.parametrize("change", MULTIPLIERS.values(), ids=MULTIPLIERS)
def test_gradients_that_the_update_clears(change: tuple[str, str]) -> None:
    step = turn("one-graph", script(multiplier(*change)), UPDATE)
    assert isinstance(step.outcome, Applied), step.outcome


@pytest.mark.slow
@pytest.mark.parametrize("change", [*MULTIPLIERS.values()][:4:3], ids=[*MULTIPLIERS][:4:3])
def test_gradients_that_the_update_clears_compiled(change: tuple[str, str], tmp_path: Path) -> None:
    source = script(multiplier(*change))
    conversion = convert(source)
    assert "def traceable(" in conversion.source
    assert compiled_check(tmp_path, source, conversion.source)["status"] == "equal"


@pytest.mark.parametrize(
    "after",
    ["other.step()\nother.zero_grad()", "print(nn.utils.clip_grad_norm_(agent.critic.parameters(), 1e9))"],
    ids=["another optimizer", "a norm"],
)
def test_gradients_that_are_left_for_others(after: str) -> None:
    parts = {**LATER, "report": LATER["report"] + after + "\n", "copy": "other = optim.SGD(extra.parameters(), lr=0.1)"}
    parts["make_agent"] = PARTS["make_agent"] + "\nextra = nn.Linear(2, 2)"
    step = turn("one-graph", script(parts), (*UPDATE, "auxiliary-update"))
    assert isinstance(step.outcome, Skipped)
    assert "uses gradients outside of the minibatch too" in step.outcome.reason


@pytest.mark.parametrize(
    ("parts", "applies"),
    [
        ({"end": "print(agent.critic.extra[0].weight.grad)"}, False),
        ({"end": "for p in agent.parameters():\n    print(p.grad.norm())"}, False),
        ({"before_loop": "print([p.grad for p in agent.parameters()])"}, True),
        ({"end": "print([p.requires_grad for p in agent.parameters()])"}, True),
    ],
)
def test_gradients_that_are_read_when_the_training_has_ended(parts: dict[str, str], applies: bool) -> None:
    """A parameter that no optimizer holds has one in the original alone."""
    step = turn("one-graph", script({**PLAIN, **parts}), UPDATE)
    assert isinstance(step.outcome, Applied) is applies, step.outcome


CLAMPED = "for p in agent.parameters():\n    p.grad.data.clamp_(-1, 1)\n"
STEP = "optimizer.step()"


def clamped(loop: str, **parts: str) -> dict[str, str]:
    return {**PLAIN, "optimize": edited("optimize", STEP, f"{loop}{STEP}"), **parts}


@pytest.mark.parametrize(
    "loop",
    [
        CLAMPED,
        CLAMPED.replace(".data", ""),
        CLAMPED.replace("    p.grad", "    if p.grad is not None:\n        p.grad"),
        CLAMPED.replace("clamp_(-1, 1)", "mul_(0.5)"),
        "for one in agent.parameters():\n    one.grad.clip_(min=-1, max=+1)\n",
    ],
)
def test_a_loop_over_gradients_that_changes_each_by_itself(loop: str) -> None:
    step = turn("one-graph", script(clamped(loop)), UPDATE)
    assert isinstance(step.outcome, Applied), step.outcome


@pytest.mark.parametrize(
    ("loop", "reason"),
    [
        (CLAMPED.replace("clamp_(-1, 1)", "normal_()"), "uses single gradients"),
        (CLAMPED.replace("clamp_(-1, 1)", "requires_grad_(False)"), "uses single gradients"),
        (CLAMPED.replace("clamp_(-1, 1)", "add_(p)"), "uses single gradients"),
        (CLAMPED.replace("clamp_(-1, 1)", "clamp_(-1, kept.pop())"), "uses single gradients"),
        (CLAMPED + "    print(p.grad.sum())\n", "uses single gradients"),
        (CLAMPED.replace("p.grad.data", "q.grad"), "uses single gradients"),
        (CLAMPED.replace("agent.parameters()", "(p for p in agent.parameters())"), "uses single gradients"),
        (CLAMPED + "else:\n    print(1)\n", "uses single gradients"),
        (CLAMPED.replace("agent", "agent.critic").replace("p.", "p."), ""),
        (CLAMPED.replace("agent", "other"), "may clip gradients"),
    ],
)
def test_a_loop_over_gradients_that_does_more(loop: str, reason: str) -> None:
    further = {"copy": "other = Agent().to(device)"} if "other" in loop else {}
    step = turn("one-graph", script(clamped(loop, **further)), UPDATE)
    assert isinstance(step.outcome, Skipped if reason else Applied), step.outcome
    assert not reason or reason in step.outcome.reason


MADE_OF_TWO = "optimizer = optim.Adam([*agent.parameters(), *extra.parameters()], lr=args.learning_rate)"


@pytest.mark.parametrize(
    ("cleared", "parts", "applies"),
    [
        ("agent.zero_grad()", {}, True),
        ("same.zero_grad()", {"copy": "same = agent"}, True),
        ("agent.critic.zero_grad()", {}, False),
        ("other.zero_grad()", {"copy": "other = Agent().to(device)"}, False),
        (
            "agent.zero_grad()",
            {"optimizer": "optimizer = optim.Adam(agent.critic.parameters(), lr=args.learning_rate)"},
            False,
        ),
        (
            "agent.zero_grad()",
            {"optimizer": f"extra = nn.Linear(2, 2)\n{MADE_OF_TWO}"},
            False,
        ),
    ],
    ids=["its network", "another name", "a part", "another network", "a part is held", "more is held"],
)
def test_gradients_that_the_network_clears(cleared: str, parts: dict[str, str], applies: bool) -> None:
    source = script({**PLAIN, "optimize": edited("optimize", "optimizer.zero_grad()", cleared), **parts})
    step = turn("one-graph", source, UPDATE)
    assert isinstance(step.outcome, Applied) is applies, step.outcome
    assert not applies or "zero_grad()" in step.after


METHODS = (Path(__file__).parent.parent.parent / "fixtures" / "in_methods.py").read_text(encoding="utf-8")
CLASSY = ("inline", "flags", "tensor-lr", "update", "one-graph")
"""The transforms that apply to a class that is not dissolved."""
COLLECTED = "            obs, done = self.collect(obs, done)\n"
ADAM = "        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=settings.lr)\n"
CRITIC = {
    ADAM: "        self.critic = nn.Linear(n_obs, 1).to(self.device)\n"
    f"{ADAM}        self.second = torch.optim.Adam(self.critic.parameters(), lr=settings.lr)\n",
    "                self.optimizer.zero_grad()\n": "                guess = self.critic(obs[chosen]).squeeze(-1)\n"
    "                error = (guess - returns[chosen]).square().mean()\n                self.optimizer.zero_grad()\n",
    "loss.backward()": "loss.backward(retain_graph=True)",
    "                self.optimizer.step()\n": "                self.optimizer.step()\n"
    "                self.second.zero_grad()\n                error.backward()\n                self.second.step()\n",
}
"""One more network and optimizer, which steps after the first, on its own loss."""


def in_methods(changes: dict[str, str]) -> str:
    source = METHODS
    for old, new in changes.items():
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


def of_an_object(changes: dict[str, str]) -> tuple[Applied | Skipped, str]:
    conversion = convert(in_methods(changes), select={*CLASSY})
    (step,) = (s for s in conversion.steps if s.transform.name == "one-graph")
    assert isinstance(step.outcome, (Applied, Skipped))
    return step.outcome, conversion.source


def test_an_objects_optimizer() -> None:
    outcome, source = of_an_object({})
    assert isinstance(outcome, Applied), outcome
    assert "            zero_grad, backward, optimizer_step = traceable(self.optimizer)\n" in source
    assert "trained()" not in source  # nothing freezes parameters, so they are listed once


@pytest.mark.parametrize(
    "changes",
    [
        {"class PPO:\n": "import schedules\n\n\nclass PPO:\n", ADAM: f"{ADAM}        schedules.watch(self.policy)\n"},
        {"class PPO:\n": "import schedules\n\n\nclass PPO:\n", ADAM: f"        schedules.keep(self)\n{ADAM}"},
    ],
    ids=["the network is given away", "the object is given away"],
)
def test_an_objects_parameters_that_other_code_may_freeze(changes: dict[str, str]) -> None:
    outcome, source = of_an_object(changes)
    assert isinstance(outcome, Applied), outcome
    assert "            parameters = trained()\n" in source


def test_an_objects_optimizers_that_step_one_after_the_other() -> None:
    outcome, source = of_an_object(CRITIC)
    assert isinstance(outcome, Applied), outcome
    assert "= traceable(self.second)\n" in source


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=1e-3)", "is made more than once"),
        ("self.policy = Policy(3, 1)", "policy, whose parameters self.optimizer holds, may be set"),
        ("self.policy.mean = nn.Linear(32, 1)", "sets mean, whose parameters self.optimizer may not hold"),
        ("self.policy.body[0] = nn.Linear(3, 32)", "sets body, which may be a part of a network"),
        ("self.policy.body.append(nn.Linear(32, 32))", "sets body, which may be a part of a network"),
        ("self.policy.add_module('mean', nn.Linear(32, 1))", "uses add_module, which gives a network another part"),
        ("self.optimizer.param_groups[0]['params'].pop()", "may change which parameters an optimizer holds"),
        ("getattr(self, '__init__')(self.settings)", "calls __init__() by its name"),
        ("self.policy.requires_grad_(iteration > 1)", "uses requires_grad_ during training"),
        ("for p in self.policy.parameters(): p.requires_grad = False", "uses requires_grad during training"),
        ("setattr(self, f'optim{iteration}', None)", "sets an attribute whose name is known only at run time"),
        ("self.__init__(self.settings)", "calls __init__() by its name"),
        ("PPO(self.settings)", "is not set in one place, which runs before the training"),
        ("print(self.policy.mean.weight.grad)", "uses gradients outside of the minibatch too"),
        ("other = self.optimizer\n            other.step()", "may step the optimizer, or pass it on, outside"),
        ("(self.optimizer,)[0].step()", "may step the optimizer, or pass it on, outside"),
        ("getattr(self.optimizer, 'step')()", "may step the optimizer, or pass it on, outside"),
        ("watch(self.optimizer)", "the learning rate"),
        ("vars(self)['optimizer'] = None", "the learning rate"),
    ],
)
def test_an_objects_optimizer_that_may_not_stay(statement: str, reason: str) -> None:
    outcome, _ = of_an_object({COLLECTED: f"            {statement}\n{COLLECTED}"})
    assert isinstance(outcome, Skipped), statement
    assert reason in outcome.reason


STORED = "        self.obs = torch.zeros((*shape, n_obs), device=self.device)\n"
SETS = "def set_rate(optimizer, rate):\n    for group in optimizer.param_groups:\n        group['lr'] = rate\n\n\n"


@pytest.mark.parametrize(
    "changes",
    [
        {COLLECTED: f"            other = self.optimizer\n{COLLECTED}"},
        {COLLECTED: f"            print(self.optimizer.state_dict()['param_groups'][0]['lr'])\n{COLLECTED}"},
        {
            "class PPO:\n": f"{SETS}class PPO:\n",
            COLLECTED: "            print(self.optimizer)\n            set_rate(self.optimizer, 1 / iteration)\n"
            + COLLECTED,
        },
        {
            STORED: f"{STORED}        self.optimizers = [self.optimizer]\n",
            COLLECTED: "            for one in self.optimizers:\n                one.param_groups[0]['lr'] *= 0.9\n"
            + COLLECTED,
        },
    ],
    ids=["another name", "its rate is printed", "a function sets it", "a list"],
)
def test_a_rate_of_an_objects_optimizer_that_nothing_sees_during_an_update(changes: dict[str, str]) -> None:
    outcome, source = of_an_object(changes)
    assert isinstance(outcome, Applied), outcome
    assert "traceable(self.optimizer)" in source


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {
                COLLECTED: f"            print(self.optimizer)\n{COLLECTED}",
                "                self.optimizer.zero_grad()\n": "                print(self.optimizer)\n"
                "                self.optimizer.zero_grad()\n",
            },
            "may see it while an update runs",
        ),
        (
            {
                "class PPO:\n": f"{SETS.replace('    for', '    optimizer.step()' + chr(10) + '    for')}class PPO:\n",
                COLLECTED: f"            set_rate(self.optimizer, 1 / iteration)\n{COLLECTED}",
            },
            "may step the optimizer, or pass it on, outside",
        ),
        (
            {STORED: f"{STORED}        self.step_on = self.optimizer.step\n"},
            "may step the optimizer, or pass it on, outside",
        ),
    ],
    ids=["the update prints it", "a function steps it", "a method of it is kept"],
)
def test_an_objects_optimizer_that_is_used_unseen(changes: dict[str, str], reason: str) -> None:
    outcome, _ = of_an_object(changes)
    assert isinstance(outcome, Skipped), outcome
    assert reason in outcome.reason


LATE = {
    ADAM: "        self.optimizer = None\n",
    "    def run(self):\n": "    def run(self, training=True):\n        if training:\n"
    "            self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=self.settings.lr)\n",
    "                nn.utils.clip_grad_norm_(self.policy.parameters(), s.max_norm)\n": "",
}
"""The method that trains makes the optimizer, unless there is one."""
FORGETS = f"    def forget(self):\n        self.optimizer = None\n\n{LATE['    def run(self):' + chr(10)]}"
UNSET = "        start, _ = self.envs.reset(seed=self.settings.seed)\n"


def test_an_objects_optimizer_that_its_training_makes() -> None:
    outcome, source = of_an_object(LATE)
    assert isinstance(outcome, Applied), outcome
    assert "        if self.optimizer is not None:\n            zero_grad, backward, optimizer_step = " in source


@pytest.mark.parametrize(
    "changes",
    [
        {COLLECTED: f"            self.optimizer = None\n{COLLECTED}"},
        {UNSET: f"        self.forget()\n{UNSET}", "    def run(self):\n": FORGETS},
        {UNSET: "        self.optimizer = None\n        start, _ = self.envs.reset(seed=self.settings.seed)\n"},
        {ADAM: "        self.optimizer = OTHER = torch.optim.SGD(self.policy.parameters(), lr=1)\n"},
        {ADAM: "        self.optimizer = settings\n"},
    ],
    ids=["unset in the loop", "unset in a method", "unset above the loop", "set to another", "set to anything"],
)
def test_an_objects_optimizer_that_is_not_the_one_its_training_makes(changes: dict[str, str]) -> None:
    outcome, _ = of_an_object({**LATE, **changes})
    assert isinstance(outcome, Skipped)


@pytest.mark.parametrize("line", ["self.guess = value", "self.guesses.append(value)"])
def test_an_object_that_keeps_what_a_minibatch_computed(line: str) -> None:
    clear = "                self.optimizer.zero_grad()\n"
    outcome, _ = of_an_object({clear: f"                {line}\n{clear}"})
    assert isinstance(outcome, Skipped)
    assert "perhaps with a graph" in outcome.reason


@pytest.mark.slow
def test_a_result_whose_graph_was_freed() -> None:
    """Compiled, the result would hold what the step has changed: `modified by an inplace operation`."""
    clear, step = "                self.optimizer.zero_grad()\n", "                self.optimizer.step()\n"
    shown = CRITIC[step] + "                print(kept[0].sum().item())\n"
    let_go = CRITIC[step] + "                print(guess.sum().item())\n"
    outcome, _ = of_an_object({**CRITIC, step: let_go})
    assert isinstance(outcome, Applied)
    for adds in (
        "kept = [guess]",
        "kept = [guess.detach()]",
        "kept = []; kept.append(guess)",
        "kept = {}; kept[0] = guess",
    ):
        made = "".join(f"                {part}\n" for part in adds.split("; "))
        changes = {**CRITIC, clear: CRITIC[clear].replace(clear, f"{made}{clear}")}
        outcome, text = of_an_object({**changes, step: shown})
        assert isinstance(outcome, Applied), adds
        assert "guess.detach()" in text
        outcome, _ = of_an_object({**changes, step: shown.replace(".sum().item()", "")})
        assert isinstance(outcome, Applied) == ("detach" in adds), adds
        assert isinstance(outcome, Applied) or "returns kept, perhaps with a graph" in outcome.reason


@pytest.mark.parametrize(
    "changes",
    [
        {"        for _ in range(s.sweeps):\n": "        own = self.critic(obs)\n        for _ in range(s.sweeps):\n"},
        {
            "        for _ in range(s.sweeps):\n": "        self.known()\n        for _ in range(s.sweeps):\n",
            "    def run(self):\n": """    def known(self):
        self.guess = self.critic(self.obs)

    def run(self):
""",
        },
    ],
    ids=["above the sweeps", "in a method"],
)
def test_a_retained_graph_that_begins_elsewhere(changes: dict[str, str]) -> None:
    outcome, _ = of_an_object(CRITIC)
    assert isinstance(outcome, Applied)
    outcome, _ = of_an_object({**CRITIC, **changes})
    assert isinstance(outcome, Skipped)
    assert "may compute a graph outside update()" in outcome.reason


@pytest.mark.parametrize(
    "changes",
    [
        {ADAM: f"{ADAM}        self.policy.more = nn.Linear(n_obs, 1)\n"},
        {
            ADAM: f"{ADAM}        self.policy.grow()\n",
            "    def evaluate(": "    def grow(self):\n        self.more = nn.Linear(3, 1)\n\n    def evaluate(",
        },
        {"    def run(self):\n": "    def run(self):\n        self.policy.more = nn.Linear(3, 1)\n"},
    ],
    ids=["in the constructor", "by a method", "above the loop"],
)
def test_an_objects_optimizer_whose_network_grows_after_it(changes: dict[str, str]) -> None:
    outcome, _ = of_an_object(changes)
    assert isinstance(outcome, Skipped)
    assert "sets more" in outcome.reason


def test_an_objects_optimizer_of_unknown_parameters_clips() -> None:
    given = {"Adam(self.policy.parameters(), lr=settings.lr)": "Adam([*self.policy.parameters()][1:], lr=settings.lr)"}
    outcome, _ = of_an_object(given)
    assert isinstance(outcome, Skipped)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, CRITIC, LATE], ids=["one optimizer", "two", "made by the training"])
def test_an_objects_optimizers_compiled(changes: dict[str, str], tmp_path: Path) -> None:
    conversion = convert(in_methods(changes), select={*CLASSY, "compile"})
    assert "traceable(self.optimizer)" in conversion.source
    flags = ("--iterations", "2", "--horizon", "16")
    assert compiled_check(tmp_path, in_methods(changes), conversion.source, *flags)["status"] == "equal"


@pytest.mark.slow
@pytest.mark.parametrize("parts", [LATER, SOONER], ids=["later", "sooner"])
def test_phases_of_one_optimizer_compiled(parts: dict[str, str], tmp_path: Path) -> None:
    """The actor has no gradient in one of the phases, which leaves its moments and its count of steps as they were."""
    source = script(parts)
    compiled = compiled_check(tmp_path, source, convert(source).source)
    assert compiled["status"] == "equal"
    assert {c["what"].partition(":")[0] for c in compiled["compared"]} >= {"update", "update_auxiliary"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "optimize",
    [
        "loss.backward()\nnn.utils.clip_grad_norm_(agent.parameters(), 0.5)\nfirst.step()\nfirst.zero_grad()",
        "second.zero_grad()\nfirst.zero_grad()\npg_loss.backward(retain_graph=True)\nloss.backward()\n"
        "nn.utils.clip_grad_norm_(agent.parameters(), 0.5)\nfirst.step()\nsecond.step()",
        "loss.backward()\nfirst.step()\nsecond.step()\nfirst.zero_grad()\nsecond.zero_grad()",
        OVERLAPPING["optimize"],
        BETWEEN["optimize"],
    ],
    ids=["clipped beside what is stepped", "summed losses", "cleared after the steps", "added to", "stepped between"],
)
def test_gradients_of_several_optimizers_compiled(optimize: str, tmp_path: Path) -> None:
    """Parameters that no optimizer holds keep their gradients, which accumulate and count when they are clipped."""
    source = script({**PLAIN, "optimizer": TWO["optimizer"], "optimize": optimize})
    conversion = convert(source)
    assert "traceable(first" in conversion.source
    assert compiled_check(tmp_path, source, conversion.source)["status"] == "equal"
