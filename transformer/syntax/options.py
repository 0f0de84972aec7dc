"""Whether an expression is the result of the script's argument parser."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from transformer.syntax.query import bind_arguments, is_none, last_written, parameters, statements, unparse
from transformer.syntax.tree import Scope, Tree

PARSING = ("parse_args", "parse_known_args", "parse_intermixed_args")
DEEP = 8
"""The maximum number of names and calls to follow."""


def holds_options(tree: Tree, value: ast.expr, scope: Scope, depth: int = 0) -> bool:
    """Whether every value that an expression can have in a scope comes from an argument parser."""
    if depth > DEEP:
        return False
    if isinstance(value, ast.Call):
        if tree.calls(value, "tyro.cli") or (isinstance(value.func, ast.Attribute) and value.func.attr in PARSING):
            return True
        function = tree.function_called(value)
        results = [s.value for s in statements(function.body) if isinstance(s, ast.Return)] if function else []
        return bool(results) and all(
            r is not None and holds_options(tree, r, function, depth + 1) for r in results if function is not None
        )
    # None, the default without arguments, has no options to read
    sources = [(v, where) for v, where in _sources(tree, value, scope) if not is_none(v)]
    return bool(sources) and all(holds_options(tree, v, where, depth + 1) for v, where in sources)


def _sources(tree: Tree, value: ast.expr, scope: Scope) -> Iterator[tuple[ast.expr, Scope]]:
    """The values assigned to a name or an attribute of `self`, or passed for a parameter, each with its scope."""
    if isinstance(value, ast.Attribute):
        yield from _attributes(tree, value, scope)
    if not isinstance(value, ast.Name):
        return
    known = _assigned_in(tree)
    if scope not in known:
        assigned = known[scope] = dict[str, list[ast.expr]]()
        for target, given in (pair for stmt in statements(scope.body) for pair in _target_and_value(stmt)):
            if isinstance(target, ast.Name):
                assigned.setdefault(target.id, []).append(given)
    found = known[scope].get(value.id, [])
    yield from ((given, scope) for given in found)
    if isinstance(scope, ast.FunctionDef):
        if value.id in parameters(scope):
            yield from _passed_for(tree, scope, value.id)
        elif not found:
            yield value, tree.scope_of(scope)


@lru_cache(maxsize=2)
def _assigned_in(tree: Tree) -> dict[Scope, dict[str, list[ast.expr]]]:
    """The values assigned to names, by scope; filled on demand."""
    return {}


def _target_and_value(stmt: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(stmt, ast.AnnAssign) and stmt.value is not None:
        yield stmt.target, stmt.value
    if isinstance(stmt, ast.Assign):
        for target in stmt.targets:
            if isinstance(target, ast.Tuple) and isinstance(stmt.value, ast.Call):
                yield target.elts[0], stmt.value  # args, others = parser.parse_known_args()
            else:
                yield target, stmt.value


def _attributes(tree: Tree, value: ast.Attribute, scope: Scope) -> Iterator[tuple[ast.expr, Scope]]:
    owner = tree.class_of_self(value.value, scope)
    if owner is None:
        return
    for method in (m for m in owner.body if isinstance(m, ast.FunctionDef)):
        for stmt in statements(method.body):
            for target, assigned in _target_and_value(stmt):
                if unparse(target) == unparse(value):
                    yield assigned, method


def _passed_for(tree: Tree, function: ast.FunctionDef, param: str) -> Iterator[tuple[ast.expr, Scope]]:
    """The arguments for a parameter in all calls of a function, or of the class whose `__init__` it is."""
    owner = tree.parents[function]
    name = owner.name if isinstance(owner, ast.ClassDef) and function.name == "__init__" else function.name
    for call in tree.of(ast.Call):
        if last_written(call.func) != name:
            continue
        bound = bind_arguments(function, call, call.func if isinstance(owner, ast.ClassDef) else None)
        given = bound.given.get(param) if bound is not None else None
        yield given or ast.Constant(None), tree.scope_of(call)
