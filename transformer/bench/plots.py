"""Plots of a benchmark. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer.bench.bench import Benchmark
from transformer.bench.show import as_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABELS = {"env_step": "environment", "rollout": "rest of the rollout", "unknown": "not known"}
_COLOURS = {
    "env_step": "#8c8c8c",
    "rollout": "#4c78a8",
    "gae": "#f2a541",
    "update": "#c44e52",
    "other": "#b8a9c9",
    "unknown": "#dddddd",
}


def draw(benchmark: Benchmark, path: Path) -> None:
    """Draw speeds, where the time goes, and steps over time, into a file whose extension gives its format.

    Raises:
        ImportError: matplotlib is not installed.
        OSError: the file cannot be written.
        ValueError: matplotlib does not know the format.
    """
    draw_json(as_json(benchmark), path)


def draw_json(benchmark: Mapping[str, Any], path: Path) -> None:
    """As `draw`, from a benchmark's JSON."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    measured = [r for r in benchmark["results"] if r["status"] == "measured"]
    figure, (speeds, phases, progress) = pyplot.subplots(1, 3, figsize=(15, 1.6 + 0.55 * max(4, len(measured))))
    _speeds(speeds, measured)
    _plot_phases(phases, measured)
    _progress(progress, measured)
    figure.suptitle(f"{benchmark['script']} on {benchmark['cuda'] or benchmark['machine']['processor']}", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _speeds(axes: Axes, measured: Sequence[Mapping[str, Any]]) -> None:
    for i, result in enumerate(measured):
        speed = result["steps_per_second"]
        below, above = speed["median"] - speed["low"], speed["high"] - speed["median"]
        axes.barh(i, speed["median"], xerr=[[below], [above]], color=f"C{i}", capsize=3)
        axes.text(0, i, f" {result['ratio']['median']:.2f}x", va="center", fontsize=9, color="white")
    _label_rows(axes, measured)
    axes.set_xlabel("environment steps per second (line: 95% interval of the median)")


def _plot_phases(axes: Axes, measured: Sequence[Mapping[str, Any]]) -> None:
    for i, result in enumerate(measured):
        left = 0.0
        for phase, width in _disjoint_parts(result).items():
            axes.barh(i, 1e6 * width, left=1e6 * left, color=_COLOURS[phase], label=_LABELS.get(phase, phase))
            left += width
    _label_rows(axes, measured)
    axes.set_xlabel("microseconds per environment step")
    handles = {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    axes.legend(handles.values(), handles, fontsize=7, ncols=6, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def _disjoint_parts(result: Mapping[str, Any]) -> dict[str, float]:
    """Seconds per step of disjoint parts, in the order of an iteration; the unknown part is last."""
    split = result["seconds_per_step"]
    if "rollout" not in split:
        whole = 1 / result["steps_per_second"]["median"]
        return {"env_step": split["env_step"], "unknown": whole - split["env_step"]}
    parts = {**split, "rollout": split["rollout"] - split["env_step"]}
    parts.pop("products", None)  # the other parts include them
    return parts


def _progress(axes: Axes, measured: Sequence[Mapping[str, Any]]) -> None:
    """Steps over time according to the medians: flat during the warm-up, then a straight line."""
    ends = [r["break_even"]["seconds"] for r in measured if r.get("break_even")]
    until = 1.5 * max([*ends, *(r["warmup_seconds"]["median"] for r in measured), 1.0])
    for i, result in enumerate(measured):
        warmup, speed = result["warmup_seconds"]["median"], result["steps_per_second"]["median"]
        axes.plot([0, warmup, until], [0, 0, max(0.0, until - warmup) * speed], color=f"C{i}", label=result["name"])
        if result["break_even"]:
            axes.plot(result["break_even"]["seconds"], result["break_even"]["steps"], "o", color=f"C{i}")
    axes.set_xlabel("seconds since the start (dot: has paid off)")
    axes.set_ylabel("environment steps done")
    axes.legend(fontsize=8)


def _label_rows(axes: Axes, measured: Sequence[Mapping[str, Any]]) -> None:
    axes.set_yticks(range(len(measured)), [r["name"] for r in measured])
    axes.invert_yaxis()
