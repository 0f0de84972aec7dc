"""Move the samples of a library's replay buffer to the device without waiting for each tensor."""

from __future__ import annotations

import ast
from dataclasses import replace

from transformer.state import State
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.transforms.base import NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.extraction import top_level
from transformer.values.replay import library_buffer

INFO = TransformInfo(
    name="replay",
    brief="samples are moved without waiting",
    summary="move the samples of a library's replay buffer to the device without waiting for each tensor",
    applies=(
        "to the ReplayBuffer of cleanrl_utils and of stable_baselines3, if it is made once above the training loop, "
        "gets the script's device, and is used only to add steps and to sample them"
    ),
    safety=(
        "The buffer keeps numpy arrays whatever its device: it draws the same indices and makes the same tensors from "
        "the rows it picks, but on the host. The device gets the same bytes, in their own dtype; the host's tensors "
        "are new ones, which nothing else changes."
    ),
    costs="The host waits for the device for each tensor of a sample: give the buffer the script's device.",
    needs=(),
    before="rb = ReplayBuffer(args.buffer_size, ..., device)\n...\ndata = rb.sample(args.batch_size)",
    after=(
        "def to_device(samples):\n"
        "    return type(samples)(*(x if x is None else x.to(device, non_blocking=True) for x in samples))\n\n\n"
        'rb = ReplayBuffer(args.buffer_size, ..., "cpu")\n...\ndata = to_device(rb.sample(args.batch_size))'
    ),
)


def apply(state: State) -> Rewrite:
    """Keep the buffer's samples on the host, and move them when they are sampled.

    Raises:
        Skip: the device for the samples is not known, or something else uses it.
    """
    tree, roles, edits = state.tree, state.roles, Edits(state.source)
    if state.history.asked.target == "cpu":
        raise NotNeeded("the target is a CPU")
    buffer = library_buffer(roles)
    if buffer is None:
        raise NotNeeded("no replay buffer of a known library keeps the steps")
    if roles.device is None or buffer.device is None or tree.text(buffer.device) != roles.device:
        raise Skip(f"line {buffer.call.lineno} does not give {buffer.name} the script's device")
    if roles.device.partition(".")[0] in roles.variant:
        raise Skip(f"{roles.device} may become another device in the training loop")
    if buffer.used is not None:
        raise Skip(f"line {buffer.used.lineno} uses {buffer.name}, and may depend on its device")
    nested = not isinstance(roles.scope, ast.Module)
    anchor = roles.outermost if nested else top_level(tree, roles.outermost)
    move = tree.names.fresh("to_device")
    edits.before(anchor, render("moved_samples", move=move, device=roles.device), gap=1 if nested else 2)
    edits.substitute(buffer.device, '"cpu"')
    for call in buffer.samples:
        edits.substitute(call, f"{move}({tree.text(call)})")
    return Rewrite(edits, replace(state.history, moves_samples=move))


TRANSFORM = Transform(INFO, apply, ("off-policy",))
