"""Live names: names whose current value may still be read.

A structured analysis over the `ast` of one scope. Def-use chains (beniget) tell which definition reaches which use, but
not along which path. They cannot tell a value left by the loop's last iteration from a value set just above, and
extraction must. Liveness and definite assignment (assignment.py) can, at a tenth of the cost.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from transformer.dataflow.access import NONE, Names, access
from transformer.syntax.query import TRY


@dataclass
class Liveness:
    """Names live after each statement of a scope: names whose current value may still be read.

    An exception may end a statement halfway, so names that are read where the scope then continues are live too.
    """

    after: dict[ast.stmt, Names] = field(default_factory=dict)
    raised: dict[ast.stmt, Names] = field(default_factory=dict)
    """Names live where the scope continues after an exception in a statement: in handlers, in `finally`, and below."""
    _breaks: list[Names] = field(default_factory=list)
    _continues: list[Names] = field(default_factory=list)
    _raises: Names = NONE
    at_least_once: frozenset[ast.stmt] = frozenset()
    """Loops assumed to run their body at least once; see :class:`Assignment`."""

    @classmethod
    def of(
        cls,
        body: Sequence[ast.stmt],
        at_exit: Names = NONE,
        at_least_once: Iterable[ast.stmt] = (),
        at_error: Names = NONE,
    ) -> Liveness:
        """Analyse a scope.

        Args:
            body: its statements.
            at_exit: the names live at its end (globals of a module that functions read).
            at_least_once: loops that are assumed to run their body at least once.
            at_error: the names live after an uncaught exception.
        """
        self = cls(at_least_once=frozenset(at_least_once), _raises=at_error)
        self.before(body, at_exit)
        return self

    def before(self, body: Sequence[ast.stmt], live: Names) -> Names:
        """Names live before a block, given those live after it."""
        for stmt in reversed(body):
            self.after[stmt] = self.after.get(stmt, NONE) | live | self._raises
            self.raised[stmt] = self.raised.get(stmt, NONE) | self._raises
            live = self._statement(stmt, live) | self._raises
        return live

    def _statement(self, stmt: ast.stmt, live: Names) -> Names:
        own = access(stmt)
        if isinstance(stmt, ast.If):
            return own.reads | self.before(stmt.body, live) | self.before(stmt.orelse, live)
        if isinstance(stmt, (ast.For, ast.AsyncFor, ast.While)):
            done = self.before(stmt.orelse, live)
            targets = NONE if isinstance(stmt, ast.While) else access(stmt.target).binds
            reads = own.reads
            head = done | (reads if isinstance(stmt, ast.While) else NONE)
            while True:
                self._breaks.append(live)
                self._continues.append(head)
                entry = self.before(stmt.body, head) - targets
                self._breaks.pop()
                self._continues.pop()
                if head | entry == head:
                    return (entry if stmt in self.at_least_once else head) | reads
                head = head | entry
        if isinstance(stmt, (ast.With, ast.AsyncWith)):
            outer, self._raises = self._raises, self._raises | (live if _suppresses(stmt) else NONE)
            inside = self.before(stmt.body, live)
            self._raises = outer
            return (inside - own.binds) | own.reads
        if isinstance(stmt, TRY):
            final = self.before(stmt.finalbody, live | self._elsewhere()) if stmt.finalbody else live
            caught = NONE
            for handler in stmt.handlers:
                caught |= self.before(handler.body, final) - ({handler.name} if handler.name else NONE)
                caught |= access(handler.type).reads if handler.type else NONE
            outer, self._raises = self._raises, self._raises | caught | (final if stmt.finalbody else NONE)
            inside = self.before(stmt.body, self.before(stmt.orelse, final))
            self._raises = outer
            return inside | caught
        if isinstance(stmt, ast.Match):
            after = live
            for case in stmt.cases:
                after |= self.before(case.body, live)
                after |= access(case.guard).reads if case.guard else NONE
            return after | own.reads
        if isinstance(stmt, ast.Return):
            return own.reads
        if isinstance(stmt, ast.Raise):
            return own.reads
        if isinstance(stmt, ast.Break):
            return self._breaks[-1] if self._breaks else live
        if isinstance(stmt, ast.Continue):
            return self._continues[-1] if self._continues else live
        if isinstance(stmt, ast.Delete):
            return live | own.reads | own.binds
        return (live - own.binds) | own.reads

    def _elsewhere(self) -> Names:
        """Names live where a `finally` block may continue, except below: after an exception, `break` or `continue`."""
        return self._raises.union(*self._breaks[-1:], *self._continues[-1:])


def _suppresses(block: ast.With | ast.AsyncWith) -> bool:
    """Whether execution may continue below a block after an exception: `with suppress(OSError):`."""
    called = (i.context_expr.func for i in block.items if isinstance(i.context_expr, ast.Call))
    return any(ast.unparse(func).rpartition(".")[2] == "suppress" for func in called)


def exposed(body: Sequence[ast.stmt], at_least_once: Iterable[ast.stmt] = ()) -> Names:
    """Names whose value from before the block may be read in it (upward-exposed uses)."""
    flow = Liveness(at_least_once=frozenset(at_least_once))
    flow._breaks.append(NONE)
    flow._continues.append(NONE)
    return flow.before(body, NONE)
