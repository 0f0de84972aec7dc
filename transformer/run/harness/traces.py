"""Tracebacks and warnings that name the original's file and line, and show the converted line if it differs.

Code objects name the file of the converted text, so that debuggers and profilers find the executed code. Printed output
goes through two functions of the standard library, which are wrapped: `StackSummary.format` (uncaught exceptions,
`traceback`, `logging`, torch's messages) and `warnings.formatwarning`.
"""

from __future__ import annotations

import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from .program import Program


class Traces:
    """Maps each line of a converted text to its origin."""

    def __init__(self, program: Program, script: str, original: bytes) -> None:
        """`script` is the original's file, and `original` its content at the time of the conversion."""
        self._program, self._script = program, script
        self._file = str(program.text)
        self._here = _lines(program.source)
        self._there = {script: _lines(original)}
        for file in {*program.facts.files} - {None}:
            with suppress(OSError):  # the file was removed meanwhile
                self._there[str(file)] = _lines(Path(str(file)).read_bytes())

    def frames(self, frame: traceback.FrameSummary) -> Iterator[traceback.FrameSummary]:
        """The frames to show for a frame: the original's line, and the converted line if it differs."""
        line = frame.lineno
        if frame.filename != self._file or line is None or not 0 < line <= len(self._program.facts.origins):
            yield frame
            return
        origin = self._program.facts.origins[line - 1]
        if origin is None:
            yield self._renamed(frame, f"{frame.name}, written by {self._program.facts.transforms[line - 1]}")
            return
        script = (self._program.facts.files[line - 1] if self._program.facts.files else None) or self._script
        texts = (self._here, line), (self._there.get(script, []), origin)
        here, there = (text[n - 1] if n <= len(text) else "" for text, n in texts)
        same = here.strip() == there.strip()
        columns = (
            _columns(frame, origin, len(there) - len(there.lstrip()) - len(here) + len(here.lstrip())) if same else {}
        )
        yield traceback.FrameSummary(
            script, origin, frame.name, lookup_line=False, locals=frame.locals, line=there, **columns
        )
        if not same:
            yield self._renamed(frame, f"{frame.name}, as converted")

    def warning(self, filename: str, line: int) -> tuple[str, int, str] | None:
        """File, line and text of the warning statement in the original; None if it is in another file."""
        if filename != self._file:
            return None
        shown = list(self.frames(traceback.FrameSummary(filename, line, "", lookup_line=False)))
        text = "\n  ".join(
            f"{f.line}" if f is shown[0] else f"converted, {f.filename}:{f.lineno}: {f.line}" for f in shown
        )
        return shown[0].filename, shown[0].lineno or line, text

    def _renamed(self, frame: traceback.FrameSummary, name: str) -> traceback.FrameSummary:
        columns = _columns(frame, frame.lineno or 0, 0)
        return traceback.FrameSummary(
            frame.filename,
            frame.lineno,
            name,
            lookup_line=False,
            locals=frame.locals,
            line=self._here[(frame.lineno or 1) - 1],
            **columns,
        )

    def below(self, tb: TracebackType | None) -> TracebackType | None:
        """A traceback without the frames above the script; complete if the script is not in it."""
        inner = tb
        while inner is not None and inner.tb_frame.f_code.co_filename not in (self._file, self._script):
            inner = inner.tb_next
        return inner or tb


def _lines(text: bytes) -> list[str]:
    """Lines with their ends, as in linecache: the positions of carets are counted from the end, too."""
    return [f"{line}\n" for line in text.decode(errors="replace").replace("\r\n", "\n").split("\n")]


def _columns(frame: traceback.FrameSummary, line: int, shift: int) -> dict[str, Any]:
    """The arguments that position the carets (from Python 3.11 on) in a line shifted right by `shift` columns."""
    start, end = getattr(frame, "colno", None), getattr(frame, "end_colno", None)
    if start is None or end is None or frame.end_lineno != frame.lineno:  # type: ignore[attr-defined, unused-ignore]
        return {}
    return {"end_lineno": line, "colno": start + shift, "end_colno": end + shift}


def install(traces: Traces) -> None:
    """Name the original in everything that is printed from now on."""
    format_stack, format_warning = traceback.StackSummary.format, warnings.formatwarning

    def formatted(stack: traceback.StackSummary, *args: Any, **kwargs: Any) -> list[str]:
        shown = traceback.StackSummary()
        shown.extend(shown_frame for frame in stack for shown_frame in traces.frames(frame))
        return format_stack(shown, *args, **kwargs)

    def format_warning_of(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        found = traces.warning(filename, lineno)
        if found is not None:
            filename, lineno, line = found
        return format_warning(message, category, filename, lineno, line)

    traceback.StackSummary.format = formatted  # type: ignore[method-assign, assignment]
    warnings.formatwarning = format_warning_of
    if sys.excepthook is sys.__excepthook__:  # no debugger has set its own

        def uncaught(kind: type[BaseException], error: BaseException, tb: TracebackType | None) -> None:
            traceback.print_exception(kind, error, traces.below(tb))

        sys.excepthook = uncaught
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _uncaught_in_thread


def _uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    """`threading.excepthook` in Python, so that it uses the functions wrapped here."""
    if args.exc_type is SystemExit:
        return
    name = threading.get_ident() if args.thread is None else args.thread.name
    print(f"Exception in thread {name}:", file=sys.stderr)
    traceback.print_exception(args.exc_type, args.exc_value, args.exc_traceback)
