"""Extract the computation of one minibatch, up to the optimizer's step, into a function."""

from __future__ import annotations

import ast
from dataclasses import replace

from transformer.state import State
from transformer.syntax.query import walk
from transformer.syntax.rewrite import Edits
from transformer.transforms.base import Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.extraction import extract
from transformer.values.minibatch import first_computation, last_step
from transformer.values.tensors import Tensors

INFO = TransformInfo(
    name="update",
    summary="extract forward, backward and optimizer step of one minibatch into update()",
    applies=(
        "to the statements of a minibatch, where nothing jumps out of them, what is made in them and may outlive "
        "them reads none of their variables, and no other function sets these"
    ),
    safety=(
        "The same statements run in the same order; parameters and results follow from liveness. Results are "
        "detached: the backward pass has freed their graph, and they are only read afterwards."
    ),
    needs=(),
    before="for mb_inds in ...:\n    loss = ...\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()",
    after="for mb_inds in ...:\n    approx_kl, v_loss, pg_loss = update(mb_inds, b_obs, b_actions, b_returns)",
)


def apply(state: State) -> Rewrite:
    """Extract the minibatch loop's body from its first tensor to the last optimizer step.

    Raises:
        Skip: it cannot be moved.
    """
    roles = state.roles
    loop = roles.minibatch_loop
    tensors = Tensors(roles)
    first, last = first_computation(roles), last_step(roles)
    if first is None or last is None or first > last:
        raise Skip("no tensor computation was found above the optimizer's step")
    region = loop.body[first : last + 1]
    passes = sum(_method(n) == "backward" for s in region for n in walk(s))
    if not passes:
        raise Skip("the minibatch loop steps the optimizer but calls no backward()")
    edits = Edits(state.source)
    doc = "Optimize the networks on one minibatch."
    function = extract(state, edits, region, "update", doc, detach=True)
    static = not any(_branches(tensors, n) for s in region for n in walk(s))
    history = state.history.with_function("update", function)
    return Rewrite(edits, replace(history, backwards=passes, static_update=static))


def _branches(tensors: Tensors, node: ast.AST) -> bool:
    """Whether control flow hangs on a tensor's value, which a CUDA graph would freeze."""
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        return any(tensors.tensor(n) or _method(n) == "item" for n in walk(node.test) if isinstance(n, ast.expr))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("bool", "float", "int"):
        return any(tensors.tensor(n) for a in node.args for n in walk(a) if isinstance(n, ast.expr))
    return _method(node) in ("item", "tolist", "numpy", "cpu")


def _method(node: ast.AST) -> str | None:
    return node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None


TRANSFORM = Transform(INFO, apply)
