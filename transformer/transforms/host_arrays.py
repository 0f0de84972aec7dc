"""Keep rewards and dones on the host during the rollout, and move each of them to the device once."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from transformer.conversion import TransformInfo
from transformer.dataflow import access, statements
from transformer.edits import Edits
from transformer.hosts import Hosts, find_chain, flattens, names_entry, recorded, unwrapped
from transformer.kinds import Kinds, values
from transformer.rendering import render, tuple_of
from transformer.script import Script
from transformer.transforms.base import Skip, Transform

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


def apply(script: Script) -> str:
    """Rewrite what is recorded, and the statement that stacks it.

    Raises:
        Skip: nothing that is recorded is known to be an array of the environment's.
    """
    facts, rollout, kinds = script.facts, script.rollout, Kinds(script)
    if not isinstance(rollout, ast.For) or facts.tensor_env:
        raise Skip("the environment returns tensors" if facts.tensor_env else "the rollout is not a for loop")
    numpy = next((name for name, module in script.imports.items() if module == "numpy"), None)
    stacked = _stacked(script, rollout)
    if numpy is None or stacked is None:
        raise Skip("numpy is not imported" if numpy is None else "the storage has more than one dtype")
    edits, arrays = Edits(script.source), []
    for stmt, key, value in recorded(script, rollout):
        if sum(names_entry(script, n, key) for n in ast.walk(rollout)) != 1:
            continue
        chain = find_chain(script, value)
        if chain is not None and Hosts(script, kinds, rollout).is_host(chain.base, stmt):
            made = f"{numpy}.array({script.source.text(chain.base)}){'.ravel()' if chain.flat else ''}"
        elif (carried := _carried(script, kinds, rollout, value, stmt)) is not None:
            made = carried.name + (".ravel()" if carried.flat else "")
            edits.before(rollout, f"{carried.name} = {carried.name}.cpu().numpy().copy()")
            edits.substitute(carried.made, f"{numpy}.array({script.source.text(carried.base)})")
            again = script.source.splice(carried.made, [(carried.base, carried.name)])
            edits.after(rollout, f"{carried.name} = {again}")
        else:
            continue
        edits.substitute(value, made)
        arrays.append(key)
    if not arrays:
        raise Skip("nothing that the rollout records is known to be an array that no network sees")
    call = stacked.value
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call)
    size = next(k.value for k in call.func.value.keywords if k.arg == "batch_size")
    tensors = [k for k in facts.storage_dtypes if k not in arrays]
    edits.replace(
        stacked,
        render(
            "host_arrays",
            storage=facts.storage,
            transitions=facts.transitions,
            tensors=tuple_of(tensors),
            arrays=tuple_of(arrays),
            numpy=numpy,
            batch_size=script.source.text(size),
            target=", ".join(script.source.text(a) for a in call.args),
        ),
    )
    return script.finish(edits)


def _stacked(script: Script, rollout: ast.For) -> ast.Assign | None:
    """The statement below the rollout that stacks what was recorded, if it casts all to one dtype."""
    block = script.source.block(rollout)
    for stmt in block[block.index(rollout) + 1 :]:
        if isinstance(stmt, ast.Assign) and [ast.unparse(t) for t in stmt.targets] == [script.facts.storage]:
            call = stmt.value
            moved = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "to"
            return stmt if moved and set(script.facts.storage_dtypes.values()) == {"torch.float32"} else None
    return None


def _carried(script: Script, kinds: Kinds, rollout: ast.For, value: ast.expr, stmt: ast.Assign) -> Carried | None:
    """The tensor that a step records as it was left by the step before, where nothing else reads it."""
    recorded_tensor = unwrapped(script, value)
    if recorded_tensor is None:
        return None
    value, calls = recorded_tensor
    if not isinstance(value, ast.Name) or not kinds.tensor_before(value.id, rollout):
        return None
    name, hosts = value.id, Hosts(script, kinds, rollout)
    found: list[Carried] = []
    for bound in statements(rollout.body):
        if name not in access(bound).binds:
            continue
        if not isinstance(bound, ast.Assign):
            return None
        for made in values(bound, name):
            chain = find_chain(script, made)
            if chain is not None and bound in rollout.body and hosts.is_host(chain.base, bound):
                found.append(Carried(name, made, chain.base, flattens(calls)))
            elif not hosts.binds(name, bound):
                return None
    if len(found) != 1:
        return None
    inside = {id(n) for n in ast.walk(found[0].base)} | {id(value)}
    for node in script.nodes:
        if not isinstance(node, ast.Name) or node.id != name or id(node) in inside or isinstance(node.ctx, ast.Store):
            continue
        if script.scope_of(node) is not script.scope and script.is_ours(node):
            return None  # a function may read it during the rollout
        if rollout not in script.loops_around(node):
            continue
        if not hosts.is_array(node, script.source.statement(node)) and not _is_tested(script, node):
            return None
    return found[0]


def _is_tested(script: Script, node: ast.Name) -> bool:
    """Whether a tensor is only read as `for i, d in enumerate(dones.tolist())`, and `d` only for its truth."""
    method = script.source.parents[node]
    if not isinstance(method, ast.Attribute) or method.attr != "tolist":
        return False
    loop = next(n for n in script.source.ancestors(node) if isinstance(n, ast.stmt))
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Tuple) or len(loop.target.elts) != 2:
        return False
    counted = isinstance(loop.iter, ast.Call) and ast.unparse(loop.iter) == f"enumerate({node.id}.tolist())"
    element = loop.target.elts[1]
    return counted and isinstance(element, ast.Name) and script.only_tested(element.id)


TRANSFORM = Transform(INFO, apply)
