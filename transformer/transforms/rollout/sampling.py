"""Let compiled and captured networks draw from their distributions without waiting for the host."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from transformer.state import State
from transformer.syntax.query import walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.syntax.tree import Tree
from transformer.transforms.base import NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.values.device.graph_capture import SAMPLED

INFO = TransformInfo(
    name="sampling",
    summary="draw from normal and categorical distributions without their checks, in compiled or captured graphs",
    applies=(
        "to `x.sample()` without arguments in the methods of the file's classes, for a name x, and to "
        "`torch.FloatTensor(x.shape)` there; x may be anything: what is no plain normal or categorical distribution "
        "draws itself, in a graph too"
    ),
    safety=(
        "Without flags it is distribution.sample() that is called. In a graph the same random numbers are drawn, and "
        "an action made of them as torch.normal() and torch.multinomial() make it, but for the rounding of a fused "
        "product and sum. Their checks of the parameters, left out there, read a tensor on the host: a CUDA graph "
        "cannot be captured with that, and on a CPU it takes longer than the draw. torch.FloatTensor(x.shape), whose "
        "shape torch.compile takes for elements, becomes the same uninitialized tensor by torch.empty()."
    ),
    needs=("flags",),
    before="probs = Normal(action_mean, action_std)\nif action is None:\n    action = probs.sample()",
    after="probs = Normal(action_mean, action_std)\nif action is None:\n    action = sample(probs)",
)


def apply(state: State) -> Rewrite:
    """Put a function in the place of `distribution.sample()` in the networks' methods.

    Raises:
        Skip: there is no such call, or a distribution of the script's own draws in its own way.
    """
    tree = state.tree
    classes = [cls for cls in tree.classes.values() if any(_draws(cls))]
    if tree.imports.get("torch") != "torch" and classes:
        raise Skip("torch is not imported by its name")
    for cls in tree.classes.values():
        bases = {ast.unparse(base).rpartition(".")[2] for base in cls.bases}
        if bases & SAMPLED and any(isinstance(s, ast.FunctionDef) and s.name == "sample" for s in cls.body):
            raise Skip(f"{cls.name} (line {cls.lineno}) draws in its own way")
    if not classes:
        raise NotNeeded("no network draws from a distribution")
    edits, name = Edits(state.source), tree.names.fresh("sample")
    for call, shape in _made_empty(tree, classes):
        # torch.compile takes the shape for the elements
        edits.substitute(call, f'torch.empty({tree.text(shape)}, dtype=torch.float32, device="cpu")')
    for cls in classes:
        for call in _draws(cls):
            assert isinstance(call.func, ast.Attribute)
            edits.substitute(call, f"{name}({tree.text(call.func.value)})")
    first = min(classes, key=lambda c: c.lineno)
    edits.before(first, render("sample", sample=name), gap=1 if first.col_offset else 2)
    return Rewrite(edits, replace(state.history, on_device=state.history.on_device | {name}, sampler=name))


def _draws(cls: ast.ClassDef) -> Iterator[ast.Call]:
    """Calls `x.sample()` of a class's methods, for a plain name x."""
    for node in walk(cls):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "sample":
            if isinstance(node.func.value, ast.Name) and not node.args and not node.keywords:
                yield node


def _made_empty(tree: Tree, classes: list[ast.ClassDef]) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Calls `torch.FloatTensor(x.shape)`, which make a tensor to be filled with random numbers, and the shape."""
    for node in (n for cls in classes for n in walk(cls)):
        if isinstance(node, ast.Call) and tree.calls(node, "torch.FloatTensor") and len(node.args) == 1:
            shape = node.args[0]
            if isinstance(shape, ast.Attribute) and shape.attr == "shape" and not node.keywords:
                yield node, shape


TRANSFORM = Transform(INFO, apply)
