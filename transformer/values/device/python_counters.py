"""Numbers on objects that a function changes: torch.compile guards on their values and would recompile for each."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.recognition.roles import Roles
from transformer.syntax.query import pairwise, unparse, walk
from transformer.syntax.tree import Tree
from transformer.values.effects.world import World


def counted(roles: Roles, function: ast.FunctionDef) -> tuple[int, str] | None:
    """The first attribute that starts as a number and that a function, or its callees, increments: line and text."""
    counting = _counting(roles.tree)
    if not counting:
        return None
    run = roles.get(World).nodes_run([function])
    for node in roles.reached([function], _callable_in(roles, function)) if run is None else run:
        if node in counting:
            return counting[node].lineno, unparse(counting[node])
    return None


def _counting(tree: Tree) -> dict[ast.AST, ast.Attribute]:
    """The assignments that increment an attribute which starts as a number, each with the attribute."""
    numbers, found = set(_numbers(tree)), dict[ast.AST, ast.Attribute]()
    pairs: list[tuple[ast.stmt, ast.expr, ast.expr]] = [(s, s.target, s.target) for s in tree.of(ast.AugAssign)]
    pairs += [(s, target, value) for s in tree.of(ast.Assign) for target, value in pairwise(s)]
    for stmt, target, value in pairs:
        if isinstance(target, ast.Attribute) and target.attr in numbers and _mentions(value, target.attr):
            found.setdefault(stmt, target)
    return found


def _numbers(tree: Tree) -> Iterator[str]:
    """Attributes that some line of the file sets to a literal number."""
    for node in tree.nodes:
        if isinstance(node, ast.Assign):
            yield from (t.attr for t, v in pairwise(node) if isinstance(t, ast.Attribute) and _is_written(v))
        elif isinstance(node, ast.Call) and unparse(node.func) == "getattr" and len(node.args) == 3:
            if isinstance(node.args[1], ast.Constant) and _is_written(node.args[2]):
                yield str(node.args[1].value)


def _is_written(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def _mentions(value: ast.expr, attribute: str) -> bool:
    """Whether a value depends on an attribute, as `x.name` or `getattr(x, "name", 0)`."""
    return any(
        (isinstance(n, ast.Attribute) and n.attr == attribute) or (isinstance(n, ast.Constant) and n.value == attribute)
        for n in walk(value)
    )


def _callable_in(roles: Roles, function: ast.FunctionDef) -> list[ast.FunctionDef]:
    """The functions and methods of this file whose names occur in a function."""
    tree = roles.tree
    functions = [f for f in tree.of(ast.FunctionDef) if tree.scope_of(f) is tree.root]
    functions = [f for f in functions if not _steps_environment(roles, f)]
    named = {n.id for n in walk(function) if isinstance(n, ast.Name)}
    made = [call for name in sorted(named) for _, v in roles.assignments(name) if (call := tree.constructor(v))]
    classes = {c for call in made for c in tree.used_classes(tree.classes[unparse(call.func)])}
    return functions + [m for c in classes for m in c.body if isinstance(m, ast.FunctionDef)]


def _steps_environment(roles: Roles, function: ast.FunctionDef) -> bool:
    """Whether a function is the step() of a class that also has a reset(), and not an optimizer's or a network's."""
    owner = roles.tree.parents[function]
    if function.name != "step" or not isinstance(owner, ast.ClassDef) or roles.is_module(owner):
        return False
    return any(isinstance(m, ast.FunctionDef) and m.name == "reset" for m in owner.body)
