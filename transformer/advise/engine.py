"""Applies every rule to a script."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from transformer.advise.base import Finding
from transformer.advise.rules import RULES
from transformer.advise.study import Study
from transformer.conversion import pipeline
from transformer.conversion.together.one_file import one_file
from transformer.recognition import refusals
from transformer.recognition.refusals import Unconvertible
from transformer.syntax.diagnostics import Diagnostic, at
from transformer.syntax.query import calls_method

Place: TypeAlias = tuple[str, str]
"""A finding's code and the text of its line."""


def advise(code: str) -> tuple[Finding, ...]:
    """The places that cost time in a script, sorted by position; the script need not be convertible.

    A finding names a transform only if a conversion of this script applies the transform, and this removes the finding.

    Raises:
        Unconvertible: the text is not Python, or is too large or too deeply nested.
    """
    code = code.removeprefix(pipeline.BYTE_ORDER_MARK)
    unreadable = refusals.not_python(code)
    if unreadable:
        raise Unconvertible(unreadable)
    try:
        return _checked(code, _found(code))
    except RecursionError:
        raise Unconvertible(at(None, "LC008", "the file is nested too deeply")) from None


def advise_together(script: Path, code: str, given: Sequence[Path]) -> tuple[Finding, ...]:
    """The places that cost time in a script and in files that it imports, which are merged for this.

    Args:
        script: the script.
        code: its text.
        given: the files, as the user names them.

    Raises:
        OSError: one of the files cannot be read.
        SelectionError: one of them is not imported.
        Unconvertible: as for `advise`; or the files cannot be merged.
    """
    one = one_file(script, code, given)
    if one is None:
        return advise(code)
    found = []
    for finding in advise(one.text):
        file, line, column = one.origin(finding.line, finding.column)
        found.append(replace(finding, line=line, column=column, file=file, message=one.told(finding.message)))
    return tuple(sorted(found, key=lambda f: (f.file, f.line, f.column, f.code, f.message)))


def nothing_hot(code: str) -> Diagnostic | None:
    """Why there is no advice on a script: none of its code is hot. None if some is."""
    code = code.removeprefix(pipeline.BYTE_ORDER_MARK)
    study = Study(code)
    if next(study.heats.hot_loops(), None) is not None:
        return None
    message = "no training loop was found, so there is no advice: no loop steps an optimizer or calls backward()"
    written = refusals.written_by_this_tool(code)
    kind = next(iter(refusals.unsuitable(study.tree)), None)
    return written or refusals.trained_by_a_library(study.tree) or kind or at(None, "LC004", message)


def learns_from_no_environment(code: str) -> bool:
    """Whether a script never calls step() with an argument: then it is not converted, unless another file does so."""
    tree = Study(code.removeprefix(pipeline.BYTE_ORDER_MARK)).tree
    return not any(calls_method(n, "step") and n.args for n in tree.of(ast.Call))


def stays_on_cpu(code: str) -> bool:
    """Whether a script names no device: then nothing in it waits for one, and no waits are reported."""
    return not Study(code.removeprefix(pipeline.BYTE_ORDER_MARK)).uses_device


def _found(code: str, of: Collection[str] | None = None) -> tuple[Finding, ...]:
    """The findings of all rules, or of those with these codes."""
    study = Study(code)
    found = {
        Finding(*_position(node), rule.code, message, transform)
        for rule in RULES
        if of is None or rule.code in of
        for node, message, transform in rule.find(study)
    }
    return tuple(sorted(found, key=lambda f: (f.line, f.column, f.code, f.message)))


def _position(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1


def _checked(code: str, found: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings, naming only transforms that remove them in this script."""
    if not any(f.transform for f in found):
        return found
    conversion = pipeline.convert(code)
    steps = [s for s in conversion.steps if s.applied] if conversion.converted else []
    last = max((i for i, s in enumerate(steps, 1) if any(f.transform == s.transform.name for f in found)), default=0)
    asked = {f.code for f in found if f.transform}
    places = [[_finding_key(text, f) for f in _found(text, asked)] for text in (code, *(s.after for s in steps[:last]))]
    names = [s.transform.name for s in steps]
    return tuple(
        f if _removed(_finding_key(code, f), f.transform, names, places) else replace(f, transform=None) for f in found
    )


def _removed(place: Place, transform: str | None, names: Sequence[str], places: Sequence[Sequence[Place]]) -> bool:
    """Whether a transform removes a finding, or an earlier one does, which may have rewritten the line.

    Args:
        place: the finding.
        transform: the transform.
        names: the transforms that applied.
        places: the findings before and after each of these transforms.
    """
    for name, before, after in zip(names, places, places[1:], strict=False) if transform in names else ():
        gone, new = ([p for p in a if p not in b and p[0] == place[0]] for a, b in ((before, after), (after, before)))
        if name == transform or (place in gone and len(gone) != len(new)):
            return place in gone and len(new) < len(gone)
        if place in gone:
            place = new[gone.index(place)]
    return False


def _finding_key(code: str, finding: Finding) -> Place:
    """A key for a finding: its code and the text of its line, which are the same in all states that keep the line."""
    return finding.code, code.splitlines()[finding.line - 1].strip()
