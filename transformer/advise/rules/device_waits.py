"""Calls that stall the device or release its memory."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.study import Study

CALLS = {
    "torch.cuda.synchronize": "waits until the device has nothing left to do",
    "torch.cuda.empty_cache": "releases memory that the next iteration has to request again",
    "gc.collect": "goes through every object of the process",
}


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """Such calls in hot code."""
    for call, heat in study.hot_calls():
        name = study.qualified(call.func)
        if name in CALLS:
            yield call, f"{name}() {CALLS[name]}, {heat.where}", None


RULE = Rule(
    code="LA304",
    title="the device or its allocator is stalled in a hot loop",
    reason=(
        "`synchronize()` leaves the device idle. `empty_cache()` returns cached memory to the driver, and getting it "
        "back is slow; it makes room for other processes, not for this one."
    ),
    instead="Remove it; for timing, synchronize once before and once after many iterations, or use CUDA events.",
    weight="costly",
    find=find,
    bad=(Example("minibatch", "torch.cuda.synchronize()"), Example("step", "torch.cuda.empty_cache()")),
    good=(
        Example("minibatch", "pass"),
        Example("setup", "torch.cuda.synchronize()"),
        Example("iteration", "torch.cuda.synchronize()"),
        Example("minibatch", "if start % 1000 == 0:\n    torch.cuda.synchronize()"),
    ),
)
