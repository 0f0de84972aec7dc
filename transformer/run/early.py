"""Executing a script's first imports while it is being converted: they take longer than that, and come first anyway."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.machinery import PathFinder
from typing import TypeAlias

Import: TypeAlias = "ast.Import | ast.ImportFrom"


def leading_imports(source: bytes) -> Iterator[Import]:
    """The imports with which a script begins, up to the first statement of another kind (docstrings aside)."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return
    for stmt in body:
        if isinstance(stmt, (ast.Import, ast.ImportFrom)):
            yield stmt
        elif not (isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant)):
            return


def import_ahead(source: bytes, file: str, folder: str) -> list[str]:
    """Execute them in their order, as far as they are of installed packages; what was executed.

    Stops at a module that lies in the script's own `folder`: nothing of the user's is executed before it is known that
    there is a conversion. What fails is left to the script to fail with.
    """
    done = []
    for stmt in leading_imports(source):
        relative = isinstance(stmt, ast.ImportFrom) and stmt.level
        names = [a.name for a in stmt.names] if isinstance(stmt, ast.Import) else [stmt.module or ""]
        if relative or any(_is_local(name, folder) for name in names):
            break
        done.append(ast.unparse(stmt))
        try:
            exec(compile(ast.Module([stmt], []), file, "exec", dont_inherit=True), {"__name__": "__main__"})
        except Exception:
            break
    return done


def too_early(done: list[str], converted: bytes) -> bool:
    """Whether the conversion sets something above one of the imports that were executed."""
    return not set(done) <= {ast.unparse(stmt) for stmt in leading_imports(converted)}


def _is_local(name: str, folder: str) -> bool:
    found = PathFinder.find_spec(name.partition(".")[0], [folder])
    return found is not None and found.origin is not None  # a folder without __init__.py gives way to what is installed
