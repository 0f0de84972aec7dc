"""Arrays whose transfer to the device blocks."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.study import Study, keyword
from transformer.facts.torch_api import OF_HOST
from transformer.syntax.query import method, receiver


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """`torch.Tensor(x).to(device)` in hot loops."""
    for call, heat in study.hot_calls():
        if method(call) not in ("to", "cuda") or keyword(call, "non_blocking"):
            continue
        made = receiver(call)
        if not isinstance(made, ast.Call) or len(made.args) != 1 or isinstance(made.args[0], ast.Constant):
            continue
        if call.args and (study.qualified(call.args[0]).startswith("torch.") or study.text(call.args[0]) == '"cpu"'):
            continue  # a cast, or a transfer that does not wait
        how = study.qualified(made.func)
        transform = "transfers" if heat.role == "environment" and not made.keywords and len(call.args) == 1 else None
        if how in OF_HOST:
            text = f"torch.{how.rpartition('.')[2]}({study.text(made.args[0])})"
            yield call, f"moving {text} blocks until the device has the data, {heat.where}", transform


RULE = Rule(
    code="LA102",
    title="moving an array to the device blocks",
    reason="`.to(device)` returns when the transfer is done, so the host prepares nothing in the meantime.",
    instead=(
        "Add `non_blocking=True` to `.to()`: values and dtype stay the same, and the host goes on. (Memory that is not "
        "pinned is staged before the call returns, so the array may change afterwards.) For images, "
        "`torch.as_tensor(x).to(device, torch.float32, non_blocking=True)` has the values of `torch.Tensor(x)` and "
        "transfers one byte per pixel instead of four."
    ),
    weight="costly",
    find=find,
    bad=(
        Example("step", "rewards[step] = torch.tensor(reward).to(device).view(-1)"),
        Example("step", "next_obs = torch.Tensor(frame).to(device)"),
        Example("step", "next_obs = torch.from_numpy(frame).cuda()"),
    ),
    good=(
        Example("step", "rewards[step] = torch.tensor(reward).to(device, non_blocking=True).view(-1)"),
        Example("step", "next_obs = torch.as_tensor(frame).to(device, torch.float32, non_blocking=True)"),
        Example("setup", "next_obs = torch.Tensor(frame).to(device)"),
        Example("step", "scale = torch.tensor(0.5).to(device)"),
        Example("step", "next_obs = torch.from_numpy(frame).to(torch.float32)"),
    ),
)
