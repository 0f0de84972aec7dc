"""Pinned memory whose transfer blocks."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.study import Study, is_copy_to_host, keyword
from transformer.syntax.query import method, receiver


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """`.pin_memory().to(device)` without `non_blocking`."""
    for call in study.calls:
        if method(call) not in ("to", "cuda") or method(receiver(call)) != "pin_memory" or is_copy_to_host(call):
            continue
        if not any(k.arg in ("non_blocking", None) for k in call.keywords) or keyword(call, "non_blocking") is False:
            yield call, "the memory is pinned for an asynchronous copy, and the copy then blocks", None


RULE = Rule(
    code="LA103",
    title="the copy from pinned memory blocks",
    reason="Pinning pays if the host works during the copy. Without `non_blocking=True` the host waits for it.",
    instead="Add `non_blocking=True`, or leave `pin_memory()` out.",
    weight="costly",
    find=find,
    bad=(
        Example("setup", "x = torch.as_tensor(data).pin_memory().to(device)"),
        Example("setup", "x = torch.as_tensor(data).pin_memory().cuda(non_blocking=False)"),
    ),
    good=(
        Example("setup", "x = torch.as_tensor(data).pin_memory().to(device, non_blocking=True)"),
        Example("setup", "x = torch.as_tensor(data).to(device)"),
        Example("setup", "x = torch.as_tensor(data).pin_memory().to(device, non_blocking=fast)"),
    ),
)
