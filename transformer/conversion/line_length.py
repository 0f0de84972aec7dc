"""The line length of the script's project, which emitted code respects."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

DEFAULT_LINE_LENGTH = 127
"""cleanrl's own line length, used if the script's project sets none."""

FORMATTER_DEFAULT = 88
"""The defaults of ruff and black."""


def parse_toml(content: str) -> dict[str, Any]:
    """The tables of a TOML file.

    Raises:
        ValueError: it is not TOML.
    """
    if sys.version_info >= (3, 11):  # imported here, because a cached run reads no TOML file
        import tomllib
    else:
        import tomli as tomllib
    tables: dict[str, Any] = tomllib.loads(content)
    return tables


def line_length_of(directory: Path) -> int | None:
    """The line length that ruff or black would use for a script in `directory`; None if neither is configured.

    As with these tools, the nearest configured directory decides; within it, `.ruff.toml` takes precedence over
    `ruff.toml`, then `[tool.ruff]` and `[tool.black]` of `pyproject.toml`. A file that cannot be read or parsed is
    ignored.
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
    """The table under `keys` of a TOML file; None if there is none."""
    try:
        table: Any = parse_toml(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    for key in keys:
        table = table.get(key) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else None
