"""Copies to the host that are used before they have arrived."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.study import Study, is_copy_to_host, keyword
from transformer.syntax.query import walk


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """`.to("cpu", non_blocking=True)` in a scope without a synchronization."""
    for call in study.calls:
        if is_copy_to_host(call) and keyword(call, "non_blocking") is True and not _synchronizes(study, call):
            yield (
                call,
                "nothing waits for this copy to the host: its memory may contain anything until the copy has arrived",
                None,
            )


def _synchronizes(study: Study, call: ast.Call) -> bool:
    scope = study.tree.scope_of(call)
    return any(
        isinstance(n, ast.Attribute) and n.attr in ("synchronize", "wait", "query", "wait_stream", "wait_event")
        for n in walk(scope)
    )


RULE = Rule(
    code="LA105",
    title="nothing waits for a copy to the host",
    reason=(
        "`.to('cpu', non_blocking=True)` returns before the copy has arrived. If it is read without a synchronization, "
        "the memory may still have old values: that is not faster, and it can be wrong."
    ),
    instead=(
        "Leave `non_blocking` out, or synchronize (`torch.cuda.current_stream().synchronize()`) before the first read."
    ),
    weight="costly",
    find=find,
    bad=(Example("step", "host = agent.act(next_obs).to('cpu', non_blocking=True)"),),
    good=(
        Example("step", "host = agent.act(next_obs).to('cpu')"),
        Example("step", "host = next_obs.to('cpu', non_blocking=True)\ntorch.cuda.current_stream().synchronize()"),
        Example("step", "device_obs = torch.as_tensor(frame).to(device, non_blocking=True)"),
    ),
)
