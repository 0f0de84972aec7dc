"""Step gymnasium's SyncVectorEnv and its costly wrappers with fewer numpy calls on single rows."""

from __future__ import annotations

import ast

from transformer.facts.libraries import of_environments
from transformer.recognition.environment import SYNC, Unshown, find_sync_vector
from transformer.state import State
from transformer.syntax.imports import add_imports
from transformer.syntax.options import holds_options
from transformer.syntax.query import walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.syntax.tree import Tree
from transformer.transforms.base import BOTH, NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.scaling.async_envs import first_definition, is_module

INFO = TransformInfo(
    name="fused-envs",
    brief="environment steps with fewer numpy calls",
    option="fuse_envs",
    summary="step SyncVectorEnv and the wrappers that normalise and count with fewer numpy calls",
    applies=(
        "when training steps a SyncVectorEnv of gymnasium that is made above the training loop from a list of "
        "functions and is used only for what it offers, and the script puts no method of its own into wrappers or "
        "gymnasium. At run time it requires gymnasium 0.29.1 or 1.1 to 1.4, observations that are one array, and "
        "wrappers whose type is exactly RecordEpisodeStatistics, NormalizeObservation or NormalizeReward; anything "
        "else is stepped as before"
    ),
    safety=(
        "The script's wrappers stay, with their state, so `envs.envs[0].obs_rms` is what it was. The mean of a single "
        "row is the row, and its variance zero, or NaN if it is not finite; the rest is the same arithmetic in the "
        "same order. Episodes end and are reset by the wrappers' own code, which also handles unusual observations "
        "and rewards."
    ),
    costs=(
        "Each environment step makes some thirty numpy calls for a row of a few numbers: make "
        "environments by one call of `gymnasium.vector.SyncVectorEnv`, and leave its wrappers as they are."
    ),
    needs=(),
    before="envs = gym.vector.SyncVectorEnv([make_env(i) for i in range(args.num_envs)])",
    after="envs = FusedVectorEnv([make_env(i) for i in range(args.num_envs)])",
)

WRAPPERS = {
    "RecordEpisodeStatistics": "step_recorded",
    "NormalizeObservation": "step_normalized",
    "NormalizeReward": "step_rescaled",
}
"""The wrappers that an emitted method steps, with its name; wrappers that a script does not mention are left out."""
OFFERED = of_environments()
"""The attributes and methods of environments that may be used: environments and wrappers stay in place."""
STEERED = frozenset("step normalize observation update returns discounted_reward".split())
"""Methods and attributes that the emitted methods replace, or that must be those of gymnasium's wrappers."""


def apply(state: State) -> Rewrite:
    """Define a subclass above the script's own classes, and instantiate it instead of SyncVectorEnv, also in workers.

    Raises:
        Skip: there is no such environment, or more than its steps may be used.
    """
    tree, roles = state.tree, state.roles
    made = [n for s in roles.setup for n in walk(s) if isinstance(n, ast.Call) and tree.calls(n, SYNC[0])]
    if not made:
        raise NotNeeded("training makes no SyncVectorEnv of gymnasium above its loop")
    if "env_workers" not in state.history.flags:  # with workers, their transform has checked the uses
        try:
            find_sync_vector(roles, OFFERED)
        except Unshown as unknown:
            raise Skip(str(unknown)) from None
    _check_steered(state)
    for name, module in (("types", "types"), ("np", "numpy")):
        if tree.names.taken(name) and not is_module(tree, name, module):
            raise Skip(f"the name {name} has another meaning")
    edits = Edits(state.source)
    sync = tree.text(made[0].func)
    gym = sync.removesuffix(".vector.SyncVectorEnv")
    if gym == sync:  # SyncVectorEnv is imported by its own name
        gym = "gymnasium"
        if tree.names.taken(gym) and not is_module(tree, gym, gym):
            raise Skip(f"the name {gym} has another meaning")
        add_imports(tree.root, edits, "import gymnasium")
    fused = tree.names.fresh("FusedVectorEnv")
    wrappers = {name: step for name, step in WRAPPERS.items() if name in tree.mentioned}
    moments = wrappers.keys() & {"NormalizeObservation", "NormalizeReward"}
    code = render("fused_envs", name=fused, sync=sync, gym=gym, wrappers=wrappers, moments=moments)
    edits.before(first_definition(tree, tree.statement(made[0])), code, gap=2)
    in_workers = [b for c in tree.of(ast.ClassDef) if c.name == state.history.env_chunk for b in c.bases]
    for place in (*(call.func for call in made), *in_workers):
        edits.substitute(place, fused)
    aliased = () if tree.imports.get("np") == "numpy" else ("import numpy as np",)
    add_imports(tree.root, edits, *aliased, *(("import types",) if wrappers else ()))
    return Rewrite(edits)


def _check_steered(state: State) -> None:
    """Check that the wrappers' methods are those of gymnasium's own classes.

    Raises:
        Skip: the script may replace one.
    """
    tree = state.tree
    for node in tree.of(ast.Attribute):
        if isinstance(node.ctx, ast.Load):
            continue
        own = tree.class_of_self(node.value, tree.scope_of(node)) is not None
        if (node.attr in STEERED and not own) or (tree.qualified(node) or "").startswith("gymnasium."):
            raise Skip(f"line {node.lineno} changes {ast.unparse(node)}")
    for call in tree.of(ast.Call):
        if tree.names.builtin(call.func) == "setattr" and len(call.args) == 3 and _may_steer(tree, call):
            raise Skip(f"line {call.lineno} may change a wrapper")


def _may_steer(tree: Tree, call: ast.Call) -> bool:
    """Whether `setattr(value, name, ...)` may change what the emitted methods rely on."""
    value, name, _ = call.args
    if isinstance(name, ast.Constant):
        return name.value in STEERED
    return not holds_options(tree, value, tree.scope_of(call))


TRANSFORM = Transform(INFO, apply, BOTH)
