"""Which names may share memory, and which are changed in place: the conditions for omitting a copy.

Everything here errs on the side of sharing and change: a name that is not reported is certainly left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from transformer.facts.torch_api import NEW, VIEWS, may_be_given
from transformer.syntax.query import children, pairwise, statements, walk


def roots(node: ast.expr) -> set[str]:
    """Names whose memory the value of an expression may share."""
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        return roots(node.value)
    if isinstance(node, ast.BinOp) and isinstance(
        node.op, ast.Add
    ):  # a concatenated list or tuple holds the same objects
        sides = [side for side in (node.left, node.right) if isinstance(side, (ast.List, ast.Tuple, ast.ListComp))]
        return roots(node.left) | roots(node.right) if sides else set()
    if isinstance(node, (ast.BinOp, ast.Compare, ast.Constant, ast.JoinedStr, ast.Lambda)):
        return set()
    if isinstance(node, ast.UnaryOp):
        return roots(node.operand) if isinstance(node.op, ast.UAdd) else set()  # +tensor is the tensor itself
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in NEW and not may_be_given(node):
            if node.func.attr != "copy" or is_array(node.func.value):
                return set()
        parts: list[ast.expr] = [*node.args, *(k.value for k in node.keywords)]
        parts += [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return {name for part in parts for name in roots(part)}
    return {name for part in children(node) if isinstance(part, ast.expr) for name in roots(part)}


def is_array(node: ast.expr) -> bool:
    """Whether the value is from a tensor method; lists and dicts have a copy() too, which holds the same objects."""
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr in (NEW | VIEWS | {"numpy"}) - {"copy", "add"}


def shared(names: Iterable[str], body: Iterable[ast.stmt], made: Callable[[ast.expr], bool]) -> set[str]:
    """The names, and all names that may share memory with them in a block.

    Args:
        names: where to begin.
        body: the block.
        made: whether an assigned value is known to share nothing with anything.
    """
    links = []
    for stmt in statements(body):
        if isinstance(stmt, ast.Assign):
            links += [(roots(target), roots(value)) for target, value in pairwise(stmt) if not made(value)]
        elif isinstance(stmt, (ast.For, ast.AsyncFor)):
            links.append((roots(stmt.target), roots(stmt.iter)))
        elif isinstance(stmt, ast.AnnAssign) and stmt.value is not None:
            links.append((roots(stmt.target), roots(stmt.value)))
    found = set(names)
    while True:
        more = {n for targets, sources in links if (targets | sources) & found for n in targets | sources}
        if more <= found:
            return found
        found |= more


def changed_in_place(body: Iterable[ast.stmt]) -> set[str]:
    """Names whose object a block changes: by an augmented or element assignment, a method ending in `_`, or `out=`."""
    changed: set[str] = set()
    for stmt in body:
        for node in walk(stmt):
            if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, (ast.Store, ast.Del)):
                changed |= roots(node.value)
            elif isinstance(node, ast.AugAssign):
                changed |= roots(node.target)
            elif isinstance(node, ast.Call):
                if isinstance(node.func, ast.Attribute) and is_in_place(node.func.attr):
                    changed |= roots(node.func.value)
                changed |= {n for k in node.keywords if k.arg == "out" for n in roots(k.value)}
    return changed


def is_in_place(method: str) -> bool:
    """Whether a method changes its object, by torch's naming convention."""
    return method.endswith("_") and not method.endswith("__")
