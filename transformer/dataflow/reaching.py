"""Which assignments of a name may reach a statement (reaching definitions), one name at a time."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TypeAlias

from transformer.dataflow.access import access, block_names
from transformer.syntax.query import TRY

Bindings: TypeAlias = frozenset[ast.stmt | None]
"""Statements that bind the name; None stands for a value from before the scope (a parameter, a global)."""


class Reaching:
    """The assignments of one name that reach each statement of a scope, before and after it."""

    def __init__(self, body: Sequence[ast.stmt], name: str) -> None:
        self.before: dict[ast.stmt, Bindings] = {}
        self.after: dict[ast.stmt, Bindings] = {}
        self._name = name
        self._breaks: list[set[ast.stmt | None]] = []
        self._continues: list[set[ast.stmt | None]] = []
        self._block(body, frozenset({None}))

    def _block(self, body: Sequence[ast.stmt], state: Bindings) -> Bindings:
        for stmt in body:
            self.before[stmt] = self.before.get(stmt, frozenset()) | state
            state = self._statement(stmt, state)
            self.after[stmt] = self.after.get(stmt, frozenset()) | state
        return state

    def _statement(self, stmt: ast.stmt, state: Bindings) -> Bindings:
        binds = self._name in access(stmt).binds
        own: Bindings = frozenset({stmt}) if binds else state
        if isinstance(stmt, ast.If):
            return self._block(stmt.body, own) | self._block(stmt.orelse, own)
        if isinstance(stmt, (ast.For, ast.AsyncFor, ast.While)):
            return self._loop(stmt, state, binds and not isinstance(stmt, ast.While))
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
                for jumps in (*self._breaks[-1:], *self._continues[-1:]):
                    jumps |= left
            return self._block(stmt.finalbody, ends)
        if isinstance(stmt, ast.Match):
            ends = state
            for case in stmt.cases:
                ends |= self._block(case.body, state | frozenset({stmt}))
            return ends
        if isinstance(stmt, ast.Break) and self._breaks:
            self._breaks[-1] |= state
            return frozenset()
        if isinstance(stmt, ast.Continue) and self._continues:
            self._continues[-1] |= state
            return frozenset()
        if isinstance(stmt, (ast.Return, ast.Raise)):
            return frozenset()
        return own

    def _loop(self, stmt: ast.For | ast.AsyncFor | ast.While, state: Bindings, binds: bool) -> Bindings:
        head = state
        while True:
            self._breaks.append(set())
            self._continues.append(set())
            end = self._block(stmt.body, frozenset({stmt}) if binds else head)
            breaks, continues = self._breaks.pop(), self._continues.pop()
            again = head | end | continues
            if again == head:
                return self._block(stmt.orelse, head | (frozenset({stmt}) if binds else frozenset())) | breaks
            head = again

    def _anywhere(self, body: Sequence[ast.AST]) -> Bindings:
        found = (s for b in body for s in ast.walk(b) if isinstance(s, ast.stmt))
        return frozenset(s for s in found if self._name in access(s).binds | block_names(s))
