"""Definite assignment: which names are bound on every path."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence, Set

from transformer.dataflow.access import NONE, Names, access
from transformer.syntax.query import TRY, statements


class Assignment:
    """Definite assignment: finds the names that are bound on every path.

    Loops in `at_least_once` are assumed to run their body at least once. They are the rollout, epoch and minibatch
    loops: without an iteration of them, a run trains nothing, and the original fails too.
    """

    def __init__(self, at_least_once: Iterable[ast.stmt] = ()) -> None:
        self.before: dict[ast.stmt, Names] = {}
        self._once = set(at_least_once)
        self._jumps: list[list[Names]] = []

    def after(self, body: Sequence[ast.stmt], bound: Names = NONE) -> Names | None:
        """Names bound after a block; None if its end is unreachable."""
        current: Names | None = bound
        for stmt in body:
            if current is None:
                current = _EVERYTHING  # unreachable code counts as binding every name
            self.before[stmt] = self.before.get(stmt, current) & current
            current = self._statement(stmt, current)
        return current

    def _statement(self, stmt: ast.stmt, bound: Names) -> Names | None:
        own = access(stmt).binds
        if isinstance(stmt, ast.If):
            return _meet(self.after(stmt.body, bound | own), self.after(stmt.orelse, bound | own))
        if isinstance(stmt, (ast.For, ast.AsyncFor, ast.While)):
            self._jumps.append([])
            bound = bound - _deleted(stmt.body)  # in an earlier iteration
            end = self.after(stmt.body, bound | own)
            breaks = self._jumps.pop()
            ran = _meet(end, *breaks) if breaks else end
            if stmt in self._once:
                return ran
            forever = isinstance(stmt, ast.While) and isinstance(stmt.test, ast.Constant) and bool(stmt.test.value)
            none = self.after(stmt.orelse, bound)
            return _meet(*breaks) if forever else _meet(none, *breaks)
        if isinstance(stmt, (ast.With, ast.AsyncWith)):
            return self.after(stmt.body, bound | own)
        if isinstance(stmt, TRY):
            tried = self.after(stmt.body, bound)
            done = self.after(stmt.orelse, tried) if tried is not None else None
            caught = bound - _deleted(stmt.body)
            ends = [done, *(self.after(h.body, caught) for h in stmt.handlers)]
            met = _meet(*ends)
            self.after(stmt.finalbody, bound - _deleted([stmt]))  # after an exception, which propagates
            return self.after(stmt.finalbody, met) if met is not None else None
        if isinstance(stmt, ast.Match):
            return _meet(bound, *(self.after(c.body, bound) for c in stmt.cases))
        if isinstance(stmt, (ast.Break, ast.Continue)):
            if self._jumps:
                self._jumps[-1].append(bound)
            return None
        if isinstance(stmt, (ast.Return, ast.Raise)):
            return None
        if isinstance(stmt, ast.Delete):
            return bound - own
        return bound | own


def _deleted(body: Iterable[ast.stmt]) -> Names:
    """Names that `del` may have unbound when a block is left early."""
    return NONE.union(*(access(s).binds for s in statements(body) if isinstance(s, ast.Delete)))


class _Everything(frozenset[str]):
    """The top of the lattice: unreachable code has every name bound."""

    def __and__(self, other: Set[object]) -> Names:
        return self if other is self else frozenset(n for n in other if isinstance(n, str))

    def __or__(self, other: Set[object]) -> Names:
        return self

    def __sub__(self, other: Set[object]) -> Names:
        return self

    def __contains__(self, name: object) -> bool:
        return True


_EVERYTHING = _Everything()


def _meet(*ends: Names | None) -> Names | None:
    reached = [e for e in ends if e is not None]
    if not reached:
        return None
    first = reached[0]
    for other in reached[1:]:
        first = first & other if not isinstance(other, _Everything) else first
    return first
