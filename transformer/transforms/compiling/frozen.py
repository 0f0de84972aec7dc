"""Networks that are frozen during another network's backward pass, and unfrozen after it.

`for p in critic.parameters(): p.requires_grad = False` avoids computing gradients that nothing uses. A compiled
backward pass computes only the gradients of its own optimizer, so it can do without.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from transformer.facts.python import SHOWS
from transformer.facts.torch_api import attributes
from transformer.recognition.optimizers import Optimizer
from transformer.recognition.roles import Roles
from transformer.syntax.query import calls_method, names_in, receiver, statements, unparse, walk
from transformer.syntax.tree import Tree
from transformer.values.effects.world import World
from transformer.values.reports import is_report

SWITCH = "requires_grad"

TELLING = attributes(tells=True, method=("", "asks"))
"""Attributes that tell whether a result comes from a frozen network."""
LEAVING = (ast.Break, ast.Continue, ast.Raise, ast.Try)
"""Statements that may leave a block before its end."""


@dataclass(frozen=True)
class _Switch:
    """A statement that freezes or unfreezes a network."""

    stmt: ast.stmt
    network: str
    """As written: `agent.critic`."""
    thaws: bool


def harmless_switches(roles: Roles, updates: Sequence[ast.FunctionDef]) -> dict[ast.stmt, ast.FunctionDef | None]:
    """The statements that freeze or unfreeze networks with no effect but on the gradients of these networks.

    A network is frozen and unfrozen in one block, or it is frozen in an update and unfrozen after the update's call.
    Once an update has frozen a network, the rest of the update only calls it, and steps no optimizer that may hold one
    of its parameters.

    Args:
        roles: the script.
        updates: the functions that clear and compute gradients and step optimizers.

    Returns:
        Each statement with the update that contains it, or with None if it is in the training loop itself.
    """
    inside = {stmt: update for update in updates for stmt in statements(update.body)}
    places = [*statements(roles.outermost.body), *inside]
    found = [switch for stmt in places if (switch := _switch(stmt)) is not None]
    apart = {stmt for switch in found for stmt in statements([switch.stmt])}
    harmless: dict[ast.stmt, ast.FunctionDef | None] = {}
    for frozen in (s for s in found if not s.thaws):
        between, thawing = _until_thawed(roles, frozen, inside.get(frozen.stmt))
        if thawing is None or not _stays_frozen(roles, frozen.network, found):
            continue
        update = inside.get(frozen.stmt)
        leaving = LEAVING if thawing not in inside else (*LEAVING, ast.Return)
        if any(isinstance(n, leaving) for stmt in between for n in walk(stmt)):
            continue
        if update is not None:
            below = [s for s in statements(update.body) if s.lineno > frozen.stmt.lineno and s not in apart]
            targets = [s.target for s in apart if isinstance(s, ast.For)]
            stepped = {unparse(receiver(n)) for s in below for n in walk(s) if roles.is_step(n)}
            optimizers = [o for o in roles.optimizers if o.name in stepped]
            if not _only_calls(roles, frozen.network, below) or names_in(below) & names_in(targets):
                continue
            if not all(_is_apart(roles, o, frozen.network) for o in optimizers):
                continue
        harmless |= {frozen.stmt: update, thawing: inside.get(thawing)}
    return harmless


def _switch(stmt: ast.stmt) -> _Switch | None:
    """`for p in net.parameters(): p.requires_grad = False` or `net.requires_grad_(False)`, or the opposite."""
    if isinstance(stmt, ast.Expr):
        call = stmt.value
        if calls_method(call, f"{SWITCH}_") and len(call.args) < 2 and not call.keywords:
            given = call.args[0] if call.args else ast.Constant(True)
            if isinstance(given, ast.Constant) and isinstance(given.value, bool):
                return _Switch(stmt, unparse(call.func.value), given.value)
        return None
    if not isinstance(stmt, ast.For) or len(stmt.body) != 1 or stmt.orelse or not isinstance(stmt.target, ast.Name):
        return None
    whole, each = stmt.iter, stmt.body[0]
    if not calls_method(whole, "parameters") or whole.args or whole.keywords:
        return None
    text = unparse(each)
    for value in (False, True):
        if text in (f"{stmt.target.id}.{SWITCH} = {value}", f"{stmt.target.id}.{SWITCH}_({value})"):
            return _Switch(stmt, unparse(whole.func.value), value)
    return None


def _until_thawed(
    roles: Roles, frozen: _Switch, update: ast.FunctionDef | None
) -> tuple[list[ast.stmt], ast.stmt | None]:
    """The statements that run while a network is frozen, and the one that unfreezes it; None if there is none."""
    block = roles.tree.block(frozen.stmt)
    following = block[block.index(frozen.stmt) + 1 :]
    if update is not None and block is update.body:
        calls = [n for n in roles.tree.of(ast.Name) if n.id == update.name and isinstance(n.ctx, ast.Load)]
        stmt = roles.tree.statement(calls[0]) if len(calls) == 1 else None
        if isinstance(stmt, (ast.Expr, ast.Assign)) and stmt in statements(roles.outermost.body):
            outer = roles.tree.block(stmt)
            following += takewhile(_switch, outer[outer.index(stmt) + 1 :])
    for i, stmt in enumerate(following):
        switch = _switch(stmt)
        if switch is not None and switch.network == frozen.network:
            return following[:i], stmt if switch.thaws else None
    return [], None


def _stays_frozen(roles: Roles, network: str, switches: Collection[_Switch]) -> bool:
    """Whether nothing else freezes or unfreezes a network or a part of it, or reads what is frozen."""
    name = network.rpartition(".")[2]
    known = {n for s in switches for n in walk(s.stmt)}
    for node in (n for n in roles.tree.nodes if n not in known):
        if isinstance(node, ast.keyword) and node.arg == SWITCH:
            if not (isinstance(node.value, ast.Constant) and node.value.value is True):
                return False
        word = getattr(node, "attr", getattr(node, "value", None))
        if isinstance(node, (ast.Attribute, ast.Constant)) and word in (SWITCH, f"{SWITCH}_"):
            others = (_switch(s) for s in roles.tree.ancestors(node) if isinstance(s, ast.stmt))
            if not any(other is not None and other.network.rpartition(".")[2] != name for other in others):
                return False
    return True


def _only_calls(roles: Roles, network: str, code: Sequence[ast.AST]) -> bool:
    """Whether code only calls a network, or methods of its class."""
    tree, (root, _, name) = roles.tree, network.rpartition(".")
    for node in roles.reached(code):
        if isinstance(node, ast.Attribute):
            if node.attr in TELLING or (node.attr == name and not _is_called(tree, node)):
                return False
            owner = tree.parents.get(tree.scope_of(node))
            if node.attr == "parameters" and isinstance(owner, ast.ClassDef) and roles.is_module(owner):
                return False  # a method of the network may change its parameters in place
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Name) and node.id in SHOWS) or _logs(tree, node):
            return False  # printing a tensor shows whether it has a gradient
        if isinstance(node, ast.Name) and node.id == root and not isinstance(tree.parents[node], ast.Attribute):
            return False
    return True


def _logs(tree: Tree, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and is_report(tree, node)


def _is_called(tree: Tree, node: ast.Attribute) -> bool:
    """Whether `agent.critic` is called, or a method of the file is called on it: `agent.critic.q1(x)`."""
    outer = tree.parents[node]
    if isinstance(outer, ast.Attribute) and tree.methods(outer.attr):
        node, outer = outer, tree.parents[outer]
    return isinstance(outer, ast.Call) and outer.func is node


def _is_apart(roles: Roles, optimizer: Optimizer, network: str) -> bool:
    """Whether an optimizer never holds a parameter of a network."""
    world = roles.get(World)
    uses = (n for n in roles.tree.of(ast.Attribute) if unparse(n) == network)
    parts = world.reach({t for n in uses for t in world.of(n)})
    return world.is_known(parts) and parts.isdisjoint(world.reach({t for v in sources(optimizer) for t in world.of(v)}))


def sources(optimizer: Optimizer) -> Iterator[ast.expr]:
    """The objects from which an optimizer takes parameters: `actor` and `std` for `[*actor.parameters(), std]`."""
    for part in (*optimizer.call.args, *(k.value for k in optimizer.call.keywords)):
        yield from _held(part)


def _held(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, (ast.Name, ast.Attribute)):
        yield node
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield from (v for part in (node.func.value, *node.args) for v in _held(part))
    else:
        yield from (v for part in ast.iter_child_nodes(node) for v in _held(part))
