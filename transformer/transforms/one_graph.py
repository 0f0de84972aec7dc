"""Let torch.compile put forward, backward, clipping and optimizer step of a minibatch into one graph."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from transformer import gradients
from transformer.conversion import TransformInfo
from transformer.edits import Edits
from transformer.imports import add_imports
from transformer.rendering import render
from transformer.script import Script
from transformer.transforms.base import Skip, Transform

INFO = TransformInfo(
    name="one-graph",
    summary="let torch.compile trace zero_grad(), backward() and step(): one graph for each minibatch",
    safety=(
        "Without --compile the same three methods are called. With it the same is computed in a form that can be "
        "traced: torch.optim keeps its own methods out of graphs, and backward() rebinds .grad, which ends a graph. "
        "A gradient that appears or vanishes is still set anew, at the price of a graph break. Where optimizers take "
        "their steps one after the other, each with a loss of its own, a pass computes the gradients of its own alone: "
        "all others are cleared before they are used."
    ),
    needs=("flags", "update"),
    before="def update(mb_inds):\n    ...\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()",
    after=(
        "def update(mb_inds):\n    ...\n    zero_grad()\n    backward(loss)\n    optimizer_step()\n\n\n"
        "zero_grad, backward, optimizer_step = traceable(optimizer)\n"
        "if args.compile:\n    update = torch.compile(update)"
    ),
)

TRACED = frozenset("Adam AdamW RMSprop SGD".split())
"""Optimizers whose step() is known to compile without a graph break."""


def apply(script: Script) -> str:
    """Put other functions in the place of the three calls in update(), for each of its optimizers.

    Raises:
        Skip: update() is not one plain backward pass followed by one plain step for each optimizer.
    """
    definition = script.definition(script.facts.functions["update"].name)
    passes = _plain_update(script, definition)
    for one in passes:
        _check_optimizer(script, one.optimizer, definition)
    if len(passes) > 1:
        _check_clipping(script, definition, passes)
    if script.names.taken("inspect") and script.imports.get("inspect") != "inspect":
        raise Skip("the name inspect stands for something else than the standard module")
    edits, setup, traceable = Edits(script.source), [], ""
    for one in passes:
        names = [script.names.fresh(n) for n in ("zero_grad", "backward", "optimizer_step")]
        traceable = traceable or script.names.fresh("traceable")
        script.facts.on_device.update(names)
        kept = "".join(f", {k.arg}={ast.unparse(k.value)}" for k in one.backward.keywords)
        edits.substitute(one.zero_grad, f"{names[0]}()")
        edits.substitute(one.backward, f"{names[1]}({script.source.text(_receiver(one.backward))}{kept})")
        edits.substitute(one.step, f"{names[2]}()")
        setup.append(f"{', '.join(names)} = {traceable}({one.optimizer})")
    flag = script.facts.flags["compile"]
    code = render("traceable", traceable=traceable, flag=flag, several=len(passes) > 1)
    edits.before(definition, code, gap=1 if definition.col_offset else 2)
    edits.before(script.outermost, "\n".join(setup))
    add_imports(script.tree, edits, "import inspect")
    script.facts.traced = True
    return script.finish(edits)


@dataclass(frozen=True)
class _Pass:
    """A backward pass with what clears the gradients before it and the step behind it, of one optimizer."""

    zero_grad: ast.Call
    backward: ast.Call
    step: ast.Call

    @property
    def optimizer(self) -> str:
        return ast.unparse(_receiver(self.step))


def _receiver(call: ast.Call) -> ast.expr:
    assert isinstance(call.func, ast.Attribute)
    return call.func.value


def _plain_update(script: Script, function: ast.FunctionDef) -> list[_Pass]:
    """The calls of zero_grad(), backward() and step() in update(), each a statement of its own, in this order.

    Raises:
        Skip: there are others, or they take arguments, or something else touches the gradients.
    """
    order = ("zero_grad", "backward", "step")
    calls: list[ast.Call] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and node.attr == "grad":
            raise Skip(f"line {node.lineno} uses gradients one by one")
        if isinstance(node, (ast.Name, ast.Attribute)) and "torch.distributed" in (script.qualified(node) or ""):
            raise Skip(f"line {node.lineno} talks to other processes")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in order:
            calls.append(node)
    calls.sort(key=lambda c: (c.lineno, c.col_offset))
    found = tuple(c.func.attr for c in calls if isinstance(c.func, ast.Attribute))
    if found == (*order[1:], order[0]):
        calls = [calls[2], *calls[:2]]
    elif not found or found != order * (len(found) // 3):
        raise Skip(f"update is not one zero_grad(), backward() and step() in this order, but {', '.join(found)}")
    passes = [_Pass(*calls[i : i + 3]) for i in range(0, len(calls), 3)]
    for call in calls:
        kept = len(passes) > 1 and [k.arg for k in call.keywords] == ["retain_graph"]
        if call.args or (call.keywords and not kept and not _is_default(call)):
            raise Skip(f"{ast.unparse(call.func)}() on line {call.lineno} takes arguments")
        stmt = script.source.parents[call]
        if not isinstance(stmt, ast.Expr) or stmt not in function.body:
            raise Skip(f"line {call.lineno} is not a statement of its own that always runs")
    for one in passes:
        if ast.unparse(_receiver(one.zero_grad)) != one.optimizer:
            raise Skip(f"line {one.zero_grad.lineno} clears other gradients than those of {one.optimizer}")
    if len({one.optimizer for one in passes}) < len(passes):
        raise Skip(f"{passes[0].optimizer} is stepped more than once")
    return passes


def _is_default(call: ast.Call) -> bool:
    """Whether a call is `zero_grad(set_to_none=True)`, which torch does anyway."""
    return [ast.unparse(k) for k in call.keywords] == ["set_to_none=True"]


def _check_clipping(script: Script, function: ast.FunctionDef, passes: list[_Pass]) -> None:
    """Each pass computes the gradients of its own optimizer's parameters, so none may clip those of another.

    Raises:
        Skip: one may.
    """
    made = {o.name: ast.unparse(o.call) for o in script.optimizers}
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and "clip_grad" in ast.unparse(node.func):
            one = next((p for p in passes if p.backward.lineno < node.lineno < p.step.lineno), None)
            clipped = ast.unparse(node.args[0]) if node.args else ""
            if one is None or not clipped or clipped not in made[one.optimizer]:
                raise Skip(f"line {node.lineno} may clip gradients of several optimizers")


def _check_optimizer(script: Script, name: str, update: ast.FunctionDef) -> None:
    """The optimizer is one that can be traced, and only update() gives it gradients.

    Raises:
        Skip: it is not.
    """
    made = [o for o in script.optimizers if o.name == name]
    if len(made) != 1 or made[0].kind not in TRACED:
        kind = made[0].kind if made else None
        raise Skip(f"{name} is {f'torch.optim.{kind}' if kind else 'not known'}, whose step() may not be traceable")
    if any(k.arg in ("fused", "differentiable", None) for k in made[0].call.keywords):
        raise Skip(f"{name} is made with options under which its step() may not be traceable")
    if name not in script.facts.steady_rates:
        raise Skip(f"the learning rate of {name} is a float that may change: each value would be compiled anew")
    used = gradients.outside(script, update, made[0])
    if used is not None:
        raise Skip(f"line {used.lineno} uses gradients outside of the minibatch too")


TRANSFORM = Transform(INFO, apply)
