"""Which expressions run where they stand, and which in another function or later."""

from __future__ import annotations

import ast

import pytest

from transformer.dataflow.closures import runs_elsewhere
from transformer.syntax.tree import Tree


@pytest.mark.parametrize(
    ("code", "elsewhere"),
    [
        ("print(x)", False),
        ("if a: b = [x for _ in c]", False),
        ("total = sum(x for _ in c)", False),
        ("first = next((x for _ in c), None)", False),
        ("', '.join(x for _ in c)", False),
        ("f(*(x for _ in c))", False),
        ("later = (a for a in x)", False),
        ("later = (a for a in x.y[0])", False),
        ("later = (x for _ in c)", True),
        ("later = (a for a in c if x)", True),
        ("later = (a for a in c for b in x)", True),
        ("later = map(f, (x for _ in c))", True),
        ("keep(x for _ in c)", True),
        ("get = lambda: x", True),
        ("get = lambda a=x: a", False),
        ("def get(): return x", True),
        ("def get(a=x): return a", False),
        ("@x\ndef get(): pass", False),
        ("async def get(): return x", True),
        ("class Kept:\n    value = x", False),
        ("class Kept:\n    def get(self): return x", True),
    ],
)
def test_at_the_top_of_the_file(code: str, elsewhere: bool) -> None:
    tree = Tree(code)
    (node,) = (n for n in tree.of(ast.Name) if n.id == "x")
    assert runs_elsewhere(tree, node, tree.root) is elsewhere


@pytest.mark.parametrize(("code", "elsewhere"), [("x", False), ("lambda: x", True), ("(x for _ in c)", True)])
def test_in_a_function(code: str, elsewhere: bool) -> None:
    tree = Tree(f"def main():\n    print({code})\n")
    (node,) = (n for n in tree.of(ast.Name) if n.id == "x")
    assert runs_elsewhere(tree, node, tree.definition("main")) is elsewhere
    assert runs_elsewhere(tree, node, tree.root)
