"""Gradient clipping that checks the norm on the host."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.study import Study, keyword


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """`clip_grad_norm_(..., error_if_nonfinite=True)`."""
    for call, heat in study.hot_calls():
        name = study.qualified(call.func)
        if name.endswith((".clip_grad_norm_", ".get_total_norm")) and keyword(call, "error_if_nonfinite") is True:
            yield call, f"error_if_nonfinite reads the gradient's norm on the host, {heat.where}", None


RULE = Rule(
    code="LA303",
    title="gradient clipping checks the norm on the host",
    reason="To raise an error, `error_if_nonfinite=True` has to wait for the norm after every backward pass.",
    instead="Leave it out, and check the logged norm or loss once per iteration.",
    weight="costly",
    find=find,
    bad=(Example("minibatch", "nn.utils.clip_grad_norm_(agent.parameters(), 0.5, error_if_nonfinite=True)"),),
    good=(
        Example("minibatch", "nn.utils.clip_grad_norm_(agent.parameters(), 0.5)"),
        Example("minibatch", "nn.utils.clip_grad_norm_(agent.parameters(), 0.5, error_if_nonfinite=False)"),
    ),
)
