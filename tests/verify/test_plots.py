"""The plots of a verification."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from transformer.verify import Recording
from transformer.verify.call_error import CallError
from transformer.verify.checks import lockstep_check, recorded_check
from transformer.verify.lockstep import Function, Lockstep
from transformer.verify.plots import parameter_distances, write_report
from transformer.verify.recording import Moment, Scalar, Tensor
from transformer.verify.verify import Verification


@pytest.fixture
def moved(toy_recording: Recording) -> Recording:
    """The toy's recording with one weight off by 0.5 after the third optimizer step."""
    step = toy_recording.steps[2]
    weight = step.tensors["Agent.actor.weight"].values
    assert weight is not None
    other = weight.copy()
    other[0, 0] += 0.5
    changed = dataclasses.replace(
        step, tensors={**step.tensors, "Agent.actor.weight": Tensor("other", other, other.size)}
    )
    return dataclasses.replace(toy_recording, steps=(*toy_recording.steps[:2], changed, toy_recording.steps[3]))


def test_parameter_distances(toy_recording: Recording, moved: Recording) -> None:
    assert parameter_distances(toy_recording, moved) == [0.0, 0.0, pytest.approx(0.5), 0.0]
    lost = Tensor("lost", None, 2)
    gone = dataclasses.replace(moved.steps[2], tensors={**moved.steps[2].tensors, "Agent.actor.weight": lost})
    assert parameter_distances(toy_recording, dataclasses.replace(moved, steps=(gone,))) == [None]


def test_every_plot_is_written(toy_recording: Recording, moved: Recording, tmp_path: Path) -> None:
    logged = (Scalar(Moment(4, 2), "loss", 8, 1.0), Scalar(Moment(4, 2), "loss", None, float("nan")))
    original = dataclasses.replace(toy_recording, scalars=logged)
    error = CallError("policy", 3, True, "output", "output[0]", "float32", 8, 1e-6, 1e-7)
    lockstep = Lockstep((Function("policy", 3, 2), Function("gae", 3, 2)), (error,), (), 1, 1.0)
    checks = recorded_check("flags-off", original, moved, ()), lockstep_check("compiled-cuda-graphs", lockstep)
    written = write_report(Verification(checks, original, ()), tmp_path / "new" / "report")
    assert [p.name for p in written] == ["scalars.png", "parameters.png", "lockstep-compiled-cuda-graphs.png"]
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in written)
