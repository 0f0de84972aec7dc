"""Extract the rollout loop into a function."""

from __future__ import annotations

import ast
from dataclasses import replace

from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import assigns, names_in
from transformer.syntax.rewrite import Edits
from transformer.transforms.base import NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.extraction import extract

INFO = TransformInfo(
    name="rollout",
    brief="the rollout loop is rollout()",
    summary="extract the rollout loop into rollout()",
    applies=(
        "to a rollout loop that nothing jumps out of, if nothing made in it outlives it and reads its variables, and "
        "no other function sets these"
    ),
    safety=(
        "The same statements run in the same order. Variables that they read and the training loop rebinds become "
        "parameters, and variables that are read afterwards are returned; both follow from liveness, not from names."
    ),
    costs="The loop stays in place, and only clarity is lost: put it into the training loop itself.",
    needs=(),
    before="for step in range(args.num_steps):\n    ...\n    next_obs, reward, done, info = envs.step(action)",
    after="global_step, next_obs, next_done, storage = rollout(global_step, next_obs, next_done)",
)


def apply(state: State) -> Rewrite:
    """Extract the loop, with the list that it fills and the TensorDict made from it.

    Raises:
        Skip: it cannot be moved.
    """
    roles = state.roles
    if state.history.in_turns:
        raise NotNeeded("the environment is stepped once per iteration of the training loop: there is no rollout loop")
    if roles.rollout is None or roles.phases.collect is not roles.rollout:
        raise Skip("the rollout loop is inside another statement")
    edits = Edits(state.source)
    times = " num_steps times" if "num_steps" in state.tree.code else ""
    doc = f"Step the environments{times} with the present policy."
    function = extract(state, edits, _region(roles), "rollout", doc)
    history = replace(state.history.with_function("rollout", function), step_counter=roles.step_counter)
    return Rewrite(edits, history, brief=f"the rollout loop is {function.name}()")


def _region(roles: Roles) -> list[ast.stmt]:
    """The statements from the list that the loop fills to its stacking; all but the loop are emitted ones."""
    block, history = roles.phases.block, roles.history
    first = last = block.index(roles.phases.collect)
    for place, stmt in enumerate(block):
        if history.transitions is None or not isinstance(stmt, ast.Assign):
            continue
        if place < first and assigns(stmt, history.transitions):
            first = place
        elif place > last and history.transitions in names_in([stmt.value]):
            last = place
    made_above = first > 0 and isinstance(above := block[first - 1], ast.Assign) and _is_empty(above.value)
    return block[first - made_above : last + 1]


def _is_empty(value: ast.expr) -> bool:
    """Whether a value is an empty list or dictionary, which the loop fills."""
    return ast.unparse(value) in ("[]", "{}")


TRANSFORM = Transform(INFO, apply)
