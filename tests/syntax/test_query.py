"""Small questions about Python code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from golden import FIXTURES

from transformer.syntax.names import singular
from transformer.syntax.query import backwards, unparse


def steps(text: str) -> str | None:
    found = backwards(ast.parse(text, mode="eval").body)
    return ast.unparse(found) if found is not None else None


@pytest.mark.parametrize("text", ["reversed(range(T))", "reversed(range(0, T))", "range(T - 1, -1, -1)"])
def test_loops_that_run_backwards(text: str) -> None:
    assert steps(text) == "T"


@pytest.mark.parametrize(
    "text",
    [
        "range(T)",
        "reversed(T)",
        "reversed(list(T))",
        "reversed(range(1, T))",
        "reversed(range(0, T, 2))",
        "range(T, -1, -1)",
        "range(T + 1, -1, -1)",
        "range(T - 2, -1, -1)",
        "range(T - 1, 0, -1)",
        "range(T - 1, -1, -2)",
        "np.flip(T)",
        "T",
    ],
)
def test_loops_that_do_not_run_backwards(text: str) -> None:
    assert steps(text) is None


@pytest.mark.parametrize(
    ("plural", "one"),
    [("steps", "step"), ("batches", "batch"), ("losses", "loss"), ("boxes", "box"), ("data", "data_value")],
)
def test_names_for_one_element(plural: str, one: str) -> None:
    assert singular(plural) == one


@pytest.mark.parametrize("fixture", sorted(FIXTURES.glob("*.py")), ids=lambda path: path.stem)
def test_unparse_writes_what_ast_does(fixture: Path) -> None:
    tree = ast.parse(fixture.read_text(encoding="utf-8"))
    expressions = [node for node in ast.walk(tree) if isinstance(node, ast.expr)]
    assert [*map(unparse, expressions)] == [*map(ast.unparse, expressions)]


BRACKETED = ["(1).real", "(1.0).hex", "(a + b).c", "(a := b).c", "'x'.join", "f'{a}'.x", "(yield).x", "(await a()).b"]


@pytest.mark.parametrize("text", [*BRACKETED, "a(b).c(d).e", "a[0].b", "a.b.c"])
def test_unparse_writes_brackets_where_ast_does(text: str) -> None:
    function = ast.parse(f"async def f():\n    {text}").body[0]
    assert isinstance(function, ast.AsyncFunctionDef) and isinstance(function.body[0], ast.Expr)
    assert unparse(function.body[0].value) == ast.unparse(function.body[0].value)
