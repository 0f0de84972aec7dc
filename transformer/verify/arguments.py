"""Printed arguments: a script that prints or logs its arguments also shows those that the conversion added."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from transformer.conversion.imported_files import reached_files
from transformer.syntax.query import parse
from transformer.verify.recording import Print, Recording


def added_options(original: str, converted: str, script: Path | None = None) -> frozenset[str]:
    """Names of the arguments that the converted script has, and neither the original nor a local file that it imports.

    Args:
        original: the text of the original.
        converted: the text of the converted script.
        script: where the original is; None if it imports no local file.

    Raises:
        SyntaxError: one of them is not Python.
    """
    found = _options(converted) - _options(original)
    for content in reached_files(script, original.encode()).values() if found and script else ():
        with suppress(SyntaxError, ValueError):  # a file that a run does not import
            found -= _options(content.decode())
    return found


def without_options(recording: Recording, names: frozenset[str], *, on: bool = False) -> Recording:
    """The recording without these arguments, printed with their defaults or switched `on`.

    `Args(seed=1, compile=False)` becomes `Args(seed=1)`. If each argument has its own line, as in JSON or a table, the
    lines are removed.
    """
    if not names:
        return recording
    peers = tuple(without_options(peer, names, on=on) for peer in recording.peers)
    prints, texts = (lines_without_options(lines, names, on=on) for lines in (recording.prints, recording.texts))
    return replace(recording, prints=prints, texts=texts, peers=peers)


def lines_without_options(prints: Iterable[Print], names: frozenset[str], *, on: bool) -> tuple[Print, ...]:
    """The printed lines without these arguments, printed with their defaults or switched `on`."""
    values = r"[Ff]alse|\d+|['\"]?(?:fp|bf|tf)\d+\b['\"]?"
    return tuple(_without(prints, names, rf"[Tt]rue|{values}" if on else values) if names else prints)


def _options(source: str) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("--"):
            names.add(node.value[2:].replace("-", "_"))
    return frozenset(names)


def _without(prints: Iterable[Print], names: frozenset[str], values: str) -> list[Print]:
    shown = rf"""['"]?\b({"|".join(sorted(map(re.escape, names)))})\b['"]?\s*[=:|]\s*({values})(?!\w)"""
    inside = re.compile(rf",\s*{shown}|{shown},\s*")
    alone = re.compile(rf"\W*{shown}\W*")
    kept: list[Print] = []
    for printed in prints:
        if alone.fullmatch(printed.line):
            if "," not in printed.line and kept:  # the last argument was removed, so the one before it is now the last
                kept[-1] = replace(kept[-1], line=kept[-1].line.rstrip().removesuffix(","))
        else:
            kept.append(replace(printed, line=inside.sub("", printed.line)))
    return kept
