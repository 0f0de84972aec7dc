"""Whether training may give a network a parameter or a layer that it already has.

Compiled code treats the two as different ones, as they were when it was traced, and no guard notices (seen with torch
2.13: a gradient is clipped twice).
"""

from __future__ import annotations

import ast

from transformer.facts.libraries import module_methods
from transformer.facts.lookups import SETS
from transformer.facts.python import WRITES
from transformer.recognition.attribute_setting import SETTERS
from transformer.recognition.roles import Roles
from transformer.syntax.options import holds_options
from transformer.syntax.query import last_written, walk
from transformer.syntax.tree import Tree
from transformer.values.effects.objects import UNKNOWN
from transformer.values.effects.world import World

ADDING = WRITES | module_methods(sets=("parts", "parameters"))
"""Methods that add parts to modules and to their dictionaries."""


DEEP = 3
"""The maximum number of names to follow."""


def tied(roles: Roles) -> ast.expr | None:
    """Where training may tie a parameter or a layer, except where a network is made."""
    for node in roles.run_by_training:
        if isinstance(node, ast.expr) and (found := _given(roles, node)) is not None:
            owner, value = found
            made = getattr(roles.tree.scope_of(node), "name", "") == "__init__"
            plain = isinstance(node, ast.Subscript) and _is_plain(roles, owner)
            if made or plain or _is_plain(roles, value) or _is_no_module(roles, owner):
                continue  # the usual case, decided without World
            if _may_be_network(roles, owner, node) and _is_there_already(roles, value):
                return node
    return None


def _is_plain(roles: Roles, value: ast.expr, depth: int = 0) -> bool:
    """Whether a value is written as a number, a string or a computation: neither a part nor a list of parts."""
    if isinstance(value, (ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.JoinedStr)):
        return True
    if isinstance(value, (ast.List, ast.Tuple)):
        return all(_is_plain(roles, one, depth) for one in value.elts)
    if isinstance(value, ast.IfExp):
        return _is_plain(roles, value.body, depth) and _is_plain(roles, value.orelse, depth)
    if isinstance(value, ast.Call):
        name = roles.tree.qualified(value.func) or ""
        computes = name.startswith(("torch.", "numpy.")) and not name.startswith("torch.nn.")
        return computes or (isinstance(value.func, ast.Attribute) and _is_plain(roles, value.func.value, depth))
    only = roles.only_value(value.id) if isinstance(value, ast.Name) and roles.is_ours(value) else None
    return only is not None and depth < DEEP and _is_plain(roles, only, depth + 1)


def _is_no_module(roles: Roles, owner: ast.expr) -> bool:
    """Whether an object holds options, or is `self` of a class without bases outside this file."""
    tree, scope = roles.tree, roles.tree.scope_of(owner)
    own = tree.class_of_self(owner, scope)
    if own is not None:
        return not any(b for cls in tree.lineage(own) for b in tree.bases(cls) if not _is_of_file(tree, b))
    return isinstance(owner, ast.Name) and holds_options(tree, owner, scope)


def _is_of_file(tree: Tree, base: ast.expr) -> bool:
    return isinstance(base, ast.Name) and (base.id in tree.classes or base.id == "object")


def _given(roles: Roles, node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """The object that a node adds something to, and what it adds."""
    if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
        if isinstance(node, ast.Attribute) and node.attr in ("grad", "data", "requires_grad"):
            return None
        value = roles.tree.assigned.get(node)  # none for `x += y`, which makes no alias
        return None if value is None else (node.value, value)
    if not isinstance(node, ast.Call) or not node.args:
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr in ADDING:
        return node.func.value, node.args[-1]
    sets = last_written(node.func) in (*SETS, *SETTERS)
    return (node.args[0], node.args[-1]) if sets else None


def _may_be_network(roles: Roles, owner: ast.expr, node: ast.expr) -> bool:
    """Whether an object may be a module, or one's dictionary of parameters or modules."""
    world = roles.get(World)
    if world.gave_up:  # only weights and biases are recognised by name
        return isinstance(node, ast.Attribute) and node.attr in ("weight", "bias")
    if any(map(world.is_module_object, world.of(owner))):
        return True
    fills = isinstance(node, ast.Subscript) or last_written(getattr(node, "func", node)) in ADDING
    return not fills and UNKNOWN in world.of(owner)  # most objects filled like this are lists and dictionaries


def _is_there_already(roles: Roles, value: ast.expr) -> bool:
    """Whether a value may be a module or a parameter that already exists, rather than one made here."""
    world, made_here = roles.get(World), set(walk(value))
    things = [*world.meant(value), *(inner for thing in world.meant(value) for inner in world.contents(thing))]
    return any(
        (thing.kind == "made" and thing.name == "torch")
        or (world.is_module_object(thing) and thing.node not in made_here)
        for thing in things
    )
