"""Which expression of a method that decides on the actions runs a network, and can be compiled by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from transformer.dataflow.grad_mode import without_gradients
from transformer.recognition.roles import Roles
from transformer.syntax.query import first_parameter, statements, unparse
from transformer.syntax.tree import Tree
from transformer.transforms.rollout.acting import TO_NUMBERS
from transformer.transforms.rollout.policy import deciding_values
from transformer.values.effects.world import World
from transformer.values.networks.computing import Computing
from transformer.values.networks.distributions import DISTRIBUTIONS

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


def find_expression(
    roles: Roles, functions: Iterable[tuple[ast.FunctionDef, ast.ClassDef | None]]
) -> Expression | None:
    """The expression, in one of some functions; None where there is none, or its gradients may be used."""
    deciding = [n for v in deciding_values(roles) for n in roles.reached([v]) if isinstance(n, ast.FunctionDef)]
    for function, cls in sorted((f for f in functions if f[0] in deciding), key=lambda f: deciding.index(f[0])):
        if function.name == "forward" or first_parameter(function) is None:
            continue
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
