"""From a script as the user names it to its conversion: what every command that converts begins with."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from transformer.conversion import pipeline
from transformer.conversion.result import Conversion
from transformer.conversion.settings import settings_of
from transformer.syntax import text

STDIN = "-"


def read_script(script: str) -> text.Text:
    """Read a script; `-` is standard input.

    Raises:
        OSError: the file cannot be read.
        NotText: its bytes are no Python source.
    """
    return text.decode(sys.stdin.buffer.read()) if script == STDIN else text.read(Path(script))


def convert_script(script: str, **given: Any) -> tuple[text.Text, Conversion]:
    """Read a script and convert it as its project wants it; `-` is standard input, of the current folder's project.

    Args:
        script: as the user names it.
        given: arguments of `convert` from the command line; None leaves one to the project's settings.

    Returns:
        what was read, and its conversion; for bytes that are no text, an empty text and a refused conversion.

    Raises:
        OSError: the file cannot be read.
        SelectionError: the selection is impossible.
        SettingsError: the project's `[tool.lean-convert]` is.
    """
    path = None if script == STDIN else Path(script)
    try:
        original = read_script(script)
    except text.NotText as refusal:
        return text.Text(""), Conversion("", diagnostics=(refusal.diagnostic,))
    chosen = settings_of(Path.cwd() if path is None else path.parent).overridden(**given)
    return original, pipeline.convert(original.content, **chosen.arguments)
