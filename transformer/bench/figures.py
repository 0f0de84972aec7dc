"""The figures of a benchmark: medians and intervals over turns and rounds, and when the extra warm-up pays off."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from transformer.bench.break_even import BreakEven, break_even
from transformer.bench.measure import Measurement

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Spread:
    """The distribution of one figure over the turns, or over the rounds."""

    median: float
    low: float
    high: float
    """The true median is between `low` and `high` with probability CONFIDENCE; see :func:`spread`."""


@dataclass(frozen=True)
class Function:
    """What torch.compile did with one function, in the round in which it compiled the function most often."""

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
    """Steps per second divided by the original's in the same turn."""
    warmup_seconds: Spread
    seconds_per_step: Mapping[str, float]
    """Medians of the seconds in each phase and in `env_step`. If the phases are not known, only in `env_step`."""
    peak_mib: Mapping[str, float]
    """Peak memory, the largest of all rounds."""
    functions: Mapping[str, Function]
    break_even: BreakEven | None
    """None if the contender never overtakes the original, and for the original itself."""
    clear: bool
    """Whether the contender's speed differs from the original's by more than the measurement's noise."""


def figures(
    measurements: Sequence[Measurement],
    originals: Sequence[Measurement],
    timed: Sequence[Measurement],
    *,
    is_original: bool = False,
) -> Figures:
    """The figures of a contender.

    They are computed from its rounds, from the original's rounds in the same order, and, for the phases, from `timed`:
    its rounds, or separate runs that waited for the GPU.
    """
    ratio = spread(
        [
            o / m
            for ours, theirs in zip(measurements, originals, strict=True)
            for m, o in zip(ours.turns, theirs.turns, strict=False)
        ]
    )
    return Figures(
        steps_per_second=spread([1 / turn for m in measurements for turn in m.turns]),
        ratio=ratio,
        warmup_seconds=spread([m.warmup_seconds for m in measurements]),
        seconds_per_step=_medians([m.split for m in timed]),
        peak_mib=_largest([m.memory for m in measurements]),
        functions=_by_function(measurements),
        break_even=None if is_original else _break_even(measurements, originals),
        clear=ratio.low > 1 or ratio.high < 1,
    )


def spread(values: Sequence[float]) -> Spread:
    """The median, and the narrowest interval of order statistics that contains the true median with 95% probability.

    Fewer than k of n values are below the true median with the probability that a coin shows heads fewer than k times
    out of n. With fewer than six values no interval reaches 95%, and the range of all values is returned.
    """
    ordered, n = sorted(values), len(values)
    outside, below = 0, 0.0
    while 2 * (below := below + math.comb(n, outside) / 2**n) <= 1 - CONFIDENCE:
        outside += 1
    cut = max(outside - 1, 0)
    return Spread(statistics.median(ordered), ordered[cut], ordered[n - 1 - cut])


def _break_even(ours: Sequence[Measurement], theirs: Sequence[Measurement]) -> BreakEven | None:
    def medians(measurements: Sequence[Measurement]) -> tuple[float, float]:
        warmup = statistics.median(m.warmup_seconds for m in measurements)
        return warmup, statistics.median(m.seconds_per_step for m in measurements)

    return break_even(*medians(ours), *medians(theirs))


def _medians(splits: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: statistics.median(s[name] for s in splits) for name in splits[0]} if splits else {}


def _largest(memories: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: max(m[name] for m in memories if name in m) for memory in memories for name in memory}


def _by_function(measurements: Sequence[Measurement]) -> dict[str, Function]:
    found: dict[str, Function] = {}
    for measurement in measurements:
        for name, figures in measurement.compiled["functions"].items():
            one = Function(**figures)
            if name not in found or one.compilations > found[name].compilations:
                found[name] = one
    return found
