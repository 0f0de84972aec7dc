"""Chooses which parameters of a test run at every change, and which only in the slow tests."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

import pytest

T = TypeVar("T")


def slow_but_each(nth: int, values: Iterable[T], kind: Callable[[T], Hashable] = lambda value: None) -> list[object]:
    """Parameters of a test; in each kind, all are marked slow except the first and every n-th after it."""
    met: Counter[Hashable] = Counter()
    found: list[object] = []
    for value in values:
        found.append(pytest.param(value, marks=pytest.mark.slow if met[kind(value)] % nth else []))
        met[kind(value)] += 1
    return found
