"""A compiled run's log of the first iteration equals the original's, except for values that tell the time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from transformer.verify import Recording
from transformer.verify.first_iteration import compare_first_log
from transformer.verify.recording import Action, Log, Moment, Print, Scalar

FIRST, LATER = Moment(4, 2), Moment(5, 2)


def log(loss: float = 1.0, line: str = "update 0: loss 1.0", speed: float = 8.0, later: float = 1.0) -> Log:
    """A log whose speed depends on the clock."""
    scalars = (
        Scalar(FIRST, "loss", 8, loss),
        Scalar(FIRST, "speed", 8, speed),
        Scalar(FIRST, "nothing", 8, float("nan")),
        Scalar(LATER, "loss", 16, later),
    )
    return Log(scalars, (Print(FIRST, line), Print(FIRST, f"SPS: {speed:.0f}")), ())


@pytest.fixture
def original(toy_recording: Recording) -> Recording:
    return replace(toy_recording, scalars=log().scalars, prints=log().prints)


@pytest.fixture
def other_clock(original: Recording) -> Recording:
    slow = log(speed=2.0)
    return replace(original, scalars=slow.scalars, prints=slow.prints)


@pytest.mark.parametrize(
    ("changed", "findings"),
    [
        (log(), []),
        (log(speed=100.0), []),
        (log(later=7.0), []),
        (log(loss=1.0001, line="update 0: loss 1.0001"), []),
        (log(loss=1.01), ["scalar loss in the first iteration: 1.0 became 1.01, 0.01 away, more than 0.001"]),
        (log(loss=float("nan")), ["scalar loss in the first iteration: 1.0 became nan, inf away, more than 0.001"]),
        (log(line="update 0: loss 2.0"), ["printed line 1 in the first iteration: "]),
        (log(line="update 0: gain 1.0"), ["printed line 1 in the first iteration: "]),
        (replace(log(), scalars=log().scalars[1:]), ["scalar loss in the first iteration: logged became nothing"]),
        (replace(log(), prints=()), ["printed line 1 in the first iteration", "printed line 2 in the first"]),
    ],
)
def test_findings(original: Recording, other_clock: Recording, changed: Log, findings: list[str]) -> None:
    found = compare_first_log(original, other_clock, replace(changed, actions=original.actions[:4]))
    assert len(found.findings) == len(findings)
    assert all(a.startswith(b) for a, b in zip(found.findings, findings, strict=True)), found.findings


def test_a_rollout_that_rounding_changed_is_not_compared(original: Recording, other_clock: Recording) -> None:
    actions = list(original.actions[:4])
    assert actions[2].arrays[0] is not None
    actions[2] = Action(actions[2].moment, (1 - actions[2].arrays[0],))
    found = compare_first_log(original, other_clock, replace(log(loss=7.0), actions=tuple(actions)))
    assert (found.flipped, found.values, found.findings) == ("action 2", 0, ())
    lost = replace(actions[2], arrays=(np.zeros(3),))
    assert compare_first_log(original, other_clock, replace(log(), actions=(lost,))).flipped == "action 0"
