"""Let the update's networks compute in bfloat16 under autocast, or in TF32, behind a flag of the script."""

from __future__ import annotations

import ast
import textwrap
from dataclasses import replace

from transformer.facts.torch_api import others
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.imports import add_imports
from transformer.syntax.query import walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.syntax.tree import Tree
from transformer.transforms.base import Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.compiling.flags import add_flag
from transformer.values.networks.attributes import Unknown
from transformer.values.networks.heads import Heads

INFO = TransformInfo(
    name="precision",
    brief="--precision: bf16 or tf32 in the update",
    option="precision",
    summary="add --precision, with which the update's networks compute in bfloat16, or matrix products in TF32",
    applies=(
        "when update() calls networks of this file that are made of layers whose behaviour under autocast is known "
        "and whose results all come from linear layers, and the script sets no precision itself"
    ),
    safety=(
        "With `--precision fp32`, the default, the same operations run, with the same bits. The others change the "
        "arithmetic, and must be asked for by name. `bf16`: autocast covers only the networks' forward passes in the "
        "update; the heads, the loss, gradients, parameters and the optimizer stay in float32, and so does the "
        "rollout. `tf32`: all float32 matrix products of the script, including the rollout's, may round their inputs "
        "to TF32."
    ),
    costs="The update computes in float32: make the networks of torch's linear layers and convolutions.",
    needs=("flags", "update"),
    before=(
        "self.actor = nn.Linear(512, envs.single_action_space.n)\n...\n"
        "def update(b_obs, mb_inds):\n    logits, newvalue = agent(b_obs[mb_inds])\n    ..."
    ),
    after=(
        "self.actor = Head(512, envs.single_action_space.n)\n...\n"
        "def update(b_obs, mb_inds):\n"
        '    with torch.autocast(device.type, torch.bfloat16, enabled=args.precision == "bf16"):\n'
        "        logits, newvalue = agent(b_obs[mb_inds])\n    ..."
    ),
)

SETTING = others("autocast", "products") | {"GradScaler", "allow_tf32", "fp32_precision"}
"""The ways in which a script sets the precision of its arithmetic."""


def apply(state: State) -> Rewrite:
    """Put the update's forward passes under autocast, and replace the linear layers of the heads.

    Raises:
        Skip: a network is not known, only heads compute matrix products, or the script sets its own precision.
    """
    tree, roles = state.tree, state.roles
    _check_own(state)
    heads, calling = Heads(roles), list[ast.stmt]()
    try:
        for name in (*state.history.all_updates, *state.history.auxiliary):
            calling += heads.add(tree.definition(name))
    except Unknown as unknown:
        raise Skip(str(unknown)) from None
    if not calling:
        raise Skip("update() calls no network by its name")
    if not heads.others:
        raise Skip("only the heads compute matrix products")
    _check_shown(roles)
    edits = Edits(state.source)
    flag = add_flag(state, edits, "precision")
    if flag is None:
        raise Skip("the script defines no arguments that --precision could join")
    if edits.emits("Literal["):
        if tree.names.taken("Literal") and tree.imports.get("Literal") != "typing.Literal":
            raise Skip("the name Literal has another meaning")
        add_imports(tree.root, edits, "from typing import Literal")
    device = roles.device_type
    for stmt in calling:
        inner = textwrap.indent(tree.text(stmt), "    ")
        context = f'torch.autocast({device}, torch.bfloat16, enabled={flag} == "bf16")'
        edits.replace(stmt, f"with {context}:\n{inner}")
    made, head = heads.found, tree.names.fresh("Head")
    for call in made:
        edits.substitute(call.func, head)
    holders = [s for s in tree.root.body if any(call in walk(s) for call in made)]
    edits.before(holders[0], render("head", name=head, linear=tree.text(made[0].func)), gap=2)
    edits.before(roles.outermost, render("tf32", flag=flag), gap=1)
    return Rewrite(edits, replace(state.history, flags={**state.history.flags, "precision": flag}))


def _check_own(state: State) -> None:
    """Check that the script computes in float32 and does not set the precision.

    Raises:
        Skip: it uses another precision, or sets one.
    """
    tree = state.tree
    for node in tree.nodes:
        if isinstance(node, (ast.Name, ast.Attribute)) and tree.last_name(node) in SETTING:
            raise Skip(f"line {node.lineno} sets the precision itself: {tree.text(node)}")
    if (where := state.history.other_precision) is not None:
        raise Skip(f"the script also computes in other precisions than float32: {where}")
    if tree.imports.get("torch") != "torch":
        raise Skip("torch is not imported by its name")


def _check_shown(roles: Roles) -> None:
    """Check that no network is printed or saved as a whole, which would show that its heads change their class.

    Raises:
        Skip: one is, or is passed to unknown code.
    """
    tree = roles.tree
    for name in tree.of(ast.Name):
        parent = tree.parents[name]
        if name.id not in roles.modules or not isinstance(name.ctx, ast.Load) or isinstance(parent, ast.Attribute):
            continue
        of_torch = isinstance(parent, ast.Call) and name in parent.args and _keeps_it(tree, parent)
        called = isinstance(parent, ast.Call) and (parent.func is name or tree.function_called(parent) is not None)
        if not (of_torch or called or isinstance(parent, (ast.Assign, ast.Tuple, ast.List))):
            raise Skip(f"line {name.lineno} uses {name.id} as a whole, and the classes of its layers with it")


def _keeps_it(tree: Tree, call: ast.Call) -> bool:
    """Whether a function neither prints nor saves its argument."""
    name = tree.qualified(call.func) or ""
    return (name.startswith("torch.") and name != "torch.save") or name == "copy.deepcopy"


TRANSFORM = Transform(INFO, apply)
