"""Whose memory a value of the rollout is, what keeps it, and what changes it."""

from __future__ import annotations

import ast

import pytest
from scripts import PARTS, script

from transformer.conversion.first_state import read, recognise
from transformer.syntax.query import statements
from transformer.values.memory import Memory

KEEP = "PAST = []\n\n\ndef keep(x):\n    PAST.append(x)\n\n\n"


def of(value: str, also: str = "", functions: str = "") -> tuple[Memory, ast.expr, list[ast.stmt]]:
    """The memory of the rollout's body, a value that a step computes, and the step's statements."""
    record = f"{PARTS['record']}\nlooked_at = {value}\n{also}"
    state = recognise(read(script({"record": record, "functions": functions, "stdlib": "import queue"}), 120))
    assert state.roles.rollout is not None
    body = state.roles.rollout.body
    inside = statements(body)
    made = next(s for s in inside if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == "looked_at")
    return Memory(state.roles, body), made.value, inside


@pytest.mark.parametrize(
    "value",
    ["value", "value.view(-1)", "value * 2", "-value", "value.clone()", "next_obs[action]", "torch.tensor(done)"],
)
def test_fresh(value: str) -> None:
    memory, expr, _ = of(value, "done = 1")
    assert memory.is_fresh(expr)


@pytest.mark.parametrize(
    ("line", "fresh"),
    [
        ("v = agent.get_value(next_obs)", True),
        ("v, w = agent.get_action_and_value(next_obs)[:2]", False),
        ("[v] = agent.get_value(next_obs)", False),
        ("v = w = agent.get_value(next_obs)", False),
        ("v = next_obs", False),
    ],
)
def test_what_a_network_has_just_computed(line: str, fresh: bool) -> None:
    memory, _, inside = of(f"0\n{line}\nlast = v")
    value = next(s.value for s in inside if isinstance(s, ast.Assign) and ast.unparse(s) == "last = v")
    assert memory.is_fresh(value) is fresh


@pytest.mark.parametrize(
    ("value", "also"),
    [
        ("next_obs", ""),
        ("next_obs.view(-1)", ""),
        ("next_obs[0]", ""),
        ("+next_obs", ""),
        ("torch.as_tensor(next_obs)", ""),
        ("value.to(device, copy=False)", "value += 1"),
        ("value", "value += 1"),
        ("value", "value.add_(1)"),
        ("value", "other = value\nother[0] = 1"),
        ("value", "keep(value)"),
        ("value", "envs.last = [value]\nenvs.remember(value)"),
        ("one", "[one, other] = agent.get_action_and_value(next_obs)[:2]"),
        ("picked", "picked = agent.actor"),
    ],
)
def test_not_fresh(value: str, also: str) -> None:
    memory, expr, _ = of(value, also, KEEP)
    assert not memory.is_fresh(expr)


@pytest.mark.parametrize(
    ("value", "also", "alone"),
    [
        ("value * 2", "", True),
        ("double", "double = value * 2", True),
        ("double.view(-1)", "double = value * 2\nprint(double)", True),
        ("double", "double = value * 2\nkeep(double)", False),
        ("double", "double = value * 2\ndouble += 1", False),
        ("double", "double = value * 2\nnn.functional.relu(double, inplace=True)", False),
        ("double", "double = value * 2\nnn.functional.relu(double, True)", False),
        ("double", "double = value * 2\nmake()(double)", False),
        ("double", "double = value * 2\nnn.functional.relu(double)", True),
        ("double", "double = value * 2\nother = double\nother.zero_()", False),
        ("next_obs", "", False),
        ("+next_obs", "", False),
    ],
)
def test_left_alone(value: str, also: str, alone: bool) -> None:
    above, _, below = also.partition("\n")
    memory, expr, inside = of(f"0\n{above}\nlooked_at = {value}" if above else value, below, KEEP)
    if above:
        expr = next(
            s.value for s in inside if isinstance(s, ast.Assign) and ast.unparse(s).endswith(f"looked_at = {value}")
        )
    assert memory.is_left_alone(expr, inside) is alone
