"""Read and convert the script that the user names; every command that converts begins here."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformer.conversion import pipeline
from transformer.conversion.result import Applied, Conversion, Skipped, Step
from transformer.conversion.settings import settings_of
from transformer.conversion.together import ONE_FILE
from transformer.conversion.together.gathered import NotImported
from transformer.conversion.together.one_file import OneFile, one_file
from transformer.recognition.refusals import Unconvertible
from transformer.syntax import text
from transformer.syntax.diagnostics import at

STDIN = "-"
NO_FOLDER = "--with needs a script in a file: standard input is in no folder"


def read_script(script: str) -> text.Text:
    """Read a script; `-` is standard input.

    Raises:
        OSError: the file cannot be read.
        NotText: its bytes are not Python source.
    """
    return text.decode(sys.stdin.buffer.read()) if script == STDIN else text.read(Path(script))


def convert_script(script: str, together: Sequence[Path] = (), **given: Any) -> tuple[text.Text, Conversion]:
    """Read a script and convert it with its project's settings; `-` is standard input, in the current folder's project.

    Args:
        script: as the user names it.
        together: files that it imports, to be converted with it.
        given: arguments of `convert` from the command line; None means the project's setting.

    Returns:
        the text and its conversion; if the bytes cannot be decoded, an empty text and a refused conversion.

    Raises:
        OSError: a file cannot be read.
        SelectionError: the selection is impossible, or one of `together` is not imported.
        SettingsError: the project's `[tool.lean-convert]` is invalid.
    """
    path = None if script == STDIN else Path(script)
    try:
        original = read_script(script)
    except text.NotText as refusal:
        return text.Text(""), Conversion("", diagnostics=(refusal.diagnostic,))
    chosen = settings_of(Path.cwd() if path is None else path.parent).overridden(**given)
    if not together:
        return original, pipeline.convert(original.content, **chosen.arguments)
    if path is None:
        raise NotImported(NO_FOLDER)
    return original, convert_together(path, original, together, chosen.arguments)


def convert_together(
    path: Path, script: text.Text, together: Sequence[Path], arguments: Mapping[str, Any]
) -> Conversion:
    """Convert a script and files that it imports as a single file.

    Args:
        path: the script.
        script: its text.
        together: the files.
        arguments: of `convert`.

    Returns:
        a conversion of the script, whose first step merges the files into it.

    Raises:
        NotImported: one of the files is not imported.
        OSError: one of them cannot be read.
        SelectionError: the selection is impossible.
    """
    try:
        one = one_file(path, script.content, together)
        if one is not None:
            script.encode(one.text)
    except Unconvertible as refusal:
        return Conversion(script.content, (), refusal.diagnostics)
    except UnicodeEncodeError as error:
        why = f"the files given with it contain {error.object[error.start]!r}, which is not in {script.encoding}"
        return Conversion(script.content, (), (at(None, "LC009", why),))
    if one is None:
        return pipeline.convert(script.content, **arguments)
    conversion = pipeline.convert(one.text, **arguments)
    if not conversion.steps:
        return replace(conversion, original=script.content, diagnostics=tuple(map(one.placed, conversion.diagnostics)))
    found = (*one.warnings, *map(one.placed, conversion.diagnostics))
    notes = (f"From {', '.join(one.files)}.",)
    steps = (Step(ONE_FILE, Applied(notes), script.content, one.text), *(_told(step, one) for step in conversion.steps))
    return replace(
        conversion, original=script.content, steps=steps, diagnostics=tuple(sorted(found)), brought=one.origins
    )


def _told(step: Step, one: OneFile) -> Step:
    """A step whose messages refer to the lines of the original files."""
    outcome = step.outcome
    if isinstance(outcome, Applied):
        return replace(step, outcome=replace(outcome, notes=tuple(map(one.told, outcome.notes))))
    return (
        replace(step, outcome=replace(outcome, reason=one.told(outcome.reason)))
        if isinstance(outcome, Skipped)
        else step
    )
