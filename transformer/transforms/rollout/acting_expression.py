"""Which expression of a method that decides on the actions runs a network, and can be compiled by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from transformer.dataflow.access import scope_access
from transformer.dataflow.grad_mode import NO_GRAD, without_gradients
from transformer.recognition.roles import Roles
from transformer.syntax.query import first_parameter, statements, unparse, walk
from transformer.syntax.tree import Tree
from transformer.transforms.rollout.acting import TO_NUMBERS
from transformer.transforms.rollout.policy import deciding_values
from transformer.values.effects.world import World
from transformer.values.networks.computing import Computing
from transformer.values.networks.distributions import DISTRIBUTIONS
from transformer.values.networks.sealed import is_plain_class

TO_HOST = frozenset("item tolist numpy cpu detach".split())
"""Methods on the way from a tensor to numbers, which stay where they are."""
SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)


@dataclass(frozen=True)
class Expression:
    """What runs a network to decide on the actions, wherever the function does so."""

    function: ast.FunctionDef
    cls: ast.ClassDef | None
    places: tuple[ast.expr, ...]
    """Expressions of one text, whose names have one meaning."""
    params: tuple[str, ...]
    unused: bool
    """Whether gradients are recorded that nothing uses."""


def hooks(roles: Roles) -> bool:
    """Whether the script registers hooks, which may do anything where a network is called."""
    return roles.hook(r"\w*") is not None


def find_expression(roles: Roles) -> Expression | None:
    """The expression, in a function that decides on the actions; None if gradients may be used, or there is none."""
    for function, cls in () if hooks(roles) else _functions(roles):
        found: dict[tuple[str, tuple[str, ...]], list[ast.expr]] = {}
        computing = Computing(roles, function, cls)
        for stmt in statements(function.body):
            if isinstance(stmt, SIMPLE) and stmt.value is not None:
                for node in _computed(roles, computing, stmt, stmt.value):
                    quiet = not computing.records or without_gradients(roles.tree, stmt)
                    if not quiet and not _becomes_numbers(roles.tree, node):
                        return None
                    key = unparse(node), tuple(computing.inputs)
                    found.setdefault(key, []).append(node)
        if found:
            (_, params), places = next(iter(found.items()))
            unused = not all(without_gradients(roles.tree, roles.tree.statement(n)) for n in places)
            return Expression(function, cls, tuple(places), params, unused)
    return None


def _functions(roles: Roles) -> Iterator[tuple[ast.FunctionDef, ast.ClassDef | None]]:
    """Functions and methods, with their classes, that decide on the actions and are not part of the learning."""
    tree = roles.tree
    deciding = [n for v in deciding_values(roles) for n in roles.reached([v]) if isinstance(n, ast.FunctionDef)]
    left_out = {*roles.reached(roles.phases.updates[:1]), roles.scope}
    for function in dict.fromkeys(f for f in deciding if f not in left_out and f.name != "forward"):
        owner = tree.parents[function]
        own, plain = first_parameter(function), all(tree.calls(d, *NO_GRAD) for d in function.decorator_list)
        if not plain or any(isinstance(n, (ast.Yield, ast.YieldFrom, ast.Await)) for n in walk(function)):
            continue
        if isinstance(owner, ast.ClassDef):
            kept = own is not None and own not in scope_access(function.body).binds
            if kept and is_plain_class(tree, owner):
                yield function, owner
        elif owner is tree.root and isinstance(roles.scope, ast.Module) and function.name not in tree.rebound:
            yield function, None  # --compile replaces a name of the scope that trains


def _computed(roles: Roles, computing: Computing, stmt: ast.stmt, node: ast.AST) -> Iterator[ast.expr]:
    """The largest parts of an expression that run a network, do nothing but compute, and make no distribution."""
    if isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        return
    to_host = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TO_HOST
    if isinstance(node, (ast.Call, ast.Subscript, ast.BinOp)) and not to_host:
        computing.begin(stmt)
        computes = computing.expression(node) and computing.calls_network
        if computes and not roles.get(World).may_be_made_by(node, DISTRIBUTIONS):
            yield node
            return
    for child in ast.iter_child_nodes(node):
        yield from _computed(roles, computing, stmt, child)


def _becomes_numbers(tree: Tree, node: ast.expr) -> bool:
    """Whether numbers are made of an expression where it stands."""
    below: ast.AST = node
    for outer in tree.ancestors(node):
        if isinstance(outer, ast.Attribute):
            if outer.attr in TO_NUMBERS:
                return True
        elif not (isinstance(outer, ast.Call) and outer.func is below) and not isinstance(outer, ast.Subscript):
            return False
        below = outer
    return False
