"""The values to which names and attributes are bound anywhere in a file; not all of them reach every use."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from transformer.dataflow.variables import Variables
from transformer.syntax.query import bind_arguments
from transformer.syntax.tree import Tree


def bound_to(tree: Tree, node: ast.Name | ast.Attribute, *, own: bool = False) -> Iterator[ast.expr | None]:
    """The values to which a name, or this attribute of any object, is bound; None for an unknown value.

    Args:
        tree: the file.
        node: the name or the attribute.
        own: leave out equal names in other scopes.
    """
    if isinstance(node, ast.Attribute):
        for stored in tree.attributes_set(node.attr):
            yield _assigned_value(tree, stored)
        return
    owner = variables(tree).owner_of(node) if own else None
    for name in tree.stores.get((ast.Name, node.id), ()):
        if not own or (isinstance(name, ast.Name) and variables(tree).owner_of(name) is owner):
            yield _assigned_value(tree, name)
    for parameter in tree.of(ast.arg):
        if parameter.arg == node.id and (not own or tree.parents[tree.parents[parameter]] is owner):
            yield from _arguments_for(tree, parameter)
    defined: list[ast.FunctionDef | ast.ClassDef] = [*tree.of(ast.FunctionDef), *tree.of(ast.ClassDef)]
    if any(one.name == node.id for one in defined):
        yield None


def is_same_variable(tree: Tree, one: ast.Name, other: ast.Name) -> bool:
    """Whether two names of a file are the same variable: equal names in the same scope."""
    return one.id == other.id and variables(tree).owner_of(one) is variables(tree).owner_of(other)


@lru_cache(maxsize=2)
def variables(tree: Tree) -> Variables:
    """The scopes of a file, computed once."""
    return Variables(tree)


def _assigned_value(tree: Tree, target: ast.expr) -> ast.expr | None:
    stmt = tree.statement(target)
    if isinstance(stmt, ast.Assign):
        return tree.assigned.get(target)
    if isinstance(stmt, ast.AnnAssign) and stmt.target is target:
        return stmt.value
    if isinstance(stmt, ast.With):
        return next((item.context_expr for item in stmt.items if item.optional_vars is target), None)
    return None


def _arguments_for(tree: Tree, parameter: ast.arg) -> Iterator[ast.expr | None]:
    """The arguments that calls pass for a parameter of a function or a constructor of this file."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    function = next(n for n in tree.ancestors(parameter) if isinstance(n, functions))
    owner = tree.parents[function]
    if not isinstance(function, ast.FunctionDef) or (isinstance(owner, ast.ClassDef) and function.name != "__init__"):
        yield None
        return
    name, found = owner.name if isinstance(owner, ast.ClassDef) else function.name, False
    for use in tree.of(ast.Name):
        if use.id != name or not isinstance(use.ctx, ast.Load):
            continue
        call = tree.parents[use]
        if not isinstance(call, ast.Call) or call.func is not use:
            yield None
            continue
        bound = bind_arguments(function, call, receiver=use if isinstance(owner, ast.ClassDef) else None)
        yield bound.values.get(parameter.arg) if bound is not None else None
        found = True
    if not found:
        yield None
