"""Plots of a verification. Needs matplotlib."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
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
_COMPARED = {FLAGS_OFF: "flags off", FLAGS_ON: "flags on"}
"""The checks that are compared with the original bit by bit, and their names in the plots."""
_FLOOR = 1e-12
"""The position of zero on a logarithmic axis."""


def write_report(verification: Verification, folder: Path) -> list[Path]:
    """Draw the plots of a verification into `folder`, which is created; returns the files written.

    `scalars.png`: every logged scalar that does not depend on time, of the original and the converted script.
    `parameters.png`: the largest difference of a parameter after each optimizer step, if there is any. Names of plots
    with the flags on end in `-flags-on`, if they differ from those without. `lockstep-*.png`: the error of each
    function by call, for each check.

    Raises:
        ImportError: matplotlib is not installed.
        OSError: the folder cannot be created or written to.
    """
    import matplotlib

    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    original = verification.original
    compared = {c.name: c.recording for c in verification.checks if c.recording is not None and c.name in _COMPARED}
    drawn: list[tuple[Recording, list[str]]] = []
    for name, recording in compared.items():
        same = next((names for other, names in drawn if _draws_the_same(original, other, recording)), None)
        if same is not None:
            same.append(name)
        else:
            drawn.append((recording, [name]))
    for recording, names in drawn:
        suffix = "" if FLAGS_OFF in names else f"-{names[0]}"
        label = f"converted, {' and '.join(_COMPARED[name] for name in names)}"
        written += _draw_scalars(original, recording, label, verification.timed, folder / f"scalars{suffix}.png")
        written += _draw_parameters(original, recording, label, folder / f"parameters{suffix}.png")
    for check in verification.checks:
        if check.lockstep is not None:
            title = f"{check.name} ({check.status.upper()})"
            written += _draw_lockstep(title, check.lockstep, folder / f"lockstep-{check.name}.png")
    return written


def _draws_the_same(original: Recording, one: Recording, other: Recording) -> bool:
    curves = repr(_curves(one)) == repr(_curves(other))  # as text, NaN equals NaN
    return curves and parameter_distances(original, one) == parameter_distances(original, other)


def parameter_distances(left: Recording, right: Recording) -> list[float | None]:
    """The largest difference of any parameter after each optimizer step; None if its values were not kept."""
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


def _draw_scalars(
    original: Recording, converted: Recording, label: str, timed: frozenset[str], path: Path
) -> list[Path]:
    from matplotlib import pyplot

    ours, theirs = _curves(original), _curves(converted)
    tags = [tag for tag in {**ours, **theirs} if tag not in timed and any(_points(c, tag)[1] for c in (ours, theirs))]
    if not tags:
        return []
    rows = math.ceil(len(tags) / _COLUMNS)
    figure, grid = pyplot.subplots(rows, _COLUMNS, figsize=(4 * _COLUMNS, 2.8 * rows), squeeze=False)
    for axes, tag in zip(grid.flat, tags, strict=False):
        axes.plot(*_points(ours, tag), color="tab:blue", linewidth=3, alpha=0.5, marker="o", label="original")
        axes.plot(*_points(theirs, tag), color="tab:red", linewidth=1, marker=".", label=label)
        axes.set_title(tag, fontsize=9)
        axes.set_xlabel("step that it was logged with", fontsize=8)
        axes.set_ylabel("value", fontsize=8)
    for axes in grid.flat[len(tags) :]:
        axes.remove()
    grid.flat[0].legend(fontsize=8)
    return [_save(figure, path)]


def _draw_parameters(original: Recording, converted: Recording, label: str, path: Path) -> list[Path]:
    from matplotlib import pyplot

    distances_by_step = parameter_distances(original, converted)
    points = [(i, d) for i, d in enumerate(distances_by_step, start=1) if d is not None]
    if not any(d for _, d in points):
        return []
    figure, axes = pyplot.subplots(figsize=(7, 4))
    axes.plot(*zip(*((i, max(d, _FLOOR)) for i, d in points), strict=True), marker=".", label=label)
    equal = sum(d == 0 for d in distances_by_step)
    axes.set_title(f"{equal} of {len(distances_by_step)} optimizer steps left equal parameters (drawn at {_FLOOR:g})")
    axes.set_xlabel("optimizer step")
    axes.set_ylabel("largest difference of a parameter")
    axes.set_yscale("log")
    axes.legend(fontsize=8)
    return [_save(figure, path)]


def _draw_lockstep(name: str, lockstep: Lockstep, path: Path) -> list[Path]:
    from matplotlib import pyplot

    compared = {error.function for error in lockstep.errors if tolerance(error)}
    functions = [f.name for f in lockstep.functions if f.name in compared]
    if not functions:
        return []
    figure, grid = pyplot.subplots(len(functions), 1, figsize=(8, 3 * len(functions)), squeeze=False)
    for axes, function in zip(grid.flat, functions, strict=True):
        _draw_function(axes, lockstep, function)
    figure.suptitle(f"{name}: relative error against the eager function, by call")
    return [_save(figure, path)]


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
    axes.set_title(f"{function}()", fontsize=10)
    axes.set_xlabel(f"call of {function}()", fontsize=8)
    axes.set_ylabel("relative error", fontsize=8)
    axes.set_yscale("log")
    axes.legend(fontsize=8, title="dashed: allowed", title_fontsize=8)


def _curves(recording: Recording) -> Mapping[str, list[tuple[int, float]]]:
    curves: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for scalar in recording.scalars:
        points = curves[scalar.tag]
        points.append((len(points) if scalar.step is None else scalar.step, scalar.value))
    return curves


def _points(curves: Mapping[str, list[tuple[int, float]]], tag: str) -> tuple[list[int], list[float]]:
    """The steps and values that can be drawn."""
    points = [(x, y) for x, y in curves.get(tag, []) if math.isfinite(y)]
    return [x for x, _ in points], [y for _, y in points]


def _save(figure: Figure, path: Path) -> Path:
    from matplotlib import pyplot

    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return path
