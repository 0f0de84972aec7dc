"""Work that a conversion must not repeat. The tests count calls, so the machine's speed does not matter."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from scripts import script

from transformer import convert
from transformer.dataflow.reaching import Reaching
from transformer.syntax import layout, rewrite
from transformer.values.arrays import KnownArrays
from transformer.values.dtypes import Dtypes
from transformer.values.shapes import Shapes
from transformer.values.tensors import Tensors

SOURCE = script()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Returns a function that starts to record the first argument of every call of `owner.name`."""

    def count(owner: object, name: str) -> list[Any]:
        calls: list[Any] = []
        function = getattr(owner, name)

        def noted(*args: Any, **options: Any) -> Any:
            calls.append(args[-1] if name == "__init__" else args[0])
            return function(*args, **options)

        monkeypatch.setattr(owner, name, noted)
        return calls

    return count


def test_code_is_generated_once_per_applied_transform(counted: Callable[..., list[Any]]) -> None:
    generated = counted(rewrite, "text_of")
    steps = convert(SOURCE).steps
    assert 0 < len(generated) <= sum(s.applied for s in steps)


def test_a_state_is_parsed_once(counted: Callable[..., list[Any]]) -> None:
    parsed = counted(ast, "parse")
    states = {s.before for s in convert(SOURCE).steps}
    of_states = Counter(text for text in parsed if text in states)
    assert set(of_states) == states
    assert sum(of_states.values()) <= len(states) + 2, "the refusals look at the original themselves"


def test_a_scope_is_analysed_once_per_state(counted: Callable[..., list[Any]]) -> None:
    bodies = counted(Reaching, "__init__")
    convert(SOURCE)
    assert bodies
    assert len({id(body) for body in bodies}) == len(bodies)  # the list keeps them alive, so ids are unique


@pytest.mark.parametrize("analysis", [Tensors, Shapes, Dtypes, KnownArrays])
def test_an_analysis_is_made_once_per_state(analysis: type, counted: Callable[..., list[Any]]) -> None:
    made = counted(analysis, "__init__")
    convert(SOURCE)
    assert made
    assert len({id(roles) for roles in made}) == len(made)  # the list keeps them alive, so ids are unique


def test_the_formatter_is_asked_less_than_once_per_applied_transform(counted: Callable[..., list[Any]]) -> None:
    layout.fit_all.cache_clear()
    asked = counted(layout, "_ruff")
    steps = convert(SOURCE).steps
    assert 0 < len(asked) <= sum(s.applied for s in steps)


def test_what_a_conversion_does_not_need_is_not_imported() -> None:
    code = "import sys, transformer.commands.convert; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "transformer.commands.convert" in loaded
    assert not loaded & {"jinja2", "rich", "pygments", "importlib.metadata", "torch", "numpy"}
