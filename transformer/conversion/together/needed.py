"""Which definitions of the given files are needed: those that nothing reads need not be merged."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

from transformer.conversion.together.definitions import only_defines
from transformer.conversion.together.modules import File
from transformer.conversion.together.scopes import DEFINITIONS
from transformer.syntax.imports import is_future, is_standard
from transformer.syntax.tree import Tree, ast_lines

IDENTIFIER = re.compile(r"[^\W\d]\w*")


def without_what_is_not_executed(code: str) -> str:
    """The text of a module without `if __name__ == "__main__":` and without string statements.

    Raises:
        SyntaxError, ValueError: it is not Python.
    """
    tree = Tree(code)
    body = tree.root.body
    gone = [s for s in body if _is_main_guard(s) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    return without(tree, gone)


def without_unneeded(script: File, files: Sequence[File]) -> list[str]:
    """The texts of files without the definitions that neither the script nor the remaining definitions need.

    A name that is needed anywhere counts as needed in all files, and a string that is a name counts as a read of it.
    """
    if any(node.attr == "__subclasses__" for file in (script, *files) for node in file.tree.of(ast.Attribute)):
        return [file.tree.code for file in files]
    wanted = _mentioned([script.tree.root], but=frozenset(script.scopes.lines))
    open_ = {stmt: file for file in files for stmt in file.tree.root.body if _may_go(file, stmt)}
    wanted |= _mentioned(s for file in files for s in file.tree.root.body if s not in open_)
    while found := [stmt for stmt in open_ if bound_names(stmt) & wanted]:
        wanted |= _mentioned(found)
        for stmt in found:
            del open_[stmt]
    return [without(file.tree, [s for s in file.tree.root.body if open_.get(s) is file]) for file in files]


def without(tree: Tree, gone: Iterable[ast.stmt]) -> str:
    """A text in which statements, and the comments right above them, are replaced by blank lines."""
    lines = ast_lines(tree.code)
    for stmt in gone:
        first = min([stmt.lineno, *(d.lineno for d in getattr(stmt, "decorator_list", ()))])
        while first > 1 and lines[first - 2].startswith("#"):
            first -= 1
        for number in range(first, (stmt.end_lineno or first) + 1):
            lines[number - 1] = "\r\n" if lines[number - 1].endswith("\r\n") else "\n"
    return "".join(lines)


def _may_go(file: File, stmt: ast.stmt) -> bool:
    """Whether a statement only defines something and is alone on its line."""
    alone = sum(s.lineno <= (stmt.end_lineno or 0) and stmt.lineno <= (s.end_lineno or 0) for s in file.tree.root.body)
    return alone == 1 and (only_defines(file.tree, [stmt]) or only_imports(stmt))


def only_imports(stmt: ast.stmt) -> bool:
    """Whether a statement only binds modules whose import has no effects."""
    if isinstance(stmt, ast.Import):
        modules = [alias.name for alias in stmt.names]
    elif isinstance(stmt, ast.ImportFrom) and not is_future(stmt) and not stmt.level and stmt.names[0].name != "*":
        modules = [stmt.module or ""]
    else:
        return False
    return all(is_standard(m) or m.partition(".")[0] in ("numpy", "torch") for m in modules)


def bound_names(stmt: ast.stmt) -> set[str]:
    """The names that a statement of a module binds there."""
    if isinstance(stmt, DEFINITIONS):
        return {stmt.name}
    if isinstance(stmt, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name.partition(".")[0] for alias in stmt.names}
    inner = [n for n in ast.walk(stmt) if n is not stmt and isinstance(n, (*DEFINITIONS, ast.Import, ast.ImportFrom))]
    stored = {n.id for n in ast.walk(stmt) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return stored.union(*map(bound_names, inner))


def _mentioned(stmts: Iterable[ast.AST], but: frozenset[str] = frozenset()) -> set[str]:
    """The names that statements may read, also through modules and imports, except those in `but`."""
    found: set[str] = set()
    for node in (n for stmt in stmts for n in ast.walk(stmt)):
        if isinstance(node, ast.Name):
            found |= {node.id} - but
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
            found |= set(IDENTIFIER.findall(node.value))
    return found


def _is_main_guard(stmt: ast.stmt) -> bool:
    """Whether a statement is `if __name__ == "__main__":`, which an import does not execute."""
    test = stmt.test if isinstance(stmt, ast.If) and not stmt.orelse else None
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id == "__name__"
        and isinstance(test.ops[0], ast.Eq)
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value == "__main__"
    )
