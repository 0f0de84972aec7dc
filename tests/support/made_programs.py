"""Small random programs, and an interpreter that records what they read and bind; analyses must allow for it.

Programs consist of statements over a few names. When a program runs, conditions, lengths of loops and exceptions are
random, so any path through its text may be taken.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

NAMES = "abcd"
MAX_TURNS, MAX_DEPTH = 3, 3


@dataclass(frozen=True)
class Event:
    """A step of a run."""

    kind: str
    """`at` (a statement begins), `done` (it ends, and the next one follows), `test` (a `while` tests again), `read`,
    `bind` or `unbind`."""
    stmt: ast.stmt
    name: str = ""


def program(chance: random.Random) -> str:
    """The text of a program: the body of one scope."""
    return "\n".join(_block(chance, 0, loop=False)) + "\n"


def _block(chance: random.Random, depth: int, *, loop: bool) -> list[str]:
    lines: list[str] = []
    for _ in range(chance.randint(1, 4)):
        lines += _statement(chance, depth, loop=loop)
    return lines


def _statement(chance: random.Random, depth: int, *, loop: bool) -> list[str]:
    def inner(*, loop: bool = loop) -> list[str]:
        return ["    " + line for line in _block(chance, depth + 1, loop=loop)]

    kinds = ["assign"] * 5 + ["use", "aug", "pair", "write", "del", "return"]
    kinds += ["break", "continue"] if loop else []
    kinds += ["if", "if", "for", "while", "try", "finally", "with", "match"] if depth < MAX_DEPTH else []
    a, b, c = (chance.choice(NAMES) for _ in range(3))

    def orelse() -> list[str]:
        return ["else:", *inner()] if chance.random() < 0.5 else []

    match chance.choice(kinds):
        case "assign":
            return [f"{a} = f({b}, {c})"]
        case "use":
            return [f"f({a})"]
        case "aug":
            return [f"{a} += {b}"]
        case "pair":
            return [f"{a}, {b} = f({c})"]
        case "write":
            return [f"{a}[{b}] = {c}"]
        case "del":
            return [f"del {a}"]
        case "return":
            return [f"return {a}"]
        case "if":
            return [f"if {a}:", *inner(), *orelse()]
        case "for":
            return [f"for {a} in {b}:", *inner(loop=True), *orelse()]
        case "while":
            return [f"while {a}:", *inner(loop=True), *orelse()]
        case "try":
            return ["try:", *inner(), "except Exception:", *inner(), *orelse()]
        case "finally":
            return ["try:", *inner(), "finally:", *inner()]
        case "with":
            return [f"with f({a}) as {b}:", *inner()]
        case "match":
            return [f"match {a}:", f"    case [{b}, _]:", *("    " + x for x in inner()), "    case 0:",
                    *("    " + x for x in inner())]  # fmt: skip
        case kind:
            return [kind]


class _Raised(Exception):
    """A statement of the program raises."""


class _Jump(Exception):
    """`break`, `continue` or `return`."""

    def __init__(self, kind: type[ast.stmt]) -> None:
        super().__init__(kind)
        self.kind = kind


class Interpreter:
    """Runs a program once, on a random path; reading an unbound name raises an error."""

    def __init__(self, body: list[ast.stmt], chance: random.Random) -> None:
        self.events: list[Event] = []
        self._chance = chance
        self._bound = set(NAMES)
        with suppress(_Raised, _Jump):
            self._run(body)

    def _run(self, body: list[ast.stmt]) -> None:
        for stmt in body:
            self.events.append(Event("at", stmt))
            self._statement(stmt)
            self.events.append(Event("done", stmt))

    def _read(self, stmt: ast.stmt, node: ast.AST | None) -> None:
        for n in ast.walk(node) if node is not None else ():
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in NAMES:
                if n.id not in self._bound:
                    raise _Raised
                self.events.append(Event("read", stmt, n.id))

    def _bind(self, stmt: ast.stmt, *names: str) -> None:
        for name in names:
            self._bound.add(name)
            self.events.append(Event("bind", stmt, name))

    def _unbind(self, stmt: ast.stmt, name: str) -> None:
        self._bound.discard(name)
        self.events.append(Event("unbind", stmt, name))

    def _may_raise(self) -> None:
        if self._chance.random() < 0.15:
            raise _Raised

    def _statement(self, stmt: ast.stmt) -> None:
        match stmt:
            case ast.Assign() | ast.AugAssign():
                self._read(stmt, stmt.value)
                targets = stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target]
                if isinstance(stmt, ast.AugAssign):
                    self._read(stmt, ast.parse(ast.unparse(stmt.target)))
                self._read(stmt, ast.Tuple(targets))
                self._may_raise()
                self._bind(stmt, *_stored(ast.Tuple(targets)))
            case ast.Expr():
                self._read(stmt, stmt.value)
                self._may_raise()
            case ast.Delete():
                for name in (n.id for n in stmt.targets if isinstance(n, ast.Name)):
                    if name not in self._bound:
                        raise _Raised
                    self._unbind(stmt, name)
            case ast.If():
                self._read(stmt, stmt.test)
                self._run(stmt.body if self._chance.random() < 0.5 else stmt.orelse)
            case ast.For() | ast.While():
                self._loop(stmt)
            case ast.With():
                self._read(stmt, stmt.items[0].context_expr)
                self._may_raise()
                self._bind(stmt, *_stored(stmt.items[0].optional_vars))
                self._run(stmt.body)
            case ast.Try():
                self._try(stmt)
            case ast.Match():
                self._read(stmt, stmt.subject)
                case = self._chance.choice([*stmt.cases, None])
                if case is not None:
                    self._bind(stmt, *(n.name for n in ast.walk(case.pattern) if isinstance(n, ast.MatchAs) and n.name))
                    self._run(case.body)
            case ast.Return():
                self._read(stmt, stmt.value)
                raise _Jump(ast.Return)
            case ast.Break() | ast.Continue():
                raise _Jump(type(stmt))

    def _loop(self, stmt: ast.For | ast.While) -> None:
        if isinstance(stmt, ast.For):
            self._read(stmt, stmt.iter)
        for turn in range(MAX_TURNS + 1):
            if isinstance(stmt, ast.While):
                self.events.append(Event("test", stmt))
                self._read(stmt, stmt.test)
            if turn == MAX_TURNS or self._chance.random() < 0.4:
                break
            if isinstance(stmt, ast.For):
                self._bind(stmt, *_stored(stmt.target))
            try:
                self._run(stmt.body)
            except _Jump as jump:
                if jump.kind is ast.Break:
                    return
                if jump.kind is not ast.Continue:
                    raise
        self._run(stmt.orelse)

    def _try(self, stmt: ast.Try) -> None:
        try:
            try:
                self._run(stmt.body)
            except _Raised:
                if not stmt.handlers:
                    raise
                self._run(stmt.handlers[0].body)
            else:
                self._run(stmt.orelse)
        except (_Raised, _Jump):
            self._run(stmt.finalbody)
            raise
        self._run(stmt.finalbody)


def _stored(node: ast.AST | None) -> Iterator[str]:
    for n in ast.walk(node) if node is not None else ():
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
            yield n.id
