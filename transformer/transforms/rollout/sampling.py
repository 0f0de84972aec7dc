"""Let compiled and captured networks draw from their distributions without waiting for the device."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from transformer.dataflow.grad_mode import without_gradients
from transformer.facts.torch_api import DISTRIBUTIONS
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import calls_method, statements, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.syntax.tree import Tree
from transformer.transforms.base import BOTH, NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.extraction import top_level
from transformer.values.device.graph_capture import SAMPLED
from transformer.values.networks.attributes import own_nodes
from transformer.values.networks.draws import in_one_line
from transformer.values.tensors import Tensors

INFO = TransformInfo(
    name="sampling",
    brief="draws without checks on the host",
    summary="draw from normal and categorical distributions without checks that read tensors on the host",
    applies=(
        "to `x.sample()` without arguments in the methods of the file's classes, for a name x, and to "
        "`torch.FloatTensor(x.shape)` there. If x is known to be a Normal or Categorical of a linear layer's output, "
        "the call is replaced by its computation; otherwise by a function that checks, in graphs only, what x is. It "
        "also applies to `torch.normal(0, std)` for a tensor std, if the training loop acts without gradients"
    ),
    safety=(
        "The same random numbers are drawn, in the same order, and turned into actions as torch.normal() and "
        "torch.multinomial() do: the same bits, except for the rounding of a fused product and sum in a graph. The "
        "checks of the distributions' parameters are left out: they read a tensor on the host, which keeps a CUDA "
        "graph from being captured, and takes longer than the draw on a CPU. torch.compile mistakes the shape in "
        "torch.FloatTensor(x.shape) for elements; torch.empty() makes the same uninitialized tensor."
    ),
    costs=(
        "Drawing waits for the device, and no CUDA graph can contain it: call `x.sample()` on a name in a method of "
        "the network."
    ),
    needs=("flags",),
    before="probs = Normal(action_mean, action_std)\nif action is None:\n    action = probs.sample()",
    after=(
        "probs = Normal(action_mean, action_std)\nif action is None:\n"
        "    action = torch.randn_like(probs.loc).mul_(probs.scale).add_(probs.loc).detach()"
    ),
    prepares=True,
)


def apply(state: State) -> Rewrite:
    """Replace `distribution.sample()` in the networks' methods by its computation, or by a function.

    Raises:
        Skip: there is no such call, or a distribution class of the script draws differently.
    """
    tree = state.tree
    classes = [cls for cls in tree.classes.values() if any(_sample_calls(cls))]
    if tree.imports.get("torch") != "torch" and classes:
        raise Skip("torch is not imported by its name")
    for node in tree.of(ast.Attribute):
        if not isinstance(node.ctx, ast.Load) and tree.qualified(node) in ("torch.normal", "torch.multinomial"):
            raise Skip(f"line {node.lineno} sets {tree.text(node)}")
    for cls in tree.classes.values():
        bases = {ast.unparse(base).rpartition(".")[2] for base in cls.bases}
        if bases & SAMPLED and any(isinstance(s, ast.FunctionDef) and s.name == "sample" for s in cls.body):
            raise Skip(f"{cls.name} (line {cls.lineno}) defines its own draw")
    for node in tree.of(ast.Attribute):
        if node.attr == "sample" and not isinstance(node.ctx, ast.Load):
            raise Skip(f"line {node.lineno} sets {tree.text(node)}")
    noise = list(_noise(state.roles))
    if not classes and not noise:
        raise NotNeeded("no call of a network in the training loop is known to draw from a distribution")
    edits, drawn, asked = Edits(state.source), dict[str, None](), list[ast.Call]()
    if noise:
        nested = not isinstance(state.roles.scope, ast.Module)
        anchor = state.roles.outermost if nested else top_level(tree, state.roles.outermost)
        normal = tree.names.fresh("normal")
        edits.before(anchor, render("normal", normal=normal), gap=1 if nested else 2)
        for call in noise:
            edits.substitute(call.func, normal)
    for call, shape in _made_empty(tree, classes):
        # torch.compile mistakes the shape for the elements
        edits.substitute(call, f'torch.empty({tree.text(shape)}, dtype=torch.float32, device="cpu")')
    for cls in classes:
        for call in _sample_calls(cls):
            draw, stmt = in_one_line(tree, call), tree.statement(call)
            if draw is None or state.history.unsteady or getattr(stmt, "value", None) is not call:
                asked.append(call)
                continue
            comment = f"# The draw of {tree.text(call)} without its checks, which wait for the device"
            edits.replace(stmt, f"{comment}\n{tree.splice(stmt, [(call, draw)])}")
            drawn[ast.unparse(ast.parse(draw, mode="eval").body)] = None
    history = replace(state.history, drawn=frozenset(drawn))
    if asked:
        name = tree.names.fresh("sample")
        for call in asked:
            assert isinstance(call.func, ast.Attribute)
            edits.substitute(call, f"{name}({tree.text(call.func.value)})")
        first = min(classes, key=lambda c: c.lineno)
        edits.before(first, render("sample", sample=name, kinds=_named(tree)), gap=1 if first.col_offset else 2)
        history = replace(history, on_device=history.on_device | {name}, sampler=name)
    return Rewrite(edits, history)


def _named(tree: Tree) -> frozenset[str]:
    """The distributions that can be drawn from and that the file names; all if it names none of them."""
    named = (tree.qualified(n) or "" for n in tree.nodes if isinstance(n, (ast.Name, ast.Attribute)))
    return SAMPLED.intersection(q.rpartition(".")[2] for q in named if q.startswith(DISTRIBUTIONS)) or SAMPLED


def _noise(roles: Roles) -> Iterator[ast.Call]:
    """Calls `torch.normal(0, std)` in the training loop for a tensor `std`, where no graph is recorded."""
    tree, tensors = roles.tree, roles.get(Tensors)
    for stmt in statements(roles.outermost.body):
        for node in own_nodes(stmt):
            if not isinstance(node, ast.Call) or not tree.calls(node, "torch.normal") or node.keywords:
                continue
            number = len(node.args) == 2 and isinstance(node.args[0], ast.Constant)
            if number and tensors.tensor(node.args[1]) and without_gradients(tree, stmt):
                yield node


def _sample_calls(cls: ast.ClassDef) -> Iterator[ast.Call]:
    """Calls `x.sample()` in a class's methods, for a plain name x."""
    for node in walk(cls):
        if calls_method(node, "sample"):
            if isinstance(node.func.value, ast.Name) and not node.args and not node.keywords:
                yield node


def _made_empty(tree: Tree, classes: list[ast.ClassDef]) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Calls `torch.FloatTensor(x.shape)`, which make a tensor to be filled with random numbers, and the shape."""
    for node in (n for cls in classes for n in walk(cls)):
        if isinstance(node, ast.Call) and tree.calls(node, "torch.FloatTensor") and len(node.args) == 1:
            shape = node.args[0]
            if isinstance(shape, ast.Attribute) and shape.attr == "shape" and not node.keywords:
                yield node, shape


TRANSFORM = Transform(INFO, apply, BOTH)
