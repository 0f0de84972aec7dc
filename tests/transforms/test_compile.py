import os
import re
import subprocess
import sys
import textwrap
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from cases import FLAGS, NAMED, NoOp, Rewrite, alone, converted_by, turn
from golden import converted
from scripts import PARTS, QUICK_COMPILE, edited, script

from transformer import Applied, Skipped, convert
from transformer.syntax.templates import render

CHECKS = """\
    # Checking a distribution's arguments reads tensors on the host, which no graph holds
    torch.distributions.Distribution.set_default_validate_args(False)
"""
OPTIONS = """\
    # Draw as the eager run does; before 2.12, Inductor's reordering crashes on fused steps (pytorch #176591)
    options = {"fallback_random": True, "size_asserts": False, "loop_ordering_after_fusion": torch.__version__ >= "2.12"}
"""  # noqa: E501
UNGUARDED = """\
    # Only the network's parameters' values change, so its attributes need no guards
    {0} = torch.compile(
        {0}, options={{**options, "guard_filter_fn": torch.compiler.skip_guard_on_all_nn_modules_unsafe}}
    )
"""
STEADY = """\
    # The policy reads nothing else that changes, except parameters' values, so only its input needs guards
    {0} = torch.compile({0}, options={{**options, "guard_filter_fn": torch.compiler.keep_tensor_guards_unsafe}})
"""
PLAINLY = "    {0} = torch.compile({0}, options=options)\n"


def compiled(*functions: str, steady: bool = False, checks: str = CHECKS) -> str:
    """The block above the training loop. If `steady`, the policy's guards are those of its input; if not, fewer."""
    forms = {"policy": STEADY if steady else UNGUARDED}
    calls = [forms.get(f.partition("_")[0], PLAINLY).format(f) for f in functions]
    return "".join(["if args.compile:\n", checks, OPTIONS, *calls])


FINITE = """\
if args.compile and not all(p.isfinite().all() for p in agent.parameters() if p.requires_grad):
    # From here on as the original does: its distributions check their arguments
    torch.distributions.Distribution.set_default_validate_args(__debug__)
    torch.compiler.set_stance("force_eager")
"""
CHECKED = f"{FINITE}\n<rollout>"
NOTED = ("if agent is not finite when a rollout begins, the script goes on as the original does",)

PLAIN = {"metrics": "", "report": "print(iteration, global_step)"}
UPDATE = {
    "functions": '''
        def update(b_obs, mb_inds, b_actions, b_logprobs, b_advantages, b_returns):
            """Optimize the networks on one minibatch."""
            <minibatch>


    ''',
    "learn": "update(b_obs, mb_inds, b_actions, b_logprobs, b_advantages, b_returns)",
}

UNCHECKED = "distributions raise no error for NaN: if a network becomes NaN, training goes on"
REWRITES = [
    Rewrite(
        "the policy",
        {},
        {**NAMED, **alone("the policy"), "before_loop": compiled("policy") + "\n", "collect": CHECKED},
        NOTED,
        also=("policy",),
        brief="--compile: torch.compile of the policy alone, seldom faster",
    ),
    Rewrite(
        "the update",
        PLAIN,
        {**UPDATE, **alone("the update"), "before_loop": compiled("update") + "\n"},
        also=("update",),
        notes=(UNCHECKED,),
        brief="--compile: torch.compile of the update alone",
    ),
    Rewrite(
        "names that were taken",
        {**PLAIN, "setup": 'update = policy = "cpu"\ndevice = torch.device(policy)'},
        {
            **NAMED,
            "copy": NAMED["copy"].replace("policy", "policy_1"),
            "act": NAMED["act"].replace("policy", "policy_1"),
            "functions": UPDATE["functions"].replace("update", "update_networks"),
            "learn": UPDATE["learn"].replace("update", "update_networks"),
            "before_loop": compiled("policy_1", "update_networks") + "\n",
            "collect": CHECKED,
        },
        NOTED,
        also=("policy", "update"),
    ),
    Rewrite(
        "above a comment of the training loop",
        {**PLAIN, "before_loop": "# train"},
        {**UPDATE, **alone("the update"), "before_loop": compiled("update") + "\n# train"},
        also=("update",),
        notes=(UNCHECKED,),
    ),
]

OTHER = """
    def other(self, x):
        return 2 * self.critic(x)


"""
PUT = """
    def put(owner, name, function):
        setattr(owner, name, function)


"""
REPLACED = [
    NoOp(
        "a method of the class is replaced during training",
        {**PLAIN, "functions": OTHER, "head": "if iteration == 3:\n    Agent.get_value = other"},
        "line {line} replaces get_value(), which compiled code would not notice",
        at="Agent.get_value = other",
        also=("policy", "update"),
    ),
    NoOp(
        "a method of the network is replaced",
        {**PLAIN, "functions": OTHER, "head": "if iteration == 3:\n    agent.get_value = agent.critic"},
        "line {line} replaces get_value()",
        at="agent.get_value = agent.critic",
        also=("policy", "update"),
    ),
    NoOp(
        "by its name",
        {**PLAIN, "functions": OTHER, "head": "if iteration == 3:\n    setattr(Agent, 'get_value', other)"},
        "line {line} replaces get_value()",
        at="setattr",
        also=("policy", "update"),
    ),
    NoOp(
        "in a helper, by a computed name",
        {**PLAIN, "functions": OTHER + PUT, "head": "if iteration == 3:\n    put(Agent, 'get_value', other)"},
        "line {line} sets a name known only at run time",
        at="setattr(owner",
        also=("policy", "update"),
    ),
]


@pytest.mark.parametrize("case", REPLACED, ids=str)
def test_a_function_that_may_be_replaced_is_not_compiled(case: NoOp) -> None:
    case.check("compile")


OPTIONS_THAT_CHANGE = {
    "OneCycleLR": "scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=99)",
    "by **": "scheduler = optim.lr_scheduler.OneCycleLR(**{'optimizer': optimizer, 'max_lr': 0.01, 'total_steps': 99})",
    "CyclicLR": "scheduler = optim.lr_scheduler.CyclicLR(optimizer, 1e-4, 0.01)",
    "for group in optimizer.param_groups:\n    group['weight_decay'] = 0.01 * iteration": "",
    "optimizer.param_groups[0]['betas'] = (0.9, 1 - 0.1 / iteration)": "",
    "optimizer.param_groups[0].update(eps=1e-5 * iteration)": "",
    "relax(optimizer.param_groups, 0.01 * iteration)": "",
}
RELAX = "def relax(groups, value):\n    for one in groups:\n        one['weight_decay'] = value\n\n\n"


@pytest.mark.parametrize("change", OPTIONS_THAT_CHANGE)
def test_an_update_whose_options_change_stays_eager(change: str) -> None:
    before = OPTIONS_THAT_CHANGE[change]
    parts = {"before_loop": before, "report": ("scheduler.step()" if before else change) + "\nprint(iteration)"}
    source = script({**PLAIN, "functions": RELAX, **parts})
    conversion = convert(source, select={"flags", "tensor-lr", "policy", "update", "one-graph", "compile"})
    outcomes = {s.transform.name: s.outcome for s in conversion.steps}
    assert isinstance(outcomes["one-graph"], Skipped)
    assert isinstance(outcomes["compile"], Applied)
    assert any("changes options of the optimizer" in note for note in outcomes["compile"].notes)
    assert "torch.compile(update" not in conversion.steps[-1].after


def made_in_the_loop(making: str, setup: str = "", functions: str = "") -> str:
    """A script that makes its optimizer in the training loop."""
    parts = {"optimizer": setup, "functions": functions, "anneal": making}
    return script({**PLAIN, **parts})


MADE = "optimizer = optim.Adam(agent.parameters(), lr=1e-3)"
RENEW = f"def renew(agent):\n    {MADE}\n    return optimizer\n\n\n"


@pytest.mark.parametrize(
    ("making", "setup", "functions"),
    [
        (MADE, "", ""),
        (f"if iteration % 5 == 0:\n    {MADE}", MADE, ""),
        (f"if iteration == 1 or global_step > 10:\n    {MADE}", "", ""),
        ("newest = optim.SGD(agent.parameters(), lr=1e-3)\noptimizer = newest", "", ""),
        ("optimizer = renew(agent)", "", RENEW),
    ],
    ids=["each time", "every fifth time", "under a condition", "by another name", "in a function"],
)
def test_an_update_whose_optimizer_is_made_anew_stays_eager(making: str, setup: str, functions: str) -> None:
    """Compiled code guards on the optimizer itself: each is compiled for, until torch.compile gives up."""
    conversion = convert(
        made_in_the_loop(making, setup, functions), select={"flags", "policy", "update", "one-graph", "compile"}
    )
    outcome = next(s.outcome for s in conversion.steps if s.transform.name == "compile")
    assert isinstance(outcome, Applied), outcome
    assert any("each optimizer would cause a recompilation" in note for note in outcome.notes), outcome.notes
    assert "torch.compile(update" not in conversion.source


@pytest.mark.parametrize(
    ("making", "setup"),
    [
        (f"if optimizer is None:\n    {MADE}", "optimizer = None"),
        ("other = optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)", MADE),
        ("", MADE),
    ],
    ids=["where there is none", "one that the update does not step", "above the loop"],
)
def test_an_update_with_one_optimizer_is_compiled(making: str, setup: str) -> None:
    conversion = convert(made_in_the_loop(making, setup), select={"flags", "policy", "update", "compile"})
    assert "torch.compile(update" in conversion.source


def test_an_update_whose_optimizer_a_constructor_makes_is_compiled() -> None:
    """The training loop only names the class."""
    made = f"class Made:\n    def __init__(self, agent):\n        self.{MADE}\n\n\n"
    setup = "made = Made(agent)\noptimizer = made.optimizer"
    parts = {"optimizer": setup, "functions": made, "report": "print(iteration, isinstance(made, Made))"}
    conversion = convert(script({**PLAIN, **parts}), select={"flags", "update", "compile"})
    assert "torch.compile(update" in conversion.source


def test_an_update_with_one_optimizer_for_each_training_is_compiled() -> None:
    loop = PARTS["loop"].strip()
    parts = {**PLAIN, "optimizer": "", "loop": f"for lr in (1e-3, 3e-3):\n    {MADE}\n    {loop}"}
    above, below = script(parts).split(f"        {loop}\n")
    source = f"{above}        {loop}\n{textwrap.indent(below, '    ')}"
    conversion = convert(source, select={"flags", "update", "compile"})
    assert "torch.compile(update" in conversion.source


@pytest.mark.parametrize(
    "loop",
    [
        "for p in agent.parameters():\n    show(p)",
        "for p, old in zip(agent.parameters(), olds):\n    old.mul_(0.9).add_(p.detach(), alpha=0.1)\n    show(p)",
        "print([float(p.sum()) for p in agent.parameters()])",
    ],
)
def test_a_function_has_variables_of_its_own(loop: str) -> None:
    """A function counts parameters under the name that the training gives to the groups' parameters."""
    count = "def count():\n    return sum(len(p) for p in optimizer.param_groups)\n\n\n"
    count += "def show(it):\n    print(it)\n\n\n"
    above = "olds = [p.detach().clone() for p in agent.parameters()]"
    source = script({**PLAIN, "functions": count, "before_loop": above, "report": loop})
    conversion = converted_by(source, "tensor-lr", "update", "one-graph", "compile")
    assert "update = torch.compile(" in conversion.source


def test_a_scheduler_of_the_rate_alone_is_compiled() -> None:
    made = "scheduler = optim.lr_scheduler.CyclicLR(optimizer, 1e-4, 0.01, cycle_momentum=False)"
    source = script({**PLAIN, "before_loop": made, "report": "scheduler.step()\nprint(iteration)"})
    conversion = convert(source, select={"flags", "tensor-lr", "policy", "update", "one-graph", "compile"})
    assert "torch.compile(update" in conversion.steps[-1].after


NONE = "neither policy nor update() could be made a function"

NOOPS = [
    NoOp("nothing was extracted", {}, NONE),
    NoOp("only the rollout was extracted", {}, NONE, also=("rollout",)),
    NoOp(
        "gradients flow through the rollout",
        {
            "act": edited("act", "torch.no_grad()", "torch.enable_grad()"),
            "advantages": edited("advantages", "torch.no_grad()", "torch.enable_grad()"),
        },
        NONE,
        also=("policy",),
    ),
    NoOp("the minibatch loop is left early", {"metrics": "if ratio.max() > 100:\n    break"}, NONE, also=("update",)),
    NoOp("only the advantages were extracted: they stay eager", {}, NONE, also=("gae",)),
]


@pytest.mark.parametrize("rewrite", REWRITES, ids=str)
def test_rewrite(rewrite: Rewrite) -> None:
    rewrite.check("compile", FLAGS)


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    noop.check("compile")


@pytest.mark.parametrize(
    "grow", ["norms.append(norm.item())", "norms += [norm.item()]", "norms['all'].append(norm.item())"]
)
def test_a_function_that_appends_to_a_list_stays_eager(grow: str) -> None:
    # Dynamo guards on the length of a list that a function gets
    parts = {
        "before_loop": "norms = {'all': []}" if "'all'" in grow else "norms = []",
        "metrics": f"norm = ratio.norm()\nif args.seed:\n    {grow}",
    }
    step = turn("compile", script({**parts, "report": "print(norms)"}), ("policy", "update"))
    assert isinstance(step.outcome, Applied), step.outcome
    line = next(i for i, text in enumerate(script(parts).splitlines(), 1) if grow in text)
    (note,) = step.outcome.headlines
    name = "norms['all']" if "'all'" in grow else "norms"
    assert note == (
        f"update() is not compiled: line {line} makes {name} longer, and each length would cause a recompilation; "
        "move it below optimizer.step()"
    )
    assert step.outcome.notes[:-1] == step.outcome.headlines
    moved = {
        "metrics": "norm = ratio.norm()",
        "optimize": f"{PARTS['optimize']}\nif args.seed:\n    {grow}",
        "before_loop": parts["before_loop"],
        "report": "print(norms)",
    }
    assert not converted_by(script(moved), "policy", "update", "compile").headlines
    assert "policy = torch.compile(" in step.after and "torch.compile(update" not in step.after


@pytest.mark.parametrize(
    ("fill", "stays"),
    [("if next_done.any():\n    seen.append(next_obs)", True), ("seen.append(next_obs)", False)],
    ids=["now and then", "at each step"],
)
@pytest.mark.parametrize("head", ["seen = []", "seen, others = [], []"])
def test_a_function_that_is_given_a_list_of_any_length_stays_eager(fill: str, stays: bool, head: str) -> None:
    parts = {"head": head, "step": f"{PARTS['step']}\n{fill}", "report": "print(iteration)"}
    step = turn("compile", script({**parts, "metrics": "drift = sum(s.mean() for s in seen)"}), ("policy", "update"))
    assert isinstance(step.outcome, Applied), step.outcome
    note = (
        "update() is not compiled: it is given seen, a list, and each would cause a recompilation; "
        "make it a tensor above the minibatches"
    )
    assert step.outcome.notes[:-1] == ((note,) if stays else ())
    assert ("torch.compile(update" in step.after) != stays


def test_a_function_that_is_given_a_list_of_numbers_stays_eager() -> None:
    rows = "rows = np.random.randint(0, 2, 4).tolist()\n"
    parts = {
        "minibatch": rows + PARTS["minibatch"],
        "metrics": "seen = ratio[rows].sum()",
        "report": "print(iteration)",
    }
    step = turn("compile", script(parts), ("policy", "update"))
    assert isinstance(step.outcome, Applied), step.outcome
    assert step.outcome.notes[0].startswith("update() is not compiled: it is given rows, a list")


@pytest.mark.parametrize("module", ["torch.utils.data", "torch.utils.data.sampler"])
def test_a_function_that_is_given_a_samplers_indices_stays_eager(module: str) -> None:
    drawn = "for mb_inds in BatchSampler(SubsetRandomSampler(range(args.batch_size)), args.minibatch_size, False):"
    parts = {
        "third_party": f"from {module} import BatchSampler, SubsetRandomSampler",
        "minibatches": f"for epoch in range(args.update_epochs):\n    {drawn}\n        <learn>",
        "metrics": "",
        "report": "print(iteration)",
    }
    step = turn("compile", script(parts), ("policy", "update"))
    assert isinstance(step.outcome, Applied), step.outcome
    assert step.outcome.notes[0].startswith("update() is not compiled: it is given mb_inds, a list")
    assert "torch.compile(update" in turn("compile", script(parts), ("policy", "update", "shuffle")).after


def test_a_function_that_reads_a_list_of_numbers_stays_eager() -> None:
    # Dynamo guards on each number of a list
    chosen = "rows = torch.randint(0, 2, (4,)).tolist()\nmoved = sum(b_obs[row].sum() for row in rows)"
    parts = {"metrics": chosen, "report": "print(iteration)"}
    step = turn("compile", script(parts), ("policy", "update"))
    assert isinstance(step.outcome, Applied), step.outcome
    note, _ = step.outcome.notes
    assert re.match(
        r"update\(\) is not compiled: line \d+ reads a list of numbers, and each would cause a recompilation", note
    )
    assert "torch.compile(update" not in step.after
    told = turn("compile", script({**parts, "metrics": "print(ratio.tolist())"}), ("policy", "update"))
    assert "torch.compile(update" in told.after


@pytest.mark.parametrize(
    ("loop", "stays"),
    [
        ("gaps = ratio.detach().numpy()\nfor gap in gaps[::-1]:\n    total = total + gap", True),
        ("gaps = ratio.detach()\nfor i, gap in enumerate(gaps):\n    total = total + i * gap", True),
        ("for gap in b_returns:\n    total = total + gap", True),
        ("pair = [ratio.mean(), ratio.std()]\nfor gap in pair:\n    total = total + gap", False),
        ("for gap in (ratio.mean(), ratio.std()):\n    total = total + gap", False),
        ("for gap in seen:\n    total = total + gap.mean()", False),
        ("for i in range(3):\n    total = total + i", False),
        ("for i in reversed(range(len(b_returns))):\n    total = total + b_returns[i]", True),
        ("for i in range(len(optimizer.param_groups)):\n    total = total + i", False),
    ],
    ids=["an array", "a tensor", "a tensor that is given", "a list", "a tuple", "a list that is given", "numbers",
         "places of what is given", "places in a list that stays"],
)  # fmt: skip
def test_a_function_that_loops_over_rows_stays_eager(loop: str, stays: bool) -> None:
    parts = {
        "head": "seen = []",
        "step": f"{PARTS['step']}\nseen.append(next_obs)",
        "metrics": f"total = 0.0\n{loop}",
        "report": "print(iteration)",
    }
    step = turn("compile", script(parts), ("policy", "update"))
    assert isinstance(step.outcome, Applied), step.outcome
    assert any("row by row, and each length would cause a recompilation" in n for n in step.outcome.notes) == stays
    assert ("torch.compile(update" in step.after) != stays


NORM = """
class Norm:
    def __init__(self):
        self.mean, self.count = torch.zeros(()), 0

    def update(self, x):
        {count}
        self.mean = self.mean + (x.mean() - self.mean) / self.count


"""


@pytest.mark.parametrize("count", ["self.count += 1", "self.count = self.count + 1", "norm.count += 1"])
@pytest.mark.parametrize("called", ["norm.update(ratio)", "seen(ratio)"])
def test_a_function_that_counts_in_python_stays_eager(count: str, called: str) -> None:
    # Dynamo guards on the numbers of objects: each new number is a recompilation
    functions = NORM.format(count=count) + "def seen(x):\n    norm.update(x)\n\n\n"
    parts = {"functions": functions, "before_loop": "norm = Norm()", "metrics": called, "report": "print(norm.mean)"}
    step = turn("compile", script(parts), ("policy", "update"))
    assert isinstance(step.outcome, Applied), step.outcome
    line = next(i for i, text in enumerate(script(parts).splitlines(), 1) if count in text)
    counts = f"line {line} counts in {count.split('.')[0]}.count, and each number would cause a recompilation"
    assert step.outcome.notes[0] == f"update() is not compiled: {counts}; let it be a tensor"
    assert "torch.compile(update" not in step.after


@pytest.mark.parametrize(
    "change", ["self.count = x.numel()", "self.mean = self.mean * 2", "count = self.count + 1", "self.total += x.sum()"]
)
def test_a_function_that_sets_other_attributes_is_compiled(change: str) -> None:
    functions = NORM.format(count=f"{change}\n        self.total = torch.zeros(())")
    parts = {"functions": functions, "before_loop": "norm = Norm()", "metrics": "norm.update(ratio)"}
    step = turn("compile", script({**parts, "report": "print(norm.mean)"}), ("gae", "update"))
    assert isinstance(step.outcome, Applied), step.outcome
    assert all(UNCHECKED in note for note in step.outcome.notes)
    assert "torch.compile(update" in step.after


RETAINED = edited("optimize", "loss.backward()", "loss.backward(retain_graph=True)")


def test_a_pass_that_keeps_its_graph_keeps_its_buffers() -> None:
    step = turn("compile", script({**PLAIN, "optimize": RETAINED}), ("update",))
    assert isinstance(step.outcome, Applied), step.outcome
    assert "    aot_config.donated_buffer = False\n" in step.after
    assert "from torch._functorch import config as aot_config\n" in step.after
    assert "donated_buffer" not in turn("compile", script(PLAIN), ("update",)).after


@pytest.mark.slow
def test_a_pass_that_keeps_its_graph_compiled(tmp_path: Path) -> None:
    """Without it, the smaller last minibatch gives its buffers away, and backward() fails."""
    converted = tmp_path / "ppo.py"
    converted.write_text(convert(script({"metrics": "", "report": "", "optimize": RETAINED})).source, encoding="utf-8")
    command = [sys.executable, str(converted), "--compile", "--num-iterations", "1", "--minibatch-size", "6"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-3000:]


@pytest.mark.parametrize(
    "sets",
    [
        "optimizer.param_groups[0]['lr'] = rate",
        "for group in optimizer.param_groups:\n    group['lr'] = rate",
    ],
)
def test_a_rate_that_the_update_takes_as_a_number_keeps_it_eager(sets: str) -> None:
    """Past torch.compile's limit of values, the optimizer raised AssertionError on a CPU: it had been traced."""
    adapt = f"kl = ratio.log().mean().item()\nif kl > 0.02:\n    rate = rate / 1.5\n{sets}"
    parts = {"before_loop": "rate = args.learning_rate", "anneal": "", "metrics": adapt, "report": "print(rate)"}
    conversion = converted_by(script(parts), "tensor-lr", "policy", "update", "compile")
    notes = next(s.outcome.notes for s in conversion.steps if s.transform.name == "compile" and s.applied)
    assert notes[0].startswith(
        "update() is not compiled: rate, a number, is the learning rate, and each would cause a recompilation"
    )
    assert "update = torch.compile(" not in conversion.source


TWO = {
    "optimizer": "optimizer = optim.Adam(agent.actor.parameters())\nsecond = optim.Adam(agent.critic.parameters())",
    "optimize": "optimizer.zero_grad()\nsecond.zero_grad()\nloss.backward()\noptimizer.step()\nsecond.step()",
}


@pytest.mark.slow
@pytest.mark.parametrize("parts", [{}, TWO], ids=["one", "two"])
@pytest.mark.parametrize("key", ["lr", "weight_decay"])
def test_an_optimizer_whose_groups_the_update_sets_past_the_limit(
    key: str, parts: dict[str, str], tmp_path: Path
) -> None:
    """When Dynamo stores a group, it leaves the traced optimizer capturable; no eager step on a CPU takes that."""
    sets = f"for group in optimizer.param_groups:\n    group['{key}'] = 1e-2 if end > 8 else 1e-3"
    limit = 'device = torch.device("cpu")\ntorch._dynamo.config.recompile_limit = 1'
    total = "print(iteration, sum(p.sum().item() for p in agent.parameters()))"
    conversion = convert(script({"setup": limit, "anneal": "", "metrics": sets, "report": total, **parts}))
    assert conversion.converted, conversion.diagnostics
    assert ("update = torch.compile(" in conversion.source) is (key == "lr")
    converted = tmp_path / "ppo.py"
    converted.write_text(conversion.source, encoding="utf-8")
    seen = []
    for flags in ([], ["--compile"]):
        command = [sys.executable, str(QUICK_COMPILE), str(converted), "--minibatch-size", "6", *flags]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr[-3000:]
        seen.append([float(word) for word in result.stdout.split()])
    assert seen[0] == pytest.approx(seen[1], rel=1e-3)


DRAWS = """mb_returns = b_returns[start:end]
mb_returns = mb_returns + torch.as_tensor(np.random.randn(*mb_returns.shape)).float()"""


def test_arrays_that_compiled_code_draws_come_from_numpy() -> None:
    stream = "torch._dynamo.config.use_numpy_random_stream = True"
    also = ("policy", "deferred-sync", "update")
    assert stream not in turn("compile", script(), also).after
    assert stream in turn("compile", script({"metrics": DRAWS}), also).after
    elsewhere = {"functions": "from networks import Network", "make_agent": "agent = Network(envs).to(device)"}
    assert stream in turn("compile", script(elsewhere), also).after
    parts = {"functions": "from losses import kl", "metrics": "approx_kl = kl(ratio)"}
    assert stream in turn("compile", script(parts), also).after


@pytest.mark.slow
def test_compiled_code_draws_with_numpy(tmp_path: Path) -> None:
    total = "print(iteration, np.random.rand(), sum(p.sum().item() for p in agent.parameters()))"
    conversion = convert(script({"metrics": DRAWS + "\nv_bias = mb_returns.mean()", "report": total}))
    converted = tmp_path / "ppo.py"
    converted.write_text(conversion.source, encoding="utf-8")
    seen = []
    for flags in ([], ["--compile"]):
        command = [sys.executable, str(QUICK_COMPILE), str(converted), *flags]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr[-3000:]
        seen.append([float(word) for word in result.stdout.split()])
    assert seen[0] == pytest.approx(seen[1], rel=1e-3)


def test_a_wrapper_whose_step_sets_infos_sets_no_option_of_an_optimizer() -> None:
    """RAdam's traced step reads parameter groups, and the wrapper has a method of the same name."""
    wrapper = (
        "class Watched(Envs):\n    def step(self, action):\n        infos['r'] = 1\n        return super().step(action)"
    )
    radam = PARTS["optimizer"].replace("Adam(", "RAdam(")
    source = script({"functions": wrapper, "optimizer": radam})
    conversion = converted_by(source, "tensor-lr", "deferred-sync", "update", "one-graph", "compile")
    assert 'group["capturable"] = True' in conversion.source
    assert "update = torch.compile(" in conversion.source


READS = {
    "metrics": (
        "if args.gamma > 0.5:\n    clipfracs += [ratio.mean().item()]\nelse:\n    clipfracs += [ratio.max().item()]"
    ),
    "report": "print(iteration, np.mean(clipfracs), sum(p.sum().item() for p in agent.parameters()))",
}
"""Both branches read a number, which deferred-sync leaves in place."""


def compiled_runs(source: str, folder: Path) -> tuple[list[list[float]], str]:
    """The numbers that a script prints without and with --compile, and torch.compile's log of graph breaks."""
    converted = folder / "ppo.py"
    converted.write_text(source, encoding="utf-8")
    seen = []
    for flags in ([], ["--compile"]):
        command = [sys.executable, str(QUICK_COMPILE), str(converted), "--num-iterations", "4", *flags]
        environment = {**os.environ, "TORCH_LOGS": "graph_breaks,recompiles"}
        result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr[-3000:]
        seen.append([float(word) for word in result.stdout.split()])
    return seen, result.stderr


def test_a_number_that_is_read_in_the_update_ends_no_graph_where_one_is() -> None:
    captured = "torch._dynamo.config.capture_scalar_outputs = True"
    assert captured not in converted(script()).source
    assert captured in convert(script(READS)).source


NUMBER = """
    def number(of):
        return [float(of)]


"""
READINGS = {
    "a method": "norms.append(ratio.norm().item())",
    "float": "norms.append(float(ratio.norm()))",
    "float of a name": "norm = ratio.norm()\nnorms.append(float(norm.data))",
    "a builtin around it": "norms.append(round(max(float(ratio.norm()), 0.5), 2))",
    "bool": "norms.append(bool((ratio > 1).any()))",
    "added": "norms += [float(ratio.norm())]",
    "a function": "own = []\nown.append(sum(number(ratio.norm())))",
    "a list": "own = []\nown.append([float(part) for part in (ratio.min(), ratio.max())])",
    "a dict": "kept = {}\nkept.setdefault('norm', []).append(float(ratio.norm()))\nnorms.append(kept['norm'][0])",
    "a text": "norm = ratio.norm().detach()\nown = '{:.2f}'.format(float(norm))",
}


def reading(code: str, **parts: str) -> dict[str, str]:
    """Parts of a script whose minibatches fill a list, read below all of them."""
    read = {"functions": NUMBER, "report": "print(iteration, v_loss.item(), len(norms))"}
    minibatches = PARTS["minibatches"].replace("clipfracs = []", "norms = []")
    return {"minibatches": minibatches, "metrics": code, **read, **parts}


@pytest.mark.parametrize("form", READINGS)
def test_a_number_that_is_read_in_any_form_ends_no_graph(form: str) -> None:
    step = turn("compile", script(reading(READINGS[form])), ("late-append", "update"))
    assert isinstance(step.outcome, Applied), step.outcome
    assert "update = torch.compile(" in step.after
    assert "capture_scalar_outputs = True" in step.after


@pytest.mark.parametrize("code", ["norms.append(float(args.gamma))", "norms.append(int(iteration))", "norms += [0.5]"])
def test_a_number_of_python_is_not_read_from_a_tensor(code: str) -> None:
    step = turn("compile", script(reading(code)), ("late-append", "update"))
    assert "update = torch.compile(" in step.after
    assert "capture_scalar_outputs" not in step.after


@pytest.mark.parametrize(
    "code",
    [
        "norms.append([0.0, 1.0][int(ratio.mean() > 1)])",
        "at = (ratio.mean() > 1).long().item()\nnorms.append((0.0, 1.0)[at])",
        "at = (ratio.mean() > 1).long().item()\nat += 0\nnorms += [[0.0, 1.0].pop(at)]",
        "norms += [format(ratio.mean().item(), '.2f')]",
    ],
)
def test_where_a_number_that_is_read_chooses_an_item_the_update_stays_eager(code: str) -> None:
    # Dynamo stops there with an error
    step = turn("compile", script(reading(code)), ("policy", "late-append", "update"))
    (note,) = step.outcome.headlines
    assert "needs the value of a number" in note
    assert "torch.compile(update" not in step.after


@pytest.mark.parametrize(
    "code",
    [
        "norms += [1.0 if ratio.mean() > 1 else 0.0]",  # nothing waits
        "norms.append(ratio.detach().mean())",
        "norms += [ratio[int(ratio.mean() > 1)].item()]",
        "norm = unheard.norm(ratio)\nown = []\nown.append(norm.detach())",  # what no class of the file has
        "norm = unheard.norm(ratio)\nown = []\nown.append(norm.detach().mean().item())",
        "norms.append(len(range(3)))",
        "norms += [{0: 1.0, 1: 2.0}[int(ratio.mean() > 1)]]",
        "norms.append([0.5, 1.5][args.seed - 1])",
        "norms += [[0.5, 1.5][int(np.sqrt(args.num_envs)) - 1]]",
        "agent.critic[0].weight.data.copy_(torch.ger(torch.ones(8), torch.ones(2)))",  # a tensor, known or not
        "agent.kept = agent.get_value(b_obs[mb_inds]).detach()\nnorms.append(agent.kept.mean().item())",
    ],
)
def test_what_does_not_wait_or_is_known_leaves_it_compiled(code: str) -> None:
    parts = reading(code, stdlib="import unheard" if "unheard" in code else "")
    step = turn("compile", script(parts), ("late-append", "update"))
    assert isinstance(step.outcome, Applied), step.outcome
    assert "update = torch.compile(" in step.after


@pytest.mark.slow
@pytest.mark.parametrize("form", ["float", "a builtin around it", "a function", "a dict", "a text"])
def test_a_number_that_is_read_in_any_form_is_compiled_once(form: str, tmp_path: Path) -> None:
    source = converted_by(script(reading(READINGS[form])), "tensor-lr", "late-append", "update", "compile").source
    (eager, compiled), log = compiled_runs(source, tmp_path)
    assert eager == pytest.approx(compiled, rel=1e-3)
    assert "___stack" not in log
    assert log.count("Recompiling function") <= 2


@pytest.mark.slow
def test_a_number_that_is_read_in_the_update_ends_no_graph(tmp_path: Path) -> None:
    (eager, compiled), log = compiled_runs(convert(script(READS)).source, tmp_path)
    assert eager == pytest.approx(compiled, rel=1e-3)
    assert "Graph break in user code" not in log


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["Adam", "RAdam"])
def test_a_parameter_that_no_loss_depends_on_ends_the_graph_once(optimizer: str, tmp_path: Path) -> None:
    parts = {
        "agent": edited("agent", "self.actor = ", "self.unused = nn.Parameter(torch.zeros(3))\nself.actor = "),
        "optimizer": PARTS["optimizer"].replace("Adam", optimizer),
        "metrics": "",
        "report": "print(iteration, v_loss.item(), sum(p.sum().item() for p in agent.parameters()))",
    }
    source = convert(script(parts)).source
    assert "traceable(" in source
    (eager, compiled), log = compiled_runs(source, tmp_path)
    assert eager == pytest.approx(compiled, rel=1e-3)
    # v_loss outlives the step: where the graph ends there, the backward pass is not part of it
    _, anew, after = log.partition("Recompiling function update in")
    assert anew
    assert "raph break" not in after, "in the first minibatch alone"


@pytest.mark.parametrize(("value", "checks"), [("nan", True), ("inf", True), ("1", False)])
def test_distributions_check_again_when_a_network_is_not_finite(value: str, checks: bool) -> None:
    network = torch.nn.Linear(2, 2)
    network.bias.data[1] = float(value)
    network.forbidden = torch.nn.Parameter(torch.tensor(float("-inf")), requires_grad=False)
    code = render("finite", flag="True", network="network")
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        exec(code, {"network": network, "torch": torch})
        with pytest.raises(ValueError, match="Expected parameter loc") if checks else nullcontext():
            torch.distributions.Normal(torch.tensor(float("nan")), 1.0)
    finally:
        torch.distributions.Distribution.set_default_validate_args(True)
        torch.compiler.set_stance("default")


def test_what_repairs_a_network_stands_above_the_check() -> None:
    repair = "if any(torch.isnan(p).any() for p in agent.parameters()):\n    agent.load_state_dict(good)"
    for place in ("head", "anneal"):
        source = converted_by(script({place: repair}), "policy", "compile").source
        assert source.index("isnan(p)") < source.index("p.isfinite()") < source.index("policy(next_obs)")
