"""Records the outcomes in the training code: bounds that clipped, sides of maxima, values of conditions."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch

from .journal import Journal
from .sites import CALL, CONDITION, REACHED, Site, route_sites

_INPUT = ("input", "a", "self")
"""Keywords of the first operand, in torch and numpy."""


class Exercised:
    """Watches the sites of one script, without changing what it computes."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._sites: list[Site] = []
        self.hooks: dict[str, Any] = {CONDITION: self._note_truth, CALL: self._wrapped, REACHED: self._reached}

    def route(self, tree: ast.Module) -> None:
        """Route the sites of a script through the hooks."""
        self._sites = route_sites(tree)

    def finish(self) -> None:
        """Record each site and its outcomes."""
        for site in self._sites:
            fields = (site.kind, site.line, site.text, site.leaves, site.outcomes, sorted(site.seen))
            self._journal.add("sites", *fields, site.guard, site.amounts)

    def _note_truth(self, number: int, value: Any) -> bool:
        truth = bool(value)
        self._sites[number].seen.add("true" if truth else "false")
        return truth

    def _reached(self, number: int) -> None:
        self._sites[number].seen.add("taken")

    def _wrapped(self, number: int, function: Any) -> Any:
        """A wrapped function, or the function itself once all outcomes have been seen."""
        site = self._sites[number]
        site.seen.add("reached")
        if site.kind == "parts":
            return function if site.amounts else _watched(function, site, _parts)
        if site.seen.issuperset(site.outcomes) and site.kind != "norm":
            return function
        return _watched(function, site, _LOOK[site.kind])


_Operands = list[Any]
_Look = Callable[[Site, _Operands, dict[str, Any], Any], None]


def _watched(function: Any, site: Site, look: _Look) -> Any:
    """Wrap a function to look at its arguments and result."""

    def watched(*args: Any, **kwargs: Any) -> Any:
        if site.kind == "norm" and args and isinstance(args[0], Iterator):
            args = (list(args[0]), *args[1:])  # parameters() can be iterated only once
        operands: _Operands = []
        with _harmless():
            operands += [function.__self__] if site.method else []
            operands += args
            operands[:0] = [] if operands else [kwargs[key] for key in _INPUT if key in kwargs]
            if site.kind == "clip":  # may be in place
                operands[0] = torch.as_tensor(operands[0]).detach().clone()
            if "clip_value" in kwargs or function is torch.nn.utils.clip_grad_value_:
                look(site, operands, kwargs, _largest(operands[0]))
        result = function(*args, **kwargs)
        with _harmless():
            look(site, operands, kwargs, result)
        return result

    return watched


@contextmanager
def _harmless() -> Iterator[None]:
    """Inside the context, looking at operands (of any type) neither ends the run nor adds to the graph."""
    with suppress(Exception), torch.no_grad():
        yield


def _clip(site: Site, operands: _Operands, kwargs: dict[str, Any], result: Any) -> None:
    before, after = operands[0], torch.as_tensor(result)
    site.seen |= {"lower bound"} if bool((after > before).any()) else set()
    site.seen |= {"upper bound"} if bool((after < before).any()) else set()


def _choice(site: Site, operands: _Operands, kwargs: dict[str, Any], result: Any) -> None:
    if isinstance(result, tuple):  # the largest values along a dimension, and their indices
        site.outcomes = ()
        return
    best = torch.as_tensor(result)
    chosen = torch.stack(torch.broadcast_tensors(*(torch.as_tensor(x) == best for x in operands)))
    alone = chosen & (chosen.sum(0) == 1)
    site.seen |= {f"argument {i}" for i, taken in enumerate(alone, start=1) if bool(taken.any())}


def _where(site: Site, operands: _Operands, kwargs: dict[str, Any], result: Any) -> None:
    condition = torch.as_tensor(operands[1 if site.method else 0]).bool()
    site.seen |= {"true"} if bool(condition.any()) else set()
    site.seen |= {"false"} if bool((~condition).any()) else set()


def _largest(parameters: Iterable[torch.Tensor]) -> float:
    """The largest element of all gradients."""
    return max((float(p.grad.abs().max()) for p in parameters if p.grad is not None), default=0.0)


def _norm(site: Site, operands: _Operands, kwargs: dict[str, Any], result: Any) -> None:
    limit = operands[1] if len(operands) > 1 else next(kwargs[k] for k in ("max_norm", "clip_value") if k in kwargs)
    if result is None:  # gradients may be clipped one by one; then there is no norm, and they are already changed
        return
    norm, (least, largest) = float(result), site.amounts or (math.inf, 0.0)
    site.amounts = (min(least, norm), max(largest, norm))
    site.seen |= {"clipped"} if norm > limit else set()


def _parts(site: Site, operands: _Operands, kwargs: dict[str, Any], result: Any) -> None:
    if isinstance(result, range):
        length, size = result.stop - result.start, result.step
    elif isinstance(operands[0], torch.Tensor):
        length, size = len(operands[0]), int(operands[1])
    else:
        return
    site.amounts = (length, size) if length > 0 and size > 0 else None


_LOOK: dict[str, _Look] = {"clip": _clip, "choice": _choice, "where": _where, "norm": _norm}
