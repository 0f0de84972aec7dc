"""The line length of the project that a script belongs to, which emitted code keeps to."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FORMATTER_DEFAULT = 88
"""What ruff and black use where their configuration names no length."""


def line_length_of(directory: Path) -> int | None:
    """The line length that ruff or black would use for a script in `directory`; None where neither is configured.

    As these tools do, the nearest configured directory decides, and in it `.ruff.toml` comes before `ruff.toml`
    before `pyproject.toml`. An unreadable or malformed file counts as absent.
    """
    directory = directory.resolve()
    for folder in (directory, *directory.parents):
        for section in _sections(folder):
            length = section.get("line-length", FORMATTER_DEFAULT)
            if isinstance(length, int):
                return length
    return None


def _sections(folder: Path) -> list[dict[str, Any]]:
    """The formatter configurations found in one folder, the one that counts most first."""
    tools = _load(folder / "pyproject.toml").get("tool", {})
    candidates = (
        _load(folder / ".ruff.toml"),
        _load(folder / "ruff.toml"),
        tools.get("ruff"),
        tools.get("black"),
    )
    return [c for c in candidates if c]


def _load(file: Path) -> dict[str, Any]:
    """The contents of a TOML file; empty where there is none."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}
