"""Unusual text: the conversion keeps the file's conventions, or the refusal says what is wrong."""

import codecs
import re
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from transformer import convert
from transformer.conversion.result import Conversion
from transformer.syntax import text

FIXTURES = Path(__file__).parents[2] / "fixtures"
BASES = ("plain_prints.py", pytest.param("gym_classic_discrete.py", marks=pytest.mark.slow))


def _read(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


@pytest.fixture(params=BASES)
def script(request: pytest.FixtureRequest) -> str:
    return _read(request.param)


@pytest.fixture(scope="module")
def plain() -> str:
    """A script that is converted quickly."""
    return _read("one_step_per_turn.py")


@cache
def _converted(source: str, line_length: int = 127) -> str:
    conversion = convert(source, line_length=line_length)
    assert conversion.converted, conversion.diagnostics
    compile(conversion.source, "converted", "exec")
    return conversion.source


def _tabbed(source: str) -> str:
    """Every four leading blanks become a tab; other blanks of continuation lines stay."""
    return re.sub(r"^( {4})+", lambda blanks: "\t" * (len(blanks[0]) // 4), source, flags=re.M)


def _halved(source: str) -> str:
    return re.sub(r"^( {4})+", lambda blanks: "  " * (len(blanks[0]) // 4), source, flags=re.M)


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_line_ends_are_the_files_own(script: str, newline: str) -> None:
    assert _converted(script.replace("\n", newline)) == _converted(script).replace("\n", newline)


@pytest.mark.parametrize("indent", [_tabbed, _halved])
def test_indentation_is_the_files_own(script: str, indent: Callable[[str], str]) -> None:
    wide = 1000  # narrower indentation leaves more room in a line
    assert _converted(indent(script), wide) == indent(_converted(script, wide))


def test_names_beyond_ascii(script: str) -> None:
    assert "agent" in script
    renamed = re.sub(r"\bagent\b", "智能体", script)
    assert "智能体" in _converted(renamed)


def test_no_line_end_at_the_end_of_the_file(plain: str) -> None:
    assert _converted(plain.rstrip("\n")) == _converted(plain).rstrip("\n")


@pytest.mark.parametrize("odd", ["\f", "\v", "\x1c", "\x85", "\u2028", "\u00a0"])
def test_characters_that_are_line_ends_only_to_some(plain: str, odd: str) -> None:
    """`str.splitlines` breaks lines where Python does not, so positions counted by it would be wrong."""
    marked = plain.replace("import torch\n", f'# one{odd}two\nMARK = "three{odd}four"\nimport torch\n', 1)
    assert f'# one{odd}two\nMARK = "three{odd}four"\nimport torch\n' in _converted(marked)


@pytest.mark.parametrize(
    "prefix",
    [
        codecs.BOM_UTF8,
        b"# -*- coding: latin-1 -*-\n# caf\xe9\n",
        b"#!/usr/bin/env python\n# vim: set fileencoding=cp1252 :\n# \x80\n",
    ],
)
def test_encodings(plain: str, prefix: bytes) -> None:
    read = text.decode(prefix + plain.encode())
    written = read.encode(_converted(read.content))
    assert written.startswith(prefix)
    assert text.decode(written).content == _converted(read.content)


def test_a_byte_order_mark_in_the_text(plain: str) -> None:
    conversion = convert("\ufeff" + plain)
    assert conversion.converted
    assert conversion.original == "\ufeff" + plain
    assert conversion.source == "\ufeff" + _converted(plain)
    assert [s.after for s in conversion.steps] == ["\ufeff" + s.after for s in convert(plain).steps]


def test_a_byte_order_mark_before_nothing() -> None:
    _refused_as_unreadable(convert("\ufeff"))


def test_line_ends_of_both_kinds(plain: str) -> None:
    """Lines that no transform touches keep their line ends."""
    first, rest = plain.split("\nimport torch\n", 1)
    mixed = first.replace("\n", "\r\n") + "\r\nimport torch\n" + rest
    converted = _converted(mixed)
    assert converted.replace("\r\n", "\n") == _converted(plain)
    assert "\r\nimport torch\n" in converted
    assert converted.endswith("\n") and not converted.endswith("\r\n")


def test_a_long_line(plain: str) -> None:
    long = "LONG = [" + ", ".join(map(str, range(5000))) + "]\n"
    assert long in _converted(plain + long)


def test_a_long_comment_in_the_update(plain: str) -> None:
    comment = "  # " + "x" * 20_000
    marked = re.sub(r"^( *optimizer\.step\(\))$", rf"\1{comment}", plain, flags=re.M)
    assert comment in _converted(marked)


def test_20000_lines(plain: str) -> None:
    comments = "# nothing\n" * 20_000
    assert _converted(comments + plain) == comments + _converted(plain)


def test_20000_lines_of_code_are_refused_at_once(plain: str) -> None:
    began = time.process_time()
    _refused_as_unreadable(convert(plain + "x = 1 + 2\n" * 20_000))
    assert time.process_time() - began < 5


@pytest.mark.slow
def test_20000_lines_of_simple_code(plain: str) -> None:
    """A table over many lines has fewer syntax nodes than the limit."""
    table = "TABLE = [\n" + "    0,\n" * 20_000 + "]\n"
    began = time.process_time()
    assert table in _converted(plain + table)
    assert time.process_time() - began < 20  # a few seconds on an idle machine; the bound catches what never ends


@pytest.mark.parametrize("depth", [50, 90])
def test_deep_code(plain: str, depth: int) -> None:
    deep = "NESTED = " + "(" * depth + "1" + ")" * depth + "\n"
    deep += "".join("\t" * level + "if NESTED:\n" for level in range(depth)) + "\t" * depth + "NESTED = 0\n"
    assert deep in _converted(plain + deep)


@pytest.mark.parametrize(
    "deep",
    [
        "x = " + "+".join(["1"] * 3000),
        "x = a" + ".b" * 3000,
        "x = " + "[" * 300 + "]" * 300,
        "x = " + "-" * 3000 + "1",
        "if a:\n    pass\n" + "elif a:\n    pass\n" * 3000,
        "def f():\n    pass\n" + "\n".join(" " * i + "if 1:" for i in range(150)),
    ],
    ids=["sum", "attributes", "brackets", "signs", "elif", "indentation"],
)
def test_code_too_deep_is_refused(plain: str, deep: str) -> None:
    _refused_as_unreadable(convert(plain + deep + "\n"))


@pytest.mark.parametrize("source", ["", "  \n", "\0", "x = 1\n\0", "x = (\n", "  x = 1\n", "x = '\ud800'\n"])
def test_no_script(source: str) -> None:
    _refused_as_unreadable(convert(source))


def _refused_as_unreadable(conversion: Conversion) -> None:
    assert not conversion.converted
    assert [d.code for d in conversion.diagnostics] in (["LC001"], ["LC008"])
    assert conversion.source == conversion.original
