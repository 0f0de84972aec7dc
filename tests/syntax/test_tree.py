"""What a reader of any Python file asks of its tree."""

from __future__ import annotations

import ast

import pytest

from transformer.syntax.tree import Tree

BLOCKS = """\
if a:
    one()
else:
    two()
try:
    three()
except E:
    four()
finally:
    five()
match a:
    case 1:
        six()
"""


@pytest.mark.parametrize("name", ["one", "two", "three", "four", "five", "six"])
def test_the_block_of_a_statement(name: str) -> None:
    tree = Tree(BLOCKS)
    (stmt,) = (s for s in tree.of(ast.Expr) if ast.unparse(s) == f"{name}()")
    assert tree.block(stmt) == [stmt]


def test_text_behind_what_is_not_ascii() -> None:
    tree = Tree("x = 'é' + f(y)\n")
    (call,) = tree.of(ast.Call)
    assert tree.text(call) == "f(y)"


def test_scopes() -> None:
    tree = Tree("def f():\n    class A:\n        x = 1\n    y = lambda: z\n")
    (function,) = tree.of(ast.FunctionDef)
    names = {n.id: tree.scope_of(n) for n in tree.of(ast.Name)}
    assert names == {"x": function, "y": function, "z": function}
    assert tree.scope_of(tree.root) is tree.root


def test_imports() -> None:
    code = "import a.b\nimport c as d\nfrom e.f import g, h as i\nfrom . import j\nfrom .k import l\n"
    assert Tree(code).imports == {"a": "a", "d": "c", "g": "e.f.g", "i": "e.f.h"}
