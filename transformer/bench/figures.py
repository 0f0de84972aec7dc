"""The figures of a benchmark: medians and spreads over its turns and rounds, and when the speed pays off."""

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
    """One figure over the turns, or over the rounds."""

    median: float
    low: float
    high: float
    """Between `low` and `high` the true median lies, with the probability CONFIDENCE; see :func:`spread`."""


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
    """Steps per second by those of the original in the same turn."""
    warmup_seconds: Spread
    seconds_per_step: Mapping[str, float]
    """By phase, and `env_step`: medians. Of `rollout`, `gae`, `update` and `other` none where they are not known."""
    peak_mib: Mapping[str, float]
    """The largest of all rounds."""
    functions: Mapping[str, Function]
    break_even: BreakEven | None
    """None where it never overtakes the original, and for the original itself."""
    clear: bool
    """Whether the turns tell its speed from the original's."""


def figures(
    measurements: Sequence[Measurement],
    originals: Sequence[Measurement],
    timed: Sequence[Measurement],
    *,
    is_original: bool = False,
) -> Figures:
    """The figures of a contender from its rounds, those of the original in the same order, and those whose phases
    count: its rounds, or other runs of it in which the GPU was waited for."""
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
        functions=_functions(measurements),
        break_even=None if is_original else _break_even(measurements, originals),
        clear=ratio.low > 1 or ratio.high < 1,
    )


def spread(values: Sequence[float]) -> Spread:
    """The median, and the narrowest interval of order statistics that holds the true one with 95% probability.

    Of n values on either side of the median by chance, fewer than k lie below it with the probability that a coin
    falls on heads fewer than k times of n. Below six values, no such interval is wide enough: then it is all of them.
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


def _functions(measurements: Sequence[Measurement]) -> dict[str, Function]:
    found: dict[str, Function] = {}
    for measurement in measurements:
        for name, figures in measurement.compiled["functions"].items():
            one = Function(**figures)
            if name not in found or one.compilations > found[name].compilations:
                found[name] = one
    return found
