"""Move the environment's arrays to the device without blocking, and without a synchronization per element."""

from __future__ import annotations

import ast

from transformer.facts.torch_api import SINGLE
from transformer.recognition.buffers import sets_default
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import statements, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.tree import Tree
from transformer.transforms.base import BOTH, NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.values.arrays import KnownArrays
from transformer.values.effects.world import World
from transformer.values.tensors import Tensors

INFO = TransformInfo(
    name="transfers",
    brief="observations are copied without blocking",
    summary="copy the environment's arrays to the device without blocking, in their own dtype",
    applies=(
        "to tensors that the rollout makes and moves to the device, from what is known to be an array or a list and "
        "cannot be a size"
    ),
    safety=(
        "torch.as_tensor(x).to(device, torch.float32) holds the same float32 values as torch.Tensor(x).to(device): "
        "both round once, to nearest. On a CPU, both share the memory of a float32 array, and copy any other array. On "
        "a GPU, pageable memory is staged before the call returns, so the environment may reuse its arrays. A loop "
        "over a tensor's elements reads them all at once instead of with one synchronization each."
    ),
    costs="Each step waits for its copies: make tensors by `torch.Tensor(x).to(device)` from the environment's arrays.",
    needs=(),
    before="next_obs = torch.Tensor(next_obs).to(device)\nfor idx, d in enumerate(next_done):\n    if d: ...",
    after=(
        "next_obs = torch.as_tensor(next_obs).to(device, torch.float32, non_blocking=True)\n"
        "for idx, d in enumerate(next_done.tolist()):\n    if d: ..."
    ),
)


def apply(state: State) -> Rewrite:
    """Rewrite the transfers of the rollout loop.

    Raises:
        Skip: none of them blocks.
    """
    tree, roles = state.tree, state.roles
    device = roles.device
    if roles.kind == "on-policy" and roles.rollout is None and not state.history.in_turns:
        raise Skip("the rollout loop is gone")
    p = roles.phases
    acting = roles.rollout.body if roles.rollout is not None else p.acting
    edits, tensors, known, left = Edits(state.source), roles.get(Tensors), roles.get(KnownArrays), False
    for stmt in statements(acting):
        changes = [
            c for n in _own_nodes(stmt) if device and (c := _transfer(tree, tensors, known, n, device)) is not None
        ]
        if changes:
            edits.replace(stmt, tree.splice(stmt, changes))
        if isinstance(stmt, ast.For):
            left |= not _edit_loop(roles, edits, tensors, stmt)
    if not edits:
        raise (Skip if left else NotNeeded)(
            "the rollout moves nothing to the device that is known to be an array of the environment's"
        )
    return Rewrite(edits)


def _own_nodes(stmt: ast.stmt) -> list[ast.AST]:
    if isinstance(stmt, (ast.Assign, ast.Expr, ast.AugAssign, ast.AnnAssign)):
        return list(walk(stmt))
    return []


def _transfer(
    tree: Tree, tensors: Tensors, known: KnownArrays, call: ast.AST, device: str
) -> tuple[ast.expr, str] | None:
    """`torch.Tensor(x).to(device)` and `torch.tensor(x).to(device)`, for an `x` that is neither a tensor nor a size."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    if call.func.attr != "to" or call.keywords or len(call.args) != 1 or ast.unparse(call.args[0]) != device:
        return None
    made = call.func.value
    if not isinstance(made, ast.Call) or len(made.args) != 1 or made.keywords:
        return None
    array = made.args[0]
    if tensors.tensor(array):
        return None
    if tree.calls(made, *SINGLE):
        if not isinstance(array, (ast.List, ast.ListComp, ast.Tuple)) and known.kind(array) is None:
            return None  # an argument of torch.Tensor() may be a size
        module = ast.unparse(made.func).rpartition(".")[0]
        dtype = f"{module}.get_default_dtype()" if sets_default(tree) else f"{module}.float32"
        text = f"{module}.as_tensor({tree.text(array)}).to({device}, {dtype}, non_blocking=True)"
        return call, text
    if tree.calls(made, "torch.tensor", "torch.as_tensor", "torch.from_numpy"):
        return call, f"{tree.text(made)}.to({device}, non_blocking=True)"
    return None


def _edit_loop(roles: Roles, edits: Edits, tensors: Tensors, loop: ast.For) -> bool:
    """Edit `for i, d in enumerate(next_done)` over a tensor, if `d` is only tested for truth; False otherwise."""
    call, target = loop.iter, loop.target
    if not isinstance(call, ast.Call) or ast.unparse(call.func) != "enumerate" or len(call.args) != 1:
        return True
    if not isinstance(target, ast.Tuple) or len(target.elts) != 2 or not isinstance(target.elts[1], ast.Name):
        return True
    array = call.args[0]
    if not isinstance(array, ast.Name) or not tensors.tensor_before(array.id, loop):
        return True
    world = roles.get(World)
    if world.changes(world.of(array), loop.body) is not None:
        return False  # a turn may change an element that a later turn tests
    if not roles.only_tested(target.elts[1].id):
        return False
    edits.substitute(array, f"{array.id}.tolist()")
    return True


TRANSFORM = Transform(INFO, apply, BOTH)
