"""An analysis that gives up knows nothing: scripts that were once converted wrongly are held back, or equal."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults import Fault, faults
from forking import preload
from judge import judge
from scripts import script

from transformer import Applied, convert
from transformer.values.effects import interpreter

MOST = (30, 450)
"""Numbers of facts at which it gives up: at once, and in the middle of these scripts."""
ALWAYS = ("deferred-sync: a chain the other way, read at the end", "deferred-sync: an item in a chain, read at the end")
"""Two that were converted wrongly when it gave up."""


@pytest.mark.parametrize(
    ("fault", "most"),
    [
        pytest.param(one, MOST[number % 2], id=one.name, marks=[] if one.name in ALWAYS else [pytest.mark.slow])
        for number, one in enumerate(faults())
        if not number % 9 or one.name in ALWAYS
    ],
)
def test_it_is_held_back_or_equal(fault: Fault, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preload()
    monkeypatch.setattr(interpreter, "MOST", most)
    outcome = judge(tmp_path / "fault.py", fault.source)
    assert outcome.right, (outcome.kind, *outcome.said)


def test_it_does_not_try_again_after_each_transform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "MOST", 30)
    run, tried = interpreter.Interpreter._run_until_nothing_is_new, list[bool]()

    def counted(self: interpreter.Interpreter) -> None:
        tried.append(True)
        run(self)

    monkeypatch.setattr(interpreter.Interpreter, "_run_until_nothing_is_new", counted)
    conversion = convert(script())
    assert conversion.converted and sum(isinstance(s.outcome, Applied) for s in conversion.steps) > len(tried) > 0
