"""The names that a file's module scope binds, and those that the file looks up there, from any scope."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator
from functools import cached_property

from transformer.dataflow.variables import COMPREHENSIONS, FUNCTIONS, Variables
from transformer.syntax.imports import is_future
from transformer.syntax.query import asked_name, children
from transformer.syntax.tree import Tree

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Scopes:
    """The names of a file.

    `bound`: names that the module scope binds. `used`: these, and all others that are looked up in it, including
    builtins. `local`: names that an inner scope binds. `rebound`: names that a function binds in the module, by
    `global`. `asked`: names whose presence is tested, as in `"x" in locals()`.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.bound: set[str] = set()
        self.used: set[str] = set()
        self.local: set[str] = set()
        self.rebound = {name for node in tree.of(ast.Global) for name in node.names}
        self._add_names(symtable.symtable(tree.code, "script", "exec"))
        annotations = [
            a for n in tree.nodes for a in (getattr(n, "annotation", None), getattr(n, "returns", None)) if a
        ]
        self.used |= {n.id for a in annotations for n in ast.walk(a) if isinstance(n, ast.Name)}
        self.asked = {name for node in tree.of(ast.Compare) if (name := asked_name(node)) is not None}
        self.used |= self.asked
        future = {a.asname or a.name for s in tree.of(ast.ImportFrom) if is_future(s) for a in s.names}
        self.bound -= future
        self.used -= future
        self.lines: dict[str, int] = {}
        """The first line that binds a name, other than by an import."""
        for name, line in _bound_in_module(tree.root):
            self.lines[name] = min(line, self.lines.get(name, line))

    def is_inner(self, name: ast.Name) -> bool:
        """Whether a name is a variable of a function or a comprehension, and not of the module or a class."""
        return isinstance(self._variables.owner_of(name), (*FUNCTIONS, *COMPREHENSIONS))

    @cached_property
    def _variables(self) -> Variables:
        return Variables(self._tree)

    def _add_names(self, table: symtable.SymbolTable) -> None:
        module = table.get_type() == "module"
        for symbol in table.get_symbols():
            name = symbol.get_name()
            binds = symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
            if module or symbol.is_global():
                self.used.add(name)
                if binds:
                    self.bound.add(name)
            else:
                self.local.add(name)
                if table.get_type() == "class" and symbol.is_referenced():
                    self.used.add(name)  # until the class binds it, the name is the module's
        for inner in table.get_children():
            self._add_names(inner)

    def place(self, name: str) -> int:
        """The line that binds a name in the module, or else the first line that uses it."""
        if name in self.lines:
            return self.lines[name]
        for alias in self._tree.of(ast.alias):
            if (alias.asname or alias.name.split(".")[0]) == name:
                return alias.lineno
        return min((n.lineno for n in self._tree.of(ast.Name) if n.id == name), default=1)


def _bound_in_module(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Names that a module binds outside functions and classes, except by imports; comprehensions are included."""
    for child in children(node):
        if isinstance(child, DEFINITIONS):
            yield child.name, child.lineno
            continue
        if isinstance(child, ast.Lambda):
            continue
        if isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Load):
            yield child.id, child.lineno
        elif isinstance(child, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and child.name:
            yield child.name, child.lineno
        elif isinstance(child, ast.MatchMapping) and child.rest:
            yield child.rest, child.lineno
        yield from _bound_in_module(child)
