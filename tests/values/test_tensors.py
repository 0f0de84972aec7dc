"""Tensor or not: what is found out does not depend on what was asked before."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest
from scripts import PARTS, script

from transformer.conversion.first_state import read, recognise
from transformer.values.tensors import Tensors

CYCLE = """
high = torch.zeros(2)
low = high
for _ in range(2):
    high = low
    middle = high
    low = middle if args.seed else 0.5
    print(high, middle, low)
"""


@pytest.mark.parametrize("asked", ["high middle low", "low middle high", "middle high low"])
@pytest.mark.parametrize("tensors", [True, False])
def test_names_that_are_made_of_each_other(asked: str, tensors: bool) -> None:
    code = CYCLE.replace("0.5", "high") if tensors else CYCLE
    state = recognise(read(script({"begin": PARTS["begin"] + code}), 120))
    shown = next(s for s in ast.walk(state.tree.root) if isinstance(s, ast.Expr) and "print(high" in ast.unparse(s))
    known = state.roles.get(Tensors)
    assert [known.tensor_before(name, shown) for name in asked.split()] == [tensors] * 3


def test_an_analysis_is_kept_for_its_state() -> None:
    state = recognise(read(script(), 120))
    assert state.roles.get(Tensors) is state.roles.get(Tensors)
    later = state.knowing(replace(state.history, stop="stop"))
    assert later.roles.get(Tensors) is not state.roles.get(Tensors)
