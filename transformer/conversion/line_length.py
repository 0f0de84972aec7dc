"""The line length of the project that a script belongs to, which emitted code keeps to."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

DEFAULT_LINE_LENGTH = 127
"""cleanrl's own line length, used where the script's project does not say."""

FORMATTER_DEFAULT = 88
"""What ruff and black use where their configuration names no length."""


def parse_toml(content: str) -> dict[str, Any]:
    """The tables of a TOML file.

    Raises:
        ValueError: it is no TOML.
    """
    if sys.version_info >= (3, 11):  # imported here: a run out of the cache, where no file is read, need not pay for it
        import tomllib
    else:
        import tomli as tomllib
    tables: dict[str, Any] = tomllib.loads(content)
    return tables


def line_length_of(directory: Path) -> int | None:
    """The line length that ruff or black would use for a script in `directory`; None where neither is configured.

    As with these tools, the nearest configured directory decides; in it `.ruff.toml` comes before `ruff.toml`,
    `[tool.ruff]` and `[tool.black]` of `pyproject.toml`. A file that cannot be read or parsed counts as absent.
    """
    directory = directory.resolve()
    for folder in (directory, *directory.parents):
        project = folder / "pyproject.toml"
        sections = (
            _table(folder / ".ruff.toml"),
            _table(folder / "ruff.toml"),
            _table(project, "tool", "ruff"),
            _table(project, "tool", "black"),
        )
        for section in sections:
            if section and isinstance(length := section.get("line-length"), int):
                return length
        if any(section is not None for section in sections):
            return FORMATTER_DEFAULT
    return None


def _table(file: Path, *keys: str) -> dict[str, Any] | None:
    """The table under `keys` of a TOML file; None where there is none."""
    try:
        table: Any = parse_toml(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    for key in keys:
        table = table.get(key) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else None
