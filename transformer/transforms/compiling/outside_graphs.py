"""Tensors that an update reads but that were computed outside it: a compiled backward pass cannot continue there.

`agent.alpha = agent.log_alpha.exp()` is an example. A pass computes only the gradients of its own optimizers'
parameters, so a value computed from other parameters may be read detached.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

from transformer.dataflow.access import access
from transformer.dataflow.bindings import variables
from transformer.dataflow.grad_mode import without_gradients
from transformer.recognition.roles import Roles
from transformer.syntax.query import names_in, statements, unparse, walk
from transformer.transforms.base import Skip
from transformer.transforms.compiling.frozen import sources
from transformer.values.effects.graphs import LEAVES
from transformer.values.effects.recorded import Recorded
from transformer.values.effects.world import World


def read_with_graph(
    roles: Roles, update: ast.FunctionDef, passes: Mapping[ast.Call, Collection[str]]
) -> dict[str, list[ast.expr]]:
    """The expressions that an update may read detached: by their text, all places where it reads them.

    Args:
        roles: the script.
        update: the function that computes losses.
        passes: its calls of backward(), each with the optimizers that use its gradients.

    Raises:
        Skip: it reads a value that a backward pass would have to go through.
    """
    recorded, world = roles.get(Recorded), roles.get(World)
    inside = {*walk(update)}
    found: dict[str, list[ast.expr]] = {}
    recorded_reads = set[str]()
    for node in walk(update):
        if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
            continue
        outer = roles.tree.parents[node]
        if _is_local(roles, node, inside) or (isinstance(outer, ast.Call) and outer.func is node):
            continue
        computed = recorded.computed(node)
        if not computed or world.is_module(node):
            continue
        text = unparse(node)
        found.setdefault(text, []).append(node)
        above = [s for s in update.body if s.lineno <= node.lineno]
        if (set_by := world.resets(node, above, update)) is not None:
            raise Skip(f"line {set_by.lineno} {set_by.what}, and line {node.lineno} reads it: keep it in a variable")
        if without_gradients(roles.tree, node) or (isinstance(outer, ast.Attribute) and outer.attr in LEAVES):
            continue
        recorded_reads.add(text)
        leaves = {t for thing in computed for t in recorded.leaves(thing)}
        owners = {name for call in _passes_back(roles, update, node, passes) for name in passes[call]}
        held = {t for o in roles.optimizers if o.name in owners for v in sources(o) for t in world.reach(world.of(v))}
        if not leaves.isdisjoint(held):
            raise Skip(
                f"line {node.lineno} reads {text}, which is computed with a graph outside of {update.name}(): "
                f"use {text}.detach()"
            )
    return {text: nodes for text, nodes in found.items() if text in recorded_reads}


def _is_local(roles: Roles, node: ast.expr, inside: Collection[ast.AST]) -> bool:
    """Whether an expression begins with a name that the update binds, even in a comprehension, or with no name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return not isinstance(node, ast.Name) or variables(roles.tree).owner_of(node) in inside


def _passes_back(
    roles: Roles, update: ast.FunctionDef, node: ast.expr, passes: Mapping[ast.Call, Collection[str]]
) -> Iterator[ast.Call]:
    """The backward passes that may go through the value read at a node."""
    first = roles.tree.statement(node)
    tainted = set(access(first).binds)
    for stmt in statements(update.body):
        if stmt.lineno > first.lineno and not without_gradients(roles.tree, stmt) and access(stmt).reads & tainted:
            tainted |= access(stmt).binds
    for call in passes:
        if node in walk(call) or names_in([call]) & tainted:
            yield call
