"""Compares the logs of a compiled run's first iteration with those of the original.

In the first iteration rounding has hardly accumulated. Later, a single flipped action makes two runs diverge.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from transformer.verify.bits import same_number
from transformer.verify.compare import keyed
from transformer.verify.difference import LACKING
from transformer.verify.numpy_later import np
from transformer.verify.recording import Action, Log, Print, Recording, Scalar
from transformer.verify.tolerances import LOGGED, LOGGED_SMALL

OTHER_CLOCK = 1000
"""The rate of a second clock. Whatever the original logs differently with it depends on time and is not compared."""

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|\bnan\b|\binf\b)")

Pair = tuple[str, str, str, float]
"""The name of a quantity, both values, and their distance."""


@dataclass(frozen=True)
class LogComparison:
    """The result of comparing the log of one process."""

    values: int = 0
    error: float = 0.0
    """The largest relative difference."""
    where: str = ""
    findings: tuple[str, ...] = ()
    flipped: str = ""
    """Where rounding made the rollouts differ, so that nothing was compared; empty if they do not."""


def compare_first_log(original: Recording, other_clock: Recording, log: Log) -> LogComparison:
    """Compare numbers within :data:`LOGGED`, and everything else exactly.

    Args:
        original: the original's run.
        other_clock: its first iteration with another clock.
        log: the compiled run's log.
    """
    steps = original.steps[0].moment.env_steps
    flipped = _flipped(*([a for a in x.actions if a.moment.env_steps <= steps] for x in (original, log)))
    if flipped:
        return LogComparison(flipped=flipped)
    scalars = [keyed(s for s in x.scalars if s.moment.env_steps <= steps) for x in (original, other_clock, log)]
    prints = [[p for p in x.prints if p.moment.env_steps <= steps] for x in (original, other_clock, log)]
    pairs = [*_scalars(*scalars), *_prints(*prints)]
    where, _, _, error = max(pairs, key=lambda pair: pair[3], default=("", "", "", 0.0))
    findings = tuple(
        f"{what} in the first iteration: {a} became {b}, {apart:.3g} away, more than {LOGGED:.3g}"
        for what, a, b, apart in pairs
        if apart > LOGGED
    )
    return LogComparison(len(pairs), error, where if error else "", findings)


def _flipped(ours: Sequence[Action], theirs: Sequence[Action]) -> str:
    """The first action that differs by more than unaccumulated rounding."""
    for i, (a, b) in enumerate(zip_longest(ours, theirs)):
        if a is None or b is None or len(a.arrays) != len(b.arrays):
            return f"action {i}"
        for x, y in zip(a.arrays, b.arrays, strict=True):
            if x is None or y is None or x.shape != y.shape or not np.allclose(x, y, LOGGED, LOGGED):
                return f"action {i}"
            if x.dtype.kind != "f" and not np.array_equal(x, y):
                return f"action {i}"
    return ""


Keyed = dict[tuple[str, int | None, int], Scalar]


def _scalars(ours: Keyed, other: Keyed, theirs: Keyed) -> Iterator[Pair]:
    for key in {**ours, **theirs}:
        a, b, by_clock = ours.get(key), theirs.get(key), other.get(key)
        if a is None or b is None:
            yield f"scalar {key[0]}", _presence(a), _presence(b), math.inf
        elif by_clock is not None and same_number(a.value, by_clock.value):
            yield f"scalar {key[0]}", repr(a.value), repr(b.value), _relative_distance(a.value, b.value)


def _prints(ours: Sequence[Print], other: Sequence[Print], theirs: Sequence[Print]) -> Iterator[Pair]:
    for i, (a, by_clock, b) in enumerate(zip_longest(ours, other, theirs), start=1):
        if a is None or b is None:
            yield f"printed line {i}", _presence(a), _presence(b), math.inf
        elif by_clock is not None and by_clock.line == a.line:
            yield f"printed line {i}", repr(a.line), repr(b.line), _text_distance(a.line, b.line)


def _presence(entry: object | None) -> str:
    return LACKING if entry is None else "logged"


def _relative_distance(a: float, b: float) -> float:
    """|a - b| over |a|, with a lower bound on |a|."""
    if same_number(a, b):
        return 0.0
    return abs(a - b) / max(abs(a), LOGGED_SMALL) if math.isfinite(a) and math.isfinite(b) else math.inf


def _text_distance(a: str, b: str) -> float:
    """The largest relative distance between numbers in two lines; infinite if the text between the numbers differs."""
    if _NUMBER.split(a) != _NUMBER.split(b):
        return math.inf
    numbers = zip(_NUMBER.findall(a), _NUMBER.findall(b), strict=True)
    return max((_relative_distance(float(x), float(y)) for x, y in numbers), default=0.0)
