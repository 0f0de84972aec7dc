"""Small questions about Python code."""

from __future__ import annotations

import ast

import pytest

from transformer.syntax.names import singular
from transformer.syntax.query import backwards


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
