"""Judges a script: converts it, and compares runs of the conversion with a run of the original."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from pathlib import Path

from forking import TimedOut, record_forked

from transformer import Conversion, Skipped, convert
from transformer.verify import Recording, compare
from transformer.verify.run import Run, RunFailed

SECONDS = 60.0
"""The wall-clock limit for one run."""
RIGHT = ("equal", "refused")


@dataclass(frozen=True)
class Outcome:
    """The verdict on a script.

    `equal`, `refused`, or `unusable` (the original itself fails). Otherwise something is wrong: `raised` (the converter
    raised an error), `failed` (the conversion fails, but not the original) or `different`. The last two end with
    " uncompiled" if they occur with the flags on and nothing compiled.
    """

    kind: str
    said: tuple[str, ...] = ()
    """What is wrong, or why the script is refused."""
    applied: tuple[str, ...] = ()
    """The names of the transforms that apply."""
    skipped: dict[str, str] = field(default_factory=dict)
    """The transforms that do not apply, each with the reason."""
    original: Recording | None = field(default=None, repr=False, compare=False)

    @property
    def right(self) -> bool:
        """Whether nothing is wrong with the conversion."""
        return self.kind in RIGHT


def judge(script: Path, source: str) -> Outcome:
    """Convert a script; run the original, and the conversion with flags off, and with flags on but nothing compiled.

    `script` is a file that may be written, in a folder of its own. `forking.preload` must have been called before.
    """
    script.write_text(source, encoding="utf-8")
    try:
        original = _record(script, source)
    except RunFailed as failure:
        return Outcome("unusable", _last(str(failure)))
    try:
        conversion = convert(source)
    except Exception:
        return Outcome("raised", _last(traceback.format_exc()), original=original)
    if not conversion.converted:
        reasons = tuple(f"{d.code} {d.message}" for d in conversion.diagnostics)
        defect = not reasons or any(d.code == "LC007" for d in conversion.diagnostics)
        return Outcome("raised" if defect else "refused", reasons, original=original)
    return _compared(script, conversion, original)


def _compared(script: Path, conversion: Conversion, original: Recording) -> Outcome:
    applied = tuple(s.transform.name for s in conversion.steps if s.applied)
    skipped = {s.transform.name: s.outcome.reason for s in conversion.steps if isinstance(s.outcome, Skipped)}
    modes: list[tuple[str, tuple[str, ...]]] = [("", ())]
    if "compile" in applied:
        modes.append((" uncompiled", ("--compile",)))
    for mode, args in modes:
        try:
            converted = _record(script, conversion.source, args, uncompiled=bool(mode))
        except RunFailed as failure:
            return Outcome("failed" + mode, _last(str(failure)), applied, skipped, original)
        differences = compare(original, converted)
        if differences:
            return Outcome("different" + mode, tuple(map(str, differences[:2])), applied, skipped, original)
    return Outcome("equal", (), applied, skipped, original)


def _record(script: Path, source: str, args: tuple[str, ...] = (), **options: bool) -> Recording:
    run = Run(script, args, source=source, timeout=SECONDS)
    try:
        return record_forked(run, **options)
    except TimedOut:
        return record_forked(run, **options)  # the machine may have been busy


def _last(lines: str) -> tuple[str, ...]:
    return tuple(lines.splitlines()[-2:])
