"""Tensors that grow by `torch.cat` in a hot loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.study import Study
from transformer.facts.torch_api import functions

FUNCTIONS = functions("torch", joins=True)


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """`x = torch.cat((x, y))`."""
    for call, heat in study.hot_calls():
        if study.qualified(call.func) not in FUNCTIONS or not call.args:
            continue
        stmt = study.tree.parents[call]
        parts = call.args[0]
        if not isinstance(stmt, ast.Assign) or not isinstance(parts, (ast.Tuple, ast.List)):
            continue
        grown = parts.elts[0] if parts.elts else None
        names = {t.id for t in stmt.targets if isinstance(t, ast.Name)}
        if isinstance(grown, ast.Name) and grown.id in names and study.reaches(stmt, grown):
            yield call, f"{grown.id} is copied completely to append one piece, {heat.where}", None


RULE = Rule(
    code="LA308",
    title="a tensor grows by torch.cat in a hot loop",
    reason="Each iteration allocates and copies everything so far, which is quadratic in the number of iterations.",
    instead="Collect the pieces in a list and join them once after the loop, or write into a preallocated tensor.",
    weight="costly",
    find=find,
    bad=(
        Example("step", "seen = torch.cat((seen, next_obs))"),
        Example("step", "seen = torch.cat([seen, next_obs], dim=0)"),
    ),
    good=(
        Example("step", "pieces.append(next_obs)"),
        Example("step", "both = torch.cat((next_obs, next_obs))"),
        Example("iteration", "seen = torch.cat((seen, obs))"),
        Example("minibatch", "x = torch.cat((loss, x[1:]))"),
        Example("step", "x = next_obs\nx = torch.cat((x, x))"),
    ),
)
