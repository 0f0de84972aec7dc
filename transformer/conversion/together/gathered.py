"""The files that a script imports and that were given with it, in the order in which their modules are executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import libcst as cst

from transformer.conversion.imported_files import Import, Named, named
from transformer.conversion.selection import SelectionError
from transformer.conversion.together.modules import File, read_file
from transformer.conversion.together.needed import without_unneeded, without_what_is_not_executed
from transformer.recognition.refusals import Unconvertible, mixed_tabs, unparsable
from transformer.syntax.diagnostics import Diagnostic
from transformer.syntax.text import NotText, read, unit_of_indentation, with_line_ends_of
from transformer.syntax.tree import Tree

TAB = 8
"""The columns of a tab, as Python counts them."""


class NotImported(SelectionError):
    """A given file is not imported by the script, or is not a Python file."""


@dataclass(frozen=True, eq=False)
class Place:
    """An import of given files: what its aliases refer to, and the files that it executes for the first time."""

    aliases: Mapping[ast.alias, Named]
    executes: tuple[File, ...]


@dataclass
class Gathered:
    """A script and the given files that it imports, directly or through each other."""

    script: File
    roots: tuple[Path, ...]
    """Where absolute imports are looked up: in the script's folder, then in those above it, as if it were installed."""
    files: list[File] = field(default_factory=list)
    """The imported files, in the order in which their modules are executed."""
    places: dict[File, dict[Import, Place]] = field(default_factory=dict)
    reached: list[File] = field(default_factory=list)
    """Other local files that the script and these files import."""
    inner: set[Path] = field(default_factory=set)
    """Given files that are imported only in a function or under a condition, and so not merged."""
    root_of: dict[File, Path | None] = field(default_factory=dict)
    """The folder in which a file was found by its absolute name; None if the import was relative."""

    @property
    def all_files(self) -> Sequence[File]:
        """The script and the files."""
        return [self.script, *self.files]

    def file(self, path: Path) -> File | None:
        """The gathered file at a path; None if there is none."""
        return next((file for file in self.all_files if file.path == path), None)

    def target(self, file: File, stmt: Import, alias: ast.alias) -> tuple[File, str | None] | None:
        """What an alias in an import of a given file refers to: the file, and the attribute of its module."""
        place = self.places[file].get(stmt)
        what = place.aliases.get(alias) if place else None
        module = None if what is None else self.file(what.module)
        return None if module is None or what is None else (module, what.attribute)


def refusal(file: File, node: ast.AST | int, message: str) -> Diagnostic:
    """The reason for not merging files, at a line of one of them."""
    line, column = (
        (node, 1) if isinstance(node, int) else (getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1)
    )
    return Diagnostic(line, column, "LC009", message, file.name)


def gather(script: File, given: Mapping[Path, str]) -> Gathered:
    """Follow the imports of a script through the given files.

    Args:
        script: the script.
        given: the resolved paths of the files, and their names.

    Raises:
        NotImported: one of them is not imported.
        OSError: one of them cannot be read.
        Unconvertible: one of them is not Python, or is imported in a way that a single file cannot reproduce.
    """
    found = _followed(script, given, {})
    for path, name in given.items():
        if path not in {file.path for file in found.files} | found.inner:
            raise NotImported(f"--with {name}: neither {script.name} nor another file given with it imports it")
    texts = without_unneeded(script, found.files)
    return _followed(script, given, {file.path: code for file, code in zip(found.files, texts, strict=True)})


def _followed(script: File, given: Mapping[Path, str], texts: Mapping[Path, str]) -> Gathered:
    found = Gathered(script, tuple(script.path.parents))
    _Walk(found, given, texts).visit(script)
    return found


def indented_by(unit: str, text: str) -> str:
    """A module's text with its blocks indented by `unit`, the script's unit of indentation.

    Python accepts tabs among spaces, but LibCST does not: they are replaced by the spaces that Python reads them as.
    """
    try:
        module = cst.parse_module(text)
    except cst.ParserSyntaxError:
        spaces = re.sub(r"(?m)^[ \t]+", lambda found: found[0].expandtabs(TAB), text)
        if ast.dump(ast.parse(spaces)) != ast.dump(ast.parse(text)):  # a tab in a multi-line string has changed
            raise
        module, text = cst.parse_module(spaces), spaces
    return text if module.default_indent == unit else module.with_changes(default_indent=unit).code


class _Walk:
    """Visits files as Python executes them."""

    def __init__(self, found: Gathered, given: Mapping[Path, str], texts: Mapping[Path, str]) -> None:
        self.found, self.given, self.texts = found, given, texts
        self.begun = [found.script.path]

    @cached_property
    def unit(self) -> str:
        """The script's unit of indentation."""
        return unit_of_indentation(self.found.script.tree.code)

    def visit(self, file: File) -> None:
        places: dict[Import, Place] = {}
        self.found.places[file] = places
        for stmt in sorted(file.imports, key=lambda s: (s.lineno, s.col_offset)):
            aliases = dict(named(file.path, self.found.roots, stmt))
            ours = {a: what for a, what in aliases.items() if self._given_among(what)}
            if not ours:
                continue
            if stmt not in file.tree.root.body:
                self.found.inner |= {p for what in ours.values() for p in what.executed if p in self.given}
                continue
            self._check_import(file, stmt, ours)
            executes = [
                self._begin(path, self._root(file, stmt, alias, what))
                for alias, what in ours.items()
                for path in what.executed
                if path in self.given and path not in self.begun
            ]
            places[stmt] = Place(ours, tuple(executes))

    def _given_among(self, what: Named) -> bool:
        return any(path in self.given or path == self.found.script.path for path in what.executed)

    def _begin(self, path: Path, root: Path | None) -> File:
        name = self.given[path]
        self.begun.append(path)
        try:
            text = self.texts[path] if path in self.texts else read(path).content
        except NotText as error:
            raise Unconvertible(replace(error.diagnostic, file=name)) from None
        if (found := unparsable(text)) is not None:
            raise Unconvertible(replace(found, file=name))
        file = File(path, name, Tree(text if path in self.texts else self._executed(text, name)))
        self.found.root_of[file] = root
        self.visit(file)
        self.found.files.append(file)
        return file

    def _executed(self, text: str, name: str) -> str:
        """The part of a module's text that an import executes, with the script's line ends and indentation."""
        lines = with_line_ends_of(self.found.script.tree.code, text)
        try:
            return without_what_is_not_executed(indented_by(self.unit, lines))
        except cst.ParserSyntaxError:
            raise Unconvertible(replace(mixed_tabs(text), file=name)) from None

    def _root(self, file: File, stmt: Import, alias: ast.alias, what: Named) -> Path | None:
        if isinstance(stmt, ast.ImportFrom) and stmt.level:
            return self.found.root_of.get(file)
        dotted = alias.name if isinstance(stmt, ast.Import) else stmt.module or ""
        if isinstance(stmt, ast.ImportFrom) and what.attribute is None:
            dotted = f"{dotted}.{alias.name}"
        depth = len(dotted.split("."))
        return what.module.parents[depth if what.module.name == "__init__.py" else depth - 1]

    def _check_import(self, file: File, stmt: Import, ours: Mapping[ast.alias, Named]) -> None:
        """Check that other statements can replace an import.

        Raises:
            Unconvertible: they cannot.
        """
        done = {f.path for f in self.found.files}
        for alias, what in ours.items():
            name = self.given.get(what.module, what.module.name)
            if what.module == self.found.script.path or (what.module in self.begun and what.module not in done):
                raise Unconvertible(
                    refusal(file, stmt, f"{name} is imported while it is being executed (a circular import)")
                )
            if what.module not in self.given:
                package = next(self.given[p] for p in what.executed if p in self.given)
                why = f"the import executes {package} and {name}, which is not given: give it with --with as well"
                raise Unconvertible(refusal(file, stmt, why))
            if isinstance(stmt, ast.Import) and "." in alias.name and not alias.asname:
                why = f"{name} is imported by a dotted name: write `from ... import ...`, or rename it with `as`"
                raise Unconvertible(refusal(file, stmt, why))
            for path in what.executed:
                if path not in self.given and not _binds_constants_only(path):
                    why = f"the import also executes {path.parent.name}/{path.name}, which does something: give it too"
                    raise Unconvertible(refusal(file, stmt, why))
        body = file.tree.root.body
        lines = range(stmt.lineno, (stmt.end_lineno or stmt.lineno) + 1)
        if any(s is not stmt and (s.lineno in lines or s.end_lineno in lines) for s in body):
            raise Unconvertible(refusal(file, stmt, f"the import of {name} shares its line with another statement"))


def _binds_constants_only(package: Path) -> bool:
    """Whether a package's own file binds only strings and numbers."""
    try:
        body = read_file(package, package.name).tree.root.body
    except (OSError, NotText, SyntaxError, ValueError):
        return False
    values = (getattr(s, "value", None) for s in body)
    return all(isinstance(s, (ast.Expr, ast.Assign)) and _is_literal(v) for s, v in zip(body, values, strict=True))


def _is_literal(value: ast.AST | None) -> bool:
    if isinstance(value, (ast.List, ast.Tuple)):
        return all(map(_is_literal, value.elts))
    return isinstance(value, ast.Constant)
