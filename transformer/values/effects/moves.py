"""Whether code may be moved past other code: what it reads must stay as it is."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from transformer.facts.torch_api import GRADIENTS
from transformer.recognition.roles import Roles
from transformer.syntax.query import children, walk
from transformer.values.effects.world import Held, World


def reads_otherwise(
    roles: Roles, node: ast.AST, past: Sequence[ast.stmt], besides: Collection[ast.AST] = ()
) -> Held | None:
    """Where statements may change what code reads; None if they do not.

    Args:
        roles: the script.
        node: an expression or a statement of the training scope.
        past: the statements that it would be moved past.
        besides: parts of the node whose values do not count, such as the method that reports.
    """
    world = roles.get(World)
    asks = next((n for n in walk(node) if isinstance(n, ast.Attribute) and n.attr in GRADIENTS), None)
    if asks is not None:
        return Held(asks, f"reads .{asks.attr}, which depends on gradients")
    for read in _read(node, besides):
        containers = {t for n in walk(read) if isinstance(n, ast.Subscript) for t in world.of(n.value)}
        things = world.reach(world.of(read)) | containers
        held = world.resets(read, past) or world.changes(things, past, gradients=False, environments=True)
        if held is not None:
            return held
    return None


def _read(node: ast.AST, besides: Collection[ast.AST]) -> Iterator[ast.expr]:
    """The names, attributes and items that code reads, each as a whole: `args.gamma`, not `args`."""
    if node in besides:
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func not in besides:
        parts: list[ast.AST] = [node.func.value, *node.args, *node.keywords]
    else:
        parts = [*children(node)]
        inner: ast.AST = node
        while isinstance(inner, (ast.Attribute, ast.Subscript)):
            inner = inner.value
        if isinstance(inner, ast.Name) and isinstance(node, (ast.Attribute, ast.Subscript, ast.Name)):
            if isinstance(node.ctx, ast.Load):
                yield node
            parts = [n.slice for n in walk(node) if isinstance(n, ast.Subscript)]
    for part in parts:
        yield from _read(part, besides)
