"""What is wrong with a conversion, whatever the script."""

from __future__ import annotations

import ast
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from transformer import convert
from transformer.conversion.result import Conversion

SECONDS = 5.0
"""Processor time that one conversion may take."""
GIVE_UP = 30
"""Processor time after which it is given up, to find where it stands."""

_LOGGED = ("add_scalar", "add_text", "add_histogram", "log")


class Hangs(BaseException):
    """A conversion that took too long. No handler in the converter mistakes it for an error of its own."""


def examine(source: str, *, every_state: bool = True) -> tuple[Conversion | None, list[str]]:
    """A script's conversion and what is wrong with it, one sentence each; nothing where all is well.

    Whatever the script, converting it must not raise nor take long. A refusal has its reasons. A conversion compiles
    in each of its states (in the last one alone without `every_state`, which saves a sixth of the time), logs and
    prints all that the script did, and is not converted again.
    """
    began = time.process_time()
    try:
        with _given_up_after(GIVE_UP):
            conversion = convert(source)
    except (Exception, Hangs) as error:
        return None, [f"raised {type(error).__name__}: {_first_line(error)}{_place(error)}"]
    seconds = time.process_time() - began
    complaints = [f"took more than {SECONDS:.0f} s"] if seconds > SECONDS else []
    return conversion, complaints + list(
        _converted(conversion, every_state) if conversion.converted else _refused(conversion)
    )


@contextmanager
def _given_up_after(seconds: float) -> Iterator[None]:
    """Raise :class:`Hangs` where the block takes longer (processor time)."""

    def give_up(_: int, frame: FrameType | None) -> None:
        raise Hangs("given up")

    previous = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def _refused(conversion: Conversion) -> Iterator[str]:
    if conversion.source != conversion.original:
        yield "a refused script was changed"
    if not conversion.diagnostics:
        yield "refused without a reason"
    lines = conversion.original.count("\n") + 1
    for diagnostic in conversion.diagnostics:
        if not 1 <= diagnostic.line <= lines:
            yield f"line {diagnostic.line} is not in the script"
        if diagnostic.code == "LC007":
            yield f"internal error: {diagnostic.message.splitlines()[0]}"


def _converted(conversion: Conversion, every_state: bool) -> Iterator[str]:
    if not _compiles(conversion.original):  # a `return` outside of a function, say: only the parser accepts it
        return
    applied = [step for step in conversion.steps if step.applied]
    for step in applied if every_state else applied[-1:]:
        if not _compiles(step.after):
            yield f"{step.transform.name} wrote what does not compile"
            return
    for call in sorted((_reports(conversion.original) - _reports(conversion.source)).elements()):
        yield f"lost {call}"
    if convert(conversion.source).converted:
        yield "the converted script was converted again"


def _compiles(source: str) -> bool:
    try:
        compile(source, "script", "exec")
    except SyntaxError:
        return False
    return True


def _reports(source: str) -> Counter[str]:
    """The calls that print or log, each as its function's last name and, where it is text, what comes first in it.

    What the function belongs to may get another name: `self.writer` becomes `writer` where an object is dissolved.
    """
    nodes = list(ast.walk(ast.parse(source)))
    own = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}  # a mutant's `print = ...`
    calls = [n for n in nodes if isinstance(n, ast.Call) and _name(n.func) in {"print", *_LOGGED} - own]
    return Counter(f"{_name(c.func)}({_label(c)})" for c in calls)


def _name(function: ast.expr) -> str:
    """`print` and the methods that log, by their names; a mutant's method called print does not print."""
    if isinstance(function, ast.Attribute):
        return function.attr if function.attr in _LOGGED else ""
    return getattr(function, "id", "")


def _label(call: ast.Call) -> str:
    first = call.args[0] if call.args else None
    return repr(first.value) if isinstance(first, ast.Constant) else ""


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "")


def _place(error: BaseException) -> str:
    """The innermost place in the converter, so that one defect is one complaint."""
    place = ""
    trace = error.__traceback__
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        if module.startswith("transformer"):
            place = f" ({module}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return place
