"""Optimizers that process the parameters one by one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.study import Study, keyword


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """`foreach=False` without `fused=True`."""
    if not study.uses_device:
        return
    for call in study.calls:
        if not study.qualified(call.func).startswith(("torch.optim.", "torch.nn.utils.")):
            continue
        if keyword(call, "foreach") is False and keyword(call, "fused") is not True:
            yield (
                call,
                f"foreach=False makes {study.text(call.func)} launch separate kernels for every parameter",
                None,
            )


RULE = Rule(
    code="LA305",
    title="parameters are stepped one by one",
    reason=(
        "With `foreach=False` every parameter has its own kernels, about ten in Adam; for small parameters, launching "
        "them is the whole cost."
    ),
    instead="Leave `foreach` to its default (grouped on CUDA), or pass `fused=True`.",
    weight="costly",
    find=find,
    bad=(
        Example("setup", "optimizer = torch.optim.Adam(agent.parameters(), foreach=False)"),
        Example("minibatch", "nn.utils.clip_grad_norm_(agent.parameters(), 0.5, foreach=False)"),
    ),
    good=(
        Example("setup", "optimizer = torch.optim.Adam(agent.parameters())"),
        Example("setup", "optimizer = torch.optim.Adam(agent.parameters(), foreach=False, fused=True)"),
        Example("setup", "optimizer = Custom(agent.parameters(), foreach=False)"),
    ),
)
