"""Whether a network computes the same bits where no gradients are recorded, so that acting may leave them out."""

from __future__ import annotations

import ast

from transformer.recognition.changes import foreign_base
from transformer.recognition.roles import Roles
from transformer.syntax.query import walk
from transformer.torch_api import OF
from transformer.values.device.graph_capture import SAMPLED
from transformer.values.networks.rows import MODULES

PRODUCTS = frozenset("bmm matmul mm linear".split())
"""Products of matrices, some of which torch folds otherwise where gradients are recorded."""
FUNCTIONS = (OF["torch"].keys() | OF["functional"].keys() | {"cat", "randn_like"}) - PRODUCTS
METHODS = OF["tensor"].keys() | OF["distribution"].keys()
BUILTINS = frozenset("len super int float max min".split())
ASKING = frozenset("grad requires_grad requires_grad_ is_leaf grad_fn backward register_hook retain_grad".split())
"""Attributes of tensors in which gradients show."""


def differs(roles: Roles, cls: ast.ClassDef) -> str | None:
    """What may compute other bits without gradients in a network's methods, with its line; None where nothing does.

    Known are linear layers with a bias, what works element by element or along a dimension, and distributions.
    """
    tree = roles.tree
    for one in tree.used_classes(cls):
        if (base := foreign_base(tree, one)) is not None:
            return f"{one.name} is derived from {base}, which is not in this file"
        known = {s.name for s in one.body if isinstance(s, ast.FunctionDef)} | _kept(one)
        for method in (s for s in one.body if isinstance(s, ast.FunctionDef)):
            own = method.args.args[0].arg if method.args.args else ""
            for node in (n for stmt in method.body for n in walk(stmt)):
                found = _module(roles, node) if method.name == "__init__" else _other(roles, node, own, known)
                if found is not None:
                    return f"line {getattr(node, 'lineno', method.lineno)} {found}"
    return None


def _kept(cls: ast.ClassDef) -> set[str]:
    """The attributes that a class's methods set."""
    return {n.attr for n in walk(cls) if isinstance(n, ast.Attribute) and not isinstance(n.ctx, ast.Load)}


def _module(roles: Roles, node: ast.AST) -> str | None:
    """What a constructor's node may make that computes otherwise."""
    if not isinstance(node, ast.Call):
        return None
    name = roles.tree.qualified(node.func) or ""
    last = name.rpartition(".")[2]
    if name.startswith("torch.nn.") and last[:1].isupper():
        bare = last == "Linear" and (len(node.args) > 2 or any(k.arg in ("bias", None) for k in node.keywords))
        return f"makes a {last}" if last not in MODULES or bare else None
    return None


def _other(roles: Roles, node: ast.AST, own: str, known: set[str]) -> str | None:
    """What a node of another method may compute otherwise."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return "multiplies matrices"
    if isinstance(node, ast.Attribute) and node.attr in ASKING:
        return f"uses {ast.unparse(node)}"
    if not isinstance(node, ast.Call):
        return None
    text, name = ast.unparse(node.func), roles.tree.qualified(node.func) or ""
    last = name.rpartition(".")[2]
    if name.startswith("torch.distributions."):
        fine = last in SAMPLED
    elif name.startswith("torch."):
        fine = last in FUNCTIONS
    elif isinstance(node.func, ast.Name):
        fine = node.func.id in (own, roles.history.sampler) or node.func.id in BUILTINS
    elif isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == own:
        fine = node.func.attr in known
    else:
        fine = isinstance(node.func, ast.Attribute) and not name and node.func.attr in METHODS
    return None if fine else f"calls {text}()"
