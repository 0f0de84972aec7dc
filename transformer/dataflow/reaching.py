"""Which assignments of each name may reach a statement (reaching definitions), for all names of a scope in one pass."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from transformer.dataflow.access import access, block_names
from transformer.syntax.query import TRY, walk

Bindings: TypeAlias = frozenset[ast.stmt | None]
"""Statements that bind the name; None stands for a value from before the scope (a parameter, a global)."""
NOTHING: Bindings = frozenset()


@dataclass(frozen=True)
class Reached:
    """The bindings of every name at one place."""

    others: Bindings
    """Those of a name that is not among `named`."""
    named: Mapping[str, Bindings] = field(default_factory=dict)

    def of(self, name: str) -> Bindings:
        """The bindings of a name; none where the place cannot be reached."""
        return self.named.get(name, self.others)

    def bound(self, names: frozenset[str], stmt: ast.stmt) -> Reached:
        """After a statement has bound some names."""
        if not names:
            return self
        return Reached(self.others, {**self.named, **dict.fromkeys(names, frozenset({stmt}))})

    def __or__(self, other: Reached) -> Reached:
        if other is self or other == self:
            return self
        named = {name: self.of(name) | other.of(name) for name in {**self.named, **other.named}}
        return Reached(self.others | other.others, named)


NOWHERE = Reached(NOTHING)


class Reaching:
    """The assignments that reach each statement of a scope, before and after it."""

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        self._before: dict[ast.stmt, Reached] = {}
        self._after: dict[ast.stmt, Reached] = {}
        self._breaks: list[Reached] = []
        self._continues: list[Reached] = []
        self._block(body, Reached(frozenset({None})))

    def before(self, name: str, stmt: ast.stmt) -> Bindings:
        """The bindings of a name that may reach a statement; none where it is not of the scope."""
        return self._before.get(stmt, NOWHERE).of(name)

    def after(self, name: str, stmt: ast.stmt) -> Bindings:
        """The bindings of a name that there may be after a statement."""
        return self._after.get(stmt, NOWHERE).of(name)

    def _block(self, body: Sequence[ast.stmt], state: Reached) -> Reached:
        for stmt in body:
            self._before[stmt] = self._before.get(stmt, NOWHERE) | state
            state = self._statement(stmt, state)
            self._after[stmt] = self._after.get(stmt, NOWHERE) | state
        return state

    def _statement(self, stmt: ast.stmt, state: Reached) -> Reached:
        own = state.bound(access(stmt).binds, stmt)
        if isinstance(stmt, ast.If):
            return self._block(stmt.body, own) | self._block(stmt.orelse, own)
        if isinstance(stmt, (ast.For, ast.AsyncFor, ast.While)):
            return self._loop(stmt, state)
        if isinstance(stmt, (ast.With, ast.AsyncWith)):
            return self._block(stmt.body, own)
        if isinstance(stmt, TRY):
            tried = self._block(stmt.body, state)
            caught = state | tried | _anywhere(stmt.body)
            ends = self._block(stmt.orelse, tried)
            for handler in stmt.handlers:
                ends |= self._block(handler.body, caught)
            if stmt.finalbody:
                left = self._block(stmt.finalbody, caught | _anywhere([*stmt.handlers, *stmt.orelse]))
                for jumps in (self._breaks, self._continues):
                    jumps[-1:] = [jump | left for jump in jumps[-1:]]
            return self._block(stmt.finalbody, ends)
        if isinstance(stmt, ast.Match):
            ends = state
            for case in stmt.cases:
                ends |= self._block(case.body, state | Reached(frozenset({stmt})))
            return ends
        if isinstance(stmt, ast.Break) and self._breaks:
            self._breaks[-1] |= state
            return NOWHERE
        if isinstance(stmt, ast.Continue) and self._continues:
            self._continues[-1] |= state
            return NOWHERE
        if isinstance(stmt, (ast.Return, ast.Raise)):
            return NOWHERE
        return own

    def _loop(self, stmt: ast.For | ast.AsyncFor | ast.While, state: Reached) -> Reached:
        targets = frozenset() if isinstance(stmt, ast.While) else access(stmt).binds
        head = state
        while True:
            self._breaks.append(NOWHERE)
            self._continues.append(NOWHERE)
            end = self._block(stmt.body, head.bound(targets, stmt))
            breaks, continues = self._breaks.pop(), self._continues.pop()
            again = head | end | continues
            if again == head:
                return self._block(stmt.orelse, head | NOWHERE.bound(targets, stmt)) | breaks
            head = again


def _anywhere(body: Sequence[ast.AST]) -> Reached:
    """All bindings that stand in some code."""
    found: dict[str, set[ast.stmt]] = {}
    for stmt in (s for b in body for s in walk(b) if isinstance(s, ast.stmt)):
        for name in access(stmt).binds | block_names(stmt):
            found.setdefault(name, set()).add(stmt)
    return Reached(NOTHING, {name: frozenset(stmts) for name, stmts in found.items()})
