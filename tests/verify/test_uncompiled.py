"""The check with the flags on and nothing compiled: right code gives equal bits, and mistakes behind the flags show."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from toy import TOY, edited

from transformer import convert
from transformer.verify import Recording, compare, record
from transformer.verify.checks import Check, recorded_check
from transformer.verify.record import record_run
from transformer.verify.run import Run

SMALL = Path(__file__).parent / "data" / "small_ppo.py"
ARGS = ("--total-timesteps", "192", "--learning-rate", "0.02", "--target-kl", "0.01")
FILL = ".fill_(lrnow)"
LATE = "for transition, logprob, value in zip(transitions, *rows):"


@dataclass(frozen=True)
class Wrong:
    """A mistake behind the flags, its edit, and what its first finding must say."""

    mistake: str
    old: str
    new: str
    quantity: str
    name: str = ""
    where: str = ""


WRONG = [
    Wrong("a doubled rate", FILL, FILL.replace("lrnow", "2 * lrnow"), "hyperparameter", "lr", "optimizer step 1"),
    Wrong(
        "a rate in float32", 'group["lr"], dtype=torch.float64', 'group["lr"], dtype=torch.float32', "hyperparameter"
    ),
    Wrong("a rate that is not annealed", FILL, ".fill_(args.learning_rate)", "hyperparameter", "lr", "optimizer step"),
    Wrong(
        "values of the wrong step", LATE, LATE.replace("*rows", "rows[0], rows[1][1:] + rows[1][:1]"), "gradient norm"
    ),
    Wrong(
        "a stale list",
        LATE,
        'rows = globals().setdefault("first", rows)\n        ' + LATE,
        "gradient norm",
        where="optimizer step",
    ),
    Wrong(
        "another layout",
        "result.chunk(len(transitions))",
        "result.view(args.num_envs, -1).t().chunk(len(transitions))",
        "gradient norm",
    ),
    Wrong(
        "observations of other steps",
        'torch.cat([t["obs"] for t in transitions])',
        'torch.cat([t["obs"] for t in transitions[::-1]])',
        "gradient norm",
    ),
    Wrong("gradients added up", "p.grad.copy_(grad)", "p.grad.add_(grad)", "gradient norm", where="optimizer step 2"),
    Wrong(
        "a traced step more",
        "return (lambda: None), backward, step",
        "return (lambda: None), backward, lambda: (step(), step())",
        "gradient norm",
        where="optimizer step 2",
    ),
    Wrong("another draw", "empty_like(probs.probs).exponential_(1)", "empty_like(probs.probs).uniform_()", "action"),
]


@functools.cache
def converted() -> str:
    """The conversion of the small script."""
    return convert(SMALL.read_text(encoding="utf-8")).source


@pytest.fixture(scope="module")
def original() -> Recording:
    return record(SMALL, ARGS)


def check(original: Recording, source: str) -> Check:
    run = Run(SMALL, (*ARGS, "--compile"), source)
    recording = record_run(run, uncompiled=True)
    return recorded_check("flags-on", original, recording, compare(original, recording))


def test_code_behind_the_flags_gives_equal_bits(original: Recording) -> None:
    found = check(original, converted())
    assert (found.status, found.findings) == ("equal", ())
    together = [row for row in found.rows if row.tolerance is not None]
    assert [row.what for row in together] == [
        "get_action_and_value of all steps: output, int64",
        "get_action_and_value of all steps: output, float32",
    ]
    assert [note.partition(":")[0] for note in found.notes] == ["evaluate-once"]


@pytest.mark.parametrize(
    "wrong", [pytest.param(w, id=w.mistake, marks=[] if w is WRONG[0] else pytest.mark.slow) for w in WRONG]
)
def test_a_mistake_behind_the_flags_is_caught(original: Recording, wrong: Wrong) -> None:
    source = edited(wrong.old, wrong.new, converted())
    recording = record_run(Run(SMALL, (*ARGS, "--compile"), source), uncompiled=True)
    first, *_ = compare(original, recording)
    assert first.quantity == wrong.quantity, str(first)
    assert wrong.name in first.name, str(first)
    assert first.where.startswith(wrong.where), str(first)


@pytest.mark.slow
def test_rows_that_differ_in_one_call_are_caught(original: Recording) -> None:
    mean = "self.critic(x)"
    source = converted().replace(mean, f"{mean} - {mean}.mean(0) + {mean}[0]")
    found = check(record_run(Run(SMALL, ARGS, source)), source)
    assert found.status == "different"
    assert all("of all steps" in finding for finding in found.findings)


SCRIPT = """
import functools
import inspect

import torch

seen = []


def asks():
    seen.append(torch.compiler.is_compiling())
    return seen[-1]


class Policy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self):
        return asks()


@torch.compile
def decorated():
    return asks()


@torch.compile(fullgraph=True, options={"size_asserts": False})
def decorated_with_options():
    return asks()


@torch.compiler.disable
def disabled():
    return asks()


assert not asks()
assert decorated() and decorated.__name__ == "decorated"
assert decorated_with_options()
assert torch.compile(asks)() and not asks()
assert not torch.compile(lambda: disabled())()
assert torch.compile(lambda: disabled() or asks())()
policy = Policy()
fast = torch.compile(policy)
assert fast is policy and policy() and list(policy.state_dict()) == ["weight"]
optimizer = torch.optim.SGD(policy.parameters(), lr=1.0)
policy.weight.grad = torch.ones(1)
optimizer.step()
with torch.no_grad():
    inspect.unwrap(type(optimizer).step)(optimizer)
assert inspect.unwrap(functools.wraps(asks)(lambda: None)) is asks
weights = torch.zeros(1, 2, 3, 3).to(memory_format=torch.channels_last)
assert weights.contiguous(memory_format=torch.channels_last).is_contiguous()
"""


def test_what_torch_compile_returns(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    recording = record_run(Run(script), uncompiled=True)
    assert len(recording.steps) == 2, "torch's own hooks do not see the one that was unwrapped"
    assert recording.regrouped == ("channels-last",)


def test_regrouped_arithmetic_is_named(toy_recording: Recording) -> None:
    same = recorded_check("flags-on", toy_recording, replace(toy_recording, regrouped=("cudagraphs",)), ())
    assert same.status == "equal"
    assert same.notes[0].startswith("cudagraphs: capturable optimizers")


def test_flags_that_compile_nothing(toy_script: Path) -> None:
    bare, compiling = (
        record_run(Run(toy_script, source=s), uncompiled=True) for s in (TOY, edited("envs = Walk()", HANDS))
    )
    assert (bare.handed, compiling.handed) == ((), ("handed", "Linear"))
    assert [recorded_check("flags-on", bare, r, ()).status for r in (bare, compiling)] == ["different", "equal"]
    assert recorded_check("flags-off", bare, replace(bare, handed=None), ()).status == "equal"


HANDS = """envs = Walk()

    @torch.compile
    def handed(): pass
    torch.compile(nn.Linear(1, 1))
"""
