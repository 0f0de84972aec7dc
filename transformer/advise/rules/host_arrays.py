"""Arrays that are copied on the host before they go to the device, or whose transfer blocks."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.study import Study, keyword
from transformer.facts.torch_api import MAY_SHARE, OF_HOST
from transformer.syntax.query import method, receiver


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """`torch.Tensor(x).to(device)` in hot loops."""
    for call, heat in study.hot_calls():
        if method(call) not in ("to", "cuda") or keyword(call, "non_blocking"):
            continue
        made = receiver(call)
        if not isinstance(made, ast.Call) or len(made.args) != 1 or isinstance(made.args[0], ast.Constant):
            continue
        if call.args and study.qualified(call.args[0]).startswith("torch."):
            continue  # a dtype
        how = study.qualified(made.func)
        transform = "transfers" if heat.role == "environment" and not made.keywords and len(call.args) == 1 else None
        text = f"torch.{how.rpartition('.')[2]}({study.text(made.args[0])})"
        if how in OF_HOST - MAY_SHARE:
            yield (
                call,
                f"{text} copies on the host, then blocks until the device has the data, {heat.where}",
                transform,
            )
        elif how in OF_HOST:
            yield call, f"moving {text} blocks until the device has the data, {heat.where}", transform


RULE = Rule(
    code="LA102",
    title="an array is copied on the host before it goes to the device, and blocks",
    reason=(
        "`torch.Tensor(x)` and `torch.tensor(x)` copy the array on the host (the first also turns each byte into a "
        "float of four bytes); `.to(device)` then waits for the transfer."
    ),
    instead=(
        "`torch.as_tensor(x).to(device, torch.float32, non_blocking=True)`: there is no copy on the host, the data is "
        "transferred in the array's own dtype, and the host continues (pageable memory is staged before the call "
        "returns, so the array may change afterwards)."
    ),
    weight="costly",
    find=find,
    bad=(
        Example("step", "next_obs = torch.Tensor(frame).to(device)"),
        Example("step", "rewards[step] = torch.tensor(reward).to(device).view(-1)"),
        Example("step", "next_obs = torch.from_numpy(frame).cuda()"),
    ),
    good=(
        Example("step", "next_obs = torch.as_tensor(frame).to(device, torch.float32, non_blocking=True)"),
        Example("setup", "next_obs = torch.Tensor(frame).to(device)"),
        Example("step", "scale = torch.tensor(0.5).to(device)"),
        Example("step", "next_obs = torch.from_numpy(frame).to(torch.float32)"),
    ),
)
