"""Keep rewards and dones on the host during the rollout, and move each of them to the device once."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from transformer.dataflow.access import access
from transformer.dataflow.closures import runs_elsewhere
from transformer.facts.torch_api import functions
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import calls_method, is_read, pairwise, statements, walk
from transformer.syntax.rewrite import Edits
from transformer.transforms.base import NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.values.device.on_host import OnHost, find_chain, flattens, names_entry, recorded, unwrapped
from transformer.values.effects.world import World
from transformer.values.tensors import Tensors, values

INFO = TransformInfo(
    name="host-arrays",
    brief="rewards and dones stay on the host",
    summary="keep rewards and dones on the host during the rollout, and move each of them to the device once",
    applies=(
        "to recorded values that are known to be computed by numpy or returned by an environment's step, if only "
        "numpy, the record, and conditions read them as tensors before the rollout ends"
    ),
    safety=(
        "No network sees these values before the rollout has ended. Each array is copied when it is recorded, and "
        "rounded once to the dtype of the storage, as before. After the rollout the last dones are a tensor again, "
        "made as every step made it before."
    ),
    costs="Rewards and dones are copied to the device in each step: compute them with numpy, and only record them.",
    needs=("storage",),
    before=(
        'transition["dones"] = next_done\n...\ntransition["rewards"] = torch.tensor(reward).to(device).view(-1)\n'
        "next_done = torch.Tensor(done).to(device)"
    ),
    after=(
        'transition["dones"] = torch.as_tensor(next_done)\n...\n'
        'transition["rewards"] = torch.as_tensor(np.array(reward).ravel())\n'
        "next_done = np.array(done)\n...\nnext_done = torch.Tensor(next_done).to(device)"
    ),
)


MADE_OF_TWO = functions("numpy", rows="broadcast", memory="new")
"""Functions that make a new array from two; a third argument would be an output."""


@dataclass(frozen=True)
class Carried:
    """A tensor that the rollout makes from an array in every step and only records."""

    name: str
    made: ast.expr
    """The value that is assigned to the name."""
    base: ast.expr
    """The array from which the value is made."""
    flat: bool
    """Whether the tensor is flattened to one dimension when it is recorded."""


def apply(state: State) -> Rewrite:
    """Rewrite the records; the storage casts and moves them.

    Raises:
        Skip: no recorded value is known to be an array of the environment.
    """
    tree, roles = state.tree, state.roles
    facts, rollout, tensors = state.history, roles.rollout, roles.get(Tensors)
    if facts.tensor_env:
        raise NotNeeded("the environment returns tensors")
    if not isinstance(rollout, ast.For):
        raise Skip("the rollout is not a for loop")
    numpy = next((name for name, module in tree.imports.items() if module == "numpy"), None)
    if numpy is None:
        raise Skip("numpy is not imported")
    if not _is_moved(roles, rollout):
        raise Skip("the storage is not moved to the device below the rollout")
    dtypes = facts.storage_dtypes
    mixed = len(set(dtypes.values())) > 1  # otherwise all are cast to one dtype when they are moved
    edits = Edits(state.source)
    for stmt, key, value in recorded(roles, rollout):
        if sum(names_entry(roles, n, key) for n in walk(rollout)) != 1:
            continue
        chain = find_chain(roles, value)
        if chain is not None and OnHost(roles, tensors, rollout).is_host(chain.base, stmt):
            made, flat = f"{numpy}.array({tree.text(chain.base)})", chain.flat
        elif (carried := _carried(roles, tensors, rollout, value)) is not None:
            made, flat = carried.name, carried.flat
            own = "" if _stays(roles, carried.name, rollout) else ".copy()"
            edits.before(rollout, f"{carried.name} = {carried.name}.cpu().numpy(){own}")
            _keep_array(roles, tensors, edits, carried, rollout, numpy)
            again = tree.splice(carried.made, [(carried.base, carried.name)])
            edits.after(rollout, f"{carried.name} = {again}")
        else:
            continue
        cast = f", dtype={dtypes[key]}" if mixed else ""
        edits.substitute(value, f"torch.as_tensor({made}{'.ravel()' if flat else ''}{cast})")
    if not edits:
        moved = any(find_chain(roles, value) is not None for _, _, value in recorded(roles, rollout))
        none = "no recorded value is known to be an array that no network sees"
        raise (Skip if moved else NotNeeded)(none)
    return Rewrite(edits)


def _stays(roles: Roles, name: str, rollout: ast.For) -> bool:
    """Whether nothing in the rollout changes the tensor that a name holds before it."""
    inside, world = set(walk(rollout)), roles.get(World)
    before = [value for stmt, value in roles.assignments(name) if stmt not in inside]
    things = frozenset(thing for value in before for thing in world.of(value))
    return world.are_tensors(things) and world.changes(things, rollout.body) is None


def _keep_array(roles: Roles, tensors: Tensors, edits: Edits, carried: Carried, rollout: ast.For, numpy: str) -> None:
    """Keep an array instead of the tensor made from it: as a copy, unless numpy has made the array only for this."""
    tree, base = roles.tree, carried.base
    stmt = tree.statement(carried.made)
    rest = [(t, v) for t, v in pairwise(stmt) if v is not carried.made] if isinstance(stmt, ast.Assign) else []
    new = isinstance(base, ast.Name) and _is_new(roles, tensors, base, stmt, rollout)
    if new and rest and ast.unparse(base) == carried.name and len({ast.unparse(t) for t, _ in rest}) == len(rest):
        targets, values_left = ([tree.text(part) for part in parts] for parts in zip(*rest, strict=True))
        edits.replace(stmt, f"{', '.join(targets)} = {', '.join(values_left)}")
    else:
        edits.substitute(carried.made, f"{numpy}.array({tree.text(base)})")


def _is_new(roles: Roles, tensors: Tensors, read: ast.Name, stmt: ast.stmt, rollout: ast.For) -> bool:
    """Whether a read gets a new array, made by numpy, that nothing else in a step reads."""
    bound = list(tensors.bindings(read.id, stmt))
    made = bound[0].value if len(bound) == 1 and isinstance(bound[0], ast.Assign) else None
    if not isinstance(made, ast.Call) or not roles.tree.calls(made, *MADE_OF_TWO):
        return False
    if len(made.args) != 2 or made.keywords or not isinstance(roles.tree.parents[made], ast.Assign):
        return False
    loads = [n for n in walk(rollout) if isinstance(n, ast.Name) and n.id == read.id and is_read(n) and n is not read]
    alone = isinstance(bound[0], ast.Assign) and len(bound[0].targets) == 1
    return alone and not any(bound[0] in tensors.bindings(n.id, roles.tree.statement(n)) for n in loads)


def _is_moved(roles: Roles, rollout: ast.For) -> bool:
    """Whether the storage below the rollout is moved to the device."""
    block = roles.tree.block(rollout)
    for stmt in block[block.index(rollout) + 1 :]:
        if isinstance(stmt, ast.Assign) and [ast.unparse(t) for t in stmt.targets] == [roles.history.storage]:
            return calls_method(stmt.value, "to")
    return False


def _carried(roles: Roles, tensors: Tensors, rollout: ast.For, value: ast.expr) -> Carried | None:
    """The tensor that a step records as the previous step left it, if nothing else reads it."""
    tree = roles.tree
    recorded_tensor = unwrapped(roles, value)
    if recorded_tensor is None:
        return None
    value, calls = recorded_tensor
    if not isinstance(value, ast.Name) or not tensors.tensor_before(value.id, rollout):
        return None
    if value.id in roles.liveness.raised[rollout]:  # read, as a tensor, after an exception
        return None
    name, on_host = value.id, OnHost(roles, tensors, rollout)
    world = roles.get(World)
    # If the value is recorded above the environment's step, it is no longer needed when that writes into its memory
    stepping = [s for s in rollout.body if any(n in roles.env_steps for n in walk(s))]
    besides = stepping if stepping and tree.statement(value).lineno < stepping[0].lineno else []
    found: list[Carried] = []
    for bound in statements(rollout.body):
        if name not in access(bound).binds:
            continue
        if not isinstance(bound, ast.Assign):
            return None
        for made in values(bound, name):
            chain = find_chain(roles, made)
            if chain is not None and _shares(roles, made):
                if world.changes(world.of(chain.base), rollout.body, besides, environments=True) is not None:
                    return None
            if chain is not None and bound in rollout.body and on_host.is_host(chain.base, bound):
                found.append(Carried(name, made, chain.base, flattens(calls)))
            elif not on_host.binds(name, bound):
                return None
    if len(found) != 1:
        return None
    inside = set(walk(found[0].base)) | {value}
    for node in tree.of(ast.Name):
        if node.id != name or node in inside or isinstance(node.ctx, ast.Store):
            continue
        if runs_elsewhere(tree, node, roles.scope) and roles.is_ours(node):
            return None  # a function may read it during the rollout
        if rollout not in tree.ancestors(node):
            continue
        if not on_host.is_array(node, tree.statement(node)) and not _is_tested(roles, node):
            return None
    return found[0]


def _shares(roles: Roles, made: ast.expr) -> bool:
    """Whether a tensor made from an array may share its memory."""
    chain = unwrapped(roles, made)
    return chain is not None and not roles.tree.calls(chain[0], "torch.tensor")


def _is_tested(roles: Roles, node: ast.Name) -> bool:
    """Whether a read of a tensor is `for i, d in enumerate(dones.tolist())`, and `d` is only tested for truth."""
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
