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
from transformer.conversion.several_files import several_files
from transformer.conversion.together import ONE_FILE
from transformer.conversion.together.gathered import NotImported
from transformer.conversion.together.one_file import OneFile, one_file
from transformer.conversion.together.staying import Staying
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


def convert_script(
    script: str, together: Sequence[Path] = (), *, separately: bool = False, **given: Any
) -> tuple[text.Text, Conversion]:
    """Read a script and convert it with its project's settings; `-` is standard input, in the current folder's project.

    Args:
        script: as the user names it.
        together: files that it imports, to be converted with it.
        separately: whether these are to be written as files of their own.
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
    return original, convert_together(path, original, together, chosen.arguments, separately=separately)


def convert_together(
    path: Path, script: text.Text, together: Sequence[Path], arguments: Mapping[str, Any], *, separately: bool = False
) -> Conversion:
    """Convert a script and files that it imports as a single text.

    Args:
        path: the script.
        script: its text.
        together: the files.
        arguments: of `convert`.
        separately: whether to divide the result into files again.

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
    staying = one.staying
    conversion = pipeline.convert(one.text, held=None if staying is None else staying.changed, **arguments)
    if not conversion.steps:
        return replace(conversion, original=script.content, diagnostics=tuple(map(one.placed, conversion.diagnostics)))
    found = (*one.warnings, *map(one.placed, conversion.diagnostics))
    conversion = replace(
        conversion,
        original=script.content,
        steps=(_merging(script, one, separately=separately), *(_told(step, one) for step in conversion.steps)),
        diagnostics=tuple(sorted(found)),
        brought=one.origins,
        several=several_files(conversion.source, one, arguments["line_length"]) if separately else None,
    )
    conversion = replace(conversion, beside=one.inner)
    return conversion if staying is None else _with_files_apart(conversion, staying, one, arguments["line_length"])


def _merging(script: text.Text, one: OneFile, *, separately: bool) -> Step:
    """The step that merges files into the script."""
    notes = [f"From {', '.join(one.files)}."] if one.files else []
    notes += one.notes
    if one.staying is not None:
        notes.append(one.staying.note(found=separately))
    brief = "" if one.files else "names from other files are imported directly"
    brief = "definitions of other files are converted, too" if separately and one.files else brief
    return Step(ONE_FILE, Applied(tuple(notes), brief), script.content, one.text)


def _with_files_apart(conversion: Conversion, staying: Staying, one: OneFile, width: int) -> Conversion:
    """A conversion whose states import the files that stay files of their own."""
    merging, *others = conversion.steps
    texts = {state: staying.written(state, width) for state in (one.text, *(step.after for step in others))}
    written = {state: "".join(line for line, _ in lines) for state, lines in texts.items()}
    steps = [replace(merging, after=written[one.text])]
    steps += [replace(step, before=written[step.before], after=written[step.after]) for step in others]
    brought = tuple(staying.origins.get(line) or one.origins[n] for line, n in texts[one.text])
    return replace(conversion, steps=tuple(steps), brought=brought, beside=(*one.inner, *staying.files))


def _told(step: Step, one: OneFile) -> Step:
    """A step whose messages refer to the lines of the original files."""
    outcome = step.outcome
    if not isinstance(outcome, (Applied, Skipped)):
        return step
    headlines = tuple(map(one.told, outcome.headlines))
    if isinstance(outcome, Skipped):
        return replace(step, outcome=replace(outcome, reason=one.told(outcome.reason), headlines=headlines))
    notes, left = (tuple(map(one.told, sentences)) for sentences in (outcome.notes, outcome.left))
    return replace(step, outcome=replace(outcome, notes=notes, headlines=headlines, left=left))
