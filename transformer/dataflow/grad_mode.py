"""Whether code runs with gradients disabled, by torch.no_grad() or otherwise."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from transformer.facts.torch_api import NO_GRAD
from transformer.syntax.tree import Tree

SWITCH = "torch.set_grad_enabled"


def without_gradients(tree: Tree, node: ast.AST) -> bool:
    """Whether gradients are known to be disabled at a node, by the innermost `with` or decorator that sets the mode.

    If the script calls `set_grad_enabled` outside a `with`, nothing is known.
    """
    for outer in tree.ancestors(node):
        switches: list[ast.expr] = getattr(outer, "decorator_list", [])
        if isinstance(outer, ast.With):
            switches = [item.context_expr for item in outer.items]
        off = disabled(tree, switches)
        if off is not None:
            return off
        if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return False  # the function runs where it is called
    return False


def disabled(tree: Tree, switches: Sequence[ast.expr]) -> bool | None:
    """Whether contexts or decorators disable gradients; None if none of them sets the mode."""
    chosen = [off for off in (_switches_off(tree, s) for s in switches) if off is not None]
    if chosen and not all(isinstance(tree.parents[call], ast.withitem) for call in tree.called.get(SWITCH, ())):
        return False
    return chosen[-1] if chosen else None  # the last is the innermost


def _switches_off(tree: Tree, expr: ast.expr) -> bool | None:
    """Whether a context or a decorator disables gradients; None if it does not change the mode."""
    called = expr.func if isinstance(expr, ast.Call) else expr
    name = tree.qualified(called) or ""
    given = [*expr.args, *(k.value for k in expr.keywords)] if isinstance(expr, ast.Call) else []
    if name == "torch.enable_grad":
        return False
    if name == SWITCH:
        return [getattr(value, "value", None) for value in given] == [False]
    if name in NO_GRAD:
        return all(isinstance(value, ast.Constant) and value.value is True for value in given)
    return None
