"""From a script as the user names it to its conversion: what every command that converts begins with."""

from __future__ import annotations

import sys
from pathlib import Path

from transformer.conversion import pipeline
from transformer.conversion.line_length import line_length_of
from transformer.conversion.result import Conversion
from transformer.conversion.selection import Selection
from transformer.syntax import text

STDIN = "-"


def read_script(script: str) -> text.Text:
    """Read a script; `-` is standard input.

    Raises:
        OSError: the file cannot be read.
        NotText: its bytes are no Python source.
    """
    return text.decode(sys.stdin.buffer.read()) if script == STDIN else text.read(Path(script))


def convert_script(script: str, selection: Selection) -> tuple[text.Text, Conversion]:
    """Read a script and convert it at the line length of its project; `-` is standard input, of the current folder's.

    Returns:
        what was read, and its conversion; for bytes that are no text, an empty text and a refused conversion.

    Raises:
        OSError: the file cannot be read.
        SelectionError: the selection is impossible.
    """
    path = None if script == STDIN else Path(script)
    try:
        original = read_script(script)
    except text.NotText as refusal:
        return text.Text(""), Conversion("", diagnostics=(refusal.diagnostic,))
    length = line_length_of(Path.cwd() if path is None else path.parent) or pipeline.DEFAULT_LINE_LENGTH
    return original, pipeline.convert_selected(original.content, selection, length)
