"""Round the environment's observations to float32 on the host, before they are moved."""

from __future__ import annotations

import ast

from transformer.conversion import TransformInfo
from transformer.dataflow import statements
from transformer.hosts import Hosts
from transformer.kinds import Kinds
from transformer.script import Script
from transformer.source import Edits
from transformer.transforms.base import Skip, Transform

INFO = TransformInfo(
    name="host-casts",
    summary="round observations to float32 in numpy, before they are moved to the device",
    safety=(
        "numpy and torch both round to the nearest float32, so the bits are the same. Half of a float64 array is "
        "moved, and the environment has just used numpy, while torch's code for a cast must be fetched again. Not for "
        "images, whose bytes are moved as they are."
    ),
    needs=("transfers",),
    before="next_obs = torch.as_tensor(next_obs).to(device, torch.float32, non_blocking=True)",
    after="next_obs = torch.as_tensor(np.asarray(next_obs, dtype=np.float32)).to(device, non_blocking=True)",
)


def apply(script: Script) -> str:
    """Rewrite the transfers of the rollout that cast.

    Raises:
        Skip: there is none whose array is known to be on the host, or the network is given images.
    """
    rollout = script.rollout
    numpy = next((name for name, module in script.imports.items() if module == "numpy"), None)
    if not isinstance(rollout, ast.For) or numpy is None:
        raise Skip("numpy is not imported" if numpy is None else "the rollout is not a for loop")
    if script.facts.tensor_env:
        raise Skip("the environment returns tensors")
    if any(isinstance(n, (ast.Name, ast.Attribute)) and _last(n).startswith("Conv") for n in script.nodes):
        raise Skip("the network is given images, which are moved in bytes")
    edits, hosts = Edits(script.source), Hosts(script, Kinds(script), rollout)
    for stmt in statements(rollout.body):
        for call in ast.walk(stmt) if isinstance(stmt, ast.Assign) else ():
            array = _cast(script, call)
            if array is not None and hosts.is_host(array, stmt):
                assert isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
                made = call.func.value
                assert isinstance(made, ast.Call)
                cast = f"{numpy}.asarray({script.source.text(array)}, dtype={numpy}.float32)"
                text = f"{script.source.text(made.func)}({cast}).to({script.device}, non_blocking=True)"
                edits.substitute(call, text)
    after = script.finish(edits)
    if after == script.code:
        raise Skip("no array that the rollout moves and casts is known to be on the host")
    return after


def _cast(script: Script, call: ast.AST) -> ast.expr | None:
    """`x` in `torch.as_tensor(x).to(device, torch.float32, non_blocking=True)`."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "to":
        return None
    made = call.func.value
    if not isinstance(made, ast.Call) or not script.calls(made, "torch.as_tensor") or made.keywords:
        return None
    if [k.arg for k in call.keywords] != ["non_blocking"] or len(call.args) != 2 or len(made.args) != 1:
        return None
    to_device = ast.unparse(call.args[0]) == script.device and script.qualified(call.args[1]) == "torch.float32"
    return made.args[0] if to_device else None


def _last(node: ast.Name | ast.Attribute) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id


TRANSFORM = Transform(INFO, apply)
