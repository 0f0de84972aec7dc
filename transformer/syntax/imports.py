"""Add imports among the script's own, in sorted order."""

from __future__ import annotations

import ast
import sys

from transformer.syntax.rewrite import Edits


def add_imports(tree: ast.Module, edits: Edits, *lines: str) -> None:
    """Add imports that the script does not have yet, each after the last one that sorts before it.

    Standard-library imports go among those at the top, others among the third-party ones.
    """
    top = _leading_imports(tree)
    for line in sorted(lines, key=_key):
        wanted_import = ast.parse(line).body[0]
        if any(_provides(s, wanted_import) for s in top):
            continue
        same_module = [s for s in top if _extends(s, wanted_import)]
        if same_module:
            _merge(edits, same_module[0], wanted_import)
            continue
        wanted = _key(line)
        before = [s for s in top if _key(ast.unparse(s)) < wanted and _key(ast.unparse(s))[0] == wanted[0]]
        same = [s for s in top if _key(ast.unparse(s))[0] == wanted[0]]
        if before:
            edits.after(before[-1], line)
        elif same:
            edits.before(same[0], line)
        elif top:
            edits.after(top[-1], line)
        else:
            edits.before(_first_code(tree), line)


def add_below_imports(tree: ast.Module, edits: Edits, code: str) -> None:
    """Add statements below the imports at the top, and below any that were added before."""
    top = _leading_imports(tree)
    if top:
        edits.after(top[-1], "\n" + code)
    else:
        edits.before(_first_code(tree), code, gap=1)


def _leading_imports(tree: ast.Module) -> list[ast.stmt]:
    """The imports above the first definition or block, except those from `__future__`.

    Conditional statements may be among them, such as settings that a library reads when it is loaded.
    """
    found: list[ast.stmt] = []
    for stmt in tree.body:
        if hasattr(stmt, "body") and not isinstance(stmt, ast.If):
            break
        if isinstance(stmt, (ast.Import, ast.ImportFrom)) and not is_future(stmt):
            found.append(stmt)
    return found


def _provides(have: ast.stmt, wanted: ast.stmt) -> bool:
    """Whether an import already binds what the wanted one would."""
    if isinstance(have, ast.Import) and isinstance(wanted, ast.Import):
        return any(a.name == wanted.names[0].name and a.asname is None for a in have.names)
    if isinstance(have, ast.ImportFrom) and isinstance(wanted, ast.ImportFrom):
        return have.module == wanted.module and wanted.names[0].name in {a.name for a in have.names if not a.asname}
    return False


def _extends(have: ast.stmt, wanted: ast.stmt) -> bool:
    """Whether `from x import b` can be merged into an existing `from x import a`."""
    if not isinstance(have, ast.ImportFrom) or not isinstance(wanted, ast.ImportFrom):
        return False
    return have.module == wanted.module and not have.level and have.names[0].name != "*"


def _merge(edits: Edits, have: ast.stmt, wanted: ast.stmt) -> None:
    assert isinstance(have, ast.ImportFrom) and isinstance(wanted, ast.ImportFrom)
    names = [f"{a.name} as {a.asname}" if a.asname else a.name for a in have.names] + [wanted.names[0].name]
    edits.replace(have, f"from {have.module} import {', '.join(sorted(names, key=_by_type))}")


def _by_type(name: str) -> tuple[int, str]:
    """isort's order of imported names: constants, classes, then the rest."""
    return (0 if name.isupper() else 1 if name[:1].isupper() else 2), name.lower()


def is_standard(module: str) -> bool:
    """Whether a module is in the standard library of any supported Python (distutils was, until 3.12)."""
    return module.partition(".")[0] in sys.stdlib_module_names | {"distutils"}


def is_future(stmt: ast.stmt) -> bool:
    """Whether an import must stay above all others."""
    return isinstance(stmt, ast.ImportFrom) and stmt.module == "__future__"


def _first_code(tree: ast.Module) -> ast.stmt:
    """The first statement below the docstring and the imports from `__future__`."""
    body = tree.body
    docstring = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    below = [s for s in body[docstring:] if not is_future(s)]
    return below[0] if below else body[-1]


def _key(line: str) -> tuple[bool, bool, str]:
    """isort's order: standard library first; `import x` before `from x import y`; then by name."""
    words = line.split()
    return not is_standard(words[1]), words[0] == "from", words[1].lower()
