"""An analysis that gives up in the middle knows less, so no more transforms may apply than when it ends."""

from __future__ import annotations

import pytest
from faults import Fault, faults

from transformer import Applied, convert
from transformer.values.effects import interpreter

EACH, IN_SLOW = 400, 8
"""Of how many scripts one is converted at every change, and in the slow tier."""


def applied(source: str, monkeypatch: pytest.MonkeyPatch) -> tuple[set[str], int]:
    """The transforms that apply, and how many facts the largest analysis found."""
    found: list[int] = []
    begin = interpreter.Interpreter.__init__

    def counted(self: interpreter.Interpreter, *given: object) -> None:
        begin(self, *given)  # type: ignore[arg-type]
        found.append(self.heap.version)

    with monkeypatch.context() as patch:
        patch.setattr(interpreter.Interpreter, "__init__", counted)
        steps = convert(source).steps
    return {s.transform.name for s in steps if isinstance(s.outcome, Applied)}, max(found, default=0)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(one, id=one.name, marks=[] if not number % EACH else [pytest.mark.slow])
        for number, one in enumerate(faults())
        if not number % IN_SLOW
    ],
)
def test_no_more_transforms_apply(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, facts = applied(fault.source, monkeypatch)
    assert facts
    for share in (0.02, 0.3, 0.6, 0.95):
        monkeypatch.setattr(interpreter, "MOST", int(facts * share))
        assert applied(fault.source, monkeypatch)[0] <= whole, share
