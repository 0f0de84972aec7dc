"""Memory that is pinned at every iteration of a hot loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.study import Study, keyword
from transformer.syntax.query import method


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """`.pin_memory()` and `pin_memory=True` in hot loops."""
    for call, heat in study.hot_calls():
        if method(call) == "pin_memory" or (keyword(call, "pin_memory") is True and study.maker(call)):
            yield call, f"pinned memory is allocated {heat.where}", None


RULE = Rule(
    code="LA104",
    title="memory is pinned in a hot loop",
    reason=(
        "`pin_memory()` allocates page-locked memory and copies the tensor into it, and the host waits for both; for a "
        "small array that costs more than the plain transfer it is meant to speed up."
    ),
    instead=(
        "Allocate one pinned buffer before the loop and `copy_` into it (after an event shows that the last transfer "
        "from it is done), or transfer from pageable memory."
    ),
    weight="costly",
    find=find,
    bad=(
        Example("step", "next_obs = torch.as_tensor(frame).pin_memory().to(device, non_blocking=True)"),
        Example("step", "buffer = torch.empty(4, pin_memory=True)"),
    ),
    good=(
        Example("step", "next_obs = torch.as_tensor(frame).to(device, non_blocking=True)"),
        Example("setup", "buffer = torch.empty(4, pin_memory=True)"),
        Example("setup", "buffer = torch.empty(4).pin_memory()"),
        Example("step", "loader = DataLoader(data, pin_memory=True)"),
    ),
)
