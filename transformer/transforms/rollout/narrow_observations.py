"""Keep images in bytes, as the environment returns them, if the networks divide them first."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from transformer.dataflow.access import access
from transformer.dataflow.closures import runs_elsewhere
from transformer.recognition.buffers import sets_default
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import calls_method, statements, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render, tuple_of
from transformer.transforms.base import NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.values.device.on_host import OnHost, find_chain, recorded
from transformer.values.networks.images import divided_first
from transformer.values.tensors import Tensors, values

INFO = TransformInfo(
    name="narrow-observations",
    brief="images stay in bytes until they are divided",
    summary="keep images as bytes, as the environment returns them, if the networks divide them first",
    applies=(
        "to observations that come only from the environment's arrays and are read by nothing but networks, each of "
        "which divides them by a number before anything else, if the script sets no default dtype"
    ),
    safety=(
        "Every network that sees them divides them by a number before anything else, which casts bytes to float32, so "
        "the quotients are those of the same numbers in float32. Whether they are bytes is checked when the script "
        "runs; anything else is cast to float32 as before. A copy is made, so the environment may reuse its arrays."
    ),
    costs="Images are stored in float32, at four times the size: let the network begin by dividing them by a number.",
    needs=("storage", "host-arrays"),
    before='next_obs = torch.Tensor(next_obs).to(device)\ntransition["obs"] = next_obs.clone()',
    after=(
        "next_obs = torch.as_tensor(next_obs).to(device, non_blocking=True, copy=True)\n"
        "if next_obs.dtype != torch.uint8:\n    next_obs = next_obs.to(torch.float32)\n"
        'transition["obs"] = next_obs.clone()'
    ),
)


def apply(state: State) -> Rewrite:
    """Remove the cast of the observations, in the rollout and in the storage.

    Raises:
        Skip: they may be used for more than being recorded and passed to networks that divide them first.
    """
    roles = state.roles
    facts, rollout, tensors = state.history, roles.rollout, roles.get(Tensors)
    assert isinstance(rollout, ast.For), "otherwise there are no host arrays"
    if sets_default(state.tree):
        raise Skip("the script sets a default dtype")
    edits, reasons, dtypes = Edits(state.source), list[str](), dict(facts.storage_dtypes)
    narrowed, images = list[str](), False
    for _, key, value in list(recorded(roles, rollout)):
        name = _observation(roles, rollout, value)
        if name is None:
            continue
        try:
            _narrow(roles, tensors, rollout, edits, key, name)
        except Skip as skip:
            reasons.append(str(skip))
            images |= any(divided_first(roles, n) for n in state.tree.of(ast.Name) if n.id == name.id)
        else:
            dtypes[key] = "torch.uint8"
            narrowed.append(key)
    if not edits:
        none = "; ".join(dict.fromkeys(reasons)) or "the rollout records no observation as it is"
        raise (Skip if images else NotNeeded)(none)
    stacked = next(n for n in state.tree.of(ast.DictComp) if _goes_through(n, facts.transitions))
    edits.substitute(stacked.generators[0].iter, tuple_of([key for key in dtypes if key not in narrowed]))
    for key in narrowed:
        rows = f'[t["{key}"] for t in {facts.transitions}]'
        edits.after(state.tree.statement(stacked), f'{facts.storage}["{key}"] = torch.stack({rows})')
    return Rewrite(edits, replace(facts, storage_dtypes=dtypes))


def _goes_through(comprehension: ast.DictComp, transitions: str | None) -> bool:
    """Whether a comprehension stacks the entries that the first step recorded."""
    return ast.unparse(comprehension.generators[0].iter) == f"{transitions}[0]"


def _observation(roles: Roles, rollout: ast.For, value: ast.expr) -> ast.Name | None:
    """The name that a step records, if the rollout makes it from an array."""
    while calls_method(value, "clone", "detach"):
        value = value.func.value
    if not isinstance(value, ast.Name):
        return None
    made = [v for s in statements(rollout.body) for v in values(s, value.id) if value.id in access(s).binds]
    return value if any(find_chain(roles, v) for v in made) else None


def _narrow(roles: Roles, tensors: Tensors, rollout: ast.For, edits: Edits, key: str, name: ast.Name) -> None:
    """Edit everything that concerns one entry of the storage.

    Raises:
        Skip: code that does not divide it may read it.
    """
    tree = roles.tree
    made = list(_tensors_made(roles, tensors, rollout, name.id))
    inside = {n for _, _, base in made for n in walk(base)} | {name}
    seen = _check_reads(roles, tensors, rollout, name.id, inside)
    seen += _check_batch(roles, tensors, key)
    if not seen:
        raise Skip(f"{name.id} is passed to no network")
    for stmt, whole, base in made:
        text = tree.text(base)
        edits.substitute(whole, f"torch.as_tensor({text}).to({roles.device}, non_blocking=True, copy=True)")
        edits.after(stmt, render("pixels", name=name.id))


def _tensors_made(
    roles: Roles, tensors: Tensors, rollout: ast.For, name: str
) -> Iterator[tuple[ast.stmt, ast.expr, ast.expr]]:
    """Where a tensor is made from an array of the environment: the statement, the value, and the array in it.

    Raises:
        Skip: the tensor may be made from something else.
    """
    on_host = OnHost(roles, tensors, rollout)
    for stmt in statements(roles.scope.body):
        if name not in access(stmt).binds:
            continue
        for value in values(stmt, name):
            chain = find_chain(roles, value)
            if chain is None:
                if not on_host.binds(name, stmt) and not _resets(roles, value):
                    raise Skip(f"line {stmt.lineno} may make {name} from something other than the environment's arrays")
            elif not chain.single or chain.flat or not isinstance(stmt, ast.Assign):
                raise Skip(f"line {stmt.lineno} does not cast {name} to float32")
            elif not on_host.is_host(chain.base, stmt) and not _reset(roles, tensors, chain.base, stmt):
                raise Skip(f"line {stmt.lineno} may make {name} from something other than the environment's arrays")
            else:
                yield stmt, value, chain.base


def _resets(roles: Roles, node: ast.expr) -> bool:
    """`envs.reset()`, or its first part."""
    call = node.value if isinstance(node, ast.Subscript) else node
    step = roles.phases.env_step.func
    if (
        not isinstance(call, ast.Call)
        or not isinstance(call.func, ast.Attribute)
        or not isinstance(step, ast.Attribute)
    ):
        return False
    return call.func.attr == "reset" and ast.unparse(call.func.value) == ast.unparse(step.value)


def _reset(roles: Roles, tensors: Tensors, node: ast.expr, stmt: ast.stmt) -> bool:
    """Whether an array is the result of the environment's reset."""
    if not isinstance(node, ast.Name):
        return _resets(roles, node)
    bindings = list(tensors.bindings(node.id, stmt))
    return bool(bindings) and all(
        b is not None and all(_resets(roles, v) for v in values(b, node.id)) for b in bindings
    )


def _check_reads(roles: Roles, tensors: Tensors, rollout: ast.For, name: str, inside: set[ast.AST]) -> int:
    """The number of calls that take an observation.

    Raises:
        Skip: something else reads it.
    """
    tree = roles.tree
    on_host, found = OnHost(roles, tensors, rollout), 0
    for node in tree.of(ast.Name):
        if node.id != name or node in inside or isinstance(node.ctx, ast.Store):
            continue
        if runs_elsewhere(tree, node, roles.scope):
            if roles.is_ours(node):
                raise Skip(f"a function reads {name} on line {node.lineno}")
            continue
        if tensors.produced(tree.parents[node]) and divided_first(roles, node):
            found += 1
        elif not on_host.is_array(node, tree.statement(node)):
            raise Skip(f"line {node.lineno} does not divide {name} by a number first")
    return found


def _check_batch(roles: Roles, tensors: Tensors, key: str) -> int:
    """The number of calls that take minibatches of an entry.

    Raises:
        Skip: something else reads the entry.
    """
    tree = roles.tree
    flat = set()
    for node in tree.of(ast.Name):
        if node.id == roles.history.storage and isinstance(node.ctx, ast.Load):
            entry = tree.parents[node]
            if not isinstance(entry, ast.Subscript) or not isinstance(entry.slice, ast.Constant):
                raise Skip(f"line {node.lineno} uses the storage as a whole")
            if entry.slice.value == key:
                flat.add(_flattened(roles, entry))
    found = 0
    for node in tree.of(ast.Name):
        if node.id not in flat or not isinstance(node.ctx, ast.Load):
            continue
        part = tree.parents[node]
        if tree.scope_of(node) is not roles.scope and not roles.is_ours(node):
            continue
        given = isinstance(part, ast.Subscript) and part.value is node and tensors.produced(tree.parents[part])
        if not given or not isinstance(part, ast.Subscript) or not divided_first(roles, part):
            raise Skip(f"line {node.lineno} does not divide {node.id} by a number first")
        found += 1
    return found


def _flattened(roles: Roles, entry: ast.Subscript) -> str:
    """The name of `storage["obs"].flatten(0, 1)`.

    Raises:
        Skip: it has none, or several.
    """
    tree = roles.tree
    node: ast.AST = entry
    while isinstance(method := tree.parents[node], ast.Attribute) and method.attr in (
        "reshape",
        "flatten",
        "view",
    ):
        node = tree.parents[method]
    stmt = tree.parents[node]
    if not isinstance(stmt, ast.Assign) or stmt.value is not node or len(stmt.targets) != 1:
        raise Skip(f"line {entry.lineno} does more than flatten {ast.unparse(entry)}")
    target = stmt.targets[0]
    if not isinstance(target, ast.Name) or len(list(roles.assignments(target.id))) != 1:
        raise Skip(f"line {entry.lineno} does more than flatten {ast.unparse(entry)}")
    return target.id


TRANSFORM = Transform(INFO, apply)
