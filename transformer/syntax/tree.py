"""A script as text, `ast` and LibCST at once: analysis reads the `ast`, edits (edits.py) are made on LibCST nodes.

The `ast` is cheap to build for every state and has positions; LibCST keeps every byte. The two are paired
statement by statement, so a transform names the `ast` statement that it means, and the edit happens on the
LibCST statement that it stands for. Statements that no edit names come out byte for byte as they were.
"""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, cast

import libcst as cst

from transformer.syntax.layout import fit

Line: TypeAlias = cst.SimpleStatementLine | cst.BaseCompoundStatement
CstStatement: TypeAlias = cst.BaseStatement | cst.BaseSmallStatement


class Pair(NamedTuple):
    """A statement in LibCST, and the line it stands on (itself, where it is compound)."""

    node: CstStatement
    line: Line


class Source:
    """One state of a script.

    Raises:
        SyntaxError, ValueError: the text is not Python.
    """

    def __init__(self, code: str, width: int, module: cst.Module | None = None) -> None:
        self.code = code
        self.width = width
        """Columns that emitted lines may take."""
        self.tree = ast.parse(code)
        self._module = module

    @cached_property
    def module(self) -> cst.Module:
        """The LibCST tree; built on first use, since a state that no transform edits needs none."""
        return self._module or cst.parse_module(self.code)

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Every node's parent, in breadth-first order."""
        parents: dict[ast.AST, ast.AST] = {}
        queue: deque[ast.AST] = deque([self.tree])
        while queue:
            node = queue.popleft()
            for child in ast.iter_child_nodes(node):
                parents[child] = node
                queue.append(child)
        return parents

    @cached_property
    def pairs(self) -> dict[ast.stmt, Pair]:
        """Every `ast` statement's LibCST statement."""
        pairs: dict[ast.stmt, Pair] = {}
        _pair(self.tree.body, self.module.body, pairs)
        return pairs

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around `node`, innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds `node` (itself, if it is one)."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def text(self, node: ast.expr | ast.stmt) -> str:
        """The source text of `node`."""
        return self.splice(node, ())

    def block(self, stmt: ast.stmt) -> list[ast.stmt]:
        """The statement list in which `stmt` stands."""
        parent = self.parents[stmt]
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and stmt in block:
                return block
        raise AssertionError("a statement stands in a block")

    def indent(self, stmt: ast.stmt) -> int:
        """Columns before `stmt`."""
        return stmt.col_offset

    def laid_out(self, code: str, column: int) -> str:
        """Emitted code, broken into lines for a place, in the file's own unit of indentation."""
        code = fit(code, column, self.width)
        unit = self.module.default_indent
        if unit == "    ":
            return code
        return re.sub(r"^(?:    )+", lambda m: unit * (len(m[0]) // 4), code, flags=re.MULTILINE)

    def splice(self, owner: ast.expr | ast.stmt, edits: Iterable[tuple[ast.expr, str]]) -> str:
        """The text of `owner` with the texts of some expressions inside it replaced; the others are kept."""
        start = self.offset(owner.lineno, owner.col_offset)
        assert owner.end_lineno is not None and owner.end_col_offset is not None
        text = self.code[start : self.offset(owner.end_lineno, owner.end_col_offset)]
        for node, new in sorted(edits, key=lambda e: (e[0].lineno, e[0].col_offset), reverse=True):
            assert node.end_lineno is not None and node.end_col_offset is not None
            begin = self.offset(node.lineno, node.col_offset) - start
            end = self.offset(node.end_lineno, node.end_col_offset) - start
            text = text[:begin] + new + text[end:]
        text = _undent(text, self.statement(owner).col_offset)
        # An operator's operands may stand on several lines only inside the brackets around them.
        loose = isinstance(owner, (ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.UnaryOp, ast.Attribute, ast.Call))
        return f"({text})" if loose and "\n" in text and not _is_bracketed(text) else text

    @cached_property
    def _starts(self) -> list[int]:
        starts, total = [], 0
        for line in _ast_lines(self.code):
            starts.append(total)
            total += len(line)
        return [*starts, total]

    def offset(self, lineno: int, col_offset: int) -> int:
        """The character index of an `ast` position (whose columns count UTF-8 bytes)."""
        start = self._starts[lineno - 1]
        line = self.code[start : self._starts[lineno]]
        if line.isascii():
            return start + col_offset
        return start + len(line.encode()[:col_offset].decode())


def _ast_lines(code: str) -> list[str]:
    """Split as Python's parser counts lines: at newlines only, not at form feeds and the like."""
    return [line for line in re.findall(r"[^\r\n]*(?:\r\n|\n|\r|$)", code) if line]


def _pair(body: Sequence[ast.stmt], lines: Sequence[CstStatement], pairs: dict[ast.stmt, Pair]) -> None:
    flat: list[Pair] = []
    for line in lines:
        if isinstance(line, cst.SimpleStatementLine):
            flat.extend(Pair(small, line) for small in line.body)
        elif isinstance(line, cst.BaseSmallStatement):  # `if x: a; b` on one line
            flat.append(Pair(line, cst.SimpleStatementLine([line])))
        else:
            flat.append(Pair(line, cast(Line, line)))
    for stmt, pair in zip(body, flat, strict=True):
        pairs[stmt] = pair
        _pair_parts(stmt, pair.node, pairs)


def _pair_parts(stmt: Any, node: Any, pairs: dict[ast.stmt, Pair]) -> None:
    if isinstance(getattr(node, "body", None), cst.BaseSuite):
        _pair(stmt.body, node.body.body, pairs)
    orelse = getattr(node, "orelse", None)
    if isinstance(orelse, cst.If):
        pairs[stmt.orelse[0]] = Pair(orelse, orelse)
        _pair_parts(stmt.orelse[0], orelse, pairs)
    elif isinstance(orelse, cst.Else):
        _pair(stmt.orelse, orelse.body.body, pairs)
    for name in ("handlers", "cases"):
        for sub, part in zip(getattr(stmt, name, ()), getattr(node, name, ()), strict=True):
            _pair_parts(sub, part, pairs)
    if isinstance(getattr(node, "finalbody", None), cst.Finally):
        _pair(stmt.finalbody, node.finalbody.body.body, pairs)


def _is_bracketed(text: str) -> bool:
    """Whether an expression parses on its own although it stands on several lines."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _undent(text: str, column: int) -> str:
    """Continuation lines of a statement, moved left as its first line was; enough for LibCST to re-indent them."""
    lines = text.split("\n")
    pad = " " * column
    if all(line.startswith(pad) or not line.strip() for line in lines[1:]):
        if '"""' not in text and "'''" not in text:
            return "\n".join([lines[0], *(line[column:] if line.strip() else line for line in lines[1:])])
    return text


Loop: TypeAlias = ast.For | ast.While


Scope: TypeAlias = ast.Module | ast.FunctionDef
