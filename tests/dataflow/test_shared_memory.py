"""By names alone: what an expression may share its memory with, and what a block changes in place."""

from __future__ import annotations

import ast

import pytest

from transformer.dataflow.memory import changed_in_place, roots, shared


def never(value: ast.expr) -> bool:
    return False


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x", "x"),
        ("x.y[z]", "x"),
        ("[x, *y]", "x y"),
        ("x + [y]", "x y"),
        ("x + y", ""),
        ("x * [y]", ""),
        ("+x", "x"),
        ("-x", ""),
        ("not x", ""),
        ("x < y", ""),
        ("f'{x}'", ""),
        ("lambda: x", ""),
        ("x if y else z", "x y z"),
        ("f(x, k=y)", "x y"),
        ("x.view(y)", "x y"),
        ("x.clone()", ""),
        ("x.sum(out=y)", "x y"),
        ("x.sum(**y)", "x y"),
        ("x.copy()", "x"),  # of a list, which holds the same objects
        ("x.numpy().copy()", ""),
        ("f(x).copy()", "x"),
    ],
)
def test_what_a_value_may_share(text: str, names: str) -> None:
    assert roots(ast.parse(text, mode="eval").body) == set(names.split())


@pytest.mark.parametrize(
    ("block", "names"),
    [
        ("a = x\nb = a\nc = y", "x a b"),
        ("b = a\na = x", "x a b"),
        ("a, b = x, y", "x a"),
        ("for a in x:\n    b = a", "x a b"),
        ("a: object = x\nb: object", "x a"),
        ("a[0] = x", "x a"),
        ("x = a", "x a"),
        ("a = x * 2", "x"),
        ("a += x", "x"),
    ],
)
def test_names_that_may_share_memory(block: str, names: str) -> None:
    assert shared({"x"}, ast.parse(block).body, never) == set(names.split())


@pytest.mark.parametrize(
    "change", ["x[0] = 1", "x.y = 1", "del x[0]", "x += 1", "x.view(-1).add_(1)", "torch.add(y, 1, out=x)", "x[:] = y"]
)
def test_changes_in_place(change: str) -> None:
    assert changed_in_place(ast.parse(f"if z:\n    {change}").body) == {"x"}


@pytest.mark.parametrize("other", ["x = 1", "y = x[0]", "x.add(1)", "x.__len__()", "f(x)", "torch.add(x, 1)"])
def test_what_changes_nothing(other: str) -> None:
    assert changed_in_place(ast.parse(other).body) == set()
