"""Files that are merged only for the analysis, and stay files of their own in the output.

Something in such a file would differ in another file: `__file__`, or the module under which objects of a class are
saved. So in the output of every state, an import replaces the file's statements, and no transform may change them.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TypeAlias, TypeVar

from transformer.conversion.together.definitions import only_defines
from transformer.conversion.together.gathered import Gathered
from transformer.conversion.together.meanings import names_in_texts
from transformer.conversion.together.modules import File
from transformer.conversion.together.needed import bound_names, only_imports
from transformer.syntax.diagnostics import Diagnostic
from transformer.syntax.layout import fit
from transformer.syntax.query import parse
from transformer.syntax.text import with_line_ends_of
from transformer.syntax.tree import ast_lines

Line: TypeAlias = "tuple[str, str, int]"
"""A line with its line end, its file, and its line number there."""
Top: TypeAlias = "tuple[ast.stmt, str, int, int]"
"""A statement, its text, its first line, counted from 0, and the line below its last one."""
IMPORTS = (ast.Import, ast.ImportFrom)


Why = TypeVar("Why")


def with_what_they_execute(gathered: Gathered, reasons: Mapping[File, Why]) -> dict[File, Why]:
    """The files that stay files of their own, including those that the import of a staying file executes.

    Args:
        gathered: all files.
        reasons: why files stay.

    Returns:
        all such files, with the reasons.
    """
    found = dict(reasons)
    waiting = list(found)
    imports = [named for of in gathered.places.values() for place in of.values() for named in place.aliases.values()]
    while waiting:
        file = waiting.pop()
        executed = [p for place in gathered.places[file].values() for n in place.aliases.values() for p in n.executed]
        executed += [p for n in imports if file.path in n.executed for p in n.executed[: n.executed.index(file.path)]]
        for other in filter(None, map(gathered.file, executed)):
            if other not in found:
                found[other] = found[file]
                waiting.append(other)
    return found


def only_does(file: File) -> bool:
    """Whether importing a file has other effects than definitions, and it defines nothing that could be imported."""
    return not only_defines_things(file) and not file.scopes.lines


def only_defines_things(file: File) -> bool:
    """Whether importing a file has no other effects than imports and definitions."""
    return only_defines(file.tree, [s for s in file.tree.root.body if not isinstance(s, IMPORTS)])


@dataclass(frozen=True)
class _Part:
    """A statement at the top level of the merged text that comes from a staying file."""

    file: File
    stmt: ast.stmt
    text: str
    first: int
    """Its first line, counted from 0."""
    last: int
    """The line below its last one."""


class Staying:
    """The parts of a merged text that come from staying files, and the imports that replace them in the output."""

    def __init__(
        self,
        gathered: Gathered,
        merged: Sequence[Line],
        modules: Mapping[File, str],
        reasons: Mapping[File, Diagnostic],
        lost: Collection[tuple[File, str]] = (),
    ) -> None:
        """Find the parts.

        Args:
            gathered: all files.
            merged: the lines of the merged text.
            modules: the staying files, each with the name by which it is imported.
            reasons: why each of them stays.
            lost: the names that these files no longer define.
        """
        self._lost = lost
        self._gathered, self._merged, self.modules, self._reasons = gathered, merged, modules, reasons
        names = {file.name: file for file in modules}
        tops = top_level("".join(text for text, _, _ in merged))
        self._parts = [_Part(names[merged[top[2]][1]], *top) for top in tops if merged[top[2]][1] in names]
        self.origins: dict[str, tuple[str, int]] = {}
        """For each new import, the file and line of the import that it stands for."""
        remarks = [(text, file in names) for text, file, _ in merged if text.lstrip().startswith("#")]
        self._comments = {text for text, theirs in remarks if theirs} - {text for text, theirs in remarks if not theirs}

    @property
    def files(self) -> tuple[Path, ...]:
        """The paths of the staying files."""
        return tuple(file.path for file in self.modules)

    def note(self, *, found: bool) -> str:
        """A note for the reader: which files stay, and why; `found` says that they are written beside the result."""
        stay = "stays as it is" if len(self.modules) == 1 else "stay as they are"
        stay += "" if found else ", and must be found where the result runs"
        whys = dict.fromkeys(_told(why) for why in self._reasons.values())
        names = ", ".join(file.name for file in self.modules)
        return f"{names} {stay}: {'; '.join(whys)}."

    def changed(self, text: str) -> str | None:
        """Why a transform must not make this state of the script: it would change a staying file; or None."""
        left = {part for _, _, part in self._found(text)}
        for part in self._parts:
            if part not in left and not isinstance(part.stmt, IMPORTS):
                reason = self._reasons[part.file]
                advice = reason.message.partition(": ")[2]
                told = f"{_told(reason)}, so {advice}" if advice.startswith("give ") else _told(reason)
                return f"it would change {part.file.name}, which stays a file of its own: {told}"
        return None

    def written(self, text: str, width: int) -> list[tuple[str, int]]:
        """The lines of a state of the script, with imports in place of the staying files' definitions.

        Args:
            text: the state; `changed` returns None for it.
            width: the maximum width of an import.

        Returns:
            each line with its line number in the text; a new line has the number of the line that it is put above.
        """
        lines, found, tops = ast_lines(text), self._found(text), top_level(text)
        theirs = {first: part for first, _, part in found}
        rest = [top for top in tops if top[2] not in theirs]
        needed = self._needed(_read(stmt for stmt, *_ in rest))
        gone = {
            number
            for first, last, part in found
            if not isinstance(part.stmt, IMPORTS) or self._is_superfluous(part, first, tops, rest, needed)
            for number in range(first, last)
        }
        covered = {number for *_, first, last in tops for number in range(first, last)}
        gone |= {n for n, line in enumerate(lines) if n not in covered and line in self._comments}
        new: dict[int, dict[str, None]] = {}
        end = "\r\n" if "\r\n" in text else "\n"
        for file, names in needed.items():
            first, part = min(((at, part) for at, _, part in found if part.file is file), key=itemgetter(0))
            above = [last for stmt, _, _, last in tops if isinstance(stmt, IMPORTS) and last <= first]
            stands_there = isinstance(part.stmt, IMPORTS) or not only_defines_things(file)
            place = first if stands_there else max(above, default=first)
            code = with_line_ends_of(text, self._import_of(file, names, width))
            new.setdefault(place, {})[code] = None
            self.origins |= dict.fromkeys(ast_lines(code), self._imported_at(file))
        kept: list[tuple[str, int]] = []
        for number, line in enumerate(lines):
            kept += [(one, number) for code in new.get(number, ()) for one in ast_lines(code)]
            kept += [(line, number)] if number not in gone else []
        return _spaced(kept, gone | set(new), end)

    def _found(self, text: str) -> list[tuple[int, int, _Part]]:
        """The parts that are unchanged in a text, each with its lines there."""
        parts: dict[str, list[_Part]] = {}
        for part in self._parts:
            parts.setdefault(part.text, []).append(part)
        found: list[tuple[int, int, _Part]] = []
        for _, code, first, last in top_level(text):
            if parts.get(code):
                found.append((first, last, parts[code].pop(0)))
        return found

    def _needed(self, read: Collection[str]) -> dict[File, list[str]]:
        """The names that the rest of a text needs of each staying file, in the order in which the files are executed.

        A file whose import has other effects gets at least one name, unless another import executes it.
        """
        found: dict[File, list[str]] = {}
        for file in self._gathered.files:
            stmts = [p.stmt for p in self._parts if p.file is file and not isinstance(p.stmt, IMPORTS)]
            defined = list(dict.fromkeys(name for stmt in stmts for name in sorted(bound_names(stmt))))
            found[file] = [name for name in defined if name in read] if file in self.modules else []
            if file in self.modules and not found[file] and not only_defines_things(file):
                found[file] = ["", *defined]
        imported = {file for file, names in found.items() if names and names[0]}
        packages = {folder / "__init__.py" for file in imported for folder in file.path.parents}
        executed = imported | {file for file in found if file.path in packages}
        for file, names in found.items():
            if names and not names[0]:
                around, _ = self._executing(file)
                while around not in executed and around is not self._gathered.script:
                    around, _ = self._executing(around)
                found[file] = [] if around in executed else names[1:2]
        return {file: names for file, names in found.items() if names}

    def _executing(self, file: File) -> tuple[File, int]:
        """The file that contains the first import of another file, and the line of that import."""
        places = [(of, stmt, place) for of, imports in self._gathered.places.items() for stmt, place in imports.items()]
        return next((of, stmt.lineno) for of, stmt, place in places if file in place.executes)

    def _imported_at(self, file: File) -> tuple[str, int]:
        of, line = self._executing(file)
        return "" if of is self._gathered.script else of.name, line

    def _is_superfluous(
        self, part: _Part, first: int, tops: Sequence[Top], rest: Sequence[Top], needed: Mapping[File, Sequence[str]]
    ) -> bool:
        """Whether an import of a staying file is not needed by the rest, or stands again right below."""
        if not only_imports(part.stmt) and part.file not in needed:
            return False
        if not bound_names(part.stmt) & _read(stmt for stmt, *_ in rest):
            return True
        for top in (top for top in tops if top[2] > first):
            if not isinstance(top[0], IMPORTS):
                return False
            if top in rest and ast.dump(top[0]) == ast.dump(part.stmt):
                return True
        return False

    def _import_of(self, file: File, names: Sequence[str], width: int) -> str:
        """The script's own import of these names from a file, if there is one; otherwise a new one."""
        script = self._gathered.script
        for stmt, place in self._gathered.places[script].items():
            modules = {self._gathered.file(named.module) for named in place.aliases.values()}
            plain = isinstance(stmt, ast.ImportFrom) and {a.name for a in stmt.names if not a.asname} >= set(names)
            plain = plain and not any((file, alias.name) in self._lost for alias in stmt.names)
            if plain and modules == {file} and set(place.aliases) == set(stmt.names):
                return "".join(ast_lines(script.tree.code)[stmt.lineno - 1 : stmt.end_lineno])
        return fit(f"from {self.modules[file]} import {', '.join(names)}\n", 0, width)


def _told(why: Diagnostic) -> str:
    """The fact that a refusal states, with its place but without the advice."""
    return f"{why.message.partition(':')[0]} ({why.file}:{why.line})"


def _spaced(lines: Sequence[tuple[str, int]], changed: Collection[int], end: str) -> list[tuple[str, int]]:
    """Lines with two blank lines between statements, and none between imports, where lines were removed or added."""
    tops = top_level("".join(line for line, _ in lines))
    found: list[tuple[str, int]] = []
    below = 0
    for place, (stmt, _, first, last) in enumerate(tops):
        gap = lines[below:first]
        near = range(lines[max(below - 1, 0)][1] + bool(below), lines[first][1] + 1)
        if any(number in changed for number in near):
            close = not place or (isinstance(stmt, IMPORTS) and isinstance(tops[place - 1][0], IMPORTS))
            comments = [line for line in gap if line[0].strip()]
            gap = [*[(end, lines[first][1])] * (0 if close and (not place or not comments) else 2), *comments]
        found += [*gap, *lines[first:last]]
        below = last
    return [*found, *lines[below:]]


def top_level(text: str) -> list[Top]:
    """The statements at the top level of a text, each with its text, its first line, from 0, and the line below it."""
    lines, found = ast_lines(text), list[Top]()
    for stmt in parse(text).body:
        first = min([stmt.lineno, *(d.lineno for d in getattr(stmt, "decorator_list", ()))]) - 1
        last = stmt.end_lineno or stmt.lineno
        found.append((stmt, "".join(lines[first:last]), first, last))
    return found


def _read(stmts: Iterable[ast.stmt]) -> set[str]:
    """The names that statements read, and those in annotations that are strings."""
    nodes = [n for stmt in stmts for n in ast.walk(stmt)]
    return {n.id for n in nodes if isinstance(n, ast.Name)} | names_in_texts(nodes)
