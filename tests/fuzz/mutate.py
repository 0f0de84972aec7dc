"""Small edits of a script's statements: drop, duplicate, swap, rename. The text between them stays as it is."""

from __future__ import annotations

import ast
import io
import keyword
import tokenize
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Mutation:
    """One edit. `first` and `second` choose statements or names; they are taken modulo how many there are."""

    kind: str
    first: int
    second: int


@dataclass(frozen=True)
class Statement:
    """The lines of one statement, and the number of the block that it stands in."""

    begin: int
    end: int
    indent: int
    block: int


def mutate(source: str, mutations: tuple[Mutation, ...]) -> str:
    """The script after the mutations, one upon the other.

    Each leaves text that parses; a duplicated `global` or a `break` moved out of its loop can still not compile,
    which is as good an input as any.
    """
    for mutation in mutations:
        mutated = KINDS[mutation.kind](source, mutation)
        if _parses(mutated):
            source = mutated
    return source


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return True


def _drop(source: str, mutation: Mutation) -> str:
    statement = _choose(_statements(source), mutation.first)
    lines = source.splitlines(keepends=True)
    lines[statement.begin : statement.end] = [" " * statement.indent + "pass\n"]
    return "".join(lines)


def _duplicate(source: str, mutation: Mutation) -> str:
    statement = _choose(_statements(source), mutation.first)
    lines = source.splitlines(keepends=True)
    lines[statement.end : statement.end] = lines[statement.begin : statement.end]
    return "".join(lines)


def _swap(source: str, mutation: Mutation) -> str:
    statements = _statements(source)
    one = _choose(statements, mutation.first)
    other = _choose([s for s in statements if s.block == one.block], mutation.second)
    early, late = sorted((one, other), key=lambda s: s.begin)
    if early.end > late.begin:
        return source
    lines = source.splitlines(keepends=True)
    between = lines[early.end : late.begin]
    swapped = [*lines[late.begin : late.end], *between, *lines[early.begin : early.end]]
    return "".join([*lines[: early.begin], *swapped, *lines[late.end :]])


def _rename(source: str, mutation: Mutation) -> str:
    """Put another name of the script in the place of one occurrence of a name."""
    names = _names(source)
    old = _choose(names, mutation.first)
    return _replaced(source, [old], _choose(sorted({n.string for n in names}), mutation.second))


def _rename_all(source: str, mutation: Mutation) -> str:
    """Put another name of the script in the place of all occurrences of a name."""
    names = _names(source)
    distinct = sorted({n.string for n in names})
    old, new = _choose(distinct, mutation.first), _choose(distinct, mutation.second)
    return _replaced(source, [n for n in names if n.string == old], new)


KINDS: dict[str, Callable[[str, Mutation], str]] = {
    "drop": _drop,
    "duplicate": _duplicate,
    "swap": _swap,
    "rename": _rename,
    "rename-all": _rename_all,
}


def _statements(source: str) -> list[Statement]:
    """The statements that have their lines to themselves, in the order of the text."""
    statements = []
    blocks = 0
    for node in ast.walk(ast.parse(source)):
        for _, block in ast.iter_fields(node):
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                statements += [_statement(s, blocks) for s in block]
                blocks += 1
    statements.sort(key=lambda s: (s.begin, -s.end))
    taken = [(s.begin, s.end) for s in statements]
    return [s for s in statements if taken.count((s.begin, s.end)) == 1]


def _statement(node: ast.stmt, block: int) -> Statement:
    decorators = getattr(node, "decorator_list", [])
    begin = min([node.lineno, *(d.lineno for d in decorators)])
    assert node.end_lineno is not None
    return Statement(begin - 1, node.end_lineno, node.col_offset, block)


def _names(source: str) -> list[tokenize.TokenInfo]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [t for t in tokens if t.type == tokenize.NAME and not keyword.iskeyword(t.string)]


def _replaced(source: str, old: list[tokenize.TokenInfo], new: str) -> str:
    lines = source.splitlines(keepends=True)
    for token in reversed(old):
        (row, begin), (_, end) = token.start, token.end
        lines[row - 1] = lines[row - 1][:begin] + new + lines[row - 1][end:]
    return "".join(lines)


def _choose(things: list[T], number: int) -> T:
    return things[number % len(things)]
