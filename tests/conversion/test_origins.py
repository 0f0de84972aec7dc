"""Reasons name lines of the original: the line a statement comes from, however it was changed since."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from states import remembered

from transformer import convert

FIXTURES = Path(__file__).parents[2] / "fixtures"
QUICK = {"deep_q", "in_methods", "twin_critics"}
NUMBER = re.compile(r"  #@(\d+)$")


def numbered(code: str) -> str:
    """Mark the first line of each statement with a comment that holds its number, if it fits there.

    Comments stay with their statements, so they tell where these were.
    """
    lines = code.split("\n")
    for stmt in (n for n in ast.walk(ast.parse(code)) if isinstance(n, ast.stmt)):
        one_line = stmt.lineno == stmt.end_lineno or lines[stmt.lineno - 1].endswith(":")
        text = isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant)
        if one_line and not text and "#" not in lines[stmt.lineno - 1]:
            lines[stmt.lineno - 1] += f"  #@{stmt.lineno}"
    return "\n".join(lines)


@pytest.mark.parametrize(
    "fixture",
    [
        pytest.param(f, id=f.stem, marks=() if f.stem in QUICK else pytest.mark.slow)
        for f in sorted(FIXTURES.glob("*.py"))
        if f.stem != "several_files"  # its agent is in another file
    ],
)
def test_each_statement_is_traced_to_its_line(fixture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states = remembered(monkeypatch)
    assert convert(numbered(fixture.read_text(encoding="utf-8"))).converted
    wrong, right = [], 0
    for state in states.values():
        lines = state.tree.code.split("\n")
        for stmt in (n for n in ast.walk(state.tree.root) if isinstance(n, ast.stmt)):
            told = NUMBER.search(lines[stmt.lineno - 1])
            if told is not None and state.origin(stmt.lineno) != int(told[1]):
                wrong.append((lines[stmt.lineno - 1], state.origin(stmt.lineno)))
            right += told is not None
    assert not wrong
    assert right > 100
