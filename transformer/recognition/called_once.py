"""Functions that the training scope calls in exactly one place: their parameters are that call's arguments."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass

from transformer.dataflow.access import access
from transformer.facts.torch_api import NO_GRAD
from transformer.syntax.query import bind_arguments, parameters, statements, walk
from transformer.syntax.tree import Scope, Tree


@dataclass(frozen=True)
class CalledOnce:
    """A function with its only call, and the argument of each parameter."""

    function: ast.FunctionDef
    call: ast.Call
    stmt: ast.stmt
    """The statement that contains the call."""
    given: dict[str, ast.Assign]
    """For each parameter, an assignment of its argument to it; the assignment is in no block."""
    own: frozenset[str]
    """Names that the function binds."""
    sees_callers_names: bool
    """Whether the free names of the function are variables of the training scope."""

    def returned(self, place: int | None, count: int) -> list[tuple[ast.expr, ast.Return]]:
        """What the function returns, or one of `count` parts of that, with the `return`; nothing if not explicit."""
        found = []
        for stmt in statements(self.function.body):
            if not isinstance(stmt, ast.Return):
                continue
            value = stmt.value
            if place is not None:
                parts = value.elts if isinstance(value, ast.Tuple) else []
                value = parts[place] if len(parts) == count else None
            if value is None:
                return []
            found.append((value, stmt))
        return found if isinstance(self.function.body[-1], ast.Return) else []


def find_called_once(tree: Tree, scope: Scope, networks: Collection[str]) -> dict[ast.FunctionDef, CalledOnce]:
    """The functions that the training scope calls exactly once and that are not used otherwise.

    Args:
        tree: the file.
        scope: the training scope.
        networks: the names of networks, which must have the same meaning inside the function.
    """
    functions = {n.name: n for n in tree.root.body if isinstance(n, ast.FunctionDef) and n is not scope}
    calls: dict[str, ast.Call] = {}
    uses: dict[str, list[ast.Name]] = {}
    for node in tree.of(ast.Name):
        if node.id in functions:
            uses.setdefault(node.id, []).append(node)
    for name, (use, *others) in uses.items():
        call = tree.parents[use]
        if others or not isinstance(call, ast.Call) or call.func is not use:
            continue
        later = any(isinstance(n, ast.Lambda) for n in tree.ancestors(call))
        if tree.scope_of(call) is scope and not later and tree.function_called(call) is functions[name]:
            calls[name] = call
    found = {}
    for name, call in calls.items():
        function, given = functions[name], _given(functions[name], call)
        if given is None or any(not tree.calls(d, *NO_GRAD) for d in function.decorator_list):
            continue
        if any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in walk(function)):
            continue
        if any(p in networks and ast.unparse(a.value) != p for p, a in given.items()):
            continue  # here, the name of a network has another meaning
        own = frozenset(n for s in statements(function.body) for n in access(s).binds) | frozenset(parameters(function))
        stmt, module = tree.statement(call), isinstance(scope, ast.Module)
        found[function] = CalledOnce(function, call, stmt, given, own, module)
    return found


def _given(function: ast.FunctionDef, call: ast.Call) -> dict[str, ast.Assign] | None:
    """The argument of each parameter in a call; None if the arguments are not plain."""
    bound = bind_arguments(function, call)
    if bound is None or set(bound.values) != set(parameters(function)):
        return None
    return {
        name: ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), call)
        for name, value in (bound.defaults | bound.given).items()
        if name in bound.given or isinstance(value, ast.Constant)  # other defaults have the value from the definition
    }
