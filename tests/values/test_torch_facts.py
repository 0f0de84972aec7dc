"""Facts about torch on which analyses once disagreed: what is known, and what must stay unknown."""

from __future__ import annotations

import ast

import pytest
import torch
from scripts import PARTS, script

from transformer.conversion.first_state import read, recognise
from transformer.values.dtypes import Dtypes
from transformer.values.networks.rows import Rowwise

AGENT = PARTS["agent"]


def obstacle(body: str) -> str | None:
    """What may mix the rows in a method of the skeleton's network."""
    state = read(script({"agent": f"{AGENT}\n\n    def extra(self, x):\n        {body}\n"}), 120)
    state = recognise(state)
    return Rowwise(state.roles, state.roles.tree.classes["Agent"]).obstacle("extra")


@pytest.mark.parametrize("body", ["return x.norm(2, -1)", "return x.norm(dim=1)", "return x.sum(-1)", "return x.exp()"])
def test_each_row_by_itself(body: str) -> None:
    assert obstacle(body) is None


@pytest.mark.parametrize("body", ["return x.norm(1)", "return torch.norm(x, 1)", "return x.sum(0)", "return x.sum()"])
def test_rows_that_are_mixed(body: str) -> None:
    assert obstacle(body) is not None


def single(value: str) -> bool:
    """Whether a value in the update is known to be float32."""
    state = read(script({"report": f"y = {value}"}), 120)
    state = recognise(state)
    tree = state.roles.tree
    (stmt,) = (n for n in tree.nodes if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "y")
    return Dtypes(state.roles).float32(stmt.value)


@pytest.mark.parametrize(
    "value",
    [
        "torch.full((2,), 0.5)",
        "torch.full((2,), -1.0)",
        "torch.zeros(2)",
        "torch.zeros(2).sum(dtype=torch.float32)",
        "-torch.zeros(2)",
        "torch.zeros_like(values)",
        "torch.zeros_like(b_inds, dtype=torch.float)",
        "torch.ones(2, dtype=torch.int64).float()",
        "torch.ones(2, dtype=torch.int64).to(device, torch.float32)",
        "torch.zeros(2).to(device)",
        "torch.Tensor([1])",
        "values * 2",
        "values[0]",
    ],
)
def test_float32(value: str) -> None:
    assert single(value)


@pytest.mark.parametrize(
    "value",
    [
        "torch.full((2,), 1)",
        "torch.tensor([0.5])",
        "torch.zeros_like(b_inds)",
        "torch.zeros_like(values, dtype=torch.float64)",
        "torch.zeros(2).to(torch.float64)",
        "torch.zeros(2).to(device, torch.int32)",
        "values @ values.T",
        "~values",
        "values * torch.zeros(2, dtype=torch.float64)",
        "make(values)",
        "b_inds * 2",
        "unknown",
        "torch.zeros(2).view(torch.int32)",
        "torch.zeros(2).sum(dtype=torch.float64)",
        "torch.zeros(2).add(other)",
        "torch.zeros(2).max(0)",
    ],
)
def test_not_known_to_be_float32(value: str) -> None:
    assert not single(value)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rows", [1, 2, 16])
def test_layers_compute_the_same_without_gradients(rows: int, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for channels, out, kernel, stride, padding in [
            (4, 32, 8, 4, 0),
            (32, 64, 4, 2, 0),
            (16, 16, 3, 1, 1),
            (3, 5, 1, 1, 2),
        ]:
            layers = torch.nn.Sequential(
                torch.nn.Conv2d(channels, out, kernel, stride, padding), torch.nn.MaxPool2d(2), torch.nn.Flatten()
            )
            images = torch.rand(rows, channels, 21, 21)
            with torch.no_grad():
                without = layers(images)
            assert layers(images).equal(without)
    finally:
        torch.set_num_threads(before)
