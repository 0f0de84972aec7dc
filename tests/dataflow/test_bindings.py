"""Which names are the same variable, and what it is bound to."""

from __future__ import annotations

import ast

import pytest

from transformer.dataflow.bindings import bound_to
from transformer.syntax.tree import Tree

CASES = {
    "another function's": ("def f():\n    x = 2\nx = 1\nread(x)", ["1"]),
    "the module's, in a function": ("x = 1\ndef f():\n    read(x)", ["1"]),
    "a global one": ("def f():\n    global x\n    x = 2\nread(x)", ["2"]),
    "a nonlocal one": ("def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = 2\n    read(x)", ["1", "2"]),
    "a default": ("x = 1\ndef f(x=read(x)):\n    x = 2\nf()", ["1"]),
    "a parameter": ("x = 1\ndef f(x):\n    read(x)\nf(2)", ["2"]),
    "a parameter, read outside": ("x = 1\ndef f(x):\n    pass\nf(2)\nread(x)", ["1"]),
    "what a comprehension begins with": ("x = 1\n[x for x in read(x)]", ["1"]),
    "a comprehension's": ("x = 1\n[read(x) for x in y]", ["None"]),
    "a class's": ("class C:\n    x = 2\n    def f(self):\n        read(x)\nx = 1", ["1"]),
    "a lambda's": ("x = 1\nf = lambda x: read(x)", ["None"]),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_name_is_bound_to_is_of_its_scope(name: str) -> None:
    code, expected = CASES[name]
    tree = Tree(code)
    call = next(c for c in tree.of(ast.Call) if isinstance(c.func, ast.Name) and c.func.id == "read")
    read = call.args[0]
    assert isinstance(read, ast.Name)
    assert sorted(ast.unparse(v) if v is not None else "None" for v in bound_to(tree, read, own=True)) == expected
