"""Target networks that are updated in place, or through state_dict()."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from transformer.facts.libraries import library_does
from transformer.facts.torch_api import HOLDERS, layers
from transformer.recognition.roles import Roles
from transformer.syntax.query import calls_method, pairwise, unparse, walk


@dataclass(frozen=True)
class InPlace:
    """The update of a target's parameter in the body of a loop over the parameters of two networks."""

    into: str
    """The loop's name for the target's parameter."""
    kept: ast.expr | None
    """The factor of the target's parameter; None for `t.lerp_(p, rate)`, which needs only the rate."""
    rate: ast.expr
    by_alpha: bool = False
    """Whether the other parameter is added by `add_(p, alpha=rate)`, which rounds once, and not as a product."""


def moved_in_place(body: Sequence[ast.stmt], names: Collection[str], *, quiet: bool) -> InPlace | None:
    """The update by `t.data.mul_(kept)` and `t.data.add_(rate * p.data)`, perhaps chained, or by `t.data.lerp_(...)`.

    Args:
        body: the body of a loop over the parameters of two networks.
        names: the names of both parameters.
        quiet: whether gradients are disabled, so that `.data` is not needed.

    Returns:
        None for other statements.
    """
    calls = [stmt.value for stmt in body if isinstance(stmt, ast.Expr)]
    if len(calls) != len(body) or not 1 <= len(calls) <= 2:
        return None
    last = calls[-1]
    first = last.func.value if len(calls) == 1 and calls_method(last, "add_") else calls[0]
    if not isinstance(first, ast.Call) or not isinstance(last, ast.Call):
        return None
    if not isinstance(first.func, ast.Attribute) or not isinstance(last.func, ast.Attribute):
        return None
    into = parameter_of(first.func.value, quiet=quiet)
    if into is None or into not in names or first.keywords:
        return None

    def is_other(node: ast.expr) -> bool:
        return (name := parameter_of(node, quiet=quiet)) in names and name != into

    if first is last:
        lerp = last.func.attr == "lerp_" and len(last.args) == 2 and is_other(last.args[0])
        return InPlace(into, None, last.args[1]) if lerp else None
    chained = last.func.value is first
    if not chained and into != parameter_of(last.func.value, quiet=quiet):
        return None
    if (first.func.attr, last.func.attr) != ("mul_", "add_") or len(first.args) != 1 or len(last.args) != 1:
        return None
    added, kept = last.args[0], first.args[0]
    if [k.arg for k in last.keywords] == ["alpha"]:
        return InPlace(into, kept, last.keywords[0].value, by_alpha=True) if is_other(added) else None
    if last.keywords or not isinstance(added, ast.BinOp) or not isinstance(added.op, ast.Mult):
        return None
    for value, factor in ((added.left, added.right), (added.right, added.left)):
        if is_other(value):
            return InPlace(into, kept, factor)
    return None


def parameter_of(node: ast.expr, *, quiet: bool = False) -> str | None:
    """The name `p` in `p.data`; with `quiet`, also in `p`."""
    if quiet and isinstance(node, ast.Name):
        return node.id
    plain = isinstance(node, ast.Attribute) and node.attr == "data" and isinstance(node.value, ast.Name)
    return node.value.id if plain and isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) else None


@dataclass(frozen=True)
class ByState:
    """A loop over the entries of `target.state_dict()`, with the statements that belong to it."""

    target: ast.expr
    network: ast.expr
    kept: ast.expr
    rate: ast.expr
    besides: tuple[ast.stmt, ...]
    """The statements that read both states, and the one that loads the target's."""


def of_state_dicts(roles: Roles, block: Sequence[ast.stmt], loop: ast.For) -> ByState | None:
    """The update in `for key in state: t[key] = rate * p[key] + kept * t[key]`; None for any other loop.

    Above the loop stand `t = target.state_dict()` and `p = network.state_dict()`, below it stands
    `target.load_state_dict(t)`, and nothing else reads these names.
    """
    place = block.index(loop)
    over = loop.iter.func.value if calls_method(loop.iter, "keys") and not loop.iter.args else loop.iter
    if place < 1 or place + 1 == len(block) or not isinstance(loop.target, ast.Name) or loop.orelse:
        return None
    key, above, below = loop.target.id, block[place - 1 : place], block[place + 1]
    if len(_states(above[0])) == 1:
        above = block[max(place - 2, 0) : place]
    states = {name: network for stmt in above for name, network in _states(stmt).items()}
    if (
        len(states) != 2
        or not all(map(_states, above))
        or not isinstance(over, ast.Name)
        or over.id not in states
        or len(loop.body) != 1
    ):
        return None
    assign = loop.body[0]
    if not isinstance(assign, ast.Assign) or len(assign.targets) != 1:
        return None
    into, value = _item(assign.targets[0], key), assign.value
    if into not in states or not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
        return None
    factors = dict(filter(None, (_product(part, key) for part in (value.left, value.right))))
    (other,) = (name for name in states if name != into)
    loads = below.value if isinstance(below, ast.Expr) else None
    if set(factors) != set(states) or not calls_method(loads, "load_state_dict") or loads.keywords:
        return None
    if [unparse(a) for a in loads.args] != [into] or unparse(loads.func.value) != unparse(states[into]):
        return None
    inside = {n for stmt in (*above, loop, below) for n in walk(stmt)}
    if any(n.id in states and n not in inside for n in roles.tree.of(ast.Name)) or not _state_is_parameters(roles):
        return None
    if isinstance(states[other], ast.Name) and not _is_of_file(roles, states[other]):
        return None
    return ByState(states[into], states[other], factors[into], factors[other], (*above, below))


def _is_of_file(roles: Roles, network: ast.expr) -> bool:
    """Whether a name is only bound to objects of one class of the file."""
    made = roles.only_value(unparse(network))
    return made is not None and roles.tree.constructor(made) is not None


def _states(stmt: ast.stmt) -> dict[str, ast.expr]:
    """The names and the networks of `name = network.state_dict()`, also of two at once; none for other statements."""
    found: dict[str, ast.expr] = {}
    for target, value in pairwise(stmt) if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 else []:
        asks = calls_method(value, "state_dict") and not (value.args or value.keywords)
        if not asks or not isinstance(target, ast.Name) or not calls_method(value, "state_dict"):
            return {}
        found[target.id] = value.func.value
    return found


def _item(node: ast.expr, key: str) -> str | None:
    """The name of `state[key]`."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and unparse(node.slice) == key:
        return node.value.id
    return None


def _product(node: ast.expr, key: str) -> tuple[str, ast.expr] | None:
    """The name and the factor of `factor * state[key]`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for item, factor in ((node.left, node.right), (node.right, node.left)):
            if (name := _item(item, key)) is not None:
                return name, factor
    return None


def _state_is_parameters(roles: Roles) -> bool:
    """Whether the state_dict() of every network of the file contains only parameters, and no buffers of layers."""
    tree = roles.tree
    classes = [cls for cls in tree.classes.values() if roles.is_module(cls)]
    if any(tree.methods(name) for name in ("state_dict", "load_state_dict", "__setattr__")):
        return False
    for node in (n for cls in classes for n in roles.reached([cls])):
        name = tree.qualified(node) or ""
        if isinstance(node, ast.Attribute) and node.attr in ("register_buffer", "_buffers", "buffers"):
            return False
        module, _, last = name.rpartition(".")
        if module == "torch.nn" and last not in layers() | HOLDERS | {"init", "functional"}:
            return False
        if isinstance(node, ast.Call) and (called := tree.qualified(node.func)) and not library_does(called):
            return False
    return bool(classes)
