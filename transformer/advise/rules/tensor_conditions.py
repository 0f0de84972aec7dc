"""Control flow that depends on a tensor's value in a hot loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.study import Study


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """Conditions that test a tensor."""
    for node in study.tree.nodes:
        if not isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
            continue
        heat = study.hot(node.test)
        if heat is None:
            continue
        for asked in _asked(node.test):
            if study.tensor(asked):
                yield node.test, f"the condition {study.text(node.test)} waits for the device {heat.where}", None
                break


def _asked(test: ast.expr) -> Iterator[ast.expr]:
    """The expressions whose truth a condition tests."""
    if isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from _asked(value)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _asked(test.operand)
    elif isinstance(test, ast.Compare):
        if not any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in test.ops):
            yield test
    else:
        yield test


RULE = Rule(
    code="LA003",
    title="a condition in a hot loop depends on a tensor's value",
    reason=(
        "`if tensor:` reads the value on the host: Python waits until the device has computed it before it can "
        "continue. A compiled function has a graph break there, and a CUDA graph cannot hold it."
    ),
    instead="Use `torch.where` or a mask, or test once per epoch, after the loop.",
    weight="costly",
    find=find,
    bad=(
        Example("minibatch", "if loss > 10:\n    skipped += 1"),
        Example("minibatch", "if args.clip and torch.isnan(loss).any():\n    bad += 1"),
        Example("minibatch", "assert torch.isfinite(loss)"),
        Example("step", "scale = 2 if agent.act(next_obs).max() > 1 else 1"),
    ),
    good=(
        Example("minibatch", "skipped = torch.where(loss > 10, skipped + 1, skipped)"),
        Example("minibatch", "if loss is None:\n    pass"),
        Example("minibatch", "if loss.dim() == 2 or args.clip:\n    pass"),
        Example("iteration", "if loss > 10:\n    print('large')"),
        Example("step", "if done.any():\n    pass"),
    ),
)
