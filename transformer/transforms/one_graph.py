"""Let torch.compile put forward, backward, clipping and optimizer step of a minibatch into one graph."""

from __future__ import annotations

import ast

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
        "A gradient that appears or vanishes is still set anew, at the price of a graph break."
    ),
    needs=("flags", "update", "compile"),
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
    """Put other functions in the place of the three calls in update().

    Raises:
        Skip: update() is not compiled, or is not one plain backward pass followed by one plain step.
    """
    function = script.facts.functions["update"]
    compiled = _compiled(script, function.name)
    if compiled is None:
        raise Skip(f"{function.name}() is not compiled")
    definition = script.definition(function.name)
    zero_grad, backward, step = _plain_update(script, definition)
    optimizer = ast.unparse(_receiver(step))
    _check_optimizer(script, optimizer, {id(n) for n in ast.walk(definition)})
    if script.names.taken("inspect") and script.imports.get("inspect") != "inspect":
        raise Skip("the name inspect stands for something else than the standard module")
    names = [script.names.fresh(n) for n in ("zero_grad", "backward", "optimizer_step")]
    traceable = script.names.fresh("traceable")
    script.facts.on_device.update(names)
    edits = Edits(script.source)
    for call, text in zip(
        (zero_grad, backward, step),
        (f"{names[0]}()", f"{names[1]}({script.source.text(_receiver(backward))})", f"{names[2]}()"),
        strict=True,
    ):
        edits.substitute(call, text)
    flag = script.facts.flags["compile"]
    code = render("traceable", traceable=traceable, flag=flag)
    edits.before(definition, code, gap=1 if definition.col_offset else 2)
    block = next(n for n in script.source.ancestors(compiled) if isinstance(n, ast.If))
    edits.before(block, f"{', '.join(names)} = {traceable}({optimizer})")
    add_imports(script.tree, edits, "import inspect")
    return script.finish(edits)


def _compiled(script: Script, name: str) -> ast.Assign | None:
    """The statement that compiles the function `name`."""
    for node in script.nodes:
        if isinstance(node, ast.Assign) and script.calls(node.value, "torch.compile"):
            if ast.unparse(node.targets[0]) == name:
                return node
    return None


def _receiver(call: ast.Call) -> ast.expr:
    assert isinstance(call.func, ast.Attribute)
    return call.func.value


def _plain_update(script: Script, function: ast.FunctionDef) -> tuple[ast.Call, ast.Call, ast.Call]:
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
            if node.args or node.keywords:
                raise Skip(f"{ast.unparse(node.func)}() on line {node.lineno} takes arguments")
            calls.append(node)
    calls.sort(key=lambda c: (c.lineno, c.col_offset))
    found = tuple(c.func.attr for c in calls if isinstance(c.func, ast.Attribute))
    if found not in (order, (*order[1:], order[0])):
        raise Skip(f"update is not one zero_grad(), backward() and step() in this order, but {', '.join(found)}")
    for call in calls:
        stmt = script.source.parents[call]
        if not isinstance(stmt, ast.Expr) or stmt not in function.body:
            raise Skip(f"line {call.lineno} is not a statement of its own that always runs")
    zero_grad, backward, step = calls if found == order else (calls[2], *calls[:2])
    if ast.unparse(_receiver(zero_grad)) != ast.unparse(_receiver(step)):
        raise Skip(f"line {zero_grad.lineno} clears other gradients than those of {ast.unparse(_receiver(step))}")
    return zero_grad, backward, step


def _check_optimizer(script: Script, name: str, inside: set[int]) -> None:
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
    for node in script.nodes:
        if id(node) in inside or not isinstance(node, ast.Attribute):
            continue
        if node.attr == "backward" or (node.attr == "grad" and script.qualified(node) is None):
            raise Skip(f"line {node.lineno} uses gradients outside of the minibatch too")


TRANSFORM = Transform(INFO, apply)
