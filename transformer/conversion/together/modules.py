"""Which files an import executes: found next to the script and in the folders above it, without running anything."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from transformer.conversion.together.scopes import Scopes
from transformer.syntax import text
from transformer.syntax.tree import Tree

Import: TypeAlias = ast.Import | ast.ImportFrom


@dataclass(frozen=True, eq=False)
class File:
    """A local Python file."""

    path: Path
    """Without links."""
    name: str
    """As the reader knows it."""
    tree: Tree

    @property
    def imports(self) -> Sequence[Import]:
        """All imports in the file, including those in functions."""
        return [*self.tree.of(ast.Import), *self.tree.of(ast.ImportFrom)]

    @cached_property
    def scopes(self) -> Scopes:
        """The names of its module scope."""
        return Scopes(self.tree)


@dataclass(frozen=True)
class Named:
    """What one alias of an import refers to: an attribute of a local module, or the module itself."""

    executed: tuple[Path, ...]
    """The files that the import executes, in order: packages, then the module."""
    module: Path
    attribute: str | None
    """None if the alias is the module itself."""


def read_file(path: Path, name: str) -> File:
    """Read a file that is imported.

    Raises:
        OSError: it cannot be read.
        NotText, SyntaxError, ValueError: it is not Python.
    """
    return File(path, name, Tree(text.read(path).content))


def named(importing: Path, roots: Sequence[Path], stmt: Import) -> Iterator[tuple[ast.alias, Named]]:
    """The aliases of an import that refer to local files, with what they refer to.

    Args:
        importing: the file with the import.
        roots: the folders in which absolute names are looked up; the first with a match decides.
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
    """What `from PARTS import NAME` refers to, if the first of the parts is looked up in `folder`."""
    place = folder.joinpath(*parts)
    executed = _executed(folder, parts) if parts else _initials([place])
    if not executed or executed[-1].name == "__init__.py":
        inner = None if name == "*" else _file(place / name)
        if inner is not None:
            packages = _initials([folder.joinpath(*parts[:n]) for n in range(min(1, len(parts)), len(parts) + 1)])
            return Named((*packages, inner), inner, None)
    return Named(executed, executed[-1], name) if executed else None


def _executed(folder: Path, parts: Sequence[str]) -> tuple[Path, ...]:
    """The files that an import of a module executes, given its parts below a folder; none if it is not there."""
    file = _file(folder.joinpath(*parts))
    if file is None:
        return ()
    return (*_initials([folder.joinpath(*parts[:n]) for n in range(1, len(parts))]), file)


def _initials(folders: Sequence[Path]) -> tuple[Path, ...]:
    """The `__init__.py` files of these folders, as far as they exist."""
    files = (folder / "__init__.py" for folder in folders)
    return tuple(file.resolve() for file in files if file.is_file())


def _file(place: Path) -> Path | None:
    """The file of a module or a package."""
    for path in (place / "__init__.py", place.with_name(f"{place.name}.py")):
        if path.is_file():
            return path.resolve()
    return None
