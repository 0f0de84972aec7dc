"""Whether a script that may look up its variables by name would find others, or at other times."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence

from transformer.dataflow.name_lookups import variable_lookups
from transformer.syntax.query import statements, walk
from transformer.syntax.tree import Scope, Tree


def seen_by_text(before: Tree, after: Tree, scope: Scope) -> ast.expr | None:
    """A place where a script accesses its variables by text, if statements that set some have changed.

    Args:
        before: the script.
        after: the script with some edits.
        scope: the training scope of `before`.
    """
    sets_globals = any(isinstance(n, ast.Global) for n in walk(scope))
    function = scope if isinstance(scope, ast.FunctionDef) and not sets_globals else None
    functions = [f for f in after.of(ast.FunctionDef) if f.name == getattr(scope, "name", None)]
    places = (p for p in variable_lookups(before, function) if not _comes_first(before, function, functions, p))
    place = next(places, None)
    if place is None:
        return None
    now = [after.root] if isinstance(scope, ast.Module) else functions
    kept = Counter(text for one in now for text in _settings(one))
    return place if Counter(_settings(scope)) - kept else None


def _comes_first(
    before: Tree, function: ast.FunctionDef | None, now: Sequence[ast.FunctionDef], place: ast.expr
) -> bool:
    """Whether a place is `f(locals())` in a training function, and all statements down to it are unchanged.

    Names bound below it are not in the result: Python updates that only when locals() is called again.
    """
    call = before.parents[place]
    asked = isinstance(place, ast.Name) and place.id == "locals" and isinstance(call, ast.Call) and call.func is place
    if not asked or function is None or len(now) != 1 or before.scope_of(place) is not function:
        return False
    stmt = before.statement(place)
    if (
        stmt not in function.body
        or hasattr(stmt, "body")
        or any(isinstance(outer, ast.Lambda) for outer in before.ancestors(place))
    ):
        return False
    count = function.body.index(stmt) + 1
    return [*map(ast.dump, function.body[:count])] == [*map(ast.dump, now[0].body[:count])]


def _settings(scope: Scope) -> list[str]:
    """The texts of the statements that set variables of a scope, or their contents."""
    return [_head(s) for s in statements(scope.body) if isinstance(s, SETTING)]


SETTING = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.With, ast.Delete)


def _head(stmt: ast.stmt) -> str:
    if isinstance(stmt, ast.For):
        return f"for {ast.unparse(stmt.target)} in {ast.unparse(stmt.iter)}"
    if isinstance(stmt, ast.With):
        return f"with {', '.join(map(ast.unparse, stmt.items))}"
    return ast.unparse(stmt)
