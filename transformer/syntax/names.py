"""Taken names, and fresh ones that collide with nothing."""

from __future__ import annotations

import ast
import builtins
import keyword
from collections.abc import Sequence


class Names:
    """All identifiers of a script. A fresh name is the wanted one, or the wanted one with a number."""

    def __init__(self, nodes: Sequence[ast.AST]) -> None:
        taken: set[str] = set()
        read: set[str] = set()
        methods = {m for c in nodes if isinstance(c, ast.ClassDef) for m in c.body}
        for node in nodes:
            if isinstance(node, ast.Name):
                (read if isinstance(node.ctx, ast.Load) else taken).add(node.id)
            elif isinstance(node, ast.expr) or node in methods:
                continue  # a method is reached through an object only
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                taken.add(node.name)
            elif isinstance(node, ast.arg):
                taken.add(node.arg)
            elif isinstance(node, ast.alias):
                taken.add((node.asname or node.name).split(".")[0])
            elif isinstance(node, (ast.Global, ast.Nonlocal)):
                taken.update(node.names)
            elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
                taken.add(node.name)
            elif isinstance(node, ast.MatchMapping) and node.rest:
                taken.add(node.rest)
        self.bound = frozenset(taken)
        """The names that the script gives to something, in whatever scope."""
        self._taken = taken | read

    def builtin(self, function: ast.expr) -> str | None:
        """The builtin that a name stands for, where the script gives that name to nothing else."""
        name = function.id if isinstance(function, ast.Name) else ""
        return name if hasattr(builtins, name) and name not in self.bound else None

    def taken(self, name: str) -> bool:
        """Whether the script uses a name."""
        return name in self._taken

    def fresh(self, wanted: str) -> str:
        """A name that the script does not use yet; it counts as taken from now on."""
        name, number = wanted, 0
        while name in self._taken or keyword.iskeyword(name) or hasattr(builtins, name):
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name


def singular(name: str) -> str:
    """A name for one element of a list."""
    if name.endswith(("sses", "xes", "ches", "shes")):
        return name[:-2]
    return name[:-1] if name.endswith("s") and len(name) > 2 else f"{name}_value"
