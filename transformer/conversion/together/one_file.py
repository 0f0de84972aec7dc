"""The text of a script in which imports are replaced by the definitions they import.

A module is executed when it is first imported. So if its statements replace that import, they run at the same time,
with the same values. This requires that one module scope can hold all names (`meanings.py`), and that no code depends
on its module (`conditions.py`). If all files only import and define, the definitions go below the script's imports,
which reads better.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from transformer.conversion.imported_files import Import
from transformer.conversion.together.chosen import with_default_import
from transformer.conversion.together.conditions import grounds, problems, warnings
from transformer.conversion.together.definitions import only_defines
from transformer.conversion.together.gathered import Gathered, gather
from transformer.conversion.together.meanings import Meanings, names_all
from transformer.conversion.together.modules import File
from transformer.conversion.together.saved import Saved
from transformer.conversion.together.staying import Line, Staying, only_does, with_what_they_execute
from transformer.recognition.refusals import Unconvertible, not_python
from transformer.syntax.diagnostics import Diagnostic
from transformer.syntax.imports import is_future
from transformer.syntax.text import NotText, read
from transformer.syntax.tree import Tree, ast_lines, first_line


@dataclass(frozen=True)
class OneFile:
    """A script merged with the given files that it imports."""

    text: str
    gathered: Gathered
    meanings: Meanings
    lines: tuple[Line, ...]
    origins: tuple[tuple[str, int], ...]
    """For each line, its file (empty for the script) and its line number there."""
    files: tuple[str, ...]
    """The names of the merged files."""
    warnings: tuple[Diagnostic, ...]
    staying: Staying | None = None
    """The files that stay files of their own, if there are any."""
    inner: tuple[Path, ...] = ()
    """Given files that are not merged, because they are imported in a function or under a condition."""
    notes: tuple[str, ...] = ()
    """Other notes on the step for the reader, with line numbers of the original script."""

    def placed(self, found: Diagnostic) -> Diagnostic:
        """A finding in the text, with the file and line that it comes from."""
        name, line, column = self.origin(found.line, found.column)
        return replace(found, line=line, column=column, file=name, message=self.told(found.message))

    def told(self, message: str) -> str:
        """A message in which line numbers of the files replace those of the merged text."""

        def origin(found: re.Match[str]) -> str:
            name, line, _ = self.origin(int(found[1]))
            return f"line {line} of {name}" if name else f"line {line}"

        message = re.sub(r"\blines (\d+) and (\d+)\b", r"line \1 and line \2", message)
        return re.sub(r"\bline (\d+)\b", origin, message)

    def origin(self, line: int, column: int = 1) -> tuple[str, int, int]:
        """The origin of a place in the merged text: its file ("" for the script), and its line and column there.

        The column may differ, because blocks of other files are indented like the script's.
        """
        name, there = self._origin(line)
        if name:
            with suppress(OSError, NotText, IndexError):
                here, of_file = (
                    t.splitlines()[n - 1] for t, n in ((self.text, line), (read(Path(name)).content, there))
                )
                if here.lstrip() == of_file.lstrip():
                    column = max(1, column + len(of_file) - len(here))
        return name, there, column

    def _origin(self, line: int) -> tuple[str, int]:
        return self.origins[min(max(line, 1), len(self.origins)) - 1]


def one_file(script: Path, content: str, given: Sequence[Path]) -> OneFile | None:
    """Merge the given files into the script that imports them.

    Args:
        script: the script.
        content: its text.
        given: the files, as the user names them.

    Returns:
        the merged text; None if the script is not Python.

    Raises:
        NotImported: one of the files is not imported.
        OSError: one of them cannot be read.
        Unconvertible: the merged file is not shown to do the same as the separate ones.
    """
    if not_python(content):
        return None
    own = File(script.resolve(), script.name, Tree(content))
    names = {path.resolve(): f"./{path}" if str(path) == own.name else str(path) for path in given}
    chosen = with_default_import(own, names)
    own = chosen.script if chosen is not None else own
    try:
        gathered = gather(own, names)
        meanings = Meanings(gathered)
        unused = chosen.unused if chosen is not None else frozenset()
        saved = Saved(gathered, lambda: _Writer(gathered, meanings, unused).script())
        reasons = _staying(gathered, meanings, saved)
    except Unconvertible as refusal:
        raise Unconvertible(*(_of_script(d, own) for d in refusal.diagnostics)) from None
    lines = _Writer(gathered, meanings, unused).script()
    origins = tuple(("" if name == own.name else name, line) for _, name, line in lines)
    told = tuple(_of_script(d, own) for d in warnings(gathered))
    merged = tuple(file.name for file in gathered.files if file not in reasons)
    modules = {file: module_name(gathered, file) for file in reasons}
    staying = Staying(gathered, lines, modules, reasons) if reasons else None
    text, inner = "".join(text for text, _, _ in lines), tuple(sorted(gathered.inner))
    notes = (chosen.note,) if chosen is not None else ()
    return OneFile(text, gathered, meanings, tuple(lines), origins, merged, told, staying, inner, notes)


def _staying(gathered: Gathered, meanings: Meanings, saved: Saved) -> dict[File, Diagnostic]:
    """The files that stay files of their own, and why.

    Raises:
        Unconvertible: the merged file is not shown to do the same as the separate ones.
    """
    found = list(problems(gathered, meanings))
    reasons = list(grounds(gathered, meanings, None if found else saved))
    for file, why in reasons:
        if any(other is gathered.script or only_does(other) for other in with_what_they_execute(gathered, {file: why})):
            found.append(why)
    if found:
        name = gathered.script.name
        raise Unconvertible(*sorted(dict.fromkeys(found), key=lambda d: (d.file != name, d.file, d)))
    staying = with_what_they_execute(gathered, dict(reversed(reasons)))
    clashes = [clash for (file, _), (_, clash) in meanings.renamed.items() if file in staying]
    if clashes:
        raise Unconvertible(*clashes)
    return staying


def module_name(gathered: Gathered, file: File) -> str:
    """How the script imports a file: by its absolute name, or relative to the script."""
    is_package = file.path.name == "__init__.py"
    folder = _as_imported(file.path.parent, gathered.root_of[file], gathered.script.path.parent)
    return folder if is_package else f"{folder}{'.' if folder.strip('.') else ''}{file.path.stem}"


def _of_script(found: Diagnostic, script: File) -> Diagnostic:
    return replace(found, file="") if found.file == script.name else found


class _Writer:
    """Writes the lines of gathered files."""

    def __init__(self, gathered: Gathered, meanings: Meanings, unused: Set[int]) -> None:
        self.gathered, self.meanings, self.unused = gathered, meanings, unused
        self.end = "\r\n" if "\r\n" in gathered.script.tree.code else "\n"
        self.apart = self._definitions_stand_apart()
        """Whether the definitions of all files go below the script's imports."""
        self.provided: set[str] = set()

    def script(self) -> list[Line]:
        """The lines of the script."""
        file = self.gathered.script
        body = file.tree.root.body
        if not self.apart:
            return self._lines(file, body)
        top = _leading_imports(file)
        last = body[top - 1].end_lineno or 0
        lines = self._lines(file, body[:top], range(1, last + 1))
        while lines and not lines[-1][0].strip():
            lines.pop()
        below = self._lines(file, body[top:], range(last + 1, len(ast_lines(file.tree.code)) + 1))
        for one in self.gathered.files:
            lines += self._definitions(one)
        blank = next((n for n, line in enumerate(below) if line[0].strip()), 2)
        return [*lines, *[(self.end, file.name, last)] * (2 - blank), *below]

    def _definitions_stand_apart(self) -> bool:
        for file in self.gathered.files:
            body = file.tree.root.body
            if not only_defines(file.tree, self._kept(file, body[_leading_imports(file) :])):
                return False
        for file in self.gathered.all_files:
            top = file.tree.root.body[: _leading_imports(file)]
            if any(stmt not in top for stmt in self.gathered.places[file]):
                return False
        return True

    def _kept(self, file: File, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements of a file that the merged file keeps: all except `__all__` and `__future__` imports."""
        return [s for s in body if file is self.gathered.script or not (names_all(s) or is_future(s))]

    def _module(self, file: File) -> list[Line]:
        """The lines that replace the first import of a file, which executes it."""
        body = file.tree.root.body
        if not self.apart:
            lines = _trimmed(self._lines(file, body))
            blank = [(self.end, file.name, 1)] * 2
            return [*blank, self._heading(file, lines), *lines, *blank] if lines else []
        top = _leading_imports(file)
        within = range(1, (body[top - 1].end_lineno or 0) + 1 if top else 1)
        return [line for line in self._lines(file, body[:top], within) if line[0].strip()]

    def _definitions(self, file: File) -> list[Line]:
        """The definitions of a file, with two blank lines above them."""
        body = file.tree.root.body
        top = _leading_imports(file)
        first = (body[top - 1].end_lineno or 0) + 1 if top else 1
        lines = _trimmed(self._lines(file, body[top:], range(first, len(ast_lines(file.tree.code)) + 1)))
        if not lines or not self._kept(file, body[top:]):
            return []
        blank = (self.end, file.name, lines[0][2])
        return [blank, blank, self._heading(file, lines), *lines]

    def _heading(self, file: File, lines: Sequence[Line]) -> Line:
        """The comment that names the file of the lines below."""
        return f"# From {Path(file.name).name}{self.end}", file.name, lines[0][2]

    def _lines(self, file: File, body: Sequence[ast.stmt], within: range | None = None) -> list[Line]:
        """The lines of some statements of a file: those in a range, or all."""
        texts = self._renamed(file)
        places = self.gathered.places[file]
        instead: dict[int, list[Line]] = {}
        kept = self._kept(file, body)
        for stmt in body:
            last = stmt.end_lineno or stmt.lineno
            if isinstance(stmt, (ast.Import, ast.ImportFrom)) and stmt in places:
                new = self._in_place(file, stmt)
            elif stmt not in kept or (file is not self.gathered.script and self._is_provided(file, stmt)):
                new = []
            else:
                self._provide(file, stmt)
                continue
            instead |= {line: [] for line in range(first_line(stmt), last + 1)}
            instead[last] = new
        covered = {line for stmt in body for line in range(first_line(stmt), (stmt.end_lineno or 0) + 1)}
        found: list[Line] = []
        below_place = False
        for number in range(1, len(texts) + 1) if within is None else within:
            if file is self.gathered.script and number in self.unused:
                continue
            if file is not self.gathered.script and number <= 2 and _is_for_files(texts[number - 1]):
                continue
            if below_place and not texts[number - 1].strip():
                continue  # there are enough blank lines
            new = instead.get(number, [(texts[number - 1], file.name, number)])
            if not texts[number - 1].strip() and number not in covered and file is not self.gathered.script:
                if len(found) > 1 and not found[-1][0].strip() and not found[-2][0].strip():
                    continue  # a definition that was not needed stood here
            if not new and number < len(texts) and not texts[number].strip():
                while found and not found[-1][0].strip():  # keep only the blank lines below a removed statement
                    found.pop()
            below_place = bool(new) and not new[0][0].strip() and number in instead
            while below_place and found and not found[-1][0].strip():
                found.pop()
            found += new
        if found and not found[-1][0].endswith("\n"):
            found[-1] = (found[-1][0] + self.end, *found[-1][1:])
        return found

    def _in_place(self, file: File, stmt: Import) -> list[Line]:
        place = self.gathered.places[file][stmt]
        found: list[Line] = []
        waiting = list(place.executes)
        for ours, aliases in groupby(stmt.names, key=lambda alias: alias in place.aliases):
            if not ours:
                rest = list(aliases)
                kept = (
                    ast.Import(rest) if isinstance(stmt, ast.Import) else ast.ImportFrom(stmt.module, rest, stmt.level)
                )
                found.append((ast.unparse(kept) + self.end, file.name, stmt.lineno))
                continue
            executed = {path for alias in aliases for path in place.aliases[alias].executed}
            for one in [one for one in waiting if one.path in executed]:
                waiting.remove(one)
                lines = self._module(one)
                found += lines
                if lines and not self.apart and file is not self.gathered.script:
                    found.append(self._heading(file, lines[-1:]))
        return found

    def _provide(self, file: File, stmt: ast.stmt) -> None:
        if isinstance(stmt, (ast.Import, ast.ImportFrom)):
            self.provided |= self._bound_by(file, stmt)

    def _bound_by(self, file: File, stmt: Import) -> set[str]:
        own = file.path.parent if isinstance(stmt, ast.ImportFrom) and stmt.level else ""
        module = f"{stmt.module} {stmt.level} {own}" if isinstance(stmt, ast.ImportFrom) else ""
        names = {a: a.asname or a.name for a in stmt.names}
        return {f"{module} {a.name} {self.meanings.other_name(file, name) or a.asname}" for a, name in names.items()}

    def _is_provided(self, file: File, stmt: ast.stmt) -> bool:
        """Whether an earlier import at the top level provides the same names."""
        return isinstance(stmt, (ast.Import, ast.ImportFrom)) and self._bound_by(file, stmt) <= self.provided

    def _renamed(self, file: File) -> list[str]:
        """The lines of a file, with names replaced by those of the merged file."""
        tree, edits = file.tree, list[tuple[int, int, int, str]]()
        for node in tree.of(ast.Name):
            meaning = self.meanings.of(file, node.id)
            around = tree.parents[node]
            if meaning[0] == "module" and isinstance(around, ast.Attribute) and not file.scopes.is_inner(node):
                module = next(f for f in self.gathered.files if f is meaning[1])
                new = self.meanings.other_name(module, around.attr) or around.attr
                edits.append(_edit(tree, around, new))
            elif other := self.meanings.other_name(file, node.id):
                edits.append(_edit(tree, node, other))
        for alias in tree.of(ast.alias):
            bound = alias.asname or alias.name
            if (file, bound) in self.meanings.renamed:
                edits.append(_edit(tree, alias, f"{alias.name} as {self.meanings.other_name(file, bound)}"))
        lines = ast_lines(tree.code)
        for line, start, end, new in sorted(edits, reverse=True):
            lines[line - 1] = lines[line - 1][:start] + new + lines[line - 1][end:]
        for function in tree.of(ast.FunctionDef):
            if (file, function.name) in self.meanings.renamed:
                other, row = self.meanings.other_name(file, function.name), function.lineno - 1
                lines[row] = re.sub(rf"\bdef(\s+){function.name}\b", rf"def\g<1>{other}", lines[row], count=1)
        return self._with_absolute_imports(file, lines)

    def _with_absolute_imports(self, file: File, lines: list[str]) -> list[str]:
        """Rewrite the relative imports of a file in another folder so that they work in the script."""
        if file is self.gathered.script:
            return lines
        for stmt in file.tree.of(ast.ImportFrom):
            if not stmt.level or stmt in self.gathered.places[file]:
                continue
            folder = file.path.parents[stmt.level - 1]
            written = _as_imported(folder, self.gathered.root_of[file], self.gathered.script.path.parent)
            level = len(written) - len(written.lstrip("."))
            module = ".".join(filter(None, (written.lstrip("."), stmt.module)))
            row = lines[stmt.lineno - 1]
            new = re.sub(r"\bfrom\s+\.+\s*[\w.]*", f"from {'.' * level}{module}", row[stmt.col_offset :], count=1)
            lines[stmt.lineno - 1] = row[: stmt.col_offset] + new
        return lines


def _as_imported(folder: Path, root: Path | None, script: Path) -> str:
    """The dotted name of a package's folder: absolute, below `root`, or relative to the script's folder."""
    if root is not None:
        return ".".join(folder.relative_to(root).parts)
    up = 0
    while not folder.is_relative_to(script):
        script, up = script.parent, up + 1
    return "." * (up + 1) + ".".join(folder.relative_to(script).parts)


def _edit(tree: Tree, node: ast.expr | ast.alias, new: str) -> tuple[int, int, int, str]:
    """An edit of an expression on one line: the line, the columns, counted in characters, and the new text."""
    assert node.end_col_offset is not None
    start = tree.offset(node.lineno, 0)
    columns = (tree.offset(node.lineno, column) - start for column in (node.col_offset, node.end_col_offset))
    return node.lineno, *columns, new  # type: ignore[return-value]


def _leading_imports(file: File) -> int:
    """The number of imports at the top of a file, below its docstring."""
    body = file.tree.root.body
    count = int(ast.get_docstring(file.tree.root) is not None)
    while count < len(body) and isinstance(body[count], (ast.Import, ast.ImportFrom)):
        count += 1
    return count


def _is_for_files(line: str) -> bool:
    """Whether a comment applies only at the top of a file: `#!`, or an encoding declaration."""
    return line.startswith("#!") or bool(re.match(r"[ \t\f]*#.*?coding[:=]", line))


def _trimmed(lines: Sequence[Line]) -> list[Line]:
    """Lines without leading and trailing blank lines."""
    there = [n for n, line in enumerate(lines) if line[0].strip()]
    return list(lines[there[0] : there[-1] + 1]) if there else []
