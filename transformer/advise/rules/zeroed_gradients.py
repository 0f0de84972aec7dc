"""Gradients that are set to zero instead of None."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.study import Study, keyword
from transformer.syntax.query import method


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """`zero_grad(set_to_none=False)`."""
    for call, heat in study.hot_calls():
        positional = bool(call.args) and isinstance(call.args[0], ast.Constant) and call.args[0].value is False
        if method(call) == "zero_grad" and (positional or keyword(call, "set_to_none") is False):
            yield call, f"{study.text(call)} writes zeros into every gradient {heat.where}", None


RULE = Rule(
    code="LA302",
    title="gradients are set to zero instead of None",
    reason=(
        "With `set_to_none=False` every gradient is filled with zeros, and the backward pass then reads it and adds to "
        "it; a gradient that is None is simply written."
    ),
    instead=(
        "`optimizer.zero_grad()`: `set_to_none=True` is its default. (A parameter without a gradient is then skipped.)"
    ),
    weight="minor",
    find=find,
    bad=(
        Example("minibatch", "optimizer.zero_grad(set_to_none=False)"),
        Example("minibatch", "agent.zero_grad(False)"),
    ),
    good=(
        Example("minibatch", "optimizer.zero_grad()"),
        Example("minibatch", "optimizer.zero_grad(set_to_none=True)"),
        Example("setup", "optimizer.zero_grad(set_to_none=False)"),
    ),
)
