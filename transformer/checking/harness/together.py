"""Compares an evaluation of all of a rollout's rows in one call with one of single steps.

Under --compile, a converted script may leave values and log-probabilities to one call after the rollout. That a
step's rows are the same in it as by themselves was concluded from the network's code; here it is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from .errors import SMALL, Error, errors
from .journal import Journal
from .state import random_states, set_random_states
from .trees import map_tensors

FIRST = 3
"""So many evaluations are compared, and each so-manieth one after that."""


class Together:
    """The hook of calls `f(torch.cat([...]), x=torch.cat([...]))`, whose lists it is given."""

    def __init__(self, journal: Journal, every: int) -> None:
        self._journal = journal
        self._every = every
        self._calls: dict[str, int] = {}

    def replace(self, function: Any) -> Any:
        """The function to call with lists of steps in the place of whole batches."""
        name = f"{getattr(function, '__name__', type(function).__name__)} of all steps"

        def call(*args: Sequence[torch.Tensor], **kwargs: Sequence[torch.Tensor]) -> Any:
            result = function(*map(torch.cat, args), **{k: torch.cat(v) for k, v in kwargs.items()})
            calls = self._calls[name] = self._calls.get(name, 0) + 1
            if calls <= FIRST or calls % self._every == 0:
                for error in _apart(function, result, args, kwargs):
                    self._journal.add("calls", name, calls, True, "output", *error)
            return result

        return call

    def finish(self) -> None:
        """Write down how often each function was called."""
        for name, calls in self._calls.items():
            self._journal.add("functions", name, calls, calls)


def _apart(
    function: Callable[..., Any], result: Any, args: Sequence[Sequence[torch.Tensor]], kwargs: Any
) -> Iterator[Error]:
    """How far the rows of the first and of the last step are from what the function returns for them alone."""
    steps = next(iter((*args, *kwargs.values())))
    ends = ((0, slice(len(steps[0]))), (-1, slice(-len(steps[-1]), None)))
    for i, rows in ends[: len(steps)]:
        before = random_states()
        try:
            expected = function(*(a[i] for a in args), **{k: v[i] for k, v in kwargs.items()})
        finally:
            set_random_states(before)
        ours = map_tensors(lambda t, r=rows: t[r] if t.dim() else t, result)  # type: ignore[misc]
        yield from errors(ours, expected, "output", small=SMALL)
