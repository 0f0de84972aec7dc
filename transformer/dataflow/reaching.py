"""Which assignments of each name may reach a statement (reaching definitions), for all names of a scope in one pass."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from transformer.dataflow.access import access, block_names
from transformer.syntax.query import TRY, statements, walk

Bindings: TypeAlias = tuple[ast.stmt | None, ...]
"""Statements that bind the name; None is a value from before the scope (a parameter, a global)."""
Reached: TypeAlias = int
"""The bindings that reach one place, for all names: a bit set with one bit per pair of name and statement."""
NOWHERE: Reached = 0
REST = ""
"""The key for names that nothing in the scope binds."""


class Reaching:
    """The assignments that reach each statement of a scope, before and after the statement."""

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        self._before: dict[ast.stmt, Reached] = {}
        self._after: dict[ast.stmt, Reached] = {}
        self._breaks: list[Reached] = []
        self._continues: list[Reached] = []
        self._bits: dict[str, dict[ast.stmt | None, Reached]] = {}
        self._next: Reached = 1
        """The next free bit."""
        self._of_name: dict[str, Reached] = {}
        """All bits of a name."""
        self._names = {REST, *_bound(body)}
        self._block(body, self._everything(None))

    def before(self, name: str, stmt: ast.stmt) -> Bindings:
        """The bindings of a name that may reach a statement; none if the name is not in the scope."""
        return self._found(name, self._before.get(stmt, NOWHERE))

    def after(self, name: str, stmt: ast.stmt) -> Bindings:
        """The bindings of a name that may hold after a statement."""
        return self._found(name, self._after.get(stmt, NOWHERE))

    def _found(self, name: str, reached: Reached) -> Bindings:
        known = name if name in self._names else REST
        return tuple(stmt for stmt, bit in self._bits[known].items() if bit & reached)

    def _bit(self, name: str, stmt: ast.stmt | None) -> Reached:
        own = self._bits.setdefault(name, {})
        bit = own.get(stmt)
        if bit is None:
            bit = own[stmt] = self._next
            self._next <<= 1
            self._of_name[name] = self._of_name.get(name, NOWHERE) | bit
        return bit

    def _everything(self, stmt: ast.stmt | None) -> Reached:
        """All names as possibly bound by a statement (None: before the scope)."""
        reached = NOWHERE
        for name in sorted(self._names):
            reached |= self._bit(name, stmt)
        return reached

    def _after_binding(self, reached: Reached, names: Iterable[str], stmt: ast.stmt) -> Reached:
        """The reaching bindings after a statement has bound some names."""
        for name in names:
            bit = self._bit(name, stmt)
            reached = reached & ~self._of_name[name] | bit
        return reached

    def _block(self, body: Sequence[ast.stmt], state: Reached) -> Reached:
        for stmt in body:
            self._before[stmt] = self._before.get(stmt, NOWHERE) | state
            state = self._statement(stmt, state)
            self._after[stmt] = self._after.get(stmt, NOWHERE) | state
        return state

    def _statement(self, stmt: ast.stmt, state: Reached) -> Reached:
        own = self._after_binding(state, access(stmt).binds, stmt)
        if isinstance(stmt, ast.If):
            return self._block(stmt.body, own) | self._block(stmt.orelse, own)
        if isinstance(stmt, (ast.For, ast.AsyncFor, ast.While)):
            return self._loop(stmt, state)
        if isinstance(stmt, (ast.With, ast.AsyncWith)):
            return self._block(stmt.body, own)
        if isinstance(stmt, TRY):
            tried = self._block(stmt.body, state)
            caught = state | tried | self._anywhere(stmt.body)
            ends = self._block(stmt.orelse, tried)
            for handler in stmt.handlers:
                ends |= self._block(handler.body, caught)
            if stmt.finalbody:
                left = self._block(stmt.finalbody, caught | self._anywhere([*stmt.handlers, *stmt.orelse]))
                for jumps in (self._breaks, self._continues):
                    jumps[-1:] = [jump | left for jump in jumps[-1:]]
            return self._block(stmt.finalbody, ends)
        if isinstance(stmt, ast.Match):
            ends = state
            for case in stmt.cases:
                ends |= self._block(case.body, state | self._everything(stmt))
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
            end = self._block(stmt.body, self._after_binding(head, targets, stmt))
            breaks, continues = self._breaks.pop(), self._continues.pop()
            again = head | end | continues
            if isinstance(stmt, ast.While):  # the test is evaluated again
                self._before[stmt] |= again
            if again == head:
                return self._block(stmt.orelse, head | self._after_binding(NOWHERE, targets, stmt)) | breaks
            head = again

    def _anywhere(self, body: Iterable[ast.AST]) -> Reached:
        """All bindings in some code."""
        reached = NOWHERE
        for stmt, names in _bound_by_statement(body):
            for name in names:
                reached |= self._bit(name, stmt)
        return reached


def _bound_by_statement(body: Iterable[ast.AST]) -> Iterable[tuple[ast.stmt, frozenset[str]]]:
    """The statements in some code, including nested functions, with the names that each binds."""
    return ((s, access(s).binds | block_names(s)) for b in body for s in walk(b) if isinstance(s, ast.stmt))


def _bound(body: Iterable[ast.stmt]) -> set[str]:
    """The names that a scope's statements bind; inside a `try`, including what nested functions bind."""
    names: set[str] = set()
    for stmt in statements(body):
        names |= access(stmt).binds
        if isinstance(stmt, TRY):
            names.update(*(bound for _, bound in _bound_by_statement([stmt])))
    return names
