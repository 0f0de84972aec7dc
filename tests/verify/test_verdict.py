"""The last lines of a verification: how far it went, the shared shuffles, what was not exercised."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from transformer.verify import Recording
from transformer.verify.checks import Check
from transformer.verify.lockstep import Function, Lockstep
from transformer.verify.names import CHECKS
from transformer.verify.show import print_verdict
from transformer.verify.verify import Verification

REACHED = ("flags-off", "flags-on", "flags-on-other-arguments", "compiled", "cuda-graphs", "compiled-cuda-graphs")


def printed(verification: Verification, **told: bool) -> list[str]:
    text = io.StringIO()
    print_verdict(verification, Console(file=text, width=200), **told)
    return text.getvalue().splitlines()


def checks(*names: str, **statuses: str) -> tuple[Check, ...]:
    return tuple(Check(name, statuses.get(name.replace("-", "_"), "equal"), reason="it cannot") for name in names)


@pytest.mark.parametrize(
    ("reached", "said"),
    [
        (1, "EQUAL up to flags off."),
        (2, "EQUAL up to flags on, not compiled."),
        (3, "EQUAL up to other arguments."),
        (4, "EQUAL up to compiled."),
        (5, "EQUAL up to CUDA graphs."),
        (6, "EQUAL."),
    ],
)
def test_how_far_it_went(toy_recording: Recording, reached: int, said: str) -> None:
    recording = replace(toy_recording, steps=())
    assert printed(Verification(checks(*REACHED[:reached]), recording, ()))[-1].startswith(f"{said}   ")


def test_a_compiled_function_that_never_ran_is_in_the_verdict(toy_recording: Recording) -> None:
    recording = replace(toy_recording, steps=())
    lockstep = Lockstep((Function("update", 4, 2), Function("update_targets", 0, 0)), (), (), 2, 0.0)
    compiled = replace(Check("compiled", "equal"), lockstep=lockstep)
    last = printed(Verification((*checks(*REACHED[:3]), compiled), recording, ()))[-1]
    assert last.startswith("EQUAL up to compiled. Not compared: update_targets(), which never ran.   ")


def test_checks_that_could_not_run(toy_recording: Recording) -> None:
    recording = replace(toy_recording, steps=())
    graphs = {f"{name.replace('-', '_')}": "emulated" for name in CHECKS if "cuda" in name}
    emulated = Verification(checks(*CHECKS, **graphs), recording, ())
    assert printed(emulated)[-1].startswith("EQUAL on all that can run here; CUDA graphs need a GPU.   ")
    left = Verification(checks(*CHECKS, compiled="not run"), recording, ())
    assert printed(left)[-1].startswith("EQUAL on all that could run.   ")
    stopped = Verification(checks("flags-off", "flags-on", flags_on="not run"), recording, ())
    assert printed(stopped)[-1].startswith("EQUAL up to flags off.   ")


@pytest.mark.parametrize("others", [False, True])
def test_shared_shuffles(toy_recording: Recording, others: bool) -> None:
    last = printed(Verification(checks(*CHECKS), toy_recording, (), other_shuffles=others))[-1]
    assert ("EQUAL. Not compared: how the new script shuffles by itself.   " in last) == others


@pytest.mark.parametrize("stepwise", [False, True])
def test_the_unit_that_is_counted(toy_recording: Recording, stepwise: bool) -> None:
    failed = checks(*CHECKS, compiled="different")
    title, other = f"{toy_recording.iterations} updates", f"{toy_recording.iterations} iterations"
    lines = [line.strip() for line in printed(Verification(failed, toy_recording, (), stepwise=stepwise))]
    assert (title in lines, other in lines) == (stepwise, not stepwise)


@pytest.mark.parametrize("places", [1, 3, 5])
def test_branches_not_exercised(toy_recording: Recording, places: int) -> None:
    sentences = tuple(f"line {n}: if x{n} was never true" for n in range(places))
    verification = Verification(checks(*CHECKS), toy_recording, (), not_exercised=sentences)
    lines = printed(verification)
    assert [line for line in lines if "never" in line] == [f"not exercised: {s}" for s in sentences[:3]]
    assert any("and 2 more places: -v shows them" in line for line in lines) == (places > 3)
    end = "EQUAL. Not compared: what was not exercised."
    assert lines[-1].startswith(end)
    exercised = [line for line in printed(verification, all_was_told=True) if "exercised" in line]
    assert len(exercised) == 1
    assert exercised[0].startswith(end)
    different = replace(verification, checks=checks(*CHECKS, compiled="different"))
    assert not [line for line in printed(different) if "exercised" in line]


def test_a_script_that_logs_nothing(toy_recording: Recording) -> None:
    silent = Verification(checks(*CHECKS), toy_recording, (), unlogged="line 3 logs where ...")
    assert printed(silent)[-2].endswith("runs, so logs were not compared; line 3 logs where ...")
    assert not [line for line in printed(Verification(checks(*CHECKS), toy_recording, ())) if "nothing was" in line]


def test_a_converted_script_that_fails_ends_with_that_verdict(toy_recording: Recording) -> None:
    lines = printed(Verification(checks(*CHECKS[:3], flags_on="failed"), toy_recording, ()))
    assert lines[-1].startswith("FAILED: flags on, not compiled")
    assert "it cannot" in lines
