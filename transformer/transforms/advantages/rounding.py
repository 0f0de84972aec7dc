"""Whether an operation on tensors gives the same bits for one row as for many, on every processor."""

from __future__ import annotations

import ast

from transformer.facts.torch_api import EXACT_POWERS, OF, OPERATORS
from transformer.syntax.tree import Tree


def exact_operands(tree: Tree, node: ast.expr) -> list[ast.expr] | None:
    """The operands of an exactly rounded operation in any spelling; None if it is not known to be one.

    A method is taken to be a tensor's; the caller must know that its operand is a tensor.
    """
    if isinstance(node, ast.BinOp):
        name, operands = OPERATORS.get(type(node.op)), [node.left, node.right]
    elif isinstance(node, ast.UnaryOp):
        name, operands = OPERATORS.get(type(node.op)), [node.operand]
    elif isinstance(node, ast.Call) and not node.keywords and isinstance(node.func, ast.Attribute):
        library, _, name = (tree.qualified(node.func) or f"tensor.{node.func.attr}").rpartition(".")
        if library not in ("torch", "tensor"):
            return None
        operands = node.args if library == "torch" else [node.func.value, *node.args]
    else:
        return None
    row = OF["tensor"].get(name or "") or OF["torch"].get(name or "")
    if row is None:
        return None
    if name == "pow" and len(operands) == 2:
        return operands[:1] if _is_exact_power(operands[1]) else None
    return operands if len(operands) == row.exact else None


def _is_exact_power(exponent: ast.expr) -> bool:
    return isinstance(exponent, ast.Constant) and exponent.value in EXACT_POWERS
