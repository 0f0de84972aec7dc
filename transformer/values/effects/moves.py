"""Whether code may be moved past other code: what it reads must stay the same, and it must change nothing itself."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from transformer.dataflow.access import access
from transformer.facts.torch_api import GRADIENTS, attributes, of_parameters
from transformer.recognition.roles import Roles
from transformer.syntax.query import children, statements, walk
from transformer.values.effects.world import Held, World

LEAVING = (ast.Return, ast.Break, ast.Continue, ast.Raise, ast.Yield, ast.YieldFrom, ast.Await)
USING_GRADIENTS = (
    GRADIENTS | attributes(method="runs") | {name.rpartition(".")[2] for name in of_parameters(of="gradients")}
)
"""Names whose use reads or makes gradients of parameters."""


def reads_otherwise(
    roles: Roles, node: ast.AST, past: Sequence[ast.stmt], besides: Collection[ast.AST] = ()
) -> Held | None:
    """Where statements may change what code reads; None if they do not.

    Args:
        roles: the script.
        node: an expression or a statement of the training scope.
        past: the statements that the node would be moved past.
        besides: parts of the node whose values do not count, such as a logging method.
    """
    world = roles.get(World)
    asks = next((n for n in walk(node) if isinstance(n, ast.Attribute) and n.attr in GRADIENTS), None)
    if asks is not None:
        return Held(asks, f"reads .{asks.attr}, which depends on gradients")
    for read in _read(node, besides):
        containers = {t for n in walk(read) if isinstance(n, ast.Subscript) for t in world.of(n.value)}
        things = world.reach(world.of(read)) | containers
        held = world.resets(read, past)
        if held is None and things:  # numbers are no things
            held = world.changes(things, past, gradients=False, environments=True)
        if held is not None:
            return held
    return None


def changes_anything(
    roles: Roles, stmt: ast.stmt, own: Collection[str] = (), besides: Collection[ast.AST] = ()
) -> Held | None:
    """What a statement binds or changes, so that its position matters to other code; None if nothing.

    Args:
        roles: the script.
        stmt: a statement of the training scope.
        own: names that only this statement reads; it may bind them.
        besides: calls whose effects do not count, such as logging.
    """
    if not {name for s in statements([stmt]) for name in access(s).binds} <= {*own}:
        return Held(stmt, "binds a name that may be read elsewhere")
    for node in walk(stmt):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            return Held(node, "changes something")
    for node, effect in roles.get(World).happens([stmt]):
        bound = effect.variable is not None and effect.variable.name in own
        if node not in besides and not (effect.kind == "binds" and bound):
            return Held(node, "may change something")
    return None


def clears_otherwise(roles: Roles, clears: ast.Call, past: Sequence[ast.stmt]) -> Held | None:
    """Why `optimizer.zero_grad()` cannot move below some statements: they may use or make gradients; None if it can."""
    world, tree = roles.get(World), roles.tree
    caught = next((n for n in tree.ancestors(clears) if isinstance(n, ast.Try)), None)
    if caught is not None:
        return Held(caught, "may catch what leaves the statements below")
    for node in (n for stmt in past for n in walk(stmt)):
        if isinstance(node, LEAVING):
            return Held(node, "may leave the statements below")
    for node in roles.reached(past):
        word = tree.last_name(node) if isinstance(node, (ast.Name, ast.Attribute)) else getattr(node, "value", None)
        if isinstance(word, str) and word in USING_GRADIENTS:
            return Held(node, f"uses {word}")
    assert isinstance(clears.func, ast.Attribute)
    cleared = clears.func.value
    return world.resets(cleared, past) or world.changes(world.reach(world.of(cleared)), past, environments=True)


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
