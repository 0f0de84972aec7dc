"""Execute a script's first imports while it is being converted: they run first anyway, and take longer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.machinery import PathFinder
from typing import TypeAlias

Import: TypeAlias = "ast.Import | ast.ImportFrom"


def leading_imports(source: bytes) -> Iterator[Import]:
    """The imports at the start of a script, up to the first other statement (except docstrings)."""
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
    """Execute the leading imports in order, as long as they import installed packages; returns those executed.

    Stops at a module in the script's own `folder`: none of the user's code runs before the script is known to be
    convertible. Also stops at an import that fails, which then fails in the script.
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
    """Whether the conversion has statements above one of the executed imports."""
    return not set(done) <= {ast.unparse(stmt) for stmt in leading_imports(converted)}


def _is_local(name: str, folder: str) -> bool:
    found = PathFinder.find_spec(name.partition(".")[0], [folder])
    return found is not None and found.origin is not None  # a folder without __init__.py is found after packages
