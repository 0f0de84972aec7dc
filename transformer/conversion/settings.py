"""A project's settings for conversions: `[tool.lean-convert]` in `pyproject.toml`."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from transformer.conversion.line_length import DEFAULT_LINE_LENGTH, line_length_of, parse_toml

TABLE = "tool.lean-convert"
Target: TypeAlias = Literal["any", "cpu", "cuda"]
"""The kind of machine that a converted script runs on: any, or a single kind, without branches for the other."""


class SettingsError(ValueError):
    """The table has an unknown key or an invalid value; the message names the file and key, and what is valid."""


def _transform_names(value: Any) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise ValueError("a list of names of transforms")


def _columns(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise ValueError("a number of columns")


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError("true or false")


def _one_target(value: Any) -> str:
    if value in get_args(Target):
        return str(value)
    raise ValueError(f"one of {', '.join(get_args(Target))}")


def _key(read: Callable[[Any], Any]) -> Any:
    """A key of the table: `read` converts the TOML value, or raises ValueError with a description of valid ones."""
    return field(default=None, metadata={"read": read})


@dataclass(frozen=True)
class Settings:
    """The settings; None means not set. Each field is a key of the table and an argument of `convert`."""

    select: tuple[str, ...] | None = _key(_transform_names)
    ignore: tuple[str, ...] | None = _key(_transform_names)
    tune: bool | None = _key(_truth)
    measure: bool | None = _key(_truth)
    distribute: bool | None = _key(_truth)
    workers: bool | None = _key(_truth)
    checkpoint: bool | None = _key(_truth)
    precision: bool | None = _key(_truth)
    fuse_envs: bool | None = _key(_truth)
    target: Target | None = field(default=None, metadata={"read": _one_target})
    line_length: int | None = _key(_columns)

    def overridden(self, **given: Any) -> Settings:
        """These settings, overridden by those given on the command line (not None)."""
        return replace(self, **{name: value for name, value in given.items() if value is not None})

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `convert`."""
        chosen = {key.name: getattr(self, key.name) for key in fields(self)}
        return {name: value for name, value in chosen.items() if value is not None}


def settings_of(directory: Path) -> Settings:
    """The settings for a script in `directory`; the line length defaults to that of its formatter.

    As with ruff, only the nearest `pyproject.toml` with the table counts, from that directory upward.

    Raises:
        SettingsError: the table has an unknown key or an invalid value.
    """
    found = _read_nearest(directory.resolve())
    length = found.line_length or line_length_of(directory) or DEFAULT_LINE_LENGTH
    return replace(found, line_length=length)


def _read_nearest(directory: Path) -> Settings:
    for folder in (directory, *directory.parents):
        file = folder / "pyproject.toml"
        try:
            content = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if "lean-convert" not in content:
            continue
        try:
            table = parse_toml(content).get("tool", {}).get("lean-convert")
        except ValueError as error:
            raise SettingsError(f"{file}: {error}") from None
        if table is not None:
            return _settings_of_table(table, f"{file}: [{TABLE}]")
    return Settings()


def _settings_of_table(table: Any, where: str) -> Settings:
    if not isinstance(table, dict):
        raise SettingsError(f"{where} is not a table")
    known = {key.name.replace("_", "-"): key for key in fields(Settings)}
    values = {}
    for name, value in table.items():
        if name not in known:
            (nearest,) = difflib.get_close_matches(name, known, n=1, cutoff=0)
            keys = ", ".join(known)
            raise SettingsError(f"{where} has no key {name!r}; did you mean {nearest!r}? (The keys are: {keys})")
        try:
            values[known[name].name] = known[name].metadata["read"](value)
        except ValueError as wanted:
            raise SettingsError(f"{where} {name} is {value!r}, but must be {wanted}") from None
    return Settings(**values)
