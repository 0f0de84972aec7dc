"""Reformat lines that were moved or whose names changed, as a formatter would in the new place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import libcst as cst

from transformer.syntax.layout import fit_all
from transformer.syntax.rewrite import Line, Source


def _text_of(line: cst.SimpleStatementLine) -> str:
    """The text of simple statements without the comments above them."""
    return cst.Module([]).code_for_node(line.with_changes(leading_lines=()))


class Remembering(cst.CSTTransformer):
    """A transformer that remembers the old text of simple statements, for `refit`."""

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[cst.SimpleStatementLine, str] = {}
        """The old text of each new line, by the node's identity."""

    def leave_SimpleStatementLine(  # noqa: N802
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        """Remember the old text."""
        self.before[updated_node] = _text_of(original_node)
        return updated_node


def refit(
    lines: Sequence[Line], before: Mapping[cst.SimpleStatementLine, str], source: Source, column: int, new_column: int
) -> list[Line]:
    """Reformat the lines whose column or names have changed.

    Args:
        lines: the lines in their new place.
        before: the old text by line; lines without one stay as they are.
        source: the script, for its width and indentation.
        column: the old column of the lines' block.
        new_column: its new column.

    Returns:
        the lines; statements that were not formatted before are left as they are, even if they are now too long.
    """
    found = _Statements(before)
    for line in lines:
        line.visit(found)
    replaced: dict[cst.SimpleStatementLine, Line] = {}
    for depth, statements in found.at.items():
        inside = 4 * depth
        texts = [(line, before[line], _text_of(line)) for line in statements]
        changed = [t for t in texts if "\n" in t[1].strip("\n") or _longest(t[2]) + new_column + inside > source.width]
        if not changed:
            continue
        as_was = fit_all(tuple((old, column + inside) for _, old, _ in changed), source.width)
        for (line, old, new), formatted in zip(changed, as_was, strict=True):
            if old == formatted:
                (again,) = cst.parse_module(source.laid_out(new, new_column + inside)).body
                assert isinstance(again, cst.SimpleStatementLine)
                end = again.trailing_whitespace.with_changes(newline=line.trailing_whitespace.newline)
                replaced[line] = again.with_changes(leading_lines=line.leading_lines, trailing_whitespace=end)
    return [cast(Line, line.visit(_Replace(replaced))) for line in lines]


def _longest(text: str) -> int:
    return max(map(len, text.splitlines()), default=0)


class _Statements(cst.CSTVisitor):
    """Collects the simple statements whose text has changed, by the number of blocks around them."""

    def __init__(self, before: Mapping[cst.SimpleStatementLine, str]) -> None:
        super().__init__()
        self.at: dict[int, list[cst.SimpleStatementLine]] = {}
        self._before, self._depth = before, 0

    def visit_IndentedBlock(self, node: cst.IndentedBlock) -> None:  # noqa: N802
        """Enter a block."""
        self._depth += 1

    def leave_IndentedBlock(self, original_node: cst.IndentedBlock) -> None:  # noqa: N802
        """Leave a block."""
        self._depth -= 1

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:  # noqa: N802
        """Note a line."""
        if node in self._before:
            self.at.setdefault(self._depth, []).append(node)


class _Replace(cst.CSTTransformer):
    """Replaces lines by others."""

    def __init__(self, replaced: Mapping[cst.SimpleStatementLine, Line]) -> None:
        super().__init__()
        self._replaced = replaced

    def leave_SimpleStatementLine(  # noqa: N802
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement:
        """Replace a line."""
        return self._replaced.get(original_node, updated_node)

    def leave_EmptyLine(self, original_node: cst.EmptyLine, updated_node: cst.EmptyLine) -> cst.EmptyLine:  # noqa: N802
        """Align a comment that stood left of its block, but not at the margin, with the moved block."""
        if updated_node.comment is None or updated_node.indent or not updated_node.whitespace.value:
            return updated_node
        return updated_node.with_changes(indent=True, whitespace=cst.SimpleWhitespace(""))
