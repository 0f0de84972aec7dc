"""Which arrays of numpy hold only numbers: others hold any objects, as lists do, in every view and copy of them."""

from __future__ import annotations

import ast

from transformer.facts.torch_api import OF, dtypes
from transformer.syntax.tree import Tree


def holds_numbers(tree: Tree, made: ast.AST | None) -> bool:
    """Whether the array that a call makes holds only numbers, as its dtype shows: what is stored there is copied.

    A dtype that is unknown may be `object`. Without a dtype, arrays made from a size or from tensors hold numbers.

    Args:
        tree: the script.
        made: the call.
    """
    if not isinstance(made, ast.Call):
        return False
    module, _, name = (tree.qualified(made.func) or "").rpartition(".")
    method = made.func.attr if isinstance(made.func, ast.Attribute) and not module else ""
    row = OF["array"].get(method) if method else OF["numpy"].get(name) if module == "numpy" else None
    if any(isinstance(a, ast.Starred) for a in made.args) or any(k.arg is None for k in made.keywords):
        return False
    place = None if row is None else 0 if row.dtype == "cast" else row.dtype_at or None
    given = [k.value for k in made.keywords if k.arg == "dtype"]
    if place is not None:
        given += made.args[place : place + 1]
    if given:
        return all(_is_numeric(tree, dtype) for dtype in given)
    return method == "numpy" or (row is not None and row.dtype_at > 0 and not row.made)


def _is_numeric(tree: Tree, dtype: ast.expr) -> bool:
    """Whether an expression is a dtype of numbers."""
    if isinstance(dtype, ast.Constant):
        return dtype.value in dtypes()
    name = tree.names.builtin(dtype) or (tree.qualified(dtype) or "").removeprefix("numpy.")
    return name in dtypes()
