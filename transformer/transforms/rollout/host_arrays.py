"""Keep rewards and dones on the host during the rollout, and move each of them to the device once."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from transformer.dataflow.access import access
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import statements, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render, tuple_of
from transformer.transforms.base import NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.values.device.on_host import OnHost, find_chain, flattens, names_entry, recorded, unwrapped
from transformer.values.tensors import Tensors, values

INFO = TransformInfo(
    name="host-arrays",
    summary="keep rewards and dones on the host during the rollout, and move each of them to the device once",
    applies=(
        "to values recorded in float32 that are known to be computed by numpy or returned by an environment's step, "
        "and that nothing but numpy, the record, and a condition reads as a tensor before the rollout has ended"
    ),
    safety=(
        "No network sees these values before the rollout has ended. Each array is copied when it is recorded, and "
        "rounded once to the dtype of the storage, as before. After the rollout the last dones are a tensor again, "
        "made as in every step before."
    ),
    needs=("storage",),
    before=(
        'transition["dones"] = next_done\n...\ntransition["rewards"] = torch.tensor(reward).to(device).view(-1)\n'
        "next_done = torch.Tensor(done).to(device)"
    ),
    after=(
        'transition["dones"] = next_done\n...\ntransition["rewards"] = np.array(reward).ravel()\n'
        "next_done = np.array(done)\n...\nnext_done = torch.Tensor(next_done).to(device)"
    ),
)


@dataclass(frozen=True)
class Carried:
    """A tensor that the rollout makes of an array in every step and only records."""

    name: str
    made: ast.expr
    """The value that is assigned to it."""
    base: ast.expr
    """The array in that value."""
    flat: bool
    """Whether it is given one dimension where it is recorded."""


def apply(state: State) -> Rewrite:
    """Rewrite what is recorded, and the statement that stacks it.

    Raises:
        Skip: nothing that is recorded is known to be an array of the environment's.
    """
    tree, roles = state.tree, state.roles
    facts, rollout, tensors = state.history, roles.rollout, Tensors(roles)
    if facts.tensor_env:
        raise NotNeeded("the environment returns tensors")
    if not isinstance(rollout, ast.For):
        raise Skip("the rollout is not a for loop")
    numpy = next((name for name, module in tree.imports.items() if module == "numpy"), None)
    stacked = _stacked(roles, rollout)
    if numpy is None or stacked is None:
        raise Skip("numpy is not imported" if numpy is None else "the storage has more than one dtype")
    edits, arrays = Edits(state.source), []
    for stmt, key, value in recorded(roles, rollout):
        if sum(names_entry(roles, n, key) for n in walk(rollout)) != 1:
            continue
        chain = find_chain(roles, value)
        if chain is not None and OnHost(roles, tensors, rollout).is_host(chain.base, stmt):
            made = f"{numpy}.array({tree.text(chain.base)}){'.ravel()' if chain.flat else ''}"
        elif (carried := _carried(roles, tensors, rollout, value, stmt)) is not None:
            made = carried.name + (".ravel()" if carried.flat else "")
            edits.before(rollout, f"{carried.name} = {carried.name}.cpu().numpy().copy()")
            edits.substitute(carried.made, f"{numpy}.array({tree.text(carried.base)})")
            again = tree.splice(carried.made, [(carried.base, carried.name)])
            edits.after(rollout, f"{carried.name} = {again}")
        else:
            continue
        edits.substitute(value, made)
        arrays.append(key)
    if not arrays:
        moved = any(find_chain(roles, value) is not None for _, _, value in recorded(roles, rollout))
        none = "nothing that the rollout records is known to be an array that no network sees"
        raise (Skip if moved else NotNeeded)(none)
    call = stacked.value
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call)
    size = next(k.value for k in call.func.value.keywords if k.arg == "batch_size")
    others = [k for k in facts.storage_dtypes if k not in arrays]
    edits.replace(
        stacked,
        render(
            "host_arrays",
            storage=facts.storage,
            transitions=facts.transitions,
            tensors=tuple_of(others),
            arrays=tuple_of(arrays),
            numpy=numpy,
            batch_size=tree.text(size),
            target=", ".join(tree.text(a) for a in call.args),
        ),
    )
    return Rewrite(edits)


def _stacked(roles: Roles, rollout: ast.For) -> ast.Assign | None:
    """The statement below the rollout that stacks what was recorded, if it casts all to one dtype."""
    block = roles.tree.block(rollout)
    for stmt in block[block.index(rollout) + 1 :]:
        if isinstance(stmt, ast.Assign) and [ast.unparse(t) for t in stmt.targets] == [roles.history.storage]:
            call = stmt.value
            moved = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "to"
            return stmt if moved and set(roles.history.storage_dtypes.values()) == {"torch.float32"} else None
    return None


def _carried(roles: Roles, tensors: Tensors, rollout: ast.For, value: ast.expr, stmt: ast.Assign) -> Carried | None:
    """The tensor that a step records as it was left by the step before, where nothing else reads it."""
    tree = roles.tree
    recorded_tensor = unwrapped(roles, value)
    if recorded_tensor is None:
        return None
    value, calls = recorded_tensor
    if not isinstance(value, ast.Name) or not tensors.tensor_before(value.id, rollout):
        return None
    name, on_host = value.id, OnHost(roles, tensors, rollout)
    found: list[Carried] = []
    for bound in statements(rollout.body):
        if name not in access(bound).binds:
            continue
        if not isinstance(bound, ast.Assign):
            return None
        for made in values(bound, name):
            chain = find_chain(roles, made)
            if chain is not None and bound in rollout.body and on_host.is_host(chain.base, bound):
                found.append(Carried(name, made, chain.base, flattens(calls)))
            elif not on_host.binds(name, bound):
                return None
    if len(found) != 1:
        return None
    inside = {id(n) for n in walk(found[0].base)} | {id(value)}
    for node in tree.nodes:
        if not isinstance(node, ast.Name) or node.id != name or id(node) in inside or isinstance(node.ctx, ast.Store):
            continue
        if tree.scope_of(node) is not roles.scope and roles.is_ours(node):
            return None  # a function may read it during the rollout
        if rollout not in tree.loops_around(node):
            continue
        if not on_host.is_array(node, tree.statement(node)) and not _is_tested(roles, node):
            return None
    return found[0]


def _is_tested(roles: Roles, node: ast.Name) -> bool:
    """Whether a tensor is only read as `for i, d in enumerate(dones.tolist())`, and `d` only for its truth."""
    method = roles.tree.parents[node]
    if not isinstance(method, ast.Attribute) or method.attr != "tolist":
        return False
    loop = next(n for n in roles.tree.ancestors(node) if isinstance(n, ast.stmt))
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Tuple) or len(loop.target.elts) != 2:
        return False
    counted = isinstance(loop.iter, ast.Call) and ast.unparse(loop.iter) == f"enumerate({node.id}.tolist())"
    element = loop.target.elts[1]
    return counted and isinstance(element, ast.Name) and roles.only_tested(element.id)


TRANSFORM = Transform(INFO, apply)
