"""Reading scripts: every encoding that Python accepts is kept; all else is LC001 at its position."""

import codecs

import pytest

from transformer.syntax import text


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x = 1\r\ny = 2\r\n",
        b"x = 1\ry = 2\n",
        b"x = 1",
        codecs.BOM_UTF8 + "x = 'é'\n".encode(),
        "# -*- coding: latin-1 -*-\nx = 'é'\n".encode("latin-1"),
        "#!/usr/bin/env python\n# vim: set fileencoding=cp1252 :\nx = '€'\n".encode("cp1252"),
        "x = '三'\n".encode(),
    ],
)
def test_bytes_survive(data: bytes) -> None:
    read = text.decode(data)
    assert read.encode(read.content) == data


def test_content_has_no_byte_order_mark() -> None:
    assert text.decode(codecs.BOM_UTF8 + b"x = 1\r\n").content == "x = 1\r\n"


@pytest.mark.parametrize(
    ("data", "position", "words"),
    [
        (b"\x7fELF\x02\x01\x01\0\0", (1, 8), "binary"),
        (b"x = 1\ny = 2\0\n", (2, 6), "binary"),
        (b"a\nb\nc\ndd\xff = 1\n", (4, 3), "0xff is not utf-8"),
        (b"# coding: klingon\n", (1, 1), "unknown encoding"),
        (codecs.BOM_UTF8 + b"# coding: latin-1\n", (1, 1), "utf-8"),
    ],
)
def test_content_that_is_no_text(data: bytes, position: tuple[int, int], words: str) -> None:
    with pytest.raises(text.NotText) as caught:
        text.decode(data)
    found = caught.value.diagnostic
    assert found.code == "LC001"
    assert (found.line, found.column) == position
    assert words in found.message


@pytest.mark.parametrize(
    ("model", "content", "after"),
    [
        ("a\r\nb\n", "x\ny\r\n", "x\r\ny\r\n"),
        ("a\nb\n", "x\ny\r\n", "x\ny\n"),
        ("a", "x\r\n", "x\n"),
    ],
)
def test_line_ends_of_another_text(model: str, content: str, after: str) -> None:
    assert text.with_line_ends_of(model, content) == after
