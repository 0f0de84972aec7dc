"""Write a conversion of several files as several files: each definition in the file that it came from.

The files are converted as one text. A file is written separately if its definitions mean the same in their own module:
only its own code binds its names, and it uses nothing that only the script has. It then contains its definitions as
the conversion left them. The other files become part of the script.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import libcst as cst

from transformer.conversion.line_length import DEFAULT_LINE_LENGTH
from transformer.conversion.together.gathered import indented_by
from transformer.conversion.together.modules import File
from transformer.conversion.together.needed import bound_names
from transformer.conversion.together.one_file import OneFile, module_name
from transformer.conversion.together.scopes import Scopes
from transformer.conversion.together.staying import (
    IMPORTS,
    Staying,
    Top,
    only_defines_things,
    top_level,
    with_what_they_execute,
)
from transformer.syntax import text
from transformer.syntax.imports import add_imports
from transformer.syntax.rewrite import Edits, Source
from transformer.syntax.tree import Tree, ast_lines


@dataclass(frozen=True)
class SeveralFiles:
    """The files of a conversion."""

    script: str
    """The converted script, which imports from the others."""
    others: Mapping[Path, bytes]
    """The contents of the other files, by their paths relative to the script's folder."""
    changed: tuple[Path, ...]
    """The paths of the other files that differ from the originals."""
    merged: Mapping[str, str]
    """The files that become part of the script, as the user named them, each with the reason."""


@dataclass(frozen=True, eq=False)
class _Part:
    """A statement of the merged text that comes from another file than the script."""

    file: File
    first: int
    """Its first line in the file, from 1."""
    last: int
    before: Top
    after: Top | None = None
    """The converted statement; None if nothing uses it any more."""

    @property
    def changed(self) -> bool:
        """Whether the conversion changed the statement, unless it is an import."""
        return not self.is_import and (self.after is None or self.after[1] != self.before[1])

    @property
    def is_import(self) -> bool:
        """Whether the statement is an import."""
        return isinstance(self.before[0], IMPORTS)

    @property
    def names(self) -> set[str]:
        """The names that the statement defines."""
        return set() if self.is_import else bound_names(self.before[0])


class _Merged(Exception):
    """A file must become part of the script; the message says why."""


def several_files(converted: str, one: OneFile, width: int = DEFAULT_LINE_LENGTH) -> SeveralFiles:
    """Write a conversion as several files.

    Args:
        converted: the converted text.
        one: the merged text before the conversion, with the files that it comes from.
        width: the maximum width of an import.
    """
    division = _Division(converted, one, width)
    others, changed = dict[Path, bytes](), list[Path]()
    for file in division.apart:
        path = file.path.relative_to(division.folder)
        others[path] = division.contents(file)
        changed += [path] if others[path] != file.path.read_bytes() else []
        for package in (path.parent, *path.parent.parents):
            init = division.folder / package / "__init__.py"
            if package.name and init.is_file():
                others.setdefault(package / init.name, init.read_bytes())
    return SeveralFiles(division.script(), others, tuple(changed), division.merged)


@lru_cache(maxsize=256)
def _scopes(code: str) -> Scopes:
    return Scopes(Tree(code))


class _Division:
    """Decides which file each statement of a converted text goes to."""

    def __init__(self, converted: str, one: OneFile, width: int) -> None:
        self.width = width
        self.converted, self.gathered, self.meanings = converted, one.gathered, one.meanings
        self.staying = set() if one.staying is None else set(one.staying.modules)
        self.folder = self.gathered.script.path.parent
        self.tops = top_level(converted)
        self.parts = list(_parts(self.tops, one))
        self.new = _scopes(converted).bound - _scopes(one.text).bound
        """The names that the conversion has added."""
        self.merged: dict[str, str] = {}
        self.apart: Sequence[File] = [file for file in self.gathered.files if self._is_apart(file, self._check_alone)]
        while left := [file for file in self.apart if not self._is_apart(file, self._check_beside)]:
            self.apart = [file for file in self.apart if file not in left]

    def _is_apart(self, file: File, check: Callable[[File], None]) -> bool:
        try:
            check(file)
        except _Merged as why:
            self.merged[file.name] = str(why)
            return False
        return True

    def _check_alone(self, file: File) -> None:
        """Check the conditions that concern one file alone.

        Raises:
            _Merged: it must become part of the script.
        """
        script, parts = self.gathered.script.name, self._of(file)
        if self.gathered.root_of[file] not in (None, self.folder) or not file.path.is_relative_to(self.folder):
            raise _Merged(f"it is not below the folder of {script}")
        if file in self.staying:
            return
        if not any(part.names and part.after is not None for part in parts):
            raise _Merged("nothing uses its definitions by themselves any more")
        if any(part.changed and not part.names for part in parts):
            raise _Merged("the conversion changes what it does when it is imported")
        if any(of is file for of, _ in self.meanings.renamed):
            raise _Merged(f"{script} uses the same names for other things")
        own = {part.after[2] for part in parts if part.after is not None and part.names}
        rest = "\n".join(code for _, code, first, _ in self.tops if first not in own)
        elsewhere = _scopes(rest).bound | _scopes(self.converted).rebound
        if elsewhere := elsewhere & {name for part in parts for name in part.names}:
            raise _Merged(f"{min(elsewhere)} is bound by other code as well")

    def _check_beside(self, file: File) -> None:
        """Check the conditions that concern a file and the other separate files.

        Raises:
            _Merged: it must become part of the script.
        """
        for other in with_what_they_execute(self.gathered, {file: None}):
            if other not in self.apart:
                raise _Merged(f"it imports {other.name}, which is part of the script")
        if not only_defines_things(file):
            self._check_order(file)
        try:
            self.contents(file)
        except UnicodeEncodeError:
            raise _Merged("its encoding lacks characters of the new text") from None
        except cst.ParserSyntaxError:
            raise _Merged("it mixes tabs and spaces") from None
        if used := self._lost(file) & (_scopes(self._edited(file)).used | self._imported_from(file)):
            raise _Merged(f"it uses {min(used)}, which the conversion leaves out")

    def _check_order(self, file: File) -> None:
        """Check that the script executes nothing between the statements of a file.

        Raises:
            _Merged: it does.
        """
        theirs = {part.after[2]: part for part in self.parts if part.after is not None and part.file in self.apart}
        own = [first for first, part in theirs.items() if part.file is file and not part.is_import]
        between = [top for top in self.tops if own and min(own) < top[2] < max(own) and top[2] not in theirs]
        if any(not isinstance(top[0], IMPORTS) for top in between):
            raise _Merged("the script does something while it is being imported")

    def _lost(self, file: File) -> set[str]:
        """The names that a file no longer defines."""
        return {name for part in self._of(file) if part.after is None for name in part.names}

    def _of(self, file: File) -> list[_Part]:
        return [part for part in self.parts if part.file is file]

    def _changes(self, file: File) -> list[str]:
        """The new texts of a file's definitions that the conversion changed."""
        return [part.after[1] for part in self._of(file) if part.changed and part.after is not None]

    def _imported_from(self, file: File) -> set[str]:
        """The names that other separate files import from a file."""
        places = [place for other in self.apart for place in self.gathered.places[other].values()]
        named = [what for place in places for what in place.aliases.values()]
        return {what.attribute or "" for what in named if what.module == file.path}

    def _helpers(self, file: File) -> list[Top]:
        """The functions that the conversion added, and that a file's definitions call."""
        codes = self._changes(file)
        added = [top for top in self.tops if isinstance(top[0], ast.FunctionDef) and bound_names(top[0]) <= self.new]
        found: list[Top] = []
        for code in codes:  # the list grows
            called = [top for top in added if top not in found and bound_names(top[0]) <= _scopes(code).used]
            found += called
            codes += [top[1] for top in called]
        return [top for top in added if top in found]

    def _imports(self, file: File) -> list[str]:
        """The imports that a file needs for the code that the conversion has put into it.

        Raises:
            _Merged: this code uses something that only the script has, or a name that means something else in the file.
        """
        helpers = self._helpers(file)
        for other in self.apart[: self.apart.index(file)]:
            if any(top in helpers for top in self._helpers(other)):
                raise _Merged(f"it needs a function that was added to {other.name}")
        added = {name for top in helpers for name in bound_names(top[0])}
        if several := {name for name in added if len(self._binding[name]) > 1}:
            raise _Merged(f"it uses {min(several)}, which other code binds as well")
        codes = (*self._changes(file), *(top[1] for top in helpers))
        used = {name for code in codes for name in _scopes(code).used}
        used -= added | file.scopes.bound
        if other_things := (used | added) & _scopes(text.read(file.path).content).bound:
            raise _Merged(f"{min(other_things)} is something else there")
        return [code for name in sorted(used) if (code := self._import_of(name, file))]

    def _import_of(self, name: str, file: File) -> str:
        """The import of a name that a file does not bind; "" for a builtin.

        Raises:
            _Merged: only the script has the name.
        """
        binding = self._binding.get(name, [])
        if not binding and hasattr(builtins, name):
            return ""
        owners = {part.file for part in self.parts if name in part.names}
        if owners and owners <= set(self.apart):
            for stmt, place in self.gathered.places[file].items():
                for alias, what in place.aliases.items():
                    if self.gathered.file(what.module) in owners:
                        return f"from {_module(stmt, alias, is_module=what.attribute is None)} import {name}"
        only = binding[0] if len(binding) == 1 else None
        if isinstance(only, ast.Import) or (isinstance(only, ast.ImportFrom) and not only.level):
            aliases = [alias for alias in only.names if (alias.asname or alias.name.partition(".")[0]) == name]
            if isinstance(only, ast.Import) and aliases:
                return ast.unparse(ast.Import(aliases))
            if isinstance(only, ast.ImportFrom) and aliases:
                return ast.unparse(ast.ImportFrom(only.module, aliases, 0))
        raise _Merged(f"it uses {name}, which is part of the script")

    @cached_property
    def _binding(self) -> Mapping[str, Sequence[ast.stmt]]:
        """The statements of the converted text that bind each name in its module."""
        found: dict[str, list[ast.stmt]] = {}
        for stmt, code, _, _ in self.tops:
            for name in _scopes(code).bound:
                found.setdefault(name, []).append(stmt)
        return found

    def contents(self, file: File) -> bytes:
        """The contents of a separate file."""
        if not any(part.changed for part in self._of(file)):
            return file.path.read_bytes()
        tree = Tree(self._edited(file))
        edits = Edits(Source(tree, self.width))
        add_imports(tree.root, edits, *self._imports(file))
        return text.read(file.path).encode(edits.apply()[0])

    def _edited(self, file: File) -> str:
        """The text of a file with its converted definitions, and above them the added functions that they call."""
        content = text.read(file.path).content
        lines, helpers = ast_lines(content), self._helpers(file)
        new: dict[_Part, str] = {part: part.after[1] if part.after is not None else "" for part in self._of(file)}
        changed = [part for part in new if part.changed]
        if helpers:
            called = {name for helper in helpers for name in bound_names(helper[0])}
            first = next(part for part in changed if called & _scopes(new[part]).used)
            new[first] = "\n\n\n".join([*(helper[1].rstrip() for helper in helpers), new[first]])
        unit = text.unit_of_indentation(content) if changed else ""
        new |= {part: indented_by(unit, new[part]) for part in changed}
        for part in sorted(changed, key=lambda part: -part.first):
            last = part.last
            while part.after is None and last < len(lines) and not lines[last].strip():
                last += 1
            lines[part.first - 1 : last] = ast_lines(text.with_line_ends_of(content, new[part]))
        return "".join(lines)

    def script(self) -> str:
        """The text of the script, which imports the definitions of the other files."""
        if not self.apart:
            return self.converted
        name, lines = self.gathered.script.name, ast_lines(self.converted)
        of = {
            part.after[2]: (part.file.name, part.first) for part in self.parts if part.after and part.file in self.apart
        }
        of |= {top[2]: (file.name, 1) for file in self.apart for top in self._helpers(file)}
        tagged, below = list[tuple[str, str, int]](), 0
        for _, _, first, last in self.tops:
            tagged += [(line, *of.get(first, (name, first + 1))) for line in lines[below:last]]
            below = last
        tagged += [(line, name, 1) for line in lines[below:]]
        modules = {file: module_name(self.gathered, file) for file in self.apart}
        lost = {(file, name) for file in self.apart for name in self._lost(file)}
        staying = Staying(self.gathered, tagged, modules, {}, lost)
        return "".join(line for line, _ in staying.written(self.converted, self.width))


def _parts(tops: Sequence[Top], one: OneFile) -> Iterator[_Part]:
    """The statements of the merged text that come from other files than the script, before and after the conversion."""
    files, lines = {file.name: file for file in one.gathered.files}, one.lines
    before = [top for top in top_level(one.text) if lines[top[2]][1] in files]
    after: dict[int, Top] = {}
    open_ = list(tops)
    for is_same in (_is_the_same, _defines_the_same):
        for old in (top for top in before if top[2] not in after):
            new = next((top for top in open_ if is_same(top, old)), None)
            if new is not None:
                open_.remove(new)
                after[old[2]] = new
    for old in before:
        _, name, first = lines[old[2]]
        yield _Part(files[name], first, lines[old[3] - 1][2], old, after.get(old[2]))


def _is_the_same(new: Top, old: Top) -> bool:
    """Whether two statements have the same text."""
    return new[1] == old[1]


def _defines_the_same(new: Top, old: Top) -> bool:
    """Whether two statements, neither of them an import, are of one kind and define the same names."""
    kind, names = type(new[0]), bound_names(new[0])
    return kind is type(old[0]) and kind not in IMPORTS and bool(names) and names == bound_names(old[0])


def _module(stmt: ast.Import | ast.ImportFrom, alias: ast.alias, *, is_module: bool) -> str:
    """The module that an alias of an import is, or belongs to, as the importing file names it."""
    if isinstance(stmt, ast.Import):
        return alias.name
    return "." * stmt.level + ".".join([*([stmt.module] if stmt.module else []), *([alias.name] if is_module else [])])
