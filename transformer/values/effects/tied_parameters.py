"""Whether training may give a network a parameter or a layer that it has already.

Compiled code takes the two for different ones, as they were when it was traced, and no guard notices (seen with torch
2.13: a gradient is clipped twice).
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from transformer.facts.libraries import module_methods
from transformer.facts.lookups import SETS
from transformer.facts.python import WRITES
from transformer.recognition.attribute_setting import SETTERS
from transformer.recognition.roles import Roles
from transformer.syntax.query import last_written, walk
from transformer.values.effects.objects import UNKNOWN, Thing
from transformer.values.effects.world import World

ADDING = WRITES | module_methods(sets=("parts", "parameters"))
"""Methods of modules, and of their dictionaries, that give them further ones."""


def tied(roles: Roles) -> ast.expr | None:
    """Where training may do that."""
    for node in roles.run_by_training:
        if isinstance(node, ast.expr) and (found := _given(roles, node)) is not None:
            owner, values = found
            fills = isinstance(node, ast.Subscript) or last_written(getattr(node, "func", node)) in ADDING
            if fills and UNKNOWN in roles.get(World).of(owner):
                continue  # most containers and dictionaries, of which nearly none is a network
            if _may_be_network(roles, owner) and (not values or any(_may_be_there_already(roles, v) for v in values)):
                return node
    return None


def _given(roles: Roles, node: ast.expr) -> tuple[ast.expr, Sequence[ast.expr]] | None:
    """The object that a node gives something, and what; nothing of that if it is not known."""
    if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
        if isinstance(node, ast.Attribute) and node.attr in ("grad", "data", "requires_grad"):
            return None
        value = roles.tree.assigned.get(node)
        return node.value, [] if value is None else [value]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in SETTERS:
            return (node.args[0], node.args[1:]) if len(node.args) > 2 else (node.func.value, node.args)
        return (node.func.value, node.args) if node.func.attr in ADDING else None
    sets = isinstance(node, ast.Call) and last_written(node.func) in SETS and len(node.args) > 1
    return (node.args[0], node.args[1:]) if isinstance(node, ast.Call) and sets else None


def _may_be_network(roles: Roles, node: ast.expr) -> bool:
    """Whether an object may be a module, or one's dictionary of parameters or modules."""
    inner = isinstance(node, ast.Attribute) and node.attr in ("_parameters", "_modules", "__dict__")
    return roles.get(World).may_be_module(node.value if isinstance(node, ast.Attribute) and inner else node)


def _may_be_there_already(roles: Roles, node: ast.expr) -> bool:
    """Whether a value may be a module or a parameter that was not made here."""
    world, made_here = roles.get(World), set(walk(node))
    things = world.of(node)
    if UNKNOWN in things or any(thing.node not in made_here and world.is_module_object(thing) for thing in things):
        return UNKNOWN not in things or world.may_be_module(node)
    return any(_may_be_parameter(roles, thing) for thing in things if thing.kind == "tensor")


def _may_be_parameter(roles: Roles, tensor: Thing) -> bool:
    """Whether a tensor is not known to be the result of a computation."""
    made = roles.tree.qualified(tensor.node.func) if isinstance(tensor.node, ast.Call) else None
    return not (made or "").startswith("torch.") or made == "torch.nn.Parameter"
