"""Which calls of a script count as environment steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from transformer.verify.harness.instrument import HOOKS_NAME, compile_with_hooks


@pytest.mark.parametrize(
    ("line", "counted"),
    [
        ("state = thing.step(action)", True),
        ("state = thing.step(state, action)", True),
        ("thing.step(action)", True),
        ("thing.step(state, action, 0.5)", False),
        ("thing.step(state, reward=0.5)", False),
        ("thing.step()", False),
    ],
)
def test_steps_of_an_environment(line: str, counted: bool, tmp_path: Path) -> None:
    """An agent told of a step is no environment: a conversion may replace the call by the method's body."""
    script = tmp_path / "train.py"
    script.write_text(f"state = action = 0\n{line}\n")
    seen = list[Any]()

    class Thing:
        def step(self, *args: Any, **kwargs: Any) -> None:
            pass

    def hook(function: Any) -> Any:
        seen.append(function)
        return function

    hooks = {"step": hook}
    exec(compile_with_hooks(script, hooks), {HOOKS_NAME: hooks, "thing": Thing()})
    assert bool(seen) is counted
