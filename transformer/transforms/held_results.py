"""Tensors in containers that a region makes and that are read after it: `parts = {"policy": policy_loss}`.

Returning a graph splits a compiled update in two, so the tensors are detached where they are put into the container.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from transformer.dataflow.grad_mode import without_gradients
from transformer.facts.torch_api import NO_GRAPH
from transformer.recognition.roles import Roles
from transformer.syntax.query import calls_method, is_none, pairwise, statements, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.tree import Tree
from transformer.values.effects.graphs import Graphs
from transformer.values.effects.recorded import Recorded
from transformer.values.effects.world import World
from transformer.values.tensors import Tensors


def detach_held(roles: Roles, edits: Edits, region: Sequence[ast.stmt], names: Collection[str]) -> None:
    """Detach the tensors that a region puts into the containers of these names, if nothing can notice.

    The region only makes and fills such a container, and code outside uses only the values of the tensors.
    """
    tensors, recorded = roles.get(Tensors), roles.get(Recorded)
    for name in names:
        put = [v for v in _put(region, name) if tensors.tensor(v) and recorded.may_be(v)]
        put = [v for v in put if not without_gradients(roles.tree, v)]
        if put and roles.get(Graphs).seen({name}, region) is None and not _told_apart(roles, region, put):
            for value in put:
                text = roles.tree.text(value)
                plain = isinstance(value, (ast.Name, ast.Attribute, ast.Subscript, ast.Call))
                edits.substitute(value, f"{text}.detach()" if plain else f"({text}).detach()")


def are_detached(tree: Tree, body: Sequence[ast.stmt], name: str) -> bool:
    """Whether a function makes a container under a name, and puts only values without a graph into it."""
    put = _put([s for s in body if not isinstance(s, ast.Return)], name)
    return bool(put) and all(calls_method(v, *NO_GRAPH) or without_gradients(tree, v) for v in put)


def _put(region: Sequence[ast.stmt], name: str) -> list[ast.expr]:
    """The values that a region puts into a container that it makes; empty if it also uses the container otherwise."""
    found: list[ast.expr] = []
    known: set[ast.Name] = set()
    for stmt in statements(region):
        for target, value in pairwise(stmt) if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 else ():
            holder = target.value if isinstance(target, ast.Subscript) else target
            put = [value] if isinstance(target, ast.Subscript) else _displayed(value)
            if isinstance(holder, ast.Name) and holder.id == name and put is not None:
                found += put
                known.add(holder)
        match stmt:
            case ast.Expr(ast.Call(func=ast.Attribute(ast.Name() as holder, "append"), args=[value], keywords=[])):
                if holder.id == name:
                    found.append(value)
                    known.add(holder)
    made = any(isinstance(n.ctx, ast.Store) for n in known)
    others = [n for stmt in region for n in walk(stmt) if isinstance(n, ast.Name) and n.id == name and n not in known]
    return found if made and not others else []


def _displayed(value: ast.expr) -> list[ast.expr] | None:
    """The elements of a dictionary, list or tuple display; None for anything else."""
    if isinstance(value, ast.Dict):
        return value.values
    return value.elts if isinstance(value, (ast.List, ast.Tuple)) else None


def _told_apart(roles: Roles, region: Sequence[ast.stmt], put: Sequence[ast.expr]) -> bool:
    """Whether code outside a region may compare one of these values by identity: `x in parts`."""
    world, inside = roles.get(World), {n for stmt in region for n in walk(stmt)}
    things = {t for value in put for t in world.of(value)}
    asked = (
        side
        for node in roles.tree.of(ast.Compare)
        if node not in inside and any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops)
        if not any(map(is_none, (node.left, *node.comparators)))
        for side in (node.left, *node.comparators)
    )
    return any(not things.isdisjoint(world.reach(world.meant(side))) for side in asked)
