"""The local files that an import executes, found from the text alone.

They are in the script's folder and those above it. This module imports nothing heavy, so that `run` starts quickly.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

Import: TypeAlias = ast.Import | ast.ImportFrom


@dataclass(frozen=True)
class Named:
    """What an alias in an import refers to: an attribute of a local module, or a local module itself."""

    executed: tuple[Path, ...]
    """The files that the import executes, in this order: packages, then the module."""
    module: Path
    attribute: str | None
    """None if the alias is the module itself."""


def reached_files(script: Path, source: bytes) -> dict[Path, bytes]:
    """The local files that a script imports, directly or through one another, with their contents.

    A file that is not Python, or cannot be read, imports nothing.
    """
    found: dict[Path, bytes] = {script.resolve(): source}
    roots = tuple(script.resolve().parents)
    for path in (waiting := [script.resolve()]):
        for other in [
            p for stmt in _imports(found[path]) for _, what in named(path, roots, stmt) for p in what.executed
        ]:
            if other not in found:
                try:
                    found[other] = other.read_bytes()
                except OSError:
                    found[other] = b""
                waiting.append(other)
    del found[script.resolve()]
    return found


def own_modules(script: Path, source: bytes) -> dict[Path, Path]:
    """The modules in a script's folder, or below, that it imports: each by its path relative to that folder."""
    folder = script.resolve().parent
    return {file.relative_to(folder): file for file in reached_files(script, source) if file.is_relative_to(folder)}


def is_never_needed(folder: str, script: Path, source: bytes) -> bool:
    """Whether no local import needs a folder that is searched last: all are found in the script's folder.

    Args:
        folder: the folder, relative to the one where the script runs: the script's own folder, or one above it.
        script: the script.
        source: its contents.
    """
    roots = tuple(script.resolve().parents)
    for path, code in {script.resolve(): source, **reached_files(script, source)}.items():
        for stmt in _imports(code):
            found = list(named(path, roots[:1], stmt))
            if list(named(path, roots, stmt)) != found:
                return False
            tops = {name.partition(".")[0] for name in _modules(stmt)}
            for last in (root / folder for root in roots):
                if any(what not in found for what in named(path, [last], stmt)):
                    return False
                if any(_file(last / top) not in (None, _file(roots[0] / top)) for top in tops):
                    return False  # a package is found before folders without an `__init__.py`
    return True


def not_found_from(folder: Path, script: Path, source: bytes) -> list[str]:
    """The modules beside a script that its text imports, and that the text would not find in another folder."""
    if folder.resolve() == script.resolve().parent:
        return []
    found = dict[str, None]()
    for stmt in _imports(source):
        places = [
            dict(named(root / "script.py", (root,), stmt)) for root in (script.resolve().parent, folder.resolve())
        ]
        for alias in places[0].keys() - places[1].keys():
            module = stmt.module if isinstance(stmt, ast.ImportFrom) else alias.name
            found[(module or alias.name).partition(".")[0]] = None
    return sorted(found)


def _modules(stmt: Import) -> list[str]:
    """The absolute names of the modules that an import names."""
    if isinstance(stmt, ast.Import):
        return [alias.name for alias in stmt.names]
    return [stmt.module or ""] if not stmt.level else []


def _imports(source: bytes) -> list[Import]:
    """All imports in a file; none if it is not Python."""
    try:
        return [n for n in ast.walk(ast.parse(source)) if isinstance(n, (ast.Import, ast.ImportFrom))]
    except (SyntaxError, ValueError):
        return []


def named(importing: Path, roots: Sequence[Path], stmt: Import) -> Iterator[tuple[ast.alias, Named]]:
    """The aliases of an import that refer to local files, each with what it refers to.

    Args:
        importing: the file that contains the import.
        roots: the folders to search for absolute names; the first match wins.
        stmt: the import.
    """
    for alias in stmt.names:
        if isinstance(stmt, ast.Import):
            executed = next(filter(None, (_executed(root, alias.name.split(".")) for root in roots)), ())
            if executed:
                yield alias, Named(executed, executed[-1], None)
            continue
        parts = stmt.module.split(".") if stmt.module else []
        folders = [importing.parents[stmt.level - 1]] if stmt.level else roots
        found = next(filter(None, (_imported_from(folder, parts, alias.name) for folder in folders)), None)
        if found is not None:
            yield alias, found


def _imported_from(folder: Path, parts: Sequence[str], name: str) -> Named | None:
    """What `from PARTS import NAME` refers to, if the first of PARTS is looked up in `folder`."""
    place = folder.joinpath(*parts)
    executed = _executed(folder, parts) if parts else _initials([place])
    if not executed or executed[-1].name == "__init__.py":
        inner = None if name == "*" else _file(place / name)
        if inner is not None:
            packages = _initials([folder.joinpath(*parts[:n]) for n in range(min(1, len(parts)), len(parts) + 1)])
            return Named((*packages, inner), inner, None)
    return Named(executed, executed[-1], name) if executed else None


def _executed(folder: Path, parts: Sequence[str]) -> tuple[Path, ...]:
    """The files that an import of a module executes, given the parts of its name below a folder; empty if not there."""
    file = _file(folder.joinpath(*parts))
    if file is None:
        return ()
    return (*_initials([folder.joinpath(*parts[:n]) for n in range(1, len(parts))]), file)


def _initials(folders: Sequence[Path]) -> tuple[Path, ...]:
    """The `__init__.py` files of those folders that are packages."""
    files = (folder / "__init__.py" for folder in folders)
    return tuple(file.resolve() for file in files if file.is_file())


def _file(place: Path) -> Path | None:
    """The file of a module or a package."""
    for path in (place / "__init__.py", place.with_name(f"{place.name}.py")):
        if path.is_file():
            return path.resolve()
    return None
