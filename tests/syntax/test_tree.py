"""Questions to the tree of any Python file."""

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


def test_text_after_non_ascii_characters() -> None:
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


LOOK = "def look():\n    pass\n"


@pytest.mark.parametrize(
    ("code", "is_known"),
    [
        (f"{LOOK}look()\n", True),
        (f"from a import look\n{LOOK}look()\n", True),
        (f"from a import look\n{LOOK}if x:\n    look()\n", True),
        (f"import look\nfrom a import other as look\n{LOOK}look()\n", True),
        (f"from a import look\nlook()\n{LOOK}", False),
        (f"{LOOK}from a import look\nlook()\n", False),
        (f"{LOOK}look()\nfrom a import look\n", False),
        (f"def f():\n    from a import look\n    look()\n{LOOK}", False),
        (f"from a import look\n{LOOK}def f():\n    look()\n", False),
        (f"from a import look\n{LOOK}f = lambda: look()\nlook = f\n", False),
        (f"from a import look\n{LOOK}if x:\n    {LOOK.replace(chr(10) + '    ', ' ')}look()\n", False),
        (f"from a import look\n{LOOK}class look:\n    pass\nlook()\n", False),
        (f"from a import look\nfrom b import *\n{LOOK}look()\n", False),
        (f"try:\n    from a import look\nexcept ImportError:\n    pass\n{LOOK}look()\n", False),
    ],
)
def test_the_function_that_a_name_calls(code: str, is_known: bool) -> None:
    tree = Tree(code)
    (call,) = (c for c in tree.of(ast.Call) if ast.unparse(c.func) == "look")
    assert (tree.function_called(call) is not None) is is_known
