"""Whether a script computes with all of its options at once: then one more option would change the results."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.facts.lookups import lookups
from transformer.syntax.options import holds_options
from transformer.syntax.query import is_none, unparse
from transformer.syntax.tree import Scope, Tree
from transformer.values.reports import is_in_report

AS_MAPPING = ("dataclasses.asdict", "copy.copy", "copy.deepcopy")
ONE_OF_THEM = lookups(of="builtin", finds="attributes")
"""Builtins that access one option by its name."""


def computed_with(tree: Tree) -> ast.expr | None:
    """Where a script may compute with all options: `hash(str(args))`, `len(vars(args))`, `run(**vars(args))`.

    These uses are known to be harmless: logging; passing options to code of this file, whose own uses are examined
    too; reading one option by its name; keeping them in a dictionary; a call whose result is not used; and computing a
    value that is only logged.
    """
    return next((node for node in _options(tree) if not _is_kept_or_told(tree, node)), None)


def _options(tree: Tree) -> Iterator[ast.expr]:
    """The expressions whose value is all options, as an object or as a mapping."""
    known: dict[tuple[str, Scope], bool] = {}
    nodes: list[ast.Name | ast.Attribute] = [*tree.of(ast.Name), *tree.of(ast.Attribute)]
    for node in nodes:
        if not isinstance(node.ctx, ast.Load):
            continue
        user = tree.parents[node]
        if isinstance(user, ast.Attribute) and not user.attr.startswith("_"):
            continue
        key = (unparse(node), tree.scope_of(node))
        if key not in known:
            known[key] = holds_options(tree, node, key[1])
        if known[key]:
            yield _as_mapping(tree, user if isinstance(user, ast.Attribute) else node)


def _as_mapping(tree: Tree, node: ast.expr) -> ast.expr:
    """The outermost call around options that turns them into a mapping or another object: `vars(args)`."""
    user = tree.parents[node]
    if isinstance(user, ast.Call) and node in user.args:
        if tree.names.builtin(user.func) in ("vars", "dict") or tree.calls(user, *AS_MAPPING):
            return _as_mapping(tree, user)
    return node


def _is_kept_or_told(tree: Tree, node: ast.expr) -> bool:
    if _is_told(tree, node):
        return True
    user, mapping = tree.parents[node], not isinstance(node, ast.Name)
    if isinstance(user, ast.keyword):
        if user.arg is None:
            return False
        user = tree.parents[user]
    if isinstance(user, ast.Call) and user.func is not node:
        own = isinstance(user.func, ast.Name) and (tree.function_called(user) or user.func.id in tree.classes)
        method = isinstance(user.func, ast.Attribute) and tree.methods(user.func.attr)
        one = tree.names.builtin(user.func) in ONE_OF_THEM
        return bool(own or method) or one or isinstance(tree.parents[user], ast.Expr)
    if isinstance(user, (ast.Assign, ast.AnnAssign, ast.Return)):
        return not mapping or (isinstance(node, ast.Attribute) and node.attr != "__dict__")
    if isinstance(user, ast.Compare):
        return all(map(is_none, user.comparators))
    if isinstance(user, ast.Subscript):
        return user.value is node
    return isinstance(user, (ast.Expr, ast.Dict, ast.If, ast.BoolOp, ast.IfExp))


def _is_told(tree: Tree, node: ast.expr, seen: frozenset[str] = frozenset()) -> bool:
    """Whether an expression is part of a logged value, or of a variable's value that is only logged."""
    if is_in_report(tree, node):
        return True
    stmt = tree.statement(node)
    if not isinstance(stmt, ast.Assign) or stmt.value is node:
        return False
    names = {t.id for t in stmt.targets if isinstance(t, ast.Name)}
    reads = [n for n in tree.of(ast.Name) if n.id in names and isinstance(n.ctx, ast.Load)]
    new = len(names) == len(stmt.targets) and not names & seen
    return new and all(_is_told(tree, read, seen | names) for read in reads)
