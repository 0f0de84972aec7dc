"""Ranks and numbers of rows of training's tensors, where the code that makes them shows these."""

from __future__ import annotations

import pytest
from scripts import PARTS
from states import more, state, valued

from transformer.values.shapes import Shapes

ROWS = "args.num_steps"


def shape(value: str, above: str = "", part: str = "advantages") -> tuple[int | None, str | None]:
    """The rank and the rows of a value below a part of the training."""
    made = state(**{part: more(part, f"{above}\nseen = {value}")})
    shapes = Shapes(made.roles)
    return shapes.rank(valued(made, "seen")), shapes.rows(valued(made, "seen"))


@pytest.mark.parametrize(
    ("value", "rank", "rows"),
    [
        ("values", 2, ROWS),
        ("-values", 2, ROWS),
        ("values * 2", 2, ROWS),
        ("values + rewards", 2, ROWS),
        ("values[1:]", 2, None),
        ("values[0]", None, None),
        ("values[0] + values", None, None),
        ("torch.zeros_like(values)", 2, ROWS),
        ("values.clone()", 2, ROWS),
        ("values.exp()", 2, ROWS),
        ("values.sum()", 0, None),
        ("values.sum(0)", None, None),
        ("values.sum(dim=None, keepdim=True)", None, None),
        ("values.cumsum()", None, None),
        ("torch.mean(values)", 0, None),
        ("torch.mean(values, 1)", None, None),
        ("torch.max(values, rewards)", None, None),
        ("torch.mean(*parts)", None, None),
        ("unknown.mean()", None, None),
        ("nn.functional.mse_loss(values, rewards)", 0, None),
        ("nn.functional.mse_loss(values, rewards, reduction='none')", None, None),
        ("nn.functional.mse_loss(values, rewards, None, None, 'none')", None, None),
        ("2 * values.mean() - args.gamma * -rewards.std()", 0, None),
        ("values.mean() * values", 2, ROWS),
        ("values.mean() * unknown", None, None),
        ("unknown * values.mean() + 1", None, None),
        ("values.mean() * np.ones(3)", None, None),
        ("values * unknown", 2, ROWS),
        ("values.view(4, 2, 1)", 3, "4"),
        ("values.reshape((args.num_envs, 4))", 2, "args.num_envs"),
        ("values.view(-1)", None, None),
        ("values.view(args.num_envs)", None, None),
        ("values.view(*sizes)", None, None),
        ("torch.cat([values, next_value])", 2, f"{ROWS} + 1"),
        ("torch.cat([values, values[-1].unsqueeze(0)])", 2, f"{ROWS} + 1"),
        ("torch.cat([values, values[-1][None]], 0)", 2, f"{ROWS} + 1"),
        ("torch.cat((values[1:], next_value), dim=0)", 2, ROWS),
        ("torch.cat([values[2:], next_value])", 2, None),
        ("torch.cat([values, values])", 2, None),
        ("torch.cat([values, -next_value])", 2, None),
        ("torch.cat([values, next_value], dim=1)", None, None),
        ("torch.cat(parts)", None, None),
        ("torch.exp(values)", None, None),
        ("args.gamma * args.num_steps", None, None),
        ("unknown", None, None),
        ("lambda: values", None, None),
    ],
)
def test_ranks_and_rows(value: str, rank: int | None, rows: str | None) -> None:
    assert shape(value) == (rank, rows)


@pytest.mark.parametrize(
    ("above", "rank", "rows"),
    [
        ("a = values", 2, ROWS),
        ("a = values\na += 1", None, None),
        ("a = values\nif args.seed:\n    a = rewards", 2, ROWS),
        ("a = values\nif args.seed:\n    a = values.view(-1)", None, None),
        ("a, b = values, rewards", 2, ROWS),
        ("a, b = values.unbind(1)", None, None),
        ("for a in values:\n    pass", None, None),
        ("a = values\nfor _ in range(2):\n    a = a * 2", None, None),
    ],
)
def test_names(above: str, rank: int | None, rows: str | None) -> None:
    assert shape("a", above) == (rank, rows)


@pytest.mark.parametrize(
    ("made", "rank"),
    [
        ("nn.MSELoss()", 0),
        ("nn.SmoothL1Loss()", 0),
        ("nn.MSELoss(reduction='none')", None),
        ("nn.L1Loss(None, False)", None),
        ("nn.Linear(1, 1)", None),
        ("strange.Loss()", None),
    ],
)
def test_objects_that_compute_a_loss(made: str, rank: int | None) -> None:
    assert shape("criterion(values, rewards)", f"criterion = {made}")[0] == rank


@pytest.mark.parametrize(
    ("above", "part", "rank"),
    [
        ("if args.seed:\n    a = values.mean()", "advantages", 0),
        ("for _ in range(args.seed):\n    a = values.mean()", "advantages", 0),
        ("for _ in range(args.seed):\n    a = values.mean()\n    a = values", "advantages", 2),
        ("if args.seed:\n    a = values.mean()\nelse:\n    a = values", "advantages", None),
        ("if args.seed:\n    sum = values.mean()\na = sum", "advantages", None),
        ("if args.seed:\n    a = values.mean()\ndef other():\n    global a\n    a = values", "advantages", None),
        ("from strange import *\nif args.seed:\n    a = values.mean()", "advantages", None),
    ],
)
def test_names_without_a_value(above: str, part: str, rank: int | None) -> None:
    assert shape("a", above, part)[0] == rank


def test_a_size_that_changes_in_the_training() -> None:
    made = state(
        head="args.num_steps = 4 if iteration > 1 else 8",
        advantages=more("advantages", "seen = values"),
    )
    assert Shapes(made.roles).rows(valued(made, "seen")) is None


HELPER = """
def estimate(rewards, values, n):
    T, N = rewards.shape
    size = n
    seen = <size>
    out = torch.zeros(T, N)
    for t in range(T):
        out[t] = rewards[t] + values[t] + seen
    return out


"""


@pytest.mark.parametrize(
    ("size", "text"),
    [
        ("args.num_steps", "args.num_steps"),
        ("len(values)", ROWS),
        ("values.shape[0]", ROWS),
        ("values.size(0)", ROWS),
        ("values.size(1)", "values.size(1)"),
        ("values.shape[1]", "values.shape[1]"),
        ("values.sizes[0]", "values.sizes[0]"),
        ("2", "2"),
        ("unknown", "unknown"),
    ],
)
def test_sizes_in_training(size: str, text: str) -> None:
    made = state(advantages=more("advantages", f"seen = {size}"))
    assert Shapes(made.roles).spelled(valued(made, "seen")) == text


def test_the_first_of_a_shape() -> None:
    made = state(advantages=more("advantages", "T, N = values.shape\nseen = T\nother = N"))
    shapes = Shapes(made.roles)
    assert [shapes.spelled(valued(made, name)) for name in ("seen", "other")] == [ROWS, "N"]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        ("T", ROWS),
        ("size.real", f"{ROWS}.real"),
        ("size", ROWS),
        ("n", ROWS),
        ("len(values)", ROWS),
        ("N", "N of estimate()"),
        ("3", "3"),
    ],
)
def test_sizes_in_a_function(size: str, text: str) -> None:
    estimate = PARTS["advantages"] + "\nadvantages = estimate(rewards, values, args.num_steps)"
    made = state(functions=HELPER.replace("<size>", size).lstrip("\n"), advantages=estimate)
    assert Shapes(made.roles).spelled(valued(made, "seen")) == text
