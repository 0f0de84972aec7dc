"""Minibatches that are indexed with numpy arrays."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.study import Study
from transformer.facts.libraries import library_does
from transformer.facts.torch_api import draws, functions
from transformer.values.tensors import values

DRAWN = draws(makes=("order", "choice", "integers"), of="numpy random")


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """Tensors indexed with a numpy array; one finding for each array."""
    seen: set[tuple[str, int]] = set()
    for node in study.tree.of(ast.Subscript):
        if not isinstance(node.slice, ast.Name) or not study.tensor(node.value):
            continue
        heat = study.hot(node)
        if heat is None or not _is_array(study, node.slice):
            continue
        (*_, binding) = study.bindings(node.slice)
        if (node.slice.id, binding.lineno) not in seen:
            seen.add((node.slice.id, binding.lineno))
            text = f"{study.text(node)} copies the array {node.slice.id} to the device for each tensor that it indexes"
            yield node, f"{text}, {heat.where}", "shuffle" if heat.role == "update" else None


def _is_array(study: Study, name: ast.expr, depth: int = 4) -> bool:
    """Whether a name is an array of indices, or a part of one."""
    while isinstance(name, ast.Subscript) or (isinstance(name, ast.Call) and isinstance(name.func, ast.Attribute)):
        if isinstance(name, ast.Call):
            module, _, last = study.qualified(name.func).rpartition(".")
            if (library_does(module) == "draws" and last in DRAWN) or f"{module}.{last}" in functions(
                "numpy", dtype="given"
            ):
                return True
            assert isinstance(name.func, ast.Attribute)
            name = name.func.value
        else:
            name = name.value
    if not isinstance(name, ast.Name) or not depth:
        return False
    found = study.bindings(name)
    made = [list(values(b, name.id)) for b in found]
    return bool(found) and all(m and all(_is_array(study, v, depth - 1) for v in m) for m in made)


RULE = Rule(
    code="LA203",
    title="tensors are indexed with numpy arrays",
    reason=(
        "An array that indexes a tensor on the device is copied there each time, and each copy waits: about seven per "
        "minibatch in a PPO update. Shuffling on the host takes additional time."
    ),
    instead=(
        "Draw the indices on the device: `torch.randperm(n, device=device).split(minibatch_size)`. The same seed then "
        "gives other minibatches."
    ),
    weight="costly",
    find=find,
    bad=(
        Example(
            "minibatch",
            "inds = np.arange(512)\nnp.random.shuffle(inds)\nmb = inds[start : start + 128]\nx = obs[mb]",
        ),
        Example("minibatch", "mb = np.random.permutation(512)[:128]\nx = obs[mb]"),
    ),
    good=(
        Example("minibatch", "inds = torch.randperm(512, device=device)\nmb = inds[start : start + 128]\nx = obs[mb]"),
        Example("minibatch", "inds = np.arange(512)\nx = frames[inds]"),
        Example("minibatch", "x = obs[start]"),
        Example("iteration", "inds = np.arange(512)\nx = obs[inds]"),
    ),
)
