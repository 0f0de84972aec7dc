"""A script's bytes and text: reading and writing preserve encoding, byte order mark and line ends."""

from __future__ import annotations

import io
import tokenize
from dataclasses import dataclass
from pathlib import Path

from transformer.syntax.diagnostics import Diagnostic


class NotText(Exception):
    """The bytes are not Python source; `diagnostic` (LC001) says why."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


@dataclass(frozen=True)
class Text:
    """A decoded script. `content` keeps the file's line ends; `encoding` is the codec that restores its bytes."""

    content: str
    encoding: str = "utf-8"

    def encode(self, content: str) -> bytes:
        """Encode `content` in this script's encoding, with a byte order mark if the script has one."""
        return content.encode(self.encoding)


def decode(data: bytes) -> Text:
    """Decode Python source as the interpreter would: by byte order mark or encoding declaration, or UTF-8 (PEP 263).

    Raises:
        NotText: the bytes are binary or contradict their declared encoding.
    """
    if b"\0" in data:
        raise NotText(_at(data, data.index(b"\0"), "the file is binary (it contains a NUL byte)"))
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:  # an unknown or wrong encoding declaration, or bytes that are not UTF-8
        raise NotText(_at(data, 0, f"cannot be decoded: {error.msg}")) from None
    try:
        return Text(data.decode(encoding), encoding)
    except UnicodeDecodeError as error:
        byte = f"byte 0x{data[error.start]:02x}"
        raise NotText(_at(data, error.start, f"{byte} is not {encoding}: {error.reason}")) from None


def _at(data: bytes, offset: int, message: str) -> Diagnostic:
    """LC001 at a byte's line and column."""
    line_start = data.rfind(b"\n", 0, offset) + 1
    return Diagnostic(data.count(b"\n", 0, offset) + 1, offset - line_start + 1, "LC001", message)


def unit_of_indentation(content: str) -> str:
    """The indentation of a script's first block; four spaces if there is none."""
    tokens = tokenize.generate_tokens(io.StringIO(content).readline)
    return next((token.string for token in tokens if token.type == tokenize.INDENT), "    ")


def read(path: Path) -> Text:
    """Read and decode a script.

    Raises:
        NotText: see :func:`decode`.
        OSError: the file cannot be read.
    """
    return decode(path.read_bytes())


def with_line_ends_of(model: str, content: str) -> str:
    """A text with the line ends of another text: CRLF if that text has any, else LF."""
    content = content.replace("\r\n", "\n")
    return content.replace("\n", "\r\n") if "\r\n" in model else content
