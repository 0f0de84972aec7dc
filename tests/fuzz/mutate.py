"""Small edits of a script: statements, names, operators and numbers. The text between them stays as it is."""

from __future__ import annotations

import ast
import io
import keyword
import tokenize
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Mutation:
    """One edit. `first` and `second` choose statements or tokens; they are taken modulo how many there are."""

    kind: str
    first: int
    second: int
    training: bool = False
    """Whether `first` chooses among the statements of the script's longest loop, which trains."""


@dataclass(frozen=True)
class Statement:
    """The lines of a statement, and the number of the block that contains it."""

    begin: int
    end: int
    indent: int
    block: int


def mutate(source: str, mutations: tuple[Mutation, ...]) -> str:
    """The script after all mutations, one on top of the other.

    Each leaves text that parses; a duplicated `global` or a `break` moved out of its loop can still not compile,
    which is as good an input as any.
    """
    for mutation in mutations:
        try:
            mutated = KINDS[mutation.kind](source, mutation)
        except NothingToChoose:
            continue
        if _parses(mutated):
            source = mutated
    return source


class NothingToChoose(Exception):
    """The script has nothing that a mutation of this kind could change."""


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return True


def _drop(source: str, mutation: Mutation) -> str:
    statement = _choose(_places(source, mutation), mutation.first)
    lines = source.splitlines(keepends=True)
    lines[statement.begin : statement.end] = [" " * statement.indent + "pass\n"]
    return "".join(lines)


def _duplicate(source: str, mutation: Mutation) -> str:
    statement = _choose(_places(source, mutation), mutation.first)
    lines = source.splitlines(keepends=True)
    lines[statement.end : statement.end] = lines[statement.begin : statement.end]
    return "".join(lines)


def _swap(source: str, mutation: Mutation) -> str:
    one = _choose(_places(source, mutation), mutation.first)
    other = _choose([s for s in _statements(source) if s.block == one.block], mutation.second)
    early, late = sorted((one, other), key=lambda s: s.begin)
    if early.end > late.begin:
        return source
    lines = source.splitlines(keepends=True)
    between = lines[early.end : late.begin]
    swapped = [*lines[late.begin : late.end], *between, *lines[early.begin : early.end]]
    return "".join([*lines[: early.begin], *swapped, *lines[late.end :]])


def _insert(source: str, mutation: Mutation) -> str:
    """Put a statement that computes nothing new above another; it may hold on to a value, print it or compare it."""
    place = _choose(_places(source, mutation), mutation.first)
    near = [t.string for t in _names(source) if place.begin - 6 <= t.start[0] - 1 < place.end]
    name = _choose(near or ["None"], mutation.second)
    statement = _choose(INNOCUOUS, mutation.second // 7).format(name=name)
    lines = source.splitlines(keepends=True)
    lines[place.begin : place.begin] = [" " * place.indent + line + "\n" for line in statement.splitlines()]
    return "".join(lines)


INNOCUOUS = (
    "print('inserted')",
    "inserted = {name}",
    "print(str({name}).partition(' at 0x')[0])",
    "if {name} is None:\n    break",
    "if {name} is None:\n    continue",
    "inserted = [{name}]",
    "{name} = {name}",
    "{name} = {name} * 1",
    "assert {name} is not None",
    "with torch.no_grad():\n    inserted = {name} + 0",
    "# {name}\npass",
    "for inserted in range(2):\n    pass",
    "inserted = lambda: {name}",
)


def _operator(source: str, mutation: Mutation) -> str:
    """Replace one operator with another."""
    groups = [group.split() for group in OPERATORS]
    known = {operator for group in groups for operator in group}
    token = _choose(_within(source, mutation, [t for t in _tokens(source) if t.string in known]), mutation.first)
    (group,) = (g for g in groups if token.string in g)
    return _replaced(source, [token], _choose([o for o in group if o != token.string], mutation.second))


OPERATORS = ("+ - *", "/ //", "< <= > >= == !=", "+= -= *=", "and or")


def _constant(source: str, mutation: Mutation) -> str:
    """Replace one number or truth value with another."""
    known = [t for t in _tokens(source) if t.type == tokenize.NUMBER or t.string in ("True", "False", "None")]
    token = _choose(_within(source, mutation, known), mutation.first)
    return _replaced(source, [token], _choose([c for c in CONSTANTS if c != token.string], mutation.second))


CONSTANTS = ("0", "1", "2", "3", "0.5", "1e-3", "-1", "True", "False", "None")


def _rename(source: str, mutation: Mutation) -> str:
    """Replace one occurrence of a name with another name of the script."""
    names = _names(source)
    old = _choose(_within(source, mutation, names), mutation.first)
    return _replaced(source, [old], _choose(sorted({n.string for n in names}), mutation.second))


def _rename_all(source: str, mutation: Mutation) -> str:
    """Replace all occurrences of a name with another name of the script."""
    names = _names(source)
    old = _choose(sorted({n.string for n in _within(source, mutation, names)}), mutation.first)
    new = _choose(sorted({n.string for n in names}), mutation.second)
    return _replaced(source, [n for n in names if n.string == old], new)


KINDS: dict[str, Callable[[str, Mutation], str]] = {
    "drop": _drop,
    "duplicate": _duplicate,
    "swap": _swap,
    "insert": _insert,
    "operator": _operator,
    "constant": _constant,
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
    taken = Counter((s.begin, s.end) for s in statements)
    return [s for s in statements if taken[s.begin, s.end] == 1]


def _places(source: str, mutation: Mutation) -> list[Statement]:
    """The statements that `first` chooses among."""
    statements = _statements(source)
    if not mutation.training:
        return statements
    begin, end = _training_lines(source)
    return [s for s in statements if begin <= s.begin < end] or statements


def _within(source: str, mutation: Mutation, tokens: list[tokenize.TokenInfo]) -> list[tokenize.TokenInfo]:
    """The tokens that `first` chooses among."""
    if not mutation.training:
        return tokens
    begin, end = _training_lines(source)
    return [t for t in tokens if begin <= t.start[0] - 1 < end] or tokens


def _training_lines(source: str) -> tuple[int, int]:
    """First line (from 0) and the one after the last of the body of the longest loop."""
    loops = [n for n in ast.walk(ast.parse(source)) if isinstance(n, (ast.For, ast.While))]
    longest = max(loops, key=lambda n: (n.end_lineno or 0) - n.lineno, default=None)
    return (longest.body[0].lineno - 1, longest.end_lineno or 0) if longest is not None else (0, 0)


def _statement(node: ast.stmt, block: int) -> Statement:
    decorators = getattr(node, "decorator_list", [])
    begin = min([node.lineno, *(d.lineno for d in decorators)])
    assert node.end_lineno is not None
    return Statement(begin - 1, node.end_lineno, node.col_offset, block)


def _tokens(source: str) -> list[tokenize.TokenInfo]:
    return list(tokenize.generate_tokens(io.StringIO(source).readline))


def _names(source: str) -> list[tokenize.TokenInfo]:
    return [t for t in _tokens(source) if t.type == tokenize.NAME and not keyword.iskeyword(t.string)]


def _replaced(source: str, old: list[tokenize.TokenInfo], new: str) -> str:
    lines = source.splitlines(keepends=True)
    for token in reversed(old):
        (row, begin), (_, end) = token.start, token.end
        lines[row - 1] = lines[row - 1][:begin] + new + lines[row - 1][end:]
    return "".join(lines)


def _choose(things: Sequence[T], number: int) -> T:
    if not things:
        raise NothingToChoose
    return things[number % len(things)]
