"""An exception ends a step or an update: what the script reads then, or has printed, is what the original has."""

import textwrap
from pathlib import Path

import pytest
from cases import converted_by, turn
from forking import preload
from golden import converted
from judge import judge
from scripts import PARTS, edited, script
from tiers import slow_but_each

from transformer import Applied, Skipped, convert

UNRELIABLE = """
def unreliable(action, step=envs.step, calls=[0]):
    calls[0] += 1
    if calls[0] == 13:
        raise ERROR
    return step(action)


envs.step = unreliable
"""
LOOP = "    for iteration in range(1, args.num_iterations + 1):\n"


def whole(head: str, ends: str, error: str = "OSError") -> str:
    """A script whose training loop is in a block, and whose environment fails in the thirteenth step."""
    above, loop, below = script({"before_loop": UNRELIABLE.replace("ERROR", error)}).partition(LOOP)
    return f"{above}    {head}\n{textwrap.indent(loop + below, '    ')}\n{textwrap.indent(ends, '    ')}\n"


def each_turn(head: str, ends: str) -> str:
    """The same, with a block around each turn of the training loop."""
    above, loop, below = script({"before_loop": UNRELIABLE.replace("ERROR", "OSError")}).partition(LOOP)
    return f"{above}{loop}        {head}\n{textwrap.indent(below, '    ')}\n{textwrap.indent(ends, '        ')}\n"


READS = {
    "a counter": "global_step",
    "an observation": "next_obs.sum().item()",
    "flags": "next_done.sum().item(), type(next_done)",
    "a buffer": "rewards.sum().item()",
    "an action": "action.tolist()",
}


BLOCKS = (
    ("try:", "except KeyboardInterrupt:\n    print(READ)", "KeyboardInterrupt"),
    ("try:", "except OSError:\n    pass\nprint(READ)", "OSError"),
    ("try:", "except ValueError:\n    pass\nexcept (OSError, KeyError) as error:\n    print(error, READ)", "OSError"),
)
# One in four runs at every change, and each block at least once
ALL = [(block, read) for read in READS.values() for block in BLOCKS]


@pytest.mark.parametrize("tried", slow_but_each(4, ALL))
def test_around_the_training_loop(tried: tuple[tuple[str, str, str], str], tmp_path: Path) -> None:
    (head, ends, error), read = tried
    preload()
    outcome = judge(tmp_path / "ppo.py", whole(head, ends.replace("READ", read), error))
    assert outcome.kind == "equal", (outcome.kind, *outcome.said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "ends"),
    [
        ("import contextlib\n    with contextlib.suppress(OSError):", "print(global_step, rewards.sum().item())"),
        ("while True:\n     try:", " finally:\n     print(global_step, action.sum().item())\n     break"),
    ],
    ids=["suppressed", "finally"],
)
def test_other_blocks(head: str, ends: str, tmp_path: Path) -> None:
    preload()
    outcome = judge(tmp_path / "ppo.py", whole(head, ends))
    assert outcome.kind == "equal", (outcome.kind, *outcome.said)


@pytest.mark.parametrize(
    "ends", ["except OSError:\n    pass", "except OSError:\n    continue\nfinally:\n    print(iteration)"]
)
def test_a_turn_that_is_given_up_is_refused(ends: str) -> None:
    (diagnostic,) = convert(each_turn("try:", ends)).diagnostics
    assert diagnostic.code == "LC005"
    assert "training goes on after exceptions" in diagnostic.message


def test_nothing_is_lost_where_nothing_is_read() -> None:
    source = whole("try:", "except KeyboardInterrupt:\n    print('stopped')")
    steps = converted_by(source, "storage", "rollout", "update").steps
    assert {"rollout", "storage", "update"} <= {s.transform.name for s in steps if s.applied}


REPORT = "print('loss', v_loss.item())\n"
BETWEEN = {
    "the step itself": ("optimizer.step()", "print('step', optimizer.step())", ""),
    "a helper that prints": (
        "optimizer.zero_grad()",
        "clear()\noptimizer.zero_grad()",
        "def clear():\n    print('clear')",
    ),
    "an exception": ("loss.backward()", "if v_loss.isnan():\n    raise ValueError(1)\nloss.backward()", ""),
    "an assertion in a helper": (
        "loss.backward()",
        "check(v_loss)\nloss.backward()",
        "def check(x):\n    assert not x.isnan()",
    ),
    "a hook": ("loss.backward()", "loss.backward()", "def watch(*_):\n    print('stepped')"),
}


@pytest.mark.parametrize(("old", "new", "helper"), BETWEEN.values(), ids=BETWEEN)
def test_a_report_does_not_move_past_output_or_exceptions(old: str, new: str, helper: str) -> None:
    parts = {"optimize": REPORT + PARTS["optimize"].replace(old, new), "functions": helper}
    if "watch" in helper:
        parts["before_loop"] = "optimizer.register_step_pre_hook(watch)"
    outcome = turn(
        "deferred-sync",
        script(
            parts
            | {"metrics": ""}
            | {"minibatches": edited("minibatches", "clipfracs = []", "")}
            | {"report": "print(iteration, v_loss.item())"}
        ),
    ).outcome
    assert isinstance(outcome, Skipped), outcome


def test_a_report_moves_past_computations() -> None:
    outcome = turn("deferred-sync", script({"optimize": REPORT + PARTS["optimize"]})).outcome
    assert isinstance(outcome, Applied), outcome


HOOKS = (
    ("import atexit", "atexit.register(READS)"),
    ("from atexit import register", "register(READS)"),
    ("import sys", "sys.excepthook = READS"),
    ("import signal as signals", "signals.signal(2, READS)"),
    ("import weakref", "weakref.finalize(agent, READS)"),
)


@pytest.mark.parametrize(("imported", "hook"), HOOKS)
def test_exit_hooks_keep_the_buffers_they_read(imported: str, hook: str) -> None:
    reads = "lambda *given: print(len(clipfracs), rewards.sum(), type(next_done))"
    hooked = {"stdlib": imported, "before_loop": hook.replace("READS", reads)}
    chosen = ("flags", "policy", "storage", "deferred-sync", "late-append", "host-arrays", "sampling")
    plain, kept = (converted(script(parts), select=chosen).source for parts in ({}, hooked))
    for line in ("rewards = torch.zeros(", "rewards[step] ="):
        assert line in kept and line not in plain
    assert "next_done = next_done.cpu().numpy()" in plain
    assert "next_done = next_done.cpu().numpy()" not in kept
    assert "+= new_clipfracs" not in kept
