"""Compares the evaluation of all of a rollout's rows in one call with evaluations of single steps.

Under --compile, a converted script may compute values and log-probabilities in one call after the rollout. The
conversion concluded from the network's code that each step's rows are the same as on their own; this measures it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from .errors import SMALL, Error, errors
from .journal import Journal
from .state import random_states, set_random_states
from .trees import map_tensors, named_tensors

FIRST = 3
"""The number of evaluations to compare before only every nth is compared."""

Steps = Sequence[torch.Tensor]


class Together:
    """The hook of calls `f(torch.cat([...]), x=torch.cat([...]))`; it receives the lists."""

    def __init__(self, journal: Journal, every: int, by_step: bool = False) -> None:
        """Compare every nth call; if `by_step`, pass the results of single steps on to the script."""
        self._journal = journal
        self._every = every
        self._by_step = by_step
        self._calls: dict[str, int] = {}

    def replace(self, function: Any) -> Any:
        """The function to call with lists of steps instead of whole batches."""
        name = f"{getattr(function, '__name__', type(function).__name__)} of all steps"

        def call(*args: Steps, **kwargs: Steps) -> Any:
            result = function(*map(torch.cat, args), **{k: torch.cat(v) for k, v in kwargs.items()})
            calls = self._calls[name] = self._calls.get(name, 0) + 1
            count = len(next(iter((*args, *kwargs.values()))))
            if self._by_step:
                chosen = list(range(count))
            elif calls <= FIRST or calls % self._every == 0:
                chosen = [0, count - 1][:count]
            else:
                return result
            expected = _single(function, chosen, args, kwargs)
            for error in _row_errors(result, expected, chosen, args, kwargs):
                self._journal.add("calls", name, calls, True, "output", *error)
            return _with_rows_of_steps(result, expected) if self._by_step else result

        return call

    def finish(self) -> None:
        """Record how often each function was called."""
        if self._by_step and self._calls:
            self._journal.add("regrouped", "evaluate-once")
        for name, calls in self._calls.items():
            self._journal.add("functions", name, calls, calls)


def _single(
    function: Callable[..., Any], chosen: Sequence[int], args: Sequence[Steps], kwargs: Mapping[str, Steps]
) -> list[Any]:
    """The function's results for each of these steps alone; generators are left unchanged."""
    before = random_states()
    try:
        return [function(*(a[i] for a in args), **{k: v[i] for k, v in kwargs.items()}) for i in chosen]
    finally:
        set_random_states(before)


def _row_errors(
    result: Any, expected: Sequence[Any], chosen: Sequence[int], args: Sequence[Steps], kwargs: Mapping[str, Steps]
) -> Iterator[Error]:
    """The largest distance between the rows of these steps and the function's results for them alone, by tensor."""
    sizes = [len(rows) for rows in next(iter((*args, *kwargs.values())))]
    worst: dict[str, Error] = {}
    for i, alone in zip(chosen, expected, strict=True):
        rows = slice(sum(sizes[:i]), sum(sizes[: i + 1]))
        ours = map_tensors(lambda t, r=rows: t[r] if t.dim() else t, result)  # type: ignore[misc]
        for error in errors(ours, alone, "output", small=SMALL):
            so_far = worst.setdefault(error.name, error)
            if so_far is not error:
                larger = max(so_far, error, key=lambda e: e.relative)
                worst[error.name] = larger._replace(values=so_far.values + error.values)
    yield from worst.values()


def _with_rows_of_steps(result: Any, expected: Sequence[Any]) -> Any:
    """A result of the same structure with the rows of single steps."""
    by_step = [[t for _, t in named_tensors(alone, "")] for alone in expected]
    whole = iter([torch.cat(rows) if rows[0].dim() else rows[0] for rows in zip(*by_step, strict=True)])
    return map_tensors(lambda _: next(whole), result)
