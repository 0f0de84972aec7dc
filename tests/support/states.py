"""States of the script in scripts.py, and expressions in them, for tests of analyses."""

from __future__ import annotations

import ast

import pytest
from scripts import PARTS, script

from transformer.conversion.first_state import read, recognise
from transformer.state import State


def state(**parts: str) -> State:
    """The state of the script, with parts replaced, after its training loop is found and before any transform."""
    return recognise(read(script(parts), 120))


def more(part: str, lines: str) -> str:
    """A part with more lines below it."""
    return f"{PARTS[part]}\n{lines}"


def valued(state: State, name: str) -> ast.expr:
    """The value that the script assigns to a name with a single assignment."""
    (value,) = (s.value for s in state.tree.of(ast.Assign) if [ast.unparse(t) for t in s.targets] == [name])
    return value


def remembered(monkeypatch: pytest.MonkeyPatch) -> dict[str, State]:
    """The states that are made from now on, by their texts; for each text, the last state."""
    states: dict[str, State] = {}
    made = State.__init__

    def remembering(self: State, *args: object) -> None:
        made(self, *args)  # type: ignore[arg-type]
        states[self.tree.code] = self

    monkeypatch.setattr(State, "__init__", remembering)
    return states
