"""Plots of a verification. Needs matplotlib."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from transformer.verify.bits import differing, distances
from transformer.verify.lockstep import Lockstep
from transformer.verify.names import FLAGS_OFF, FLAGS_ON
from transformer.verify.recording import OptimizerStep, Recording
from transformer.verify.tolerances import tolerance
from transformer.verify.verify import Verification

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = 3
_SUFFIXES = {FLAGS_OFF: "", FLAGS_ON: f"-{FLAGS_ON}"}
"""Of the files of checks that are compared with the original, as the report has it, bit by bit."""
_FLOOR = 1e-12
"""Where zero is drawn on a logarithmic axis."""


def write_report(verification: Verification, folder: Path) -> list[Path]:
    """Draw what can be drawn of a verification into `folder`, which is made; returns the files written.

    `scalars.png`: every logged scalar of both runs over each other. `parameters.png`: the largest difference of a
    parameter after each optimizer step. The same with `-flags-on`, with the flags on. `lockstep-*.png`: the error of
    each function by call, for each check.

    Raises:
        ImportError: matplotlib is not installed.
        OSError: the folder cannot be made or written to.
    """
    import matplotlib

    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for check in verification.checks:
        if check.recording is not None and check.name in _SUFFIXES:
            suffix = _SUFFIXES[check.name]
            if verification.original.scalars:
                path = folder / f"scalars{suffix}.png"
                written.append(_draw_scalars(verification.original, check.recording, path))
            path = folder / f"parameters{suffix}.png"
            written.append(_draw_parameters(verification.original, check.recording, path))
        if check.lockstep is not None:
            path = folder / f"lockstep-{check.name}.png"
            written.append(_draw_lockstep(f"{check.name} ({check.status.upper()})", check.lockstep, path))
    return written


def parameter_distances(left: Recording, right: Recording) -> list[float | None]:
    """The largest difference of any parameter after each optimizer step; None where its values were not kept."""
    return [_step_distance(a, b) for a, b in zip(left.steps, right.steps, strict=False)]


def _step_distance(a: OptimizerStep, b: OptimizerStep) -> float | None:
    largest = 0.0
    for name in (n for n in a.tensors if n in b.tensors and ": " not in n):
        x, y = a.tensors[name], b.tensors[name]
        if x.digest == y.digest:
            continue
        if x.values is None or y.values is None or x.values.shape != y.values.shape:
            return None
        different = differing(x.values, y.values)
        largest = max(largest, distances(x.values[different], y.values[different]) if different.any() else 0.0)
    return largest


def _draw_scalars(original: Recording, converted: Recording, path: Path) -> Path:
    from matplotlib import pyplot

    ours, theirs = _curves(original), _curves(converted)
    tags = list({**ours, **theirs})
    rows = math.ceil(len(tags) / _COLUMNS)
    figure, grid = pyplot.subplots(rows, _COLUMNS, figsize=(4 * _COLUMNS, 2.6 * rows), squeeze=False)
    for axes, tag in zip(grid.flat, tags, strict=False):
        axes.plot(*_points(ours, tag), color="tab:blue", linewidth=3, alpha=0.5, marker="o", label="original")
        axes.plot(*_points(theirs, tag), color="tab:red", linewidth=1, marker=".", label="converted")
        axes.set_title(tag, fontsize=9)
    for axes in grid.flat[len(tags) :]:
        axes.set_axis_off()
    grid.flat[0].legend(fontsize=8)
    return _save(figure, path)


def _draw_parameters(original: Recording, converted: Recording, path: Path) -> Path:
    from matplotlib import pyplot

    distances_by_step = parameter_distances(original, converted)
    points = [(i, max(d, _FLOOR)) for i, d in enumerate(distances_by_step, start=1) if d is not None]
    figure, axes = pyplot.subplots(figsize=(7, 4))
    axes.plot(*zip(*points, strict=True) if points else ([], []), marker=".")
    equal = sum(d == 0 for d in distances_by_step)
    axes.set_title(f"{equal} of {len(distances_by_step)} optimizer steps left equal parameters (drawn at {_FLOOR:g})")
    axes.set_xlabel("optimizer step")
    axes.set_ylabel("largest difference of a parameter")
    axes.set_yscale("log")
    return _save(figure, path)


def _draw_lockstep(name: str, lockstep: Lockstep, path: Path) -> Path:
    from matplotlib import pyplot

    functions = [f.name for f in lockstep.functions]
    figure, grid = pyplot.subplots(len(functions), 1, figsize=(8, 3 * len(functions)), squeeze=False)
    for axes, function in zip(grid.flat, functions, strict=True):
        _draw_function(axes, lockstep, function)
    figure.suptitle(f"{name}: relative error against the eager function, by call")
    return _save(figure, path)


def _draw_function(axes: Axes, lockstep: Lockstep, function: str) -> None:
    worst: defaultdict[str, dict[int, float]] = defaultdict(dict)
    allowed: dict[str, float] = {}
    for error in lockstep.errors:
        if error.function == function and tolerance(error):
            calls = worst[error.kind]
            calls[error.call] = max(calls.get(error.call, 0.0), error.relative)
            allowed[error.kind] = max(allowed.get(error.kind, 0.0), tolerance(error))
    for i, (kind, calls) in enumerate(worst.items()):
        axes.plot(list(calls), [max(e, _FLOOR) for e in calls.values()], marker=".", color=f"C{i}", label=kind)
        axes.axhline(allowed[kind], linestyle="--", color=f"C{i}", linewidth=1)
    axes.set_title(function, fontsize=10)
    axes.set_yscale("log")
    if worst:
        axes.legend(fontsize=8, title="dashed: allowed", title_fontsize=8)


def _curves(recording: Recording) -> Mapping[str, list[tuple[int, float]]]:
    curves: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for scalar in recording.scalars:
        points = curves[scalar.tag]
        points.append((len(points) if scalar.step is None else scalar.step, scalar.value))
    return curves


def _points(curves: Mapping[str, list[tuple[int, float]]], tag: str) -> Iterable[list[float]]:
    points = curves.get(tag, [])
    return [[x for x, _ in points], [y for _, y in points]]


def _save(figure: Figure, path: Path) -> Path:
    from matplotlib import pyplot

    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return path
