"""Layers whose parameters compiled code may not take for dense tensors of a known shape."""

from __future__ import annotations

import ast

from transformer.facts.torch_api import LAZY, SPARSE_AT
from transformer.recognition.roles import Roles
from transformer.syntax.tree import Tree


def without_shapes(roles: Roles) -> str | None:
    """Why parameters may get their shapes only in the first call of their layer; None if none does."""
    tree = roles.tree
    for node in (*tree.of(ast.Name), *tree.of(ast.Attribute)):
        if (tree.qualified(node) or "").startswith(LAZY):
            return f"line {node.lineno} makes a layer whose parameters have no shape before its first call"
    return None


def sparse_gradients(roles: Roles) -> ast.expr | None:
    """Where the script may ask for sparse gradients, by an option of an embedding or by torch.sparse."""
    tree = roles.tree
    found = [*(c for c in tree.of(ast.Call) if _may_be_sparse(tree, c)), *tree.attributes_set("sparse")]
    return found[0] if found else None


def _may_be_sparse(tree: Tree, call: ast.Call) -> bool:
    name = tree.qualified(call.func) or ""
    if name.startswith("torch.sparse") or tree.last_name(call.func).startswith("to_sparse"):
        return True
    told = [k.value for k in call.keywords if k.arg == "sparse"]
    if any(not (isinstance(value, ast.Constant) and value.value is False) for value in told):
        return True
    place = SPARSE_AT.get(name.removesuffix(".from_pretrained"))
    spread = any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
    return place is not None and (spread or len(call.args) > place)
