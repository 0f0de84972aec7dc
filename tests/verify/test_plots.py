"""The plots of a verification."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import golden
import gymnasium
import pytest

from transformer.verify import Recording, plots
from transformer.verify.call_error import CallError
from transformer.verify.checks import lockstep_check, recorded_check
from transformer.verify.lockstep import Function, Lockstep
from transformer.verify.plots import parameter_distances, write_report
from transformer.verify.recording import Moment, Scalar, Tensor
from transformer.verify.run import Run
from transformer.verify.verify import Task, Verification, verify


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


LOGGED = (
    Scalar(Moment(4, 2), "loss", 8, 1.0),
    Scalar(Moment(4, 2), "loss", None, float("nan")),
    Scalar(Moment(4, 2), "charts/SPS", 8, 125.0),
    Scalar(Moment(4, 2), "variance", 8, float("nan")),
)
ERROR = CallError("policy", 3, True, "output", "output[0]", "float32", 8, 1e-6, 1e-7)


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[tuple[str, str, str]]]:
    """Title and axis labels of each panel drawn, by the file's name."""
    pytest.importorskip("matplotlib")
    drawn: dict[str, list[tuple[str, str, str]]] = {}
    save = plots._save

    def keep(figure: Any, path: Path) -> Path:
        drawn[path.name] = [(a.get_title(), a.get_xlabel(), a.get_ylabel()) for a in figure.axes if a.lines]
        assert len(drawn[path.name]) == len(figure.axes)  # no panel is empty
        assert all(len(line.get_xdata()) for axes in figure.axes for line in axes.lines)
        return save(figure, path)

    monkeypatch.setattr(plots, "_save", keep)
    return drawn


Figures = dict[str, list[tuple[str, str, str]]]


@pytest.mark.slow
def test_every_plot_is_written(toy_recording: Recording, moved: Recording, tmp_path: Path, figures: Figures) -> None:
    original = dataclasses.replace(toy_recording, scalars=LOGGED)
    converted = dataclasses.replace(moved, scalars=LOGGED)
    lockstep = Lockstep((Function("policy", 3, 2), Function("gae", 3, 2)), (ERROR,), (), 1, 1.0)
    checks = recorded_check("flags-off", original, converted, ()), lockstep_check("compiled-cuda-graphs", lockstep)
    timed = frozenset({"charts/SPS"})
    written = write_report(Verification(checks, original, (), timed=timed), tmp_path / "new" / "report")
    assert [p.name for p in written] == ["scalars.png", "parameters.png", "lockstep-compiled-cuda-graphs.png"]
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in written)
    assert [title for title, _, _ in figures["scalars.png"]] == ["loss"]
    assert [title for title, _, _ in figures["lockstep-compiled-cuda-graphs.png"]] == ["policy()"]
    assert all(x and y for panels in figures.values() for _, x, y in panels)


def test_equal_plots_are_drawn_once(
    toy_recording: Recording, moved: Recording, tmp_path: Path, figures: Figures
) -> None:
    original = dataclasses.replace(toy_recording, scalars=LOGGED)
    checks = tuple(recorded_check(name, original, original, ()) for name in ("flags-off", "flags-on"))
    written = write_report(Verification(checks, original, ()), tmp_path)
    assert [p.name for p in written] == ["scalars.png"]  # no parameter differs
    other = dataclasses.replace(moved, scalars=LOGGED)
    checks = checks[0], recorded_check("flags-on", original, other, ())
    written = write_report(Verification(checks, original, ()), tmp_path)
    assert [p.name for p in written] == ["scalars.png", "scalars-flags-on.png", "parameters-flags-on.png"]


@pytest.mark.skipif(not gymnasium.__version__.startswith("0."), reason="the fixture is for gymnasium 0.29")
def test_plots_that_depend_on_the_clock() -> None:
    fixture = golden.FIXTURES / "gymnasium_continuous.py"
    given = tuple("--total-timesteps 256 --num-envs 2 --num-steps 128 --num-minibatches 4 --update-epochs 1".split())
    task = Task(Run(fixture, given), fixture.read_text(), up_to="flags-off", other_arguments=False, find_timed=True)
    assert verify(task).timed == {"train/SPS"}
