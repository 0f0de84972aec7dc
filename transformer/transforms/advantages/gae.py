"""Extract the advantage estimation into a function."""

from __future__ import annotations

import ast

from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import names_in, walk
from transformer.syntax.rewrite import Edits
from transformer.transforms.base import NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.extraction import extract
from transformer.values.tensors import Tensors

INFO = TransformInfo(
    name="gae",
    brief="the advantages are gae()",
    summary="extract the advantage estimation into gae()",
    applies=(
        "to the statements that estimate advantages, if nothing jumps out of them, nothing made in them outlives them "
        "and reads their variables, and no other function sets these"
    ),
    safety="The same statements run in the same order; parameters and results follow from liveness.",
    costs=(
        "The advantages are neither extracted nor captured: compute them between rollout and update, let nothing jump "
        "out of them, and let other functions set none of their names."
    ),
    needs=(),
    before=(
        "with torch.no_grad():\n    next_value = agent.get_value(next_obs)\n"
        "    for t in reversed(range(args.num_steps)): ..."
    ),
    after="advantages, returns = gae(next_obs, next_done, storage)",
)


def apply(state: State) -> Rewrite:
    """Extract the statements around the loop backwards in time.

    Raises:
        Skip: there is no such loop, or it cannot be moved.
    """
    roles = state.roles
    block = roles.phases.block
    work: list[ast.stmt | ast.expr] = [*roles.gae_loops, *(helper.call for helper in roles.gae_functions)]
    tops = sorted({i for node in work for i, s in enumerate(block) if node in walk(s)})
    phases = roles.phases
    tops = [i for i in tops if block.index(phases.collect) < i < block.index(phases.learn)]
    if not tops:
        if work:
            line = min(node.lineno for node in work)
            raise Skip(f"the loop over the rollout's steps on line {line} is not between rollout and update")
        raise NotNeeded(
            "no `for t in reversed(range(n))` over the rollout's steps was found between rollout and update"
        )
    first, last = _widen(roles, block, tops[0], tops[-1])
    edits = Edits(state.source)
    doc = "Estimate the advantages and returns of the rollout, backwards in time."
    function = extract(state, edits, block[first : last + 1], "gae", doc)
    return Rewrite(edits, state.history.with_function("gae", function), brief=f"the advantages are {function.name}()")


def _widen(roles: Roles, block: list[ast.stmt], first: int, last: int) -> tuple[int, int]:
    """Include the numbers and tensors that are computed for the loop just above it, and the sums just below it."""
    tensors = roles.get(Tensors)
    lowest = block.index(roles.phases.collect) + 1
    while first > lowest:
        stmt = block[first - 1]
        if not isinstance(stmt, ast.Assign) or not all(isinstance(t, ast.Name) for t in stmt.targets):
            break
        number = isinstance(stmt.value, ast.Constant)
        if not (number or tensors.tensor(stmt.value)) or not names_in(stmt.targets) & names_in(block[first : last + 1]):
            break
        first -= 1
    while last + 1 < len(block):
        stmt = block[last + 1]
        if not isinstance(stmt, ast.Assign) or not isinstance(stmt.value, ast.BinOp) or not tensors.tensor(stmt.value):
            break
        last += 1
    return first, last


TRANSFORM = Transform(INFO, apply)
