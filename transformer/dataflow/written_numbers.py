"""Which calls compute a number from literal numbers."""

from __future__ import annotations

import ast

from transformer.facts.torch_api import names
from transformer.syntax.query import walk
from transformer.syntax.tree import Tree

_OF_NUMPY = names("numpy", draws=False)
_PARTS = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop, ast.expr_context)


def is_of_written_numbers(tree: Tree, call: ast.Call) -> bool:
    """Whether a call of `math` or numpy has only literal numbers as arguments: `np.log(2 * np.pi)`."""
    module, _, function = (tree.qualified(call.func) or "").rpartition(".")
    if module != "math" and not (module == "numpy" and function in _OF_NUMPY):
        return False
    given = (n for part in (*call.args, *call.keywords) for n in walk(part))
    return all(
        isinstance(n, (*_PARTS, ast.keyword))
        or (isinstance(n, ast.Call) and is_of_written_numbers(tree, n))
        or (isinstance(n, (ast.Name, ast.Attribute)) and _is_of_library(tree, n))
        for n in given
    )


def _is_of_library(tree: Tree, node: ast.Name | ast.Attribute) -> bool:
    """Whether a name is `math` or numpy, or a member of one of them."""
    if isinstance(node, ast.Name) and tree.imports.get(node.id) in ("math", "numpy"):
        return True
    return (tree.qualified(node) or "").startswith(("math.", "numpy."))
