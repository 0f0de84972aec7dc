"""Operations whose results have a size that depends on values."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.study import Study
from transformer.facts.torch_api import names
from transformer.syntax.query import method, receiver

FUNCTIONS = names("torch", waits="size")


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """Calls of such functions, and selections by a mask."""
    for node in study.tree.nodes:
        if isinstance(node, ast.Call):
            found = _result_varies(study, node)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            found = isinstance(node.slice, ast.Compare) and study.tensor(node.slice) and study.tensor(node.value)
        else:
            continue
        heat = study.hot(node) if found else None
        if heat is not None:
            assert isinstance(node, ast.expr)
            yield node, f"the size of {study.text(node)} depends on values: it waits for the device {heat.where}", None


def _result_varies(study: Study, call: ast.Call) -> bool:
    root, _, name = study.qualified(call.func).rpartition(".")
    if root == "torch":
        alone = name == "where" and len(call.args) == 1 and not call.keywords
        return (name in FUNCTIONS or alone) and bool(call.args) and study.tensor(call.args[0])
    return method(call) in FUNCTIONS and study.tensor(receiver(call))


RULE = Rule(
    code="LA307",
    title="the size of a result depends on values",
    reason=(
        "To allocate the result of `x[mask]`, `nonzero()` or `unique()`, the host has to know its number of elements, "
        "and waits for the device. A CUDA graph cannot hold it, and every size is a new shape for a compiled function."
    ),
    instead="Keep the size: `torch.where(mask, x, 0)`, or a sum weighted with the mask.",
    weight="costly",
    find=find,
    bad=(
        Example("minibatch", "kept = loss[loss > 0]"),
        Example("minibatch", "where = torch.nonzero(agent.act(obs))"),
        Example("minibatch", "where = torch.where(agent.act(obs) > 0)"),
    ),
    good=(
        Example("minibatch", "kept = torch.where(loss > 0, loss, 0)"),
        Example("step", "kept = frame[frame > 0]"),
        Example("iteration", "where = torch.nonzero(obs)"),
        Example("minibatch", "loss[loss > 0] = 0"),
    ),
)
