"""Which calls only print or log, judged by what made their object rather than by the method's name."""

from __future__ import annotations

import ast

from transformer.dataflow.bindings import bound_to
from transformer.facts.libraries import REPORTS, role
from transformer.syntax.tree import Tree

DEEP = 6
"""The maximum number of names, attributes and parameters to follow."""


def is_report(tree: Tree, node: ast.AST) -> bool:
    """Whether a node calls print(), or a reporting method of an object made by a logging library."""
    if not isinstance(node, ast.Call):
        return False
    if tree.names.builtin(node.func) == "print":
        return not any(k.arg == "file" for k in node.keywords)
    return isinstance(node.func, ast.Attribute) and node.func.attr in REPORTS and is_logger(tree, node.func.value)


def is_in_report(tree: Tree, node: ast.AST) -> bool:
    """Whether a node is part of something printed, logged or passed to a logging library."""
    calls = (outer for outer in tree.ancestors(node) if isinstance(outer, ast.Call))
    return any(is_report(tree, call) or role(tree.qualified(call.func) or "") == "reports" for call in calls)


def is_logger(tree: Tree, node: ast.expr, depth: int = DEEP) -> bool:
    """Whether an expression is known to be None or an object of a logging library with its original methods.

    A name or an attribute is looked up in the whole file, in all scopes.
    """
    if depth == 0 or _replaces_methods(tree):
        return False
    if isinstance(node, ast.Constant):
        return node.value is None
    if isinstance(node, ast.IfExp):
        return is_logger(tree, node.body, depth - 1) and is_logger(tree, node.orelse, depth - 1)
    if isinstance(node, ast.Call):
        return _is_of_library(tree, node.func)
    if isinstance(node, ast.Name) and node.id in tree.imports:
        return _is_of_library(tree, node) and not any(True for _ in bound_to(tree, node))
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return False
    if isinstance(node, ast.Attribute) and tree.qualified(node):
        return _is_of_library(tree, node)
    values = [*bound_to(tree, node)]
    return bool(values) and all(v is not None and is_logger(tree, v, depth - 1) for v in values)


def _is_of_library(tree: Tree, node: ast.expr) -> bool:
    name = tree.qualified(node) or ""
    reports = role(name) == "reports" and not name.startswith("matplotlib")  # a figure is no logger
    return reports or name.partition(".")[0] == "sys"


def _replaces_methods(tree: Tree) -> bool:
    """Whether the file replaces a reporting method."""
    return any(not isinstance(n.ctx, ast.Load) and n.attr in REPORTS for n in tree.of(ast.Attribute))
