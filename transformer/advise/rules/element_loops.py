"""Python loops over the elements of a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.study import Study
from transformer.syntax.query import method, receiver, walk


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """Loops over a tensor that read the values of its elements."""
    for node in study.tree.of(ast.For):
        heat = study.hot(node.iter)
        if heat is None:
            continue
        for tensor, target in _elements(node):
            if study.tensor(tensor) and not _is_split(tensor) and target is not None and _is_read(node, target):
                text = study.text(tensor)
                yield (
                    node.iter,
                    f"the loop reads {text} element by element, waiting for each, {heat.where}",
                    "transfers",
                )


def _elements(loop: ast.For) -> Iterator[tuple[ast.expr, str | None]]:
    """The sequences that a loop iterates over, each with the name of its elements."""
    called = loop.iter.func.id if isinstance(loop.iter, ast.Call) and isinstance(loop.iter.func, ast.Name) else None
    if called not in ("enumerate", "zip"):
        yield loop.iter, _element_name(loop.target)
        return
    assert isinstance(loop.iter, ast.Call)
    targets = loop.target.elts if isinstance(loop.target, ast.Tuple) else []
    for target, iterated in zip(targets[called == "enumerate" :], loop.iter.args, strict=False):
        yield iterated, _element_name(target)


def _element_name(target: ast.expr) -> str | None:
    return target.id if isinstance(target, ast.Name) else None


def _is_split(node: ast.expr) -> bool:
    return method(node) in ("split", "chunk", "unbind")


def _is_read(loop: ast.For, name: str) -> bool:
    """Whether the loop reads the value of a name on the host."""
    for node in walk(loop):
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            if any(isinstance(n, ast.Name) and n.id == name for n in walk(node.test)):
                return True
        if method(node) in ("item", "tolist") and isinstance(node, ast.Call):
            if any(isinstance(n, ast.Name) and n.id == name for n in walk(receiver(node))):
                return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("float", "int", "bool"):
            if any(isinstance(a, ast.Name) and a.id == name for a in node.args):
                return True
    return False


RULE = Rule(
    code="LA005",
    title="a tensor is read element by element",
    reason="Each element is a separate tensor, and each read waits for the device: as many waits as elements.",
    instead="Read all elements at once: `for d in x.tolist():`.",
    weight="costly",
    find=find,
    bad=(
        Example("step", "x = torch.Tensor(done).to(device)\nfor i, d in enumerate(x):\n    if d:\n        ends += 1"),
        Example("step", "for a in agent.act(next_obs):\n    log(a.item())"),
        Example("step", "for r, a in zip(reward, agent.act(next_obs)):\n    log(float(a))"),
    ),
    good=(
        Example(
            "step",
            "x = torch.Tensor(done).to(device)\nfor i, d in enumerate(x.tolist()):\n    if d:\n        ends += 1",
        ),
        Example("step", "for d in done:\n    if d:\n        ends += 1"),
        Example("minibatch", "for part in loss.split(4):\n    total = total + part"),
        Example("minibatch", "for row in agent.act(obs):\n    rows.append(row)"),
    ),
)
