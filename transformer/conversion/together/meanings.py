"""What the names of gathered files refer to, and whether one module scope can hold them all."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from transformer.conversion.imported_files import Import, named
from transformer.conversion.together.gathered import Gathered, refusal
from transformer.conversion.together.modules import File
from transformer.conversion.together.needed import IDENTIFIER
from transformer.dataflow.access import access, block_names
from transformer.facts.libraries import role
from transformer.facts.lookups import lookups
from transformer.facts.torch_api import DISTRIBUTIONS, SAME_EACH_TIME
from transformer.syntax.diagnostics import Diagnostic
from transformer.syntax.imports import is_future
from transformer.syntax.query import statements

Meaning: TypeAlias = "tuple[object, ...]"
"""Equal for equal things: ("own", file, name), ("module", file), ("import", dotted name), ("builtin", name)."""
PLAIN = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.Tuple, ast.IfExp, ast.operator, ast.unaryop, ast.Load)
"""The nodes, besides names, of expressions that make numbers and strings."""
OF_EVERY_MODULE = lookups(of="file", finds=("state", "nothing"))


class Meanings:
    """What each name of the gathered files refers to in its file's module scope."""

    def __init__(self, gathered: Gathered) -> None:
        self.gathered = gathered
        self._imported: dict[File, dict[str, set[Meaning]]] = {}
        self.renamed: dict[tuple[File, str], tuple[str, Diagnostic]] = {}
        """The new names of those that are renamed in the merged file, each with the clash that it avoids."""
        for file in [*gathered.files, gathered.script]:
            self._imported[file] = {}
            for stmt in file.imports:
                if file.tree.scope_of(stmt) is file.tree.root and not is_future(stmt):
                    self._add_import(file, stmt)

    def _add_import(self, file: File, stmt: Import) -> None:
        known = self._imported[file]
        local = dict(named(file.path, self.gathered.roots, stmt))
        for alias in stmt.names:
            target = self.gathered.target(file, stmt, alias)
            if target is not None and alias.name == "*":
                for name in self.exported(target[0]):
                    known.setdefault(name, set()).add(self.of(target[0], name))
                continue
            bound = alias.asname or alias.name.split(".")[0]
            if target is not None:
                module, attribute = target
                meaning: Meaning = ("module", module) if attribute is None else self.of(module, attribute)
            elif alias in local and (alias.asname or isinstance(stmt, ast.ImportFrom)):
                meaning = ("import", str(local[alias].module), local[alias].attribute)
            else:
                dotted = alias.name if alias.asname or isinstance(stmt, ast.ImportFrom) else bound
                module_name = f"{stmt.module}." if isinstance(stmt, ast.ImportFrom) else ""
                meaning = ("import", _canonical(module_name + dotted))
            known.setdefault(bound, set()).add(meaning)

    def of(self, file: File, name: str) -> Meaning:
        """What a name refers to in a file's module scope."""
        imported = self._imported.get(file, {}).get(name, set())
        if name in file.scopes.lines or name in file.scopes.rebound or len(imported) > 1:
            return "own", file, name
        if imported:
            return next(iter(imported))
        return ("own", file, name) if name in file.scopes.bound else ("builtin", name)

    def binds(self, file: File, name: str) -> bool:
        """Whether a file's module has an attribute of this name."""
        return name in file.scopes.bound or name in self._imported[file]

    def other_name(self, file: File, name: str) -> str | None:
        """The name that replaces a name of a file in the merged file; None if it stays the same."""
        meaning = self.of(file, name)
        own = str(meaning[2]) if meaning[0] == "own" and meaning[1] is not file else name
        new, _ = self.renamed.get((file, name), (own, None))
        return new if new != name else None

    def vanishes(self, file: File, name: str) -> bool:
        """Whether a name is not in the merged file: it is a module, or an alias of a given file's definition."""
        return self.of(file, name)[0] == "module" or self.other_name(file, name) is not None

    def clashes(self) -> Iterator[Diagnostic]:
        """Names that two files use for different things."""
        files = self.gathered.all_files
        for place, first in enumerate(files):
            for second in files[place + 1 :]:
                for name in sorted(
                    (self._kept_names(first) & self._used(second)) | (self._used(first) & self._kept_names(second))
                ):
                    if self.of(first, name) != self.of(second, name) and not self._is_same_value(first, second, name):
                        here, there = first.scopes.place(name), second.scopes.place(name)
                        why = f"`{name}` is something else in {first.name} (line {here}): rename one of them"
                        for file, other in ((first, second), (second, first)):
                            if self.of(file, name) == ("builtin", name) and not hasattr(builtins, name):
                                why = f"{file.name} does not define `{name}`, which is of {other.name}: import it there"
                        clash = refusal(second, there, why)
                        file = second if self._can_be_renamed(second, name) else first
                        if file is second or self._can_be_renamed(first, name):
                            self.renamed[file, name] = _new_name(file, name), clash
                        else:
                            yield clash

    def _can_be_renamed(self, file: File, name: str) -> bool:
        """Whether a name can be renamed unnoticed: it is a variable, an import, or a function that is only called."""
        tree, scopes, files = file.tree, file.scopes, self.gathered.all_files
        others = [other for other in files if other is not file]
        targets = [self.gathered.target(other, s, a) for other in others for s in other.imports for a in s.names]
        attributes = {
            node.attr
            for other in others
            for node in other.tree.of(ast.Attribute)
            if isinstance(node.value, ast.Name) and self.of(other, node.value.id) == ("module", file)
        }
        if file is self.gathered.script or {(file, name), (file, "*")} & set(targets) or name in attributes:
            return False
        new = _new_name(file, name)
        if not self.binds(file, name) or any(new in each.scopes.used | each.scopes.local for each in files):
            return False
        if name in scopes.local | scopes.rebound | scopes.asked | names_in_texts(tree.nodes) or name.startswith("__"):
            return False
        uses = [node for node in tree.of(ast.Name) if node.id == name]
        for node in tree.nodes:
            if isinstance(node, ast.alias) and name in (node.asname, node.name.partition(".")[0]):
                if tree.parents[node] in self.gathered.places[file] or not is_written(file, node, ast.unparse(node)):
                    return False
                if name != (node.asname or node.name):
                    return False
            elif isinstance(node, ast.FunctionDef) and node.name == name:
                called = all(isinstance(call := tree.parents[use], ast.Call) and call.func is use for use in uses)
                if node.decorator_list or not called:
                    return False
            elif name in (getattr(node, "name", None), getattr(node, "rest", None)):
                return False  # a class, whose name is printed, or a name bound by `except` or `match`
        return all(is_written(file, use, name) for use in uses)

    def _is_same_value(self, first: File, second: File, name: str, asked: frozenset[str] = frozenset()) -> bool:
        """Whether two files set a name once, by the same code, to the same number, string or device."""
        one, other = (_only_value(file, name) for file in (first, second))
        if one is None or other is None or ast.dump(one) != ast.dump(other):
            return False
        asked |= {name}
        for node in ast.walk(one):
            if isinstance(node, ast.Name):
                same = self.of(first, node.id) == self.of(second, node.id)
                if not (same or (node.id not in asked and self._is_same_value(first, second, node.id, asked))):
                    return False
            elif isinstance(node, ast.Call):
                if first.tree.qualified(node.func) not in SAME_EACH_TIME:
                    return False
            elif isinstance(node, ast.Attribute):
                if role(first.tree.qualified(node) or "") not in ("tensors", "plain"):
                    return False
            elif not isinstance(node, PLAIN):
                return False
        return True

    def _kept_names(self, file: File) -> set[str]:
        found = file.scopes.bound | set(self._imported[file])
        return {n for n in found if n not in OF_EVERY_MODULE and not self.vanishes(file, n)}

    def _used(self, file: File) -> set[str]:
        return {n for n in file.scopes.used if not self.vanishes(file, n)} | self._kept_names(file)

    def exported(self, file: File) -> list[str]:
        """The names that `from FILE import *` binds."""
        for stmt in file.tree.root.body:
            if names_all(stmt):
                return [e.value for e in ast.walk(stmt) if isinstance(e, ast.Constant) and isinstance(e.value, str)]
        return sorted(n for n in file.scopes.bound | set(self._imported[file]) if not n.startswith("_"))


def names_in_texts(nodes: Iterable[ast.AST]) -> set[str]:
    """The names in annotations that are strings."""
    annotations = (a for n in nodes for a in (getattr(n, "annotation", None), getattr(n, "returns", None)) if a)
    texts = (n.value for a in annotations for n in ast.walk(a) if isinstance(n, ast.Constant))
    return {name for text in texts if isinstance(text, str) for name in IDENTIFIER.findall(text)}


def _new_name(file: File, name: str) -> str:
    """The new name, in the merged file, of a name that another file also uses."""
    stem = file.path.parent.name if file.path.name == "__init__.py" else file.path.stem
    return f"{stem.upper() if name.isupper() else stem}_{name}"


def _only_value(file: File, name: str) -> ast.expr | None:
    """The value of a name that a module sets by one plain assignment, and that nothing else sets."""
    bound = [s for s in statements(file.tree.root.body) if name in access(s).binds | block_names(s)]
    if name in file.scopes.rebound or len(bound) != 1 or bound[0] not in file.tree.root.body:
        return None
    stmt = bound[0]
    plain = isinstance(stmt, ast.Assign) and [ast.unparse(t) for t in stmt.targets] == [name]
    return stmt.value if isinstance(stmt, ast.Assign) and plain else None


def names_all(stmt: ast.stmt) -> bool:
    """Whether a statement is `__all__ = [...]` with literal names."""
    if not isinstance(stmt, ast.Assign) or [t.id for t in stmt.targets if isinstance(t, ast.Name)] != ["__all__"]:
        return False
    value = stmt.value
    return isinstance(value, (ast.List, ast.Tuple)) and all(isinstance(e, ast.Constant) for e in value.elts)


def _canonical(dotted: str) -> str:
    """One dotted name for a thing that has several: a package may also export the classes of its modules."""
    if dotted.startswith(DISTRIBUTIONS) and dotted.rpartition(".")[2][:1].isupper():
        return DISTRIBUTIONS + dotted.rpartition(".")[2]
    return dotted


def is_written(file: File, node: ast.expr | ast.alias, text: str) -> bool:
    """Whether a text is at a node's position: older Pythons give wrong positions in f-strings."""
    if node.lineno != node.end_lineno or node.end_col_offset is None:
        return False
    formatted = (outer for outer in file.tree.ancestors(node) if isinstance(outer, ast.JoinedStr))
    texts = (n.value for outer in formatted for n in outer.values if isinstance(n, ast.Constant))
    if any(str(part).rstrip().endswith("=") for part in texts):
        return False  # `f"{name=}"` prints the name itself
    start, end = (file.tree.offset(node.lineno, column) for column in (node.col_offset, node.end_col_offset))
    return file.tree.code[start:end] == text
