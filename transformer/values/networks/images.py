"""Whether a network first divides its images by a number, so that it can take the raw bytes."""

from __future__ import annotations

import ast

from transformer.facts.torch_api import names
from transformer.recognition.roles import Roles
from transformer.syntax.query import bind_arguments, first_parameter, walk
from transformer.syntax.tree import Tree
from transformer.values.networks.results import Results

REORDERS = names("tensor", reorders=True)


def divided_first(roles: Roles, argument: ast.expr) -> bool:
    """Whether a network always divides an argument by a number before using it otherwise.

    Dividing bytes by 255.0 casts them to float32 first, so the quotients are the same as for an image in float32.
    """
    call = roles.tree.parents[argument]
    if not isinstance(call, ast.Call) or argument not in call.args:
        return False
    cls, method = Results(roles, call).called
    return cls is not None and method is not None and _divides(roles.tree, cls, method, call, argument, [])


def _divides(
    tree: Tree, cls: ast.ClassDef, method: ast.FunctionDef, call: ast.Call, argument: ast.expr, entered: list[str]
) -> bool:
    """Whether a method first divides the given argument of a call."""
    bound = bind_arguments(method, call, call.func)
    param = bound.parameter_of(argument) if bound is not None else None
    if method.decorator_list or param is None or method.name in entered:
        return False
    uses = [n for n in walk(method) if isinstance(n, ast.Name) and n.id == param]
    stores = [n for n in uses if not isinstance(n.ctx, ast.Load)]
    if stores:  # x = x / 255.0 as the first statement: all later statements see the quotient
        body = [s for s in method.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        first = body[0] if body else None
        if not isinstance(first, ast.Assign) or [ast.unparse(t) for t in first.targets] != [param]:
            return False
        uses = [n for n in walk(first.value) if isinstance(n, ast.Name) and n.id == param]
    loads = [n for n in uses if isinstance(n.ctx, ast.Load)]
    return all(_is_divided(tree, cls, method, n, [*entered, method.name]) for n in loads)


def _is_divided(tree: Tree, cls: ast.ClassDef, method: ast.FunctionDef, use: ast.expr, entered: list[str]) -> bool:
    """Whether a use of an image divides it, perhaps after permuting its axes, or passes it to a method that does."""
    parents = tree.parents
    node: ast.AST = use
    while isinstance(outer := parents[node], ast.Attribute) and outer.attr in REORDERS:
        node = parents[outer]
    outer = parents[node]
    if isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Div) and outer.left is node:
        number = outer.right
        return isinstance(number, ast.Constant) and type(number.value) in (int, float)
    if (
        not isinstance(outer, ast.Call)
        or not isinstance(node, ast.expr)
        or node not in outer.args
        or not isinstance(outer.func, ast.Attribute)
    ):
        return False
    own = first_parameter(method)
    inner = next((m for m in cls.body if isinstance(m, ast.FunctionDef) and m.name == outer.func.attr), None)
    called = ast.unparse(outer.func.value) == own and inner is not None
    return called and inner is not None and _divides(tree, cls, inner, outer, node, entered)
