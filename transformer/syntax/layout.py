"""Breaking emitted statements into lines as a formatter does, by asking one (ruff)."""

from __future__ import annotations

import subprocess
import textwrap
from collections.abc import Sequence
from functools import cache, lru_cache

SEPARATOR = "if lean_convert_separator:\n    pass\n"


def fit(code: str, indent: int, width: int) -> str:
    """`code` (dedented statements), broken so that it fits `width` columns when it stands at `indent`.

    Statements that fit on their lines are passed through without asking; blank lines above them stay.
    """
    lines = code.rstrip("\n").split("\n")
    if not _continued(lines) and all(indent + len(line) <= width for line in lines):
        return code
    above = "\n" * (len(code) - len(code.lstrip("\n")))
    return above + fit_all((code.lstrip("\n"),), indent, width)[0]


@lru_cache(maxsize=256)
def fit_all(codes: tuple[str, ...], indent: int, width: int) -> tuple[str, ...]:
    """Several pieces of code, each formatted for one place; unchanged where no formatter is at hand."""
    levels, rest = divmod(indent, 4)
    head = "".join(" " * 4 * i + "if lean_convert_level:\n" for i in range(levels))
    body = SEPARATOR.join(code.rstrip("\n") + "\n" for code in codes)
    formatted = _ruff(head + textwrap.indent(body, " " * 4 * levels), width - rest)
    if formatted is None:
        return codes
    inner = textwrap.dedent("\n".join(formatted.split("\n")[levels:]))
    pieces = [p.strip("\n") + "\n" for p in inner.split(SEPARATOR)]
    return tuple(pieces) if len(pieces) == len(codes) else codes


def _continued(lines: Sequence[str]) -> bool:
    """Whether a bracket is open over several lines."""
    return any(line.lstrip()[:1] in tuple(")]}") for line in lines)


def _ruff(code: str, width: int) -> str | None:
    binary = _binary()
    if binary is None:
        return None
    command = [binary, "format", "--isolated", f"--line-length={min(max(width, 1), 320)}", "-"]
    done = subprocess.run(command, input=code, capture_output=True, text=True, encoding="utf-8", check=False)
    return done.stdout if done.returncode == 0 else None


@cache
def _binary() -> str | None:
    try:
        from ruff.__main__ import find_ruff_bin  # type: ignore[import-untyped]
    except ImportError:
        return None
    try:
        return str(find_ruff_bin())
    except FileNotFoundError:
        return None
