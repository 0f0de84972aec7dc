"""The order of the transforms, and the run through them that keeps every state."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace

import libcst as cst

from transformer.conversion import Applied, Conversion, Outcome, Skipped, Step, TransformInfo
from transformer.diagnostics import Diagnostic, at
from transformer.script import Unconvertible, recognise
from transformer.transforms import ORDER
from transformer.transforms.base import Skip

DEFAULT_LINE_LENGTH = 127
"""cleanrl's own line length, used where the script's project does not say."""

BYTE_ORDER_MARK = "\ufeff"


class SelectionError(ValueError):
    """`select` or `ignore` names an unknown transform, or leaves out one that a selected transform needs."""


def all_transforms() -> tuple[TransformInfo, ...]:
    """The transforms in the order in which they are applied."""
    return tuple(t.info for t in ORDER)


def convert(
    source: str,
    *,
    select: Iterable[str] | None = None,
    ignore: Iterable[str] | None = None,
    line_length: int = DEFAULT_LINE_LENGTH,
) -> Conversion:
    """Convert one script.

    Args:
        source: the text of the script.
        select: names of the transforms to apply; all where None.
        ignore: names of the transforms to leave out.
        line_length: columns that emitted lines may take.

    Returns:
        every state of the script, every transform's outcome, and the diagnostics. A script that cannot be
        converted is a result (`converted` is False), not an exception.

    Raises:
        SelectionError: `select`/`ignore` is impossible.
    """
    chosen = _choose(select, ignore)
    if source.startswith(BYTE_ORDER_MARK):  # a text that was decoded without regard to it
        return _marked(convert(source[1:], select=select, ignore=ignore, line_length=line_length))
    try:
        return _run(source, chosen, line_length)
    except RecursionError:
        return Conversion(source, (), (at(None, "LC008", "the file is nested too deeply"),))


def _marked(conversion: Conversion) -> Conversion:
    """The conversion of a text that begins with a byte order mark, from that of the text without it."""
    steps = tuple(
        replace(s, before=BYTE_ORDER_MARK + s.before, after=BYTE_ORDER_MARK + s.after) for s in conversion.steps
    )
    return replace(conversion, original=BYTE_ORDER_MARK + conversion.original, steps=steps)


def _run(source: str, chosen: set[str], line_length: int) -> Conversion:
    try:
        script = recognise(source, line_length)
    except Unconvertible as refusal:
        return Conversion(source, (), tuple(sorted(refusal.diagnostics)))
    diagnostics: list[Diagnostic] = list(script.warnings)
    steps: list[Step] = []
    applied: set[str] = set()
    for transform in ORDER:
        info, before = transform.info, script.code
        missing = [n for n in info.needs if n not in applied]
        outcome: Outcome
        if info.name not in chosen:
            outcome = Skipped("not selected", chosen=False)
        elif missing:
            outcome = Skipped(f"needs {', '.join(missing)}, which did not apply")
        else:
            script.notes.clear()
            script.warnings.clear()
            try:
                after = transform.apply(script)
                notes = tuple(script.in_original(n) for n in script.notes)
                if after != before:
                    script = recognise(after, line_length, earlier=script)
                    outcome = Applied(notes)
                    applied.add(info.name)
                else:
                    outcome = Skipped("nothing to change")
            except Skip as skip:
                outcome = Skipped(script.in_original(str(skip)))
            except (Unconvertible, SyntaxError, cst.ParserSyntaxError) as broken:
                return Conversion(source, (), (at(None, "LC007", f"transform {info.name}: {broken}"),))
            diagnostics += script.warnings
        steps.append(Step(info, outcome, before, script.code))
    if not applied:
        reasons = "; ".join(f"{s.transform.name}: {s.outcome.reason}" for s in steps if isinstance(s.outcome, Skipped))
        diagnostics.append(at(None, "LC006", f"no transform applies ({reasons})"))
    else:
        ast.parse(script.code)
    options = tuple((flag, f"--{read.split('.')[-1].replace('_', '-')}") for flag, read in script.facts.flags.items())
    return Conversion(source, tuple(steps), tuple(sorted(diagnostics)), options)


def _choose(select: Iterable[str] | None, ignore: Iterable[str] | None) -> set[str]:
    """The names to apply; dependencies are checked here, before anything runs."""
    known = {t.info.name: t.info for t in ORDER}
    wanted = set(known) if select is None else set(select)
    unwanted = set(ignore or ())
    for name in sorted((wanted | unwanted) - set(known)):
        raise SelectionError(f"there is no transform named {name!r}; the names are: {', '.join(known)}")
    chosen = wanted - unwanted
    for name in (n for n in known if n in chosen):
        for need in known[name].needs:
            if need not in chosen:
                how = f"drop --ignore {need}" if need in unwanted else f"add --select {need}"
                raise SelectionError(f"{name} needs {need}: {how}, or leave {name} out too (--ignore {name})")
    return chosen
