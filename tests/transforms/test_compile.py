import subprocess
import sys
from pathlib import Path

import pytest
from cases import FLAGS, NAMED, NoOp, Rewrite, turn
from scripts import PARTS, edited, script

from transformer import Applied, convert


def compiled(*functions: str, steady: bool = False) -> str:
    """The block above the training loop; the policy, among the functions, needs fewer guards, or only its input's."""
    unguarded = STEADY if steady else UNGUARDED
    forms = {"policy": unguarded, "gae": GAE}
    crashes = CRASHES if any(f.startswith("update") for f in functions) else ""
    return """\
if args.compile:
    # Checking a distribution's arguments reads tensors on the host, which breaks the compiled graph
    torch.distributions.Distribution.set_default_validate_args(False)
    # Draw the eager run's random numbers; Dynamo's guards have checked the inputs that Inductor would check again
    options = {"fallback_random": True, "size_asserts": False}
    if torch.backends.cpu.get_cpu_capability() == "AVX512":
        # torch's own kernels use AVX-512 here, so Inductor need not build three programs to see that it works
        options["cpp.vec_isa_ok"] = True
""" + "".join([crashes, *(forms.get(f.partition("_")[0], PLAINLY).format(f) for f in functions)])


CRASHES = """\
    if torch.__version__ < "2.12" and torch.device(device).type == "cuda":
        # Before 2.12, Inductor crashes where it would reorder the loops of fused optimizer steps (pytorch #176591)
        options["loop_ordering_after_fusion"] = False
"""
UNGUARDED = """\
    # Nothing changes the network but its parameters' values, so its attributes need no guards
    unguarded = {{"guard_filter_fn": torch.compiler.skip_guard_on_all_nn_modules_unsafe}}
    {0} = torch.compile({0}, options={{**options, **unguarded}})
"""
GAE = """\
    if torch.device(device).type != "cpu":  # on a CPU, a call per rollout saves less than compiling takes
        {0} = torch.compile({0}, options=options)
"""
PLAINLY = "    {0} = torch.compile({0}, options=options)\n"
STEADY = """\
    # All else that the policy reads stays as it is, but for parameters' values: only its input needs guards
    unguarded = {{"guard_filter_fn": torch.compiler.keep_tensor_guards_unsafe}}
    {0} = torch.compile({0}, options={{**options, **unguarded}})
"""


LOOP_IN_GAE = {
    "functions": '''
        def gae(next_obs, next_done):
            """Estimate the advantages and returns of the rollout, backwards in time."""
            <advantages>
            return advantages, returns


    ''',
    "estimate": "advantages, returns = gae(next_obs, next_done)",
}
RECURRENCE = {
    **LOOP_IN_GAE,
    "functions": '''
        @torch.compiler.disable
        def recurrence(next_done, next_value, advantages, lastgaelam):
            """Accumulate backwards in time; torch.compile would unroll this loop over the whole rollout."""
            <gae>


        def gae(next_obs, next_done):
            """Estimate the advantages and returns of the rollout, backwards in time."""
            <without_loop>
            return advantages, returns


    ''',
    "without_loop": edited("advantages", "<gae>", "recurrence(next_done, next_value, advantages, lastgaelam)"),
}
PLAIN = {"metrics": "", "report": "print(iteration, global_step)"}
UPDATE = {
    "functions": '''
        def update(b_obs, mb_inds, b_actions, b_logprobs, b_advantages, b_returns):
            """Optimize the networks on one minibatch."""
            <minibatch>


    ''',
    "learn": "update(b_obs, mb_inds, b_actions, b_logprobs, b_advantages, b_returns)",
}

REWRITES = [
    Rewrite("the policy", {}, {**NAMED, "before_loop": compiled("policy") + "\n"}, also=("policy",)),
    Rewrite("the loop over time stays eager", {}, {**RECURRENCE, "before_loop": compiled("gae") + "\n"}, also=("gae",)),
    Rewrite("the update", PLAIN, {**UPDATE, "before_loop": compiled("update") + "\n"}, also=("update",)),
    Rewrite(
        "names that were taken",
        {**PLAIN, "setup": 'update = policy = "cpu"\ndevice = torch.device(policy)'},
        {
            **NAMED,
            "copy": NAMED["copy"].replace("policy", "policy_1"),
            "act": NAMED["act"].replace("policy", "policy_1"),
            "functions": UPDATE["functions"].replace("update", "update_1"),
            "learn": UPDATE["learn"].replace("update", "update_1"),
            "before_loop": compiled("policy_1", "update_1") + "\n",
        },
        also=("policy", "update"),
    ),
    Rewrite(
        "above a comment of the training loop",
        {**PLAIN, "before_loop": "# train"},
        {**UPDATE, "before_loop": compiled("update") + "\n# train"},
        also=("update",),
    ),
]

NONE = "neither policy nor gae() nor update() could be made a function"

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
    NoOp(
        "the loop over time is a function of the script's own",
        {"estimate": "advantages = returns = rewards"},
        NONE,
        also=("gae",),
    ),
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
def test_a_function_that_makes_a_list_longer_stays_eager(grow: str) -> None:
    # Dynamo's guards see the length of a list that it is given
    parts = {
        "before_loop": "norms = {'all': []}" if "'all'" in grow else "norms = []",
        "metrics": f"norm = ratio.norm()\nif args.seed:\n    {grow}",
    }
    step = turn("compile", script({**parts, "report": "print(norms)"}), ("gae", "update"))
    assert isinstance(step.outcome, Applied), step.outcome
    assert step.outcome.notes == ("update() stays eager: norms grows, each length would be compiled anew",)
    assert "torch.compile(gae" in step.after and "torch.compile(update" not in step.after


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
    # Dynamo's guards see the numbers of objects, and another number is another program
    functions = NORM.format(count=count) + "def seen(x):\n    norm.update(x)\n\n\n"
    parts = {"functions": functions, "before_loop": "norm = Norm()", "metrics": called, "report": "print(norm.mean)"}
    step = turn("compile", script(parts), ("gae", "update"))
    assert isinstance(step.outcome, Applied), step.outcome
    counts = f"{count.split('.')[0]}.count counts in Python, each number would be compiled anew"
    assert step.outcome.notes == (f"update() stays eager: {counts}",)
    assert "torch.compile(update" not in step.after


@pytest.mark.parametrize(
    "change", ["self.count = x.numel()", "self.mean = self.mean * 2", "count = self.count + 1", "self.total += x.sum()"]
)
def test_a_function_that_sets_other_attributes_is_compiled(change: str) -> None:
    functions = NORM.format(count=f"{change}\n        self.total = torch.zeros(())")
    parts = {"functions": functions, "before_loop": "norm = Norm()", "metrics": "norm.update(ratio)"}
    step = turn("compile", script({**parts, "report": "print(norm.mean)"}), ("gae", "update"))
    assert isinstance(step.outcome, Applied), step.outcome
    assert not step.outcome.notes and "torch.compile(update" in step.after


def test_other_loops_of_functions_that_are_called_are_compiled() -> None:
    parts = {
        "functions": "def doubled(x, times):\n    for _ in range(times):\n        x = x * 2\n    return x\n\n\n",
        "advantages": edited("advantages", ".reshape(1, -1)", ".reshape(1, -1)\nnext_value = doubled(next_value, 2)"),
    }
    after = turn("compile", script(parts), ("gae",)).after
    assert after.count("@torch.compiler.disable") == 1
    assert parts["functions"] in after


def test_the_loop_of_a_function_that_is_called_stays_eager() -> None:
    loop = PARTS["gae"].replace("next_value", "last").replace("\n", "\n    ")
    parts = {
        "functions": "def estimate(last):\n    advantages = torch.zeros_like(rewards)\n    lastgaelam = 0\n"
        f"    {loop}\n    return advantages\n\n\n",
        "advantages": edited("advantages", "<gae>", "advantages = estimate(next_value)"),
    }
    after = turn("compile", script(parts), ("gae",)).after
    disabled, estimate = after.index("@torch.compiler.disable\ndef recurrence("), after.index("def estimate(last):")
    assert disabled < estimate
    assert "for t in" not in after[estimate : after.index("return advantages", estimate)]


RETAINED = edited("optimize", "loss.backward()", "loss.backward(retain_graph=True)")


def test_a_pass_that_keeps_its_graph_keeps_its_buffers() -> None:
    step = turn("compile", script({**PLAIN, "optimize": RETAINED}), ("update",))
    assert isinstance(step.outcome, Applied), step.outcome
    assert "    aot_config.donated_buffer = False\n" in step.after
    assert "from torch._functorch import config as aot_config\n" in step.after
    assert "donated_buffer" not in turn("compile", script(PLAIN), ("update",)).after


@pytest.mark.slow
def test_a_pass_that_keeps_its_graph_compiled(tmp_path: Path) -> None:
    """With a last, smaller minibatch it would otherwise give its buffers away, and backward() end in an error."""
    converted = tmp_path / "ppo.py"
    converted.write_text(convert(script({"metrics": "", "report": "", "optimize": RETAINED})).source, encoding="utf-8")
    command = [sys.executable, str(converted), "--compile", "--num-iterations", "1", "--minibatch-size", "6"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
