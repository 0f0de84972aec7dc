"""Whether a number may be an int or a bool: these print as `1` and `True`, a float as `1.0`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from transformer.dataflow.access import access
from transformer.dataflow.bindings import bound_to, variables
from transformer.facts.python import math_gives_float
from transformer.recognition.arguments import declared_types, plain_option
from transformer.syntax.query import names_in, walk
from transformer.syntax.tree import Tree


def may_be_whole(tree: Tree, value: ast.AST) -> bool:
    """Whether the file does not show that a number is a float."""
    return _may_be(tree, value, set())


def methods_called(tree: Tree, call: ast.Call) -> Sequence[ast.FunctionDef]:
    """The called function of this file, or the methods that may be called."""
    if isinstance(call.func, ast.Attribute):
        return tree.methods(call.func.attr)
    function = tree.function_called(call)
    return [function] if function is not None else []


def _may_be(tree: Tree, value: ast.AST, seen: set[object]) -> bool:
    if isinstance(value, ast.Constant):
        return isinstance(value.value, int)
    if isinstance(value, ast.IfExp):
        return _any_may_be(tree, (value.body, value.orelse), seen)
    if isinstance(value, ast.BoolOp):
        return _any_may_be(tree, value.values, seen)
    if isinstance(value, ast.UnaryOp):
        return isinstance(value.op, (ast.Not, ast.Invert)) or _may_be(tree, value.operand, seen)
    if isinstance(value, ast.BinOp):
        sides = (value.left, value.right)
        return not isinstance(value.op, ast.Div) and all(_may_be(tree, side, seen) for side in sides)
    if isinstance(value, ast.NamedExpr):
        return _may_be(tree, value.value, seen)
    if isinstance(value, ast.Call):
        function = tree.names.builtin(value.func)
        if function in ("max", "min", "sum", "abs"):
            return _any_may_be(tree, value.args, seen)
        if function == "float" or _is_float_of_math(tree, value.func):
            return False
        made = [n.value for f in methods_called(tree, value) for n in walk(f) if isinstance(n, ast.Return)]
        return not made or None in made or _any_may_be(tree, made, seen)
    if not isinstance(value, (ast.Name, ast.Attribute)):
        return True
    if _is_float_of_math(tree, value):
        return False
    if variable_key(tree, value) in seen:
        return False
    seen.add(variable_key(tree, value))
    defaults = plain_option(tree, value) if isinstance(value, ast.Attribute) else None
    if defaults is not None and isinstance(value, ast.Attribute):
        types = names_in(declared_types(tree, value.attr))
        return not types.isdisjoint(("int", "bool")) or _any_may_be(tree, defaults, seen)
    bound = [*bound_to(tree, value, own=True)]
    if isinstance(value, ast.Attribute):  # a class's field, and the arguments of constructors for it
        fields = (s for cls in tree.of(ast.ClassDef) for s in cls.body if isinstance(s, (ast.Assign, ast.AnnAssign)))
        bound += [s.value for s in fields if value.attr in access(s).binds]
        bound += [k.value for k in tree.of(ast.keyword) if k.arg == value.attr]
    return not bound or None in bound or _any_may_be(tree, bound, seen)  # None: a loop's variable, or another file's


def _is_float_of_math(tree: Tree, node: ast.expr) -> bool:
    module, _, name = (tree.qualified(node) or "").rpartition(".")
    return module == "math" and math_gives_float(name)


def _any_may_be(tree: Tree, values: Iterable[ast.AST | None], seen: set[object]) -> bool:
    return any(_may_be(tree, value, seen) for value in values if value is not None)


def variable_key(tree: Tree, node: ast.Name | ast.Attribute) -> object:
    """A key for one variable, or for an attribute of any object."""
    return (node.id, variables(tree).owner_of(node)) if isinstance(node, ast.Name) else f".{node.attr}"
