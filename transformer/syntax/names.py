"""Taken names, and fresh names that do not collide."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


class Names:
    """All identifiers of a script. A fresh name is the wanted name, with a number if necessary."""

    def __init__(self, of_type: Mapping[type[ast.AST], Sequence[Any]]) -> None:
        def of(*kinds: type[ast.AST]) -> Iterator[Any]:
            return (node for kind in kinds for node in of_type.get(kind, ()))

        methods = {m for c in of(ast.ClassDef) for m in c.body}  # methods are reached only through objects
        read = {n.id for n in of(ast.Name) if isinstance(n.ctx, ast.Load)}
        taken: set[str] = {n.id for n in of(ast.Name) if not isinstance(n.ctx, ast.Load)}
        taken |= {n.name for n in of(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef) if n not in methods}
        taken |= {n.arg for n in of(ast.arg)}
        taken |= {(n.asname or n.name).split(".")[0] for n in of(ast.alias)}
        taken |= {name for n in of(ast.Global, ast.Nonlocal) for name in n.names}
        taken |= {n.name for n in of(ast.ExceptHandler, ast.MatchAs, ast.MatchStar) if n.name}
        taken |= {n.rest for n in of(ast.MatchMapping) if n.rest}
        self.bound = frozenset(taken)
        """The names that the script binds, in any scope."""
        self._taken = taken | read

    def builtin(self, function: ast.expr) -> str | None:
        """The builtin that a name refers to, if the script never binds the name."""
        name = function.id if isinstance(function, ast.Name) else ""
        return name if hasattr(builtins, name) and name not in self.bound else None

    def taken(self, name: str) -> bool:
        """Whether the script uses a name."""
        return name in self._taken

    def fresh(self, wanted: str, instead: str | None = None) -> str:
        """A name that the script does not use yet; it is taken from now on.

        Args:
            wanted: the name, or the text of an expression, such as `opts["a"]`, of which only the words are kept.
            instead: another name if this one is taken, which reads better than one with a number.
        """
        if instead is not None and self.taken(wanted) and not self.taken(instead):
            wanted = instead
        wanted = "_".join(re.findall(r"\w+", wanted))
        wanted = wanted if wanted.isidentifier() else f"_{wanted}"
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
