"""The structure of a script's text: its lines, with the function and the logical line that each belongs to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_LONE_CARRIAGE_RETURN = re.compile(r"\r(?!\n)")


@dataclass(frozen=True)
class Outline:
    """One state of a script, line by line; all indices count from 0."""

    lines: tuple[str, ...]
    """The lines without their ends."""
    scopes: tuple[str, ...]
    """For each line the dotted name of the function or class around it (including its header), "" outside."""
    units: tuple[int, ...]
    """For each line the first line of its unit: a simple statement, a compound statement's header, or itself."""

    def unit_range(self, line: int) -> range:
        """The lines of the unit that `line` belongs to."""
        start = end = self.units[line]
        while end < len(self.units) and self.units[end] == start:
            end += 1
        return range(start, end)


def split_lines(text: str) -> list[str]:
    r"""Split `text` into lines with their ends. As for git, only "\n" ends a line; a form feed does not."""
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def name_lines(lines: range) -> str:
    """A range of lines, which counts from 0, as people name it: `line 3`, `lines 3-7`."""
    return f"line {lines.stop}" if len(lines) == 1 else f"lines {lines.start + 1}-{lines.stop}"


@lru_cache(maxsize=64)
def outline(source: str) -> Outline:
    """Outline one state of a script.

    A text that does not parse, or whose lines Python counts differently from git, has lines but no structure.
    """
    lines = [line.removesuffix("\n").removesuffix("\r") for line in split_lines(source)]
    scopes = [""] * len(lines)
    units = list(range(len(lines)))
    try:
        tree = None if _LONE_CARRIAGE_RETURN.search(source) else ast.parse(source.removeprefix("\ufeff"))
    except SyntaxError:
        tree = None
    if tree is not None:
        for node, scope in _nodes(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                for line in range(first - 1, node.end_lineno or first):
                    scopes[line] = scope
            if isinstance(node, ast.stmt):
                for line in range(node.lineno, _head_end(node, lines)):
                    units[line] = node.lineno - 1
    return Outline(tuple(lines), tuple(scopes), tuple(units))


def _nodes(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Every statement, outer before inner, with the name of the function or class that it defines or is in."""
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, scope = waiting.pop()
        for field in ("body", "handlers", "orelse", "finalbody", "cases"):
            for child in getattr(node, field, ()):
                inner = scope
                if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    inner = f"{scope}.{child.name}" if scope else child.name
                yield child, inner
                waiting.append((child, inner))


def _head_end(node: ast.stmt, lines: list[str]) -> int:
    """The last line (from 1) of a simple statement, or of a compound statement's header."""
    body = getattr(node, "body", None) or getattr(node, "cases", None)
    if not body:
        return node.end_lineno or node.lineno
    first: ast.AST = body[0].pattern if isinstance(body[0], ast.match_case) else body[0]
    end: int = min(part.lineno for part in (first, *getattr(first, "decorator_list", ()))) - 1
    while end > node.lineno and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return max(end, node.lineno)
