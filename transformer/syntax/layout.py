"""Break emitted statements into lines with a formatter (ruff)."""

from __future__ import annotations

import ast
import re
import subprocess
import textwrap
from collections.abc import Sequence
from functools import cache, lru_cache

SEPARATOR = "if lean_convert_separator:\n    pass\n"


def fit(code: str, indent: int, width: int) -> str:
    """`code` (dedented statements), broken to fit `width` columns at indentation `indent`.

    Statements that already fit are returned without calling the formatter; blank lines above them stay.
    """
    return fit_each((code,), indent, width)[0]


def fit_each(codes: Sequence[str], indent: int, width: int) -> list[str]:
    """Several pieces of code, each as by `fit`, with one call of the formatter."""
    long = [c for c in codes if _continued(c) or any(indent + len(line) > width for line in c.rstrip("\n").split("\n"))]
    fitted = dict(zip(long, fit_all(tuple((c.lstrip("\n"), indent) for c in long), width), strict=True))
    above = {c: "\n" * (len(c) - len(c.lstrip("\n"))) for c in long}
    return [above[c] + fitted[c] if c in fitted else c for c in codes]


@lru_cache(maxsize=256)
def fit_all(pieces: tuple[tuple[str, int], ...], width: int) -> tuple[str, ...]:
    """Several pieces of code, each formatted for its column; unchanged if no formatter is available."""
    fitted = [code for code, _ in pieces]
    for rest in sorted({column % 4 for _, column in pieces}):
        places = [place for place, (_, column) in enumerate(pieces) if column % 4 == rest]
        formatted = _ruff(SEPARATOR.join(_nested_in(*pieces[place]) for place in places), width - rest)
        parts = (formatted or "").split(SEPARATOR)
        if formatted is not None and len(parts) == len(places):
            for place, part in zip(places, parts, strict=True):
                levels = pieces[place][1] // 4
                fitted[place] = textwrap.dedent("\n".join(part.strip("\n").split("\n")[levels:])).strip("\n") + "\n"
    return tuple(fitted)


def joined(code: str) -> str:
    """A statement in a form whose lines a formatter can join.

    Trailing commas are removed, except one that makes a tuple. So are the brackets of an assigned tuple that was broken
    over lines.
    """
    if "#" in code:
        return code
    without = re.sub(r",(\s*[)\]}])", r"\1", code)
    without = without if _are_same(without, code) else code
    one_line = re.sub(r"\s*\n\s*", " ", without.strip())
    bare = re.sub(r"^([\w ,.]+ = )\( (.*[^,]) \)$", r"\1\2", one_line)
    return bare if bare != one_line and _are_same(bare, code) else without


def _are_same(one: str, other: str) -> bool:
    """Whether two texts are the same code."""
    try:
        return one == other or ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))
    except SyntaxError:
        return False


def _nested_in(code: str, column: int) -> str:
    """Code nested in as many blocks as a column implies."""
    levels = column // 4
    head = "".join(" " * 4 * i + "if lean_convert_level:\n" for i in range(levels))
    return head + textwrap.indent(code.rstrip("\n") + "\n", " " * 4 * levels)


def _continued(code: str) -> bool:
    """Whether a bracket spans several lines."""
    return any(line.lstrip()[:1] in tuple(")]}") for line in code.split("\n"))


def _ruff(code: str, width: int) -> str | None:
    binary = _binary()
    if binary is None:
        return None
    length = f"line-length={min(max(width, 1), 320)}"
    command = [binary, "format", "--isolated", "--config", length, "--config", "format.quote-style='preserve'", "-"]
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
