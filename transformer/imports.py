"""Adding imports where the script keeps its own, sorted in among them."""

from __future__ import annotations

import ast
import sys

from transformer.script import Script
from transformer.source import Edits


def add_imports(script: Script, edits: Edits, *lines: str) -> None:
    """Add import statements that the script does not have yet, each after the last one that sorts before it.

    Standard-library imports go among those at the top, others among the third-party ones.
    """
    top = [s for s in script.tree.body if isinstance(s, (ast.Import, ast.ImportFrom))]
    have = {ast.unparse(s) for s in top}
    for line in sorted(lines, key=_key):
        if line in have:
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
            edits.before(_first_code(script), line)


def _first_code(script: Script) -> ast.stmt:
    body = script.tree.body
    docstring = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    return body[1] if docstring and len(body) > 1 else body[0]


def _key(line: str) -> tuple[bool, bool, str]:
    """isort's order: standard library first; `import x` before `from x import y`; then by name."""
    words = line.split()
    root = words[1].split(".")[0]
    return root not in sys.stdlib_module_names, words[0] == "from", words[1].lower()
