"""Enter torch.no_grad() in each step of the rollout where the script enters it once around the loop."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import cast

import libcst as cst

from transformer.dataflow.grad_mode import NO_GRAD
from transformer.state import State
from transformer.syntax.rewrite import Edits, Line
from transformer.transforms.base import NotNeeded, Rewrite, Skip, Transform, TransformInfo

INFO = TransformInfo(
    name="no-grad",
    brief="torch.no_grad() around each step's policy",
    summary="enter torch.no_grad() in every step of the rollout instead of once around the loop",
    applies=(
        "where one `with torch.no_grad()` holds the rollout loop alone, the loop runs over numbers, and nothing "
        "in it switches gradients in another way"
    ),
    safety=(
        "Every statement still runs under it, but for the loop's own range() or condition, whose numbers are the same "
        "either way. The rollout then stands in the training loop itself, and can be extracted."
    ),
    costs="The rollout keeps its one `with` around the loop, and stays in place.",
    needs=(),
    before="with torch.no_grad():\n    for step in range(args.num_steps):\n        obs[step] = next_obs\n        ...",
    after="for step in range(args.num_steps):\n    with torch.no_grad():\n        obs[step] = next_obs\n        ...",
)

NOTHING = "no torch.no_grad() stands around the rollout loop"


def apply(state: State) -> Rewrite:
    """Divide the block.

    Raises:
        Skip: there is none, or the loop's header may compute with gradients.
    """
    tree = state.tree
    loop = state.roles.rollout
    around = tree.parents[loop] if loop is not None else None
    if loop is None or not isinstance(around, ast.With) or around is not state.roles.phases.collect:
        raise NotNeeded(NOTHING)
    enter = around.items[0].context_expr
    if len(around.items) > 1 or not isinstance(enter, ast.Call) or not tree.calls(enter, *NO_GRAD):
        among = any(tree.calls(item.context_expr, *NO_GRAD) for item in around.items)
        raise (Skip if among else NotNeeded)(NOTHING)
    if around.items[0].optional_vars is not None or enter.args or enter.keywords:
        raise Skip(f"line {around.lineno} does more than entering torch.no_grad()")
    if loop.orelse:
        raise Skip(f"the rollout loop has an else block (line {loop.orelse[0].lineno})")
    if isinstance(loop, ast.For) and not _counts(loop.iter):
        raise Skip(f"line {loop.lineno} runs over more than numbers")
    switch = next((n for n in tree.of(ast.Attribute) if n.attr == "set_grad_enabled"), None)
    if switch is not None:
        raise Skip(f"line {switch.lineno} switches gradients in another way")
    edits, block = Edits(state.source), around.body
    edits.replace(around, _divided(edits, state, around, block.index(loop)))
    return Rewrite(edits)


def _divided(edits: Edits, state: State, around: ast.With, place: int) -> list[Line]:
    """The statements above the loop, the loop, and those below it, each under a `with` of its own."""
    whole = edits.lines_of(around)
    assert isinstance(whole, cst.With) and isinstance(whole.body, cst.IndentedBlock)
    lines = cast(Sequence[Line], whole.body.body)
    at = lines.index(state.source.pairs[around.body[place]].line)
    loop = lines[at]
    assert isinstance(loop, (cst.For, cst.While))

    def under(block: Sequence[Line], footer: Sequence[cst.EmptyLine] = ()) -> list[Line]:
        return [whole.with_changes(leading_lines=(), body=cst.IndentedBlock(block, footer=footer))] if block else []

    if isinstance(loop.body, cst.IndentedBlock):
        inner = cast(Sequence[Line], loop.body.body)
    else:
        inner = [cst.SimpleStatementLine(cast(cst.SimpleStatementSuite, loop.body).body)]
    return [
        *under(lines[:at]),
        loop.with_changes(body=cst.IndentedBlock(under(inner))),
        *under(lines[at + 1 :], whole.body.footer),
    ]


def _counts(iterable: ast.expr) -> bool:
    """Whether a loop runs over `range(...)`, possibly reported by a progress bar."""
    while isinstance(iterable, ast.Call) and iterable.args:
        if isinstance(iterable.func, ast.Name) and iterable.func.id == "range":
            return True
        iterable = iterable.args[0]
    return False


TRANSFORM = Transform(INFO, apply)
