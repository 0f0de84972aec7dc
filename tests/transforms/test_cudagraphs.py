import re
from collections.abc import Callable
from pathlib import Path

import pytest
from cases import FLAGS, NAMED, NoOp, Rewrite, alone, converted_by, turn
from golden import CONVERTED as GOLDEN
from golden import conversion_of
from scripts import PARTS, edited, script
from test_compile import CHECKED, CHECKS, compiled

from transformer import Applied, Skipped, convert

NEEDS_CUDA = """
if args.cudagraphs and device.type != "cuda":
    raise SystemExit(f"--cudagraphs needs a CUDA device, not {device}")"""
IMPORT = {"third_party": "from tensordict.nn import CudaGraphModule", "setup": PARTS["setup"] + NEEDS_CUDA}


def captured(*lines: str, checks: str = CHECKS) -> str:
    """The block between the compiled functions and the training loop."""
    return """\

if args.cudagraphs:
""" + "".join([checks, *(f"    {line}\n" for line in lines)])


GREEDY = {"agent": edited("agent", "probs.sample()", "probs.logits.argmax(-1)")}
STOPS = """\
    if args.cudagraphs:
        raise ValueError("a network has parameters that are not finite, and CUDA graphs check nothing")
"""
POLICY = {
    **NAMED,
    **IMPORT,
    "collect": CHECKED.replace("args.compile", "(args.compile or args.cudagraphs)").replace("    #", STOPS + "    #"),
    "before_loop": compiled("policy", steady=True) + captured("policy = CudaGraphModule(policy, warmup=20)") + "\n",
}

# A minibatch that draws its indices on the device and changes nothing but the parameters.
ON_DEVICE = {
    "minibatches": """
        for epoch in range(args.update_epochs):
            for mb_inds in torch.randperm(args.batch_size, device=device).split(args.minibatch_size):
                <learn>
    """,
    "anneal": "print(iteration)",
    "metrics": "",
    "report": "print(iteration, global_step)",
}
CAPTURABLE = {
    "optimizer": """
        optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5, capturable=args.cudagraphs)
    """
}
CALL = "update(b_obs, mb_inds, b_actions, b_logprobs, b_advantages, b_returns)"
ONE_SIZE = "# a graph needs minibatches of one size"
UPDATE = {
    **IMPORT,
    **CAPTURABLE,
    "functions": f'''
        def {CALL}:
            """Optimize the networks on one minibatch."""
            <minibatch>


    ''',
    "learn": CALL,
    "before_loop": compiled("update")
    + captured(
        "if args.batch_size % args.minibatch_size == 0:", f"    update = CudaGraphModule(update, warmup=20)  {ONE_SIZE}"
    )
    + "\n",
}
UPDATED = ("tensor-lr", "update")
POLICY_AND_UPDATE = compiled("policy", "update", steady=True) + POLICY["before_loop"].removeprefix(
    compiled("policy", steady=True)
)

REWRITES = [
    Rewrite(
        "the policy",
        GREEDY,
        {**POLICY, **alone("the policy", "policy")},
        also=("policy",),
    ),
    Rewrite("the update", ON_DEVICE, {**UPDATE, **alone("the update", "update")}, also=UPDATED),
    Rewrite(
        "the update, where all minibatches have one size",
        {**ON_DEVICE, "minibatches": edited("minibatches", "clipfracs = []\n", "")},
        {
            **UPDATE,
            **alone("the update", "update"),
            "minibatches": ON_DEVICE["minibatches"],
        },
        also=("shuffle", *UPDATED),
    ),
    Rewrite(
        "the policy alone, where the update takes an array",
        {**GREEDY, "anneal": "print(iteration)", "metrics": "", "report": "print(iteration, global_step)"},
        {
            **POLICY,
            **alone(captured="policy"),
            "functions": UPDATE["functions"],
            "learn": CALL,
            "before_loop": POLICY_AND_UPDATE,
        },
        notes=("update() is not captured: its argument mb_inds is not known to be a tensor",),
        also=("policy", *UPDATED),
    ),
    Rewrite(
        "the policy alone, where the update branches on a tensor",
        {**GREEDY, **ON_DEVICE, "metrics": "if ratio.max() > 100:\n    ratio = 2 * ratio"},
        {
            **POLICY,
            **alone(captured="policy"),
            "functions": UPDATE["functions"],
            "learn": CALL,
            "before_loop": POLICY_AND_UPDATE,
        },
        notes=("update() is not captured: it branches on a tensor's value",),
        also=("policy", *UPDATED),
    ),
]

PER = PARTS["minibatches"].replace("args.minibatch_size", "per")


def drawn(pieces: str, per: str = "") -> str:
    """Loops over the minibatches of a permutation that torch draws in each epoch."""
    return f"""\
{per}clipfracs = []
for epoch in range(args.update_epochs):
    perm = torch.randperm(args.batch_size).to(device)
    for mb_inds in {pieces}:
        <learn>
"""


@pytest.mark.parametrize(
    ("minibatches", "condition"),
    [
        (PARTS["minibatches"], "args.batch_size % args.minibatch_size == 0"),
        ("per = args.batch_size // 4\n" + PER, "args.batch_size % (args.batch_size // 4) == 0"),
        (
            "quarter = 4\nper = int(args.batch_size / quarter)\n" + PER,
            "args.batch_size % int(args.batch_size / 4) == 0",
        ),
        (
            PARTS["minibatches"].replace("args.minibatch_size", "args.batch_size // 4"),
            "args.batch_size % (args.batch_size // 4) == 0",
        ),
        ("per = len(b_obs) // 4\n" + PER, None),
        (drawn("torch.randperm(args.batch_size, device=device).chunk(7)"), "args.batch_size % 7 == 0"),
        (drawn("perm.chunk(args.num_minibatches)"), "args.batch_size % args.num_minibatches == 0"),
        (drawn("perm.split(args.minibatch_size)"), "args.batch_size % args.minibatch_size == 0"),
        (drawn("perm.chunk(n)", "n = 3\n"), "args.batch_size % 3 == 0"),
        (drawn("perm.split([10, args.batch_size - 10])"), None),
        (drawn("perm.split(n)", "n = [10, args.batch_size - 10]\n"), None),
        (drawn("perm[: 2 * args.minibatch_size + 1].split(args.minibatch_size)"), None),
        (drawn("perm.split(args.minibatch_size)", "args.minibatch_size += 1\n"), None),
        (drawn("torch.nonzero(b_obs.sum(1)).flatten().split(4)"), None),
        ("per = 4\nif iteration > 1:\n    per = 5\n" + PER, None),
    ],
)
def test_the_size_of_minibatches_is_checked_above_the_loop(minibatches: str, condition: str | None) -> None:
    plain = {"anneal": "", "metrics": "", "report": "print(iteration, global_step)"}
    step = turn("cudagraphs", script({**plain, "minibatches": minibatches}), ("shuffle", "tensor-lr", "update"))
    assert step.applied == (condition is not None)
    told = isinstance(step.outcome, Skipped) and "smaller cannot be told above the training loop" in step.outcome.reason
    assert told == (condition is None)
    assert ("update = CudaGraphModule" in step.after) == (condition is not None)
    captured_under = f"        if {condition}:\n            update = CudaGraphModule(update, warmup=20)  {ONE_SIZE}"
    assert condition is None or captured_under in step.after


NOT_A_TENSOR = "update() is not captured: its argument {} is not known to be a tensor"
BRANCHES = "update() is not captured: it branches on a tensor's value"
NO_DEVICE = {
    **{
        part: PARTS[part].replace(".to(device)", "")
        for part in ("make_agent", "buffers", "begin", "step", "advantages")
    },
    "setup": "",
}

NOOPS = [
    NoOp("nothing to compile", {}, "needs compile, which did not apply"),
    NoOp(
        "no device",
        NO_DEVICE,
        "the script names no device but the CPU",
        also=("policy",),
        kind="not needed",
    ),
    NoOp(
        "a device that only a class is told of",
        NO_DEVICE | {"agent": PARTS["agent"] + "\n\n    def on(self, x):\n        return x.to(self.device)"},
        "only a class, or another function than the training loop's, uses the device of line",
        also=("policy",),
    ),
    NoOp("minibatches of array indices", {"metrics": ""}, NOT_A_TENSOR.format("mb_inds"), also=UPDATED),
    NoOp(
        "an optimizer that cannot be captured",
        {**ON_DEVICE, "optimizer": "optimizer = optim.Adagrad(agent.parameters(), lr=0.1)"},
        "makes optimizer, of a kind that cannot be captured: Adam can",
        also=UPDATED,
    ),
    NoOp(
        "a branch on a tensor",
        {**ON_DEVICE, "metrics": "if ratio.max() > 100:\n    ratio = 2 * ratio"},
        BRANCHES,
        also=UPDATED,
    ),
    NoOp(
        "a number that is read",
        {**ON_DEVICE, "metrics": "scale = min(1.0, 1 / ratio.max().item())"},
        BRANCHES,
        also=UPDATED,
    ),
    NoOp(
        "a number that is passed in",
        {**ON_DEVICE, "minibatch": edited("minibatch", "0.01 *", "0.01 / iteration *")},
        NOT_A_TENSOR.format("iteration"),
        also=UPDATED,
    ),
    NoOp(
        "a draw with checks",
        {},
        "policy() is not captured: line {line} draws with probs.sample()",
        "action = probs.sample()",
        also=("policy",),
    ),
    NoOp(
        "a policy that is called twice",
        {"act": PARTS["act"] + "\n    agent.get_action_and_value(next_obs[:1])"},
        "policy() is not captured: line",
        also=("policy",),
    ),
    NoOp(
        "a policy that is given a number",
        {"act": edited("act", "(next_obs)", "(next_obs, global_step)")},
        "policy() is not captured: its argument global_step is not known to be a tensor",
        also=("policy",),
    ),
]


def in_network(line: str, **parts: str) -> dict[str, str]:
    """A network whose method begins with another line."""
    above = "def get_action_and_value(self, x, action=None):"
    return {**ON_DEVICE, "agent": edited("agent", above, f"{above}\n    {line}"), **parts}


HELPER = "def regularized(loss):\n    {}\n    return loss\n\n\n"
HELPED = edited("minibatch", "loss = pg_loss + 0.5 * v_loss", "loss = regularized(pg_loss) + 0.5 * v_loss")


def in_helper(line: str) -> dict[str, str]:
    """A function of the file that runs a line and returns the loss."""
    return {**ON_DEVICE, "functions": HELPER.format(line), "minibatch": HELPED}


OBSTACLES = {
    "print(x.shape)": "calls print(), which is not known to run only on the device",
    "self.calls = 1": "sets self.calls, which a replay would not",
    "self.seen.append(x)": "calls self.seen.append(), which a replay would not",
    "low = torch.tensor([0.0, 1.0])": "makes a tensor on the host: torch.tensor([0.0, 1.0])",
    "low = torch.zeros(2)": "makes a tensor on the host: torch.zeros(2)",
    "low = torch.zeros(2, device='cpu')": "makes a tensor on the host: torch.zeros(2, device='cpu')",
    "x = x + np.random.rand()": "calls np.random.rand(), which runs on the host",
    "x = x[x > 0]": "selects elements by a condition: x[x > 0]",
    "high = x > 0\n    x = x[high]": "selects elements by a condition: x[high]",
    "x = x[:, [1, 0]]": "selects elements by indices copied from the host: x[:, [1, 0]]",
    "order = [1, 0]\n    x = x[:, order]": "selects elements by indices copied from the host: x[:, order]",
    "scale = float(x.mean())": "reads float(x.mean()) on the host",
    "scale = x.mean().cpu()": "reads x.mean() on the host",
    "scale = x.type(torch.FloatTensor)": "moves x to the host",
    "x = x * self.scale.to(x.device)": "moves self.scale, which may be on the host",
    "x = torch.linalg.inv(x)": "calls torch.linalg.inv(), which reads its arguments on the host",
    "if x.max() > 1.0:\n        x = x / 255.0": "branches on x.max() > 1.0, which a capture fixes",
    "x = x + torch.nonzero(x).sum()": "calls torch.nonzero(), whose result's size depends on a tensor's values",
    "noise = torch.distributions.Normal(x, 1.0).sample()": "draws with torch.distributions.Normal(x, 1.0).sample()",
    "torch.cuda.synchronize()": "calls torch.cuda.synchronize(), which works on the host",
    "noise = torch.normal(x, 1.0)": "calls torch.normal(), which reads its arguments on the host",
}
HARMLESS = [
    "scale = float(np.prod(x.shape))",
    "parts = []\n    parts.append(x)",
    "noise = torch.rand(x.shape, device=x.device)",
    "if x.dim() > 2:\n        raise ValueError('flat')",
    "x = torch.where(x > 0, x, 0.5 * x)",
]


@pytest.mark.parametrize("line", OBSTACLES)
@pytest.mark.parametrize("place", [in_network, in_helper], ids=["network", "helper"])
def test_host_code_is_not_captured(line: str, place: Callable[[str], dict[str, str]]) -> None:
    parts = place(line if place is in_network else re.sub(r"\bx\b", "loss", line))
    if "self." in line and place is in_helper:
        return
    step = turn("cudagraphs", script(parts), UPDATED)
    assert isinstance(step.outcome, Skipped), step.outcome
    expected = OBSTACLES[line] if place is in_network else re.sub(r"\bx\b", "loss", OBSTACLES[line])
    unknown = "calls agent.get_action_and_value(): line "  # since the network is not known to be steady
    assert expected in step.outcome.reason or (place is in_network and unknown in step.outcome.reason)


@pytest.mark.parametrize("line", HARMLESS)
def test_device_code_is_captured(line: str) -> None:
    step = turn("cudagraphs", script(in_network(line)), UPDATED)
    assert isinstance(step.outcome, Applied), step.outcome
    assert not step.outcome.notes


@pytest.mark.parametrize(
    ("setup", "annealed", "read"),
    [
        ("", "args.ent_coef = 0.01 / iteration", "args.ent_coef"),
        ("coefs = {}", "coefs['entropy'] = 0.01 / iteration", "coefs['entropy']"),
    ],
)
def test_what_the_training_loop_changes_is_not_read_by_a_replay(setup: str, annealed: str, read: str) -> None:
    parts = {
        "before_loop": setup,
        "head": annealed,
        "minibatch": edited("minibatch", "0.01 *", f"{read} *"),
    }
    step = turn("cudagraphs", script({**ON_DEVICE, **parts}), UPDATED)
    assert isinstance(step.outcome, Skipped), step.outcome
    assert f"reads {read}, which line" in step.outcome.reason


@pytest.mark.parametrize(
    ("classes", "made"),
    [
        ("", "torch.distributions.Bernoulli(logits=self.actor(x))"),
        ("class Coin(torch.distributions.Bernoulli):\n    pass\n\n\n", "Coin(logits=self.actor(x))"),
    ],
)
def test_other_distributions_are_not_drawn_from_in_a_graph(classes: str, made: str) -> None:
    agent = edited("agent", "Categorical(logits=self.actor(x))", made)
    step = turn("cudagraphs", script({"agent": classes + agent}), ("policy", "sampling"))
    assert isinstance(step.outcome, Skipped), step.outcome
    assert f"draws from {made.partition('(')[0]}, which may synchronize with the device" in step.outcome.reason


@pytest.mark.parametrize("rewrite", REWRITES, ids=str)
def test_rewrite(rewrite: Rewrite) -> None:
    rewrite.check("cudagraphs", FLAGS)


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    noop.check("cudagraphs")


def test_what_the_training_loop_binds_is_not_read_by_a_replay() -> None:
    step = turn("cudagraphs", script({**in_helper("loss = loss * weight"), "head": "weight = 1 / iteration"}), UPDATED)
    assert isinstance(step.outcome, Skipped), step.outcome
    assert "reads weight, which the training loop binds" in step.outcome.reason


CLIP = PARTS["minibatch"].replace("args.clip_coef", "{clip}")
ANNEAL = "clip = {made}\n\n\ndef anneal():\n    {changed}\n\n\n"
BY_TEXT = "sets names or attributes that are known only at run time"


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (
            {"functions": ANNEAL.format(made="0.2", changed="global clip\n    clip *= 0.9"), "anneal": "anneal()"},
            "reads clip, which",
        ),
        (
            {"functions": ANNEAL.format(made="[0.2]", changed="clip[-1] = 0.1"), "anneal": "anneal()"},
            "reads clip[-1], which",
        ),
        (
            {"functions": ANNEAL.format(made="{}", changed="clip['x'] = 0.1"), "anneal": "anneal()"},
            "reads clip['x'], which",
        ),
        (
            {"functions": ANNEAL.format(made="{}", changed="clip[KEY] = 0.1") + "KEY = 1\n\n\n", "anneal": "anneal()"},
            "reads clip[KEY], which",
        ),
        ({"anneal": "setattr(args, 'clip_coef', 0.2 / iteration)"}, "reads args.clip_coef, which"),
        ({"anneal": "setattr(args, 'clip' + '_coef', 0.2 / iteration)"}, BY_TEXT),
        ({"anneal": "vars(args)['clip_coef'] = 0.2 / iteration"}, BY_TEXT),
        ({"anneal": "args.__dict__.update(clip_coef=0.2 / iteration)"}, BY_TEXT),
    ],
    ids=lambda x: x["anneal"] if isinstance(x, dict) else "",
)
def test_what_changes_from_iteration_to_iteration_is_not_read_by_a_replay(parts: dict[str, str], reason: str) -> None:
    made = parts.get("functions", "")
    read = {"[0.2]": "clip[-1]", "['x']": "clip['x']", "[KEY]": "clip[KEY]"}
    clip = next((text for piece, text in read.items() if piece in made), "clip" if made else "args.clip_coef")
    step = turn("cudagraphs", script({**ON_DEVICE, "minibatch": CLIP.replace("{clip}", clip), **parts}), UPDATED)
    assert isinstance(step.outcome, Skipped), step.outcome
    assert "update() is not captured: line" in step.outcome.reason and reason in step.outcome.reason


def test_of_act_and_policy_the_one_that_steps_call_is_captured() -> None:
    """A captured function that no step calls would never get its graph, and no run could check it."""
    lines = """\
        if args.compile:  # then steps call act() instead of policy()
            act = CudaGraphModule(act, warmup=20)
        else:
            policy = CudaGraphModule(policy, warmup=20)
"""
    chosen = ("policy", "sampling", "compile", "cudagraphs")
    text = converted_by(script(), *chosen, "evaluate-once").source
    assert "action = act(next_obs)" in text
    assert lines in text
    assert text.count("CudaGraphModule(act") == text.count("CudaGraphModule(policy") == 1
    alone = converted_by(script(), *chosen).source
    assert "    policy = CudaGraphModule(policy, warmup=20)\n" in alone
    assert "CudaGraphModule(act" not in alone


RUNNING = """\
class Running:
    def __init__(self):
        self.mean = 0.0

    def add(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.mean()

"""


@pytest.mark.parametrize(("read", "changed"), [("probs", False), ("fixed", False), ("running", True), ("both", True)])
def test_an_attribute_belongs_to_its_object(read: str, changed: bool) -> None:
    made = "both = running if args.seed else fixed" if read == "both" else ""
    parts = {
        "functions": RUNNING,
        "before_loop": f"running, fixed = Running(), Running()\n{made}",
        "step": PARTS["step"] + "\nrunning.add(reward)",
        "minibatch": f"probs = torch.distributions.Normal(b_returns[mb_inds], 1.0)\nextra = {read}.mean\n"
        + edited("minibatch", "0.01 *", "0.01 * (1 + 0 * extra).mean() *" if read == "probs" else "(0.01 + extra) *"),
    }
    step = turn("cudagraphs", script({**ON_DEVICE, **parts}), UPDATED)
    told = step.outcome.reason if isinstance(step.outcome, Skipped) else "; ".join(getattr(step.outcome, "notes", ()))
    assert (f"reads {read}.mean, which line" in told) == changed, told
    assert changed or step.applied, told


def test_what_acts_and_is_not_captured_has_its_reason() -> None:
    steps = conversion_of(GOLDEN.parent / "written_out.py").steps
    step = next(s for s in steps if s.transform.name == "cudagraphs")
    assert isinstance(step.outcome, Applied)
    assert [left.partition(":")[0] for left in step.outcome.left] == ["decide() is not captured"]
    assert step.brief == "--cudagraphs: graphs of advantages and update only"


@pytest.mark.parametrize(
    "path", [p for p in sorted(GOLDEN.glob("*.py")) if "CudaGraphModule(" in p.read_text("utf-8")], ids=lambda p: p.stem
)
def test_the_help_names_what_is_captured(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    kinds = {"gae": "advantages", "update": "update"}
    captured = {kinds.get(re.split(r"_|\d", n)[0], "policy") for n in re.findall(r"(\w+) = CudaGraphModule\(", text)}
    (told,) = re.findall(r"replay (.*) as CUDA graphs|toggled, (.*) (?:is|are) replayed as CUDA graphs", text)
    assert set(re.findall("policy|advantages|update", "".join(told))) == captured


@pytest.mark.parametrize(
    ("drawn", "told"),
    [
        ("torch.randperm(args.batch_size)", "its argument mb_inds is made on the host: give torch.randperm() on line"),
        ("torch.randperm(args.batch_size, device=device)", None),
        ("torch.randperm(args.batch_size).to(device)", None),
    ],
)
def test_a_graph_is_given_nothing_of_the_host(drawn: str, told: str | None) -> None:
    loops = f"""\
clipfracs = []
for epoch in range(args.update_epochs):
    perm = {drawn}
    for start in range(0, args.batch_size, args.minibatch_size):
        mb_inds = perm[start : start + args.minibatch_size]
        <learn>
"""
    (outcome,) = (s.outcome for s in convert(script({"minibatches": loops})).steps if s.transform.name == "cudagraphs")
    assert isinstance(outcome, Applied), outcome
    assert any("is made on the host" in note for note in outcome.left) is (told is not None), outcome.left
    assert told is None or any(told in note for note in outcome.left)


def test_a_script_of_the_cpu_alone_gets_no_graphs() -> None:
    source = script({"setup": 'device = torch.device("cpu")'})
    (outcome,) = (s.outcome for s in convert(source).steps if s.transform.name == "cudagraphs")
    assert isinstance(outcome, Skipped) and outcome.reason == "the script names no device but the CPU"


@pytest.mark.parametrize(
    ("setup", "above"),
    [
        (PARTS["setup"], True),
        ("if args.seed:\n    device = torch.device('cuda')\nelse:\n    device = torch.device('cpu')", False),
    ],
)
def test_the_device_is_checked_before_the_script_opens_files(setup: str, above: bool) -> None:
    source = convert(script({"setup": f"{setup}\nlog = open(os.devnull, 'w')", "stdlib": "import os"})).source
    assert (source.index("needs a CUDA device") < source.index("log = open")) is above
