"""The figures of a benchmark: medians and spreads over its rounds, and when the speed pays off."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from transformer.benching.measure import Measurement


@dataclass(frozen=True)
class Spread:
    """One figure over the rounds."""

    median: float
    least: float
    most: float

    def overlaps(self, other: Spread) -> bool:
        """Whether the two cannot be told apart: their ranges have something in common."""
        return self.least <= other.most and other.least <= self.most


@dataclass(frozen=True)
class BreakEven:
    """When a script that is slower to start has overtaken the original."""

    steps: float
    """Steps of all environments that both have done by then."""
    seconds: float
    """Since their start."""


@dataclass(frozen=True)
class Function:
    """What torch.compile did with one function, in the round where it did most."""

    compilations: int
    recompilations: int
    recompilations_after_burnin: int
    graph_breaks: int
    compile_seconds: float
    not_compiled: int


@dataclass(frozen=True)
class Figures:
    """The figures of one contender."""

    steps_per_second: Spread
    ratio: Spread
    """Steps per second by those of the original in the same round."""
    warmup_seconds: Spread
    seconds_per_step: Mapping[str, float]
    """By phase, and `env_step`: medians. Of `rollout`, `gae`, `update` and `other` none where they are not known."""
    peak_mib: Mapping[str, float]
    """The largest of all rounds."""
    functions: Mapping[str, Function]
    break_even: BreakEven | None
    """None where it never overtakes the original, and for the original itself."""
    clear: bool
    """Whether the rounds tell its speed from the original's."""


def figures(
    measurements: Sequence[Measurement],
    originals: Sequence[Measurement],
    timed: Sequence[Measurement],
    *,
    is_original: bool = False,
) -> Figures:
    """The figures of a contender from its rounds, those of the original in the same order, and those whose phases
    count: its rounds, or other runs of it in which the GPU was waited for."""
    speed = spread([1 / m.seconds_per_step for m in measurements])
    theirs = spread([1 / o.seconds_per_step for o in originals])
    ratios = [o.seconds_per_step / m.seconds_per_step for m, o in zip(measurements, originals, strict=True)]
    return Figures(
        steps_per_second=speed,
        ratio=spread(ratios),
        warmup_seconds=spread([m.warmup_seconds for m in measurements]),
        seconds_per_step=_medians([m.split for m in timed]),
        peak_mib=_largest([m.memory for m in measurements]),
        functions=_functions(measurements),
        break_even=None if is_original else _break_even(measurements, originals),
        clear=not speed.overlaps(theirs),
    )


def spread(values: Sequence[float]) -> Spread:
    """Median, least and largest value."""
    return Spread(statistics.median(values), min(values), max(values))


def break_even(warmup: float, per_step: float, other_warmup: float, other_per_step: float) -> BreakEven | None:
    """When a script that takes `warmup + n * per_step` seconds for n steps has done as many as another; None: never.

    The extra seconds of warm-up divided by the seconds saved per step. One that is faster and starts no later is
    ahead from the first step.
    """
    if per_step >= other_per_step:
        return None
    steps = max(0.0, (warmup - other_warmup) / (other_per_step - per_step))
    return BreakEven(steps, warmup + steps * per_step)


def _break_even(ours: Sequence[Measurement], theirs: Sequence[Measurement]) -> BreakEven | None:
    def medians(measurements: Sequence[Measurement]) -> tuple[float, float]:
        warmup = statistics.median(m.warmup_seconds for m in measurements)
        return warmup, statistics.median(m.seconds_per_step for m in measurements)

    return break_even(*medians(ours), *medians(theirs))


def _medians(splits: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: statistics.median(s[name] for s in splits) for name in splits[0]} if splits else {}


def _largest(memories: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: max(m[name] for m in memories if name in m) for memory in memories for name in memory}


def _functions(measurements: Sequence[Measurement]) -> dict[str, Function]:
    found: dict[str, Function] = {}
    for measurement in measurements:
        for name, figures in measurement.compiled["functions"].items():
            one = Function(**figures)
            if name not in found or one.compilations > found[name].compilations:
                found[name] = one
    return found
