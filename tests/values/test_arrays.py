"""Whether an expression is a tensor, an array, or unknown."""

from __future__ import annotations

import pytest
from scripts import PARTS
from states import more, state, valued

from transformer.values.arrays import KnownArrays


def kind(value: str, above: str = "", functions: str = "") -> str | None:
    """The kind of a value below the update."""
    made = state(report=more("report", f"{above}\nseen = {value}"), functions=functions and f"{functions}\n\n\n")
    return KnownArrays(made.roles).kind(valued(made, "seen"))


@pytest.mark.parametrize("value", ["next_obs", "b_obs * 2", "-b_obs", "b_obs[0]", "torch.zeros(2)", "b_obs.view(-1)"])
def test_tensors(value: str) -> None:
    assert kind(value) == "tensor"


@pytest.mark.parametrize(
    "value",
    [
        "np.zeros(2)",
        "np.zeros(2) + 1",
        "-np.zeros(2)",
        "np.exp(b_inds)",
        "b_obs.numpy()",
        "np.zeros(2).astype(int)",
        "np.zeros(2).copy()",
        "np.zeros(2)[1:]",
    ],
)
def test_arrays(value: str) -> None:
    assert kind(value) == "array"


@pytest.mark.parametrize(
    "value",
    [
        "args.seed",
        "args.seed + 1",
        "not b_inds",
        "np.zeros(2)[0]",
        "np.exp(args.seed)",
        "np.percentile(b_inds, 1)",
        "torch.device('cpu')",
        "(lambda: b_inds)()",
        "unknown",
        "unknown.copy()",
        "[b_inds]",
        "math.sqrt(2)",
    ],
)
def test_unknown_values(value: str) -> None:
    assert kind(value) is None


@pytest.mark.parametrize(
    ("above", "expected"),
    [
        ("a = np.zeros(2)", "array"),
        ("a = np.zeros(2)\na += 1", "array"),
        ("a = np.zeros(2)\na = a + 1", "array"),
        ("a = np.zeros(2)\na = 1", None),
        ("a, b = np.zeros(2), 1", "array"),
        ("a, b = np.zeros((2, 2))", None),
        ("a, b, c, d = envs.step(0)", "array"),
        ("b, c, d, a = envs.step(0)", None),
        ("a, *b = envs.step(0)", "array"),
        ("a = envs.reset()", "array"),
        ("for a in b_inds:\n    pass", None),
        ("a = optimizer.step()", None),
    ],
)
def test_names(above: str, expected: str | None) -> None:
    assert kind("a + 0", above) == expected


MOVE = "def move(x, scale=1):\n    seen = x + 0\n    return seen"


def parameter(calls: str, function: str = MOVE) -> str | None:
    """The kind of a function's parameter."""
    made = state(report=more("report", calls), functions=f"{function}\n\n\n")
    return KnownArrays(made.roles).kind(valued(made, "seen"))


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ("move(np.zeros(2))", "array"),
        ("move(b_obs)", "tensor"),
        ("move(b_obs)\nmove(np.zeros(2))", "array"),
        ("move(x=np.zeros(2), scale=2)", "array"),
        ("move = torch.compile(move)\nmove(np.zeros(2))", "array"),
        ("torch.compile(move)(np.zeros(2))", None),
        ("move(np.zeros(2))\nmove(1)", None),
        ("move(np.zeros(2))\nmove(*b_obs)", None),
        ("move(np.zeros(2))\nmove()", None),
        ("move(np.zeros(2))\nkeep(move)", None),
        ("unknown(1)", None),
    ],
)
def test_parameters(calls: str, expected: str | None) -> None:
    assert parameter(calls) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [("agent.move(np.zeros(2))", "array"), ("agent.move(1)", None), ("Agent.move(agent, np.zeros(2))", None)],
)
def test_parameters_of_methods(call: str, expected: str | None) -> None:
    agent = f"{PARTS['agent']}\n\n    def move(self, x):\n        seen = x + 0\n        return seen"
    made = state(agent=agent, report=more("report", call))
    assert KnownArrays(made.roles).kind(valued(made, "seen")) == expected
