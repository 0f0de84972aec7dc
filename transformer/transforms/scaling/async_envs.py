"""Step environments in worker processes, behind a flag of the script."""

from __future__ import annotations

import ast
from dataclasses import replace

from transformer.recognition.environment import Unshown, check_separate, find_sync_vector
from transformer.state import State
from transformer.syntax.imports import add_imports
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.syntax.tree import Tree
from transformer.transforms.base import BOTH, NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.compiling.flags import add_flag

INFO = TransformInfo(
    name="async-envs",
    brief="--env-workers: environments in worker processes",
    option="workers",
    summary="step environments in worker processes, behind the flag --env-workers",
    applies=(
        "when training steps a SyncVectorEnv of gym 0.23 or 0.26 or of gymnasium 0.29 that is made above the training "
        "loop from a plain list of functions; when these share nothing of the script that an environment, or "
        "training, may change; and when the environments are used only for steps, resets, spaces and closing"
    ),
    safety=(
        "Each environment keeps its index, its seed and its own generator. Each process steps its part with "
        "SyncVectorEnv itself, one environment after the other, and the results are put side by side in shared "
        "memory: the same observations, rewards, ends and infos, bit by bit. An environment that draws from the "
        "global generators of `random`, numpy or torch is detected in its worker, and ends the run. With "
        "`--env-workers 0`, the default, the script makes the same SyncVectorEnv as before."
    ),
    costs=(
        "Environments are stepped one after the other, in one process: make them by one call of "
        "`gymnasium.vector.SyncVectorEnv`."
    ),
    needs=("flags",),
    before="envs = gym.vector.SyncVectorEnv([make_env(i) for i in range(args.num_envs)])",
    after=(
        "env_fns = [make_env(i) for i in range(args.num_envs)]\n"
        "envs = (\n    WorkerVectorEnv(env_fns, args.env_workers)\n    if args.env_workers\n"
        "    else gym.vector.SyncVectorEnv(env_fns)\n)"
    ),
)

MODULES = "contextlib itertools mmap multiprocessing os pickle random signal".split()
RESULTS = "np.float64", "np.bool_"
"""The dtypes that SyncVectorEnv uses for rewards and for the ends of episodes."""


def apply(state: State) -> Rewrite:
    """Define the class above the script's own, and select it by the flag.

    Raises:
        Skip: there is no such environment, or it is not shown to behave the same in other processes.
    """
    tree, roles = state.tree, state.roles
    try:
        found = find_sync_vector(roles)
        if found is None:
            raise NotNeeded("training makes no SyncVectorEnv above its loop")
        count = check_separate(roles, found.env_fns)
    except Unshown as unknown:
        raise Skip(str(unknown)) from None
    if count is not None and count < 2:
        raise NotNeeded("there is a single environment")
    for module, name in (*((m, m) for m in MODULES), ("numpy", "np"), ("torch", "torch")):
        if tree.names.taken(name) and not is_module(tree, name, module):
            raise Skip(f"the name {name} has another meaning")
    edits = Edits(state.source)
    flag = add_flag(state, edits, "env_workers")
    if flag is None:
        raise Skip("the script defines no arguments that --env-workers could join")
    sync = tree.text(found.call.func)
    workers = tree.names.fresh("WorkerVectorEnv")
    chunk = tree.names.fresh("EnvChunk")
    code = render(
        "env_workers", name=workers, chunk=chunk, wait=tree.names.fresh("wait_for"), sync=sync,
        vector_env=f"{sync.rpartition('.')[0]}.VectorEnv".removeprefix("."), listed=found.listed,
        dtypes=", ".join(RESULTS[:1] + RESULTS[1:] * (1 if found.listed else 2)),
    )  # fmt: skip
    edits.before(first_definition(tree, found.stmt), code, gap=2)
    env_fns = tree.text(found.env_fns)
    if not isinstance(found.env_fns, ast.Name):
        named = tree.names.fresh("env_fns")
        edits.replace(found.stmt, f"{named} = {env_fns}\n{_chosen(tree, found.stmt, found.call, workers, named, flag)}")
    else:
        edits.replace(found.stmt, _chosen(tree, found.stmt, found.call, workers, env_fns, flag))
    aliased = () if tree.imports.get("np") == "numpy" else ("import numpy as np",)
    add_imports(tree.root, edits, *aliased, *(f"import {module}" for module in MODULES))
    if "." not in sync:
        add_imports(tree.root, edits, f"from {tree.imports[sync].rpartition('.')[0]} import VectorEnv")
    return Rewrite(
        edits,
        replace(state.history, flags={**state.history.flags, "env_workers": flag}, env_chunk=chunk),
        notes=("environments from packages are not checked for shared state: compare with `lean-convert verify`",),
    )


def _chosen(tree: Tree, stmt: ast.Assign, call: ast.Call, workers: str, env_fns: str, flag: str) -> str:
    """The statement that makes the environments, in workers if the flag says so."""
    chosen = f"{workers}({env_fns}, {flag}) if {flag} else {tree.text(call.func)}({env_fns})"
    return tree.splice(stmt, [(call, chosen if stmt.value is call else f"({chosen})")])


def first_definition(tree: Tree, stmt: ast.stmt) -> ast.stmt:
    """The statement of the module above which to define a class: the first definition or block, or `stmt` itself."""
    around = (stmt, *tree.ancestors(stmt))
    defined = (s for s in tree.root.body if s in around or (hasattr(s, "body") and not isinstance(s, ast.If)))
    return next(defined)


def is_module(tree: Tree, name: str, module: str) -> bool:
    """Whether a name is an imported module and nothing else in the file."""
    return tree.imports.get(name) == module and name not in tree.bound


TRANSFORM = Transform(INFO, apply, BOTH)
