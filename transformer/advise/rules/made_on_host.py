"""Tensors that are made on the CPU and then moved."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.study import Study
from transformer.facts.torch_api import names
from transformer.syntax.query import method, receiver

FACTORIES = names("torch", made="on host")
RANDOM = names("torch", made="on host", draws=True)


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """Calls that make a tensor without a device, whose result is then moved, in the training loop."""
    for call in study.calls:
        if method(call) not in ("to", "cuda") or not (call.args or method(call) == "cuda"):
            continue
        made = receiver(call)
        name = study.maker(made)
        if name not in FACTORIES or not isinstance(made, ast.Call) or any(k.arg == "device" for k in made.keywords):
            continue
        heat = study.heat(call)
        if heat is None or _dtype(study, call):
            continue
        drawn = " (on the device it draws other random numbers)" if name in RANDOM else ""
        yield call, f"torch.{name}() fills host memory, which is then copied, {heat.where}{drawn}", None


def _dtype(study: Study, call: ast.Call) -> bool:
    """Whether `.to()` names a dtype and no device."""
    return bool(call.args) and study.qualified(call.args[0]).startswith("torch.")


RULE = Rule(
    code="LA101",
    title="a tensor is made on the CPU and then moved",
    reason=(
        "`torch.zeros(n).to(device)` allocates and fills host memory and copies it to the device, which waits for the "
        "copy; the device could have filled its own memory."
    ),
    instead=(
        "Pass the device when the tensor is made, `torch.zeros(n, device=device)`, and make it only once if possible."
    ),
    weight="costly",
    find=find,
    bad=(
        Example("minibatch", "mask = torch.zeros(128).to(device)"),
        Example("iteration", "advantages = torch.zeros(args.num_steps).to(device)"),
        Example("step", "noise = torch.randn(4).cuda()"),
    ),
    good=(
        Example("minibatch", "mask = torch.zeros(128, device=device)"),
        Example("setup", "storage = torch.zeros(128).to(device)"),
        Example("minibatch", "mask = torch.zeros(128).to(torch.float64)"),
        Example("minibatch", "mask = torch.zeros_like(loss).to(device)"),
    ),
)
