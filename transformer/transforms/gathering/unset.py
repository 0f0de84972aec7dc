"""Reads of names that may be unset, in scripts that catch the error: in another place it may differ, or not occur."""

from __future__ import annotations

import ast
import builtins

from transformer.syntax.query import TRY
from transformer.syntax.tree import Tree

OTHER_ERRORS = frozenset(
    name
    for name, kind in vars(builtins).items()
    if isinstance(kind, type)
    and issubclass(kind, BaseException)
    and not issubclass(AttributeError, kind)
    and not issubclass(UnboundLocalError, kind)
)
"""Built-in errors that are not raised for a missing attribute or variable."""


def is_caught(tree: Tree, read: ast.AST) -> bool:
    """Whether a `try` or `with` of the same function may continue after an AttributeError or a NameError of a read."""
    inner = read
    for outer in tree.ancestors(read):
        if isinstance(outer, ast.FunctionDef):
            return False
        if isinstance(outer, TRY) and inner in outer.body:
            kinds = [h.type for h in outer.handlers]
            each = [k for kind in kinds for k in (kind.elts if isinstance(kind, ast.Tuple) else [kind])]
            if any(k is None or tree.names.builtin(k) not in OTHER_ERRORS for k in each):
                return True
        if isinstance(outer, ast.With) and not tree.lets_errors_pass(outer):
            return True
        inner = outer
    return False
