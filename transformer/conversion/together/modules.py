"""The local files that become one."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from transformer.conversion.imported_files import Import
from transformer.conversion.together.scopes import Scopes
from transformer.syntax import text
from transformer.syntax.tree import Tree


@dataclass(frozen=True, eq=False)
class File:
    """A local Python file."""

    path: Path
    """The path, with links resolved."""
    name: str
    """The name to show to the user."""
    tree: Tree

    @property
    def imports(self) -> Sequence[Import]:
        """All imports in the file, including those in functions."""
        return [*self.tree.of(ast.Import), *self.tree.of(ast.ImportFrom)]

    @cached_property
    def scopes(self) -> Scopes:
        """The names of the file's module scope."""
        return Scopes(self.tree)


def read_file(path: Path, name: str) -> File:
    """Read a file that is imported.

    Raises:
        OSError: it cannot be read.
        NotText, SyntaxError, ValueError: it is not Python.
    """
    return File(path, name, Tree(text.read(path).content))
