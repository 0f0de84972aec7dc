"""Lay out images and convolution weights with the channels innermost, in code compiled for a CPU."""

from __future__ import annotations

import ast

from transformer.facts.torch_api import attributes, names
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import names_in, statements, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.syntax.tree import Tree
from transformer.transforms.base import NO_DEVICE, NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.values.networks.images import REORDERS

INFO = TransformInfo(
    name="channels-last",
    brief="--compile on a CPU: channels innermost",
    summary="lay out images and convolution weights with the channels innermost, under --compile on a CPU",
    applies=(
        "to networks with convolutions that are made above the training loop, if nothing in the file depends on the "
        "memory layout of tensors or weights"
    ),
    safety=(
        "Without --compile, or on a GPU, nothing changes. With it the tensors hold the same values in another memory "
        "order, so results agree within rounding. Networks that depend on that order, by view() for example, are left "
        "alone. Otherwise Inductor would copy each minibatch of images twice into the layout that convolutions want."
    ),
    costs="Compiled convolutions copy each minibatch on a CPU: keep `view()` and strides out of the networks.",
    needs=("flags", "update", "compile"),
    before='agent = Agent(envs).to(device)\n...\nb_obs = storage["obs"].flatten(0, 1)',
    after=(
        'agent = Agent(envs).to(device)\nchannels_last = args.compile and device.type == "cpu"\n'
        "if channels_last:\n    agent.to(memory_format=torch.channels_last)\n...\n"
        'b_obs = storage["obs"].flatten(0, 1)\n'
        "if channels_last and b_obs.dim() == 4:\n"
        "    b_obs = b_obs.contiguous(memory_format=torch.channels_last)"
    ),
    regroups="convolutions and gradient norms add up in memory order, which differs from the original's",
)

LAYOUT = names("tensor", layout=True)
"""Methods of a tensor that depend on its memory layout."""
PUT_FIRST = REORDERS | attributes(reorders=True)
"""Methods and attributes by which a network moves channels from last to first; such images already have the layout."""

CONVOLUTIONS = "torch.nn.Conv2d"


def apply(state: State) -> Rewrite:
    """Give the weights, and the flat images of a batch, the channels-last layout.

    Raises:
        Skip: no network of the file convolves images, or one depends on their layout.
    """
    roles = state.roles
    cpu = state.history.asked.target == "cpu"
    if state.history.asked.target == "cuda":
        raise NotNeeded("the target is a CUDA device")
    if roles.device is None and not cpu:
        convolves = any((state.tree.qualified(n) or "").startswith(CONVOLUTIONS) for n in state.tree.nodes)
        raise (Skip(NO_DEVICE) if convolves else NotNeeded("no variable holds a device to which tensors are moved"))
    made = {name: cls for name in roles.modules if (cls := _convolving(roles, name)) is not None}
    if not made:
        raise NotNeeded("no trained network of a class of this file has convolutions")
    _check_weights(state.tree)
    edits = Edits(state.source)
    compiled, flag = state.history.flags["compile"], state.tree.names.fresh("channels_last")
    condition = compiled if cpu else f'{compiled} and {roles.device_type} == "cpu"'
    for name, (stmt, _) in sorted(made.items(), key=lambda m: m[1][0].lineno):
        edits.after(stmt, render("channels_last_weights", flag=flag, condition=condition, network=name))
        condition = ""  # only the block of the first network tests it
    reorders = any(
        isinstance(n, ast.Attribute) and n.attr in PUT_FIRST
        for _, parts in made.values()
        for c in parts
        for n in walk(c)
    )
    if not reorders:
        for name in _images(roles, set(made)):
            flattening = _flattening(roles, name)
            if flattening is not None:
                edits.after(flattening, render("channels_last_images", flag=flag, images=name))
    return Rewrite(edits)


def _convolving(roles: Roles, name: str) -> tuple[ast.Assign, list[ast.ClassDef]] | None:
    """The statement that makes a network with convolutions, and the classes of its parts.

    Raises:
        Skip: the layout of its tensors matters.
    """
    tree = roles.tree
    made = list(roles.assignments(name))
    constructor = tree.constructor(made[0][1]) if made else None
    if constructor is None:
        return None
    parts = tree.used_classes(tree.classes[ast.unparse(constructor.func)])
    nodes = [n for c in parts for n in walk(c)]
    if not any((tree.qualified(n) or "").startswith(CONVOLUTIONS) for n in nodes):
        return None
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr in LAYOUT:
            raise Skip(f"line {node.lineno} depends on a tensor's memory layout")
    if len(made) > 1 or tree.scope_of(made[0][0]) is not roles.scope or made[0][0] not in roles.setup:
        raise Skip(f"{name} is made more than once, or not directly above the training loop")
    return made[0][0], parts


def _check_weights(tree: Tree) -> None:
    """Check that nothing depends on the layout of weights and gradients, as `param.grad.view(-1)` does.

    Raises:
        Skip: something does.
    """
    weights = set()
    for node in tree.nodes:
        if isinstance(node, (ast.For, ast.comprehension)) and "parameters" in ast.unparse(node.iter):
            weights |= names_in([node.target])
    for node in tree.nodes:
        if not isinstance(node, (ast.Attribute, ast.Name)):
            continue
        name = node.attr if isinstance(node, ast.Attribute) else node.id
        of_weights = isinstance(node, ast.Attribute) and (
            names_in([node.value]) & weights
            or any(isinstance(n, ast.Attribute) and n.attr in ("grad", "data", "weight") for n in walk(node.value))
        )
        if name in ("parameters_to_vector", "vector_to_parameters") or (name in LAYOUT and of_weights):
            raise Skip(f"line {node.lineno} depends on the memory layout of weights")


def _images(roles: Roles, networks: set[str]) -> list[str]:
    """The parameters of update() whose minibatches it passes to a network, as in `b_obs[mb_inds]`."""
    function = roles.history.functions["update"]
    definition = roles.tree.definition(function.name)
    found: dict[str, None] = {}
    for call in walk(definition):
        if isinstance(call, ast.Call) and names_in([call.func]) & networks:
            for argument in call.args:
                if isinstance(argument, ast.Subscript) and isinstance(argument.value, ast.Name):
                    if argument.value.id in function.params:
                        found[argument.value.id] = None
    return list(found)


def _flattening(roles: Roles, name: str) -> ast.Assign | None:
    """The only statement of the training loop that makes a flat tensor; None if something depends on its layout."""
    made = [s for s in statements(roles.outermost.body) if isinstance(s, ast.Assign) and name in names_in(s.targets)]
    for node in roles.tree.of(ast.Attribute):
        if node.attr in LAYOUT and name in names_in([node.value]):
            return None
    if len(made) != 1 or not isinstance(made[0].targets[0], ast.Name) or len(made[0].targets) > 1:
        return None
    return made[0]


TRANSFORM = Transform(INFO, apply)
