"""The header of a converted script: it has a legal place, detects every edit, and survives CRLF."""

import codecs
import hashlib
import re
from pathlib import Path

import golden
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer import convert
from transformer.syntax import header, text

PLAIN = '"""A docstring."""\n\nfrom __future__ import annotations\n\nx = "é"\n'
TOPS = (
    *("#!/usr/bin/env python", "# -*- coding: latin-1 -*-", "# vim: set fileencoding=cp1252 :", "\f# coding=utf-8"),
    *('"""', "", "\f", "# a comment", "x = 1", "y = '\f # coding: cp1252'"),
)
LINES = st.lists(st.sampled_from(TOPS), max_size=4)
LINE_ENDS = st.sampled_from(["\n", "\r\n"])
unhurried = settings(deadline=None)
ANYTHING = st.text(st.characters(exclude_characters="\0", codec="utf-8"))


@pytest.mark.parametrize(
    ("first", "rest"),
    [
        ("", PLAIN),
        ("#!/usr/bin/env python\n", PLAIN),
        ("# -*- coding: utf-8 -*-\n", PLAIN),
        ("#!/usr/bin/env python\r\n# coding=latin-1\r\n", PLAIN.replace("\n", "\r\n")),
        ("\n\f# coding: utf-8\n", PLAIN),
        ("", "x = 1\n# coding: latin-1\n"),  # below code, the comment sets no encoding
        ("", '"""\n# coding: latin-1\n"""\n'),
        ("", "# a licence\n#\n# coding: latin-1\n"),
    ],
)
def test_it_is_below_lines_that_must_come_first(first: str, rest: str) -> None:
    result = header.add(first + rest, "ppo.py", "1.2.3")
    assert result.startswith(first + "# Converted by lean-convert 1.2.3 from ppo.py; digest of this file: ")
    line_end = "\r\n" if "\r\n" in rest else "\n"
    assert result.endswith(line_end + rest)
    found = header.find(result)
    assert found is not None
    assert (found.version, found.source_name, found.line) == ("1.2.3", "ppo.py", first.count("\n") + 1)


@unhurried
@given(LINES, LINE_ENDS, st.sampled_from(["ppo.py", "coding:latin-1.py", "é encoding=cp1252\n.py", "\udcff.py"]))
def test_it_changes_the_meaning_of_no_text(lines: list[str], line_end: str, name: str) -> None:
    before = text.decode(line_end.join([*lines, "x = 1", ""]).encode())
    after = text.decode(before.encode(header.add(before.content, header.quoted(Path(name)))))
    assert after.encoding == before.encoding
    found = header.find(after.content)
    assert found is not None
    assert found.source_name == name
    assert header.is_unedited(after.content)
    assert re.sub(r"# Converted [^\r\n]*(\r\n|\n)", "", after.content, count=1) == before.content


@unhurried
@given(ANYTHING, LINE_ENDS)
def test_line_ends_and_byte_order_mark_are_no_edit(content: str, line_end: str) -> None:
    result = header.add(content, "ppo.py").replace("\r\n", "\n").replace("\n", line_end)
    assert header.is_unedited(result)
    marked = text.decode(codecs.BOM_UTF8 + header.add(PLAIN, "ppo.py").encode())
    assert header.is_unedited(marked.content)


WRITTEN = header.add("#!/usr/bin/env python\n" + PLAIN, "ppo.py")


@unhurried
@given(
    st.integers(0, len(WRITTEN)), st.integers(0, 1), st.characters(exclude_characters="\r", codec="utf-8") | st.just("")
)
def test_every_edit_of_a_character_is_noticed(at: int, gone: int, new: str) -> None:
    edited = WRITTEN[:at] + new + WRITTEN[at + gone :]
    assert header.is_unedited(edited) == (edited == WRITTEN)


@pytest.mark.parametrize("at", range(len(WRITTEN)))
def test_every_character_counts(at: int) -> None:
    assert not header.is_unedited(WRITTEN[:at] + WRITTEN[at + 1 :])
    assert not header.is_unedited(WRITTEN[:at] + ("b" if WRITTEN[at] == "a" else "a") + WRITTEN[at + 1 :])


@pytest.mark.parametrize(
    "content", ["", PLAIN, f"import os\n{WRITTEN}", f'"""\n{WRITTEN}"""\n', WRITTEN.replace("# Conv", " # Conv")]
)
def test_text_without_it(content: str) -> None:
    assert header.find(content) is None
    assert not header.is_unedited(content)


def test_it_does_not_depend_on_the_line_ends_of_the_source() -> None:
    digests = {header.find(header.add(PLAIN.replace("\n", end), "a.py")) for end in ("\n", "\r\n")}
    assert len(digests) == 1


def test_standard_input_is_no_file_of_that_name() -> None:
    files = (None, Path("dir") / "<stdin>", Path("two words.py"))
    found = [header.find(header.add(PLAIN, header.quoted(file))) for file in files]
    assert [head and head.source_name for head in found] == [None, "<stdin>", "two words.py"]


def test_a_long_block_of_comments_is_searched_at_once() -> None:
    assert header.find("# a line\r\n\r\n" * 100_000) is None


@pytest.mark.parametrize("names", [None, ["shuffle"]])
def test_a_script_with_a_header_is_not_converted_again(names: list[str] | None) -> None:
    """Even if the conversion has no flags, or an edit broke the result."""
    source = (golden.FIXTURES / "plain_prints.py").read_text(encoding="utf-8")
    once = convert(source, select=names)
    assert once.converted
    for edit in ("", "(\n"):
        result = header.add("#!/bin/python\n" + once.source, "ppo.py") + edit
        again = convert(result)
        assert [(d.code, d.line) for d in again.diagnostics] == [("LC002", 2)]
        assert again.source == result


def test_the_version_without_an_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    assert header.running() != "unknown"
    monkeypatch.setattr(header, "DISTRIBUTION", "no-such-distribution")
    assert header.running() == "unknown"


@unhurried
@given(LINES, LINE_ENDS, ANYTHING)
def test_removing_it_restores_the_text(lines: list[str], end: str, rest: str) -> None:
    content = end.join([*lines, rest])
    assert header.without(header.add(content, "train.py")) == content.replace("\r\n", "\n")
    assert header.without(content) == content.replace("\r\n", "\n")


def test_a_header_in_the_words_of_the_first_release_is_known() -> None:
    """Version 0.1 wrote `, sha256 ` into the header."""
    before, after = "# Converted by lean-convert 0.1.0 from ppo.py, sha256 ", "\n" + PLAIN
    digest = hashlib.sha256((before + after).encode()).hexdigest()[: header.DIGITS]
    assert header.is_unedited(before + digest + after)
    assert not header.is_unedited(before + digest + after + "y = 2\n")
    found = header.find(before + digest + after)
    assert found is not None and found.source_name == "ppo.py"
