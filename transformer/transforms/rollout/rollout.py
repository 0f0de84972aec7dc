"""Extract the rollout loop into a function."""

from __future__ import annotations

import ast
from dataclasses import replace

from transformer.state import State
from transformer.syntax.rewrite import Edits
from transformer.transforms.base import Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.extraction import extract

INFO = TransformInfo(
    name="rollout",
    summary="extract the rollout loop into rollout()",
    applies=(
        "to a rollout loop of which nothing jumps out, where what is made in it and may outlive it reads none of "
        "its variables, and no other function sets them"
    ),
    safety=(
        "The same statements run in the same order. What they read and the training loop rebinds is passed in, what "
        "is read afterwards is returned; both follow from liveness, not from names."
    ),
    needs=(),
    before="for step in range(args.num_steps):\n    ...\n    next_obs, reward, done, info = envs.step(action)",
    after="next_obs, next_done, global_step, storage = rollout(next_obs, next_done, global_step)",
)


def apply(state: State) -> Rewrite:
    """Extract the loop, with the lists it fills and the TensorDict made of them.

    Raises:
        Skip: it cannot be moved.
    """
    roles = state.roles
    block, loop = roles.phases.block, roles.phases.collect
    if roles.rollout is None or loop is not roles.rollout:
        raise Skip("the rollout loop stands inside another statement")
    first = last = block.index(loop)
    if first and _empty_container(block[first - 1]):
        first -= 1
    following = block[last + 1 : last + 2]
    if following and state.history.storage and _assigns(following[0], state.history.storage):
        last += 1
    edits = Edits(state.source)
    doc = "Step the environments num_steps times with the present policy."
    function = extract(state, edits, block[first : last + 1], "rollout", doc)
    return Rewrite(edits, replace(state.history.with_function("rollout", function), step_counter=roles.step_counter))


def _empty_container(stmt: ast.stmt) -> bool:
    return isinstance(stmt, ast.Assign) and ast.unparse(stmt.value) in ("[]", "{}")


def _assigns(stmt: ast.stmt, name: str) -> bool:
    return isinstance(stmt, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in stmt.targets)


TRANSFORM = Transform(INFO, apply)
