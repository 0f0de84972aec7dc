"""Work that a conversion must not repeat. The tests count calls, so the machine's speed does not matter."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from scripts import script

from transformer import Conversion, convert
from transformer.dataflow.reaching import Reaching
from transformer.syntax import layout
from transformer.syntax.rewrite import Texts
from transformer.values.arrays import KnownArrays
from transformer.values.dtypes import Dtypes
from transformer.values.shapes import Shapes
from transformer.values.tensors import Tensors

SOURCE = script()


WATCHED = {
    "generated": (Texts, "of"),
    "parsed": (ast, "parse"),
    "formatted": (layout, "_ruff"),
    **{owner: (owner, "__init__") for owner in (Reaching, Tensors, Shapes, Dtypes, KnownArrays)},
}
"""What is counted: a function, or how often a class is instantiated."""


class Counted(NamedTuple):
    """One conversion, and what it called."""

    conversion: Conversion
    calls: dict[object, list[Any]]
    """The first argument of every call; it is kept alive, so that its `id` stays its own."""


@pytest.fixture(scope="module")
def counted() -> Counted:
    calls: dict[object, list[Any]] = {of: [] for of in WATCHED}

    def noted(of: object, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            calls[of].append(args[0] if isinstance(of, str) else args[-1])
            return function(*args, **options)

        return call

    layout.fit_all.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        for of, (owner, name) in WATCHED.items():
            patch.setattr(owner, name, noted(of, getattr(owner, name)))
        conversion = convert(SOURCE)
    return Counted(conversion, calls)


def test_code_is_generated_once_per_applied_transform(counted: Counted) -> None:
    assert 0 < len(counted.calls["generated"]) <= sum(s.applied for s in counted.conversion.steps)


def test_a_state_is_parsed_once(counted: Counted) -> None:
    states = {s.before for s in counted.conversion.steps}
    of_states = Counter(text for text in counted.calls["parsed"] if text in states)
    assert set(of_states) == states
    assert sum(of_states.values()) == len(states)


@pytest.mark.parametrize("analysis", [Reaching, Tensors, Shapes, Dtypes, KnownArrays])
def test_an_analysis_is_made_once_per_state(analysis: type, counted: Counted) -> None:
    """Of a scope (its statements), or of the whole script (its roles)."""
    made = counted.calls[analysis]
    assert made
    assert len({id(of) for of in made}) == len(made)


def test_the_formatter_is_asked_less_than_once_per_applied_transform(counted: Counted) -> None:
    assert 0 < len(counted.calls["formatted"]) <= sum(s.applied for s in counted.conversion.steps)


def test_what_a_conversion_does_not_need_is_not_imported() -> None:
    code = "import sys, transformer.commands.convert; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "transformer.commands.convert" in loaded
    assert not loaded & {"jinja2", "rich", "pygments", "importlib.metadata", "torch", "numpy"}
