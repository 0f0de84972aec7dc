"""A converter with three transforms, for tests of the code around the converter."""

from collections.abc import Iterable

from transformer.conversion.result import Applied, Conversion, Skipped, Step
from transformer.conversion.selection import SelectionError
from transformer.syntax.diagnostics import Diagnostic
from transformer.transforms.base import TransformInfo

MARK = "# converted\n"

FLAGS, STORAGE, SHUFFLE, COMPILE = (
    TransformInfo(
        name=name,
        brief=f"{name} is done",
        summary=f"do {name}",
        applies=f"to {name}",
        safety=f"{name} is safe.",
        costs=f"{name} costs.",
        needs=needs,
        before="x = 1\n",
        after="x = 2\n",
    )
    for name, needs in (("flags", ()), ("storage", ()), ("shuffle", ()), ("compile", ("flags",)))
)


def convert(
    source: str,
    *,
    select: Iterable[str] | None = None,
    ignore: Iterable[str] | None = None,
    line_length: int = 127,
) -> Conversion:
    """Mark the source as converted; refuse it if it is already marked or contains REFUSE; warn if it contains WARN."""
    if "nonsense" in (*(select or ()), *(ignore or ())):
        raise SelectionError("there is no transform named 'nonsense'")
    if source.startswith(MARK):
        return Conversion(source, diagnostics=(Diagnostic(1, 1, "LC002", "has the mark"),))
    if "REFUSE" in source:
        findings = (Diagnostic(3, 5, "LC004", "no [loop] found"), Diagnostic(7, 1, "LC005", "two phases"))
        return Conversion(source, diagnostics=findings)
    newline = "\r\n" if "\r\n" in source else "\n"
    marked = MARK.replace("\n", newline) + source
    compiled = f"{marked}# line_length={line_length}{newline}"
    steps = (
        Step(FLAGS, Applied(("Two flags.",)), source, marked),
        Step(STORAGE, Skipped("buffers of [unknown] shape"), marked, marked),
        Step(SHUFFLE, Skipped("nothing to [see]", "not needed"), marked, marked),
        Step(COMPILE, Applied(), marked, compiled),
    )
    warnings = (Diagnostic(2, 9, "LC101", "loss.item() remains"),) if "WARN" in source else ()
    return Conversion(source, steps, warnings)
