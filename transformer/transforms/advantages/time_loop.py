"""The index of a loop backwards over the rollout's steps: tests and choices that use it."""

from __future__ import annotations

import ast

from transformer.syntax.query import is_number
from transformer.values.shapes import Shapes

WITH_ARRAYS = "the advantages are computed with numbers of numpy or Python, and launch nothing on a device"
"""Why a loop over time is left alone."""


def tests_for_last_step(test: ast.expr, index: str, count: ast.expr, shapes: Shapes) -> bool | None:
    """True if a test holds only at the last of `count` steps, False if only at the others, None for any other test."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    left, right, steps = test.left, test.comparators[0], shapes.spelled(count)
    if is_one_more(left, index):  # t + 1 == T
        is_last = shapes.spelled(right) == steps
    else:
        below = isinstance(right, ast.BinOp) and isinstance(right.op, ast.Sub) and is_number(right.right, 1)
        is_last = below and isinstance(right, ast.BinOp) and shapes.spelled(right.left) == steps
        is_last = is_last and isinstance(left, ast.Name) and left.id == index
    if not is_last:
        return None
    if isinstance(test.ops[0], (ast.Eq, ast.GtE)):
        return True
    return False if isinstance(test.ops[0], (ast.NotEq, ast.Lt)) else None


def is_one_more(node: ast.expr, name: str) -> bool:
    """Whether an expression is `name + 1`."""
    added = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and is_number(node.right, 1)
    return added and isinstance(node, ast.BinOp) and isinstance(node.left, ast.Name) and node.left.id == name


def choices(stmt: ast.stmt) -> dict[str, ast.expr] | None:
    """The names and values of `a = x` or `a, b = x, y`; None for any other statement."""
    if not isinstance(stmt, ast.Assign) or len(stmt.targets) != 1:
        return None
    target, value = stmt.targets[0], stmt.value
    targets, values = [target], [value]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        targets, values = target.elts, value.elts
    if not all(isinstance(t, ast.Name) for t in targets):
        return None
    return {t.id: v for t, v in zip(targets, values, strict=True) if isinstance(t, ast.Name)}
