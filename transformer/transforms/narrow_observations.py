"""Keep images in bytes, as the environment returns them, where the networks divide them first."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.buffers import sets_default
from transformer.conversion import TransformInfo
from transformer.dataflow import access, statements
from transformer.edits import Edits
from transformer.hosts import Hosts, find_chain, recorded
from transformer.kinds import Kinds, values
from transformer.pixels import divided_first
from transformer.rendering import render, tuple_of
from transformer.script import Script
from transformer.transforms.base import Skip, Transform

INFO = TransformInfo(
    name="narrow-observations",
    summary="keep images in bytes, as the environment returns them, where the networks divide them first",
    applies=(
        "to observations that come from the environment's arrays alone, that nothing else reads, and that each network "
        "which is given them divides by a number before anything else, where the script sets no default dtype"
    ),
    safety=(
        "Every network that sees them divides them by a number before anything else, which casts bytes to float32: "
        "the quotients are those of the same numbers in float32. Whether they are bytes is asked when the script "
        "runs; all others are cast to float32 as before. A copy is made, so the environment may reuse its arrays."
    ),
    needs=("storage", "host-arrays"),
    before='next_obs = torch.Tensor(next_obs).to(device)\ntransition["obs"] = next_obs.clone()',
    after=(
        "next_obs = torch.as_tensor(next_obs).to(device, non_blocking=True, copy=True)\n"
        "if next_obs.dtype != torch.uint8:\n    next_obs = next_obs.to(torch.float32)\n"
        'transition["obs"] = next_obs.clone()'
    ),
)


def apply(script: Script) -> str:
    """Leave out the cast of the observations, in the rollout and in the storage.

    Raises:
        Skip: they are not known to be only recorded, and given to networks that divide them first.
    """
    facts, rollout, kinds = script.facts, script.rollout, Kinds(script)
    assert isinstance(rollout, ast.For), "else there were no host arrays"
    if sets_default(script):
        raise Skip("the script sets a default dtype")
    edits, reasons = Edits(script.source), []
    for _, key, value in list(recorded(script, rollout)):
        name = _observation(script, rollout, value)
        if name is None:
            continue
        try:
            _narrow(script, kinds, rollout, edits, key, name)
        except Skip as skip:
            reasons.append(str(skip))
        else:
            facts.storage_dtypes[key] = "torch.uint8"
    after = script.finish(edits)
    if after == script.code:
        raise Skip("; ".join(dict.fromkeys(reasons)) or "the rollout records no observation as it is")
    return after


def _observation(script: Script, rollout: ast.For, value: ast.expr) -> ast.Name | None:
    """The name that a step records, where the rollout makes it of an array."""
    while (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in ("clone", "detach")
    ):
        value = value.func.value
    if not isinstance(value, ast.Name):
        return None
    made = [v for s in statements(rollout.body) for v in values(s, value.id) if value.id in access(s).binds]
    return value if any(find_chain(script, v) for v in made) else None


def _narrow(script: Script, kinds: Kinds, rollout: ast.For, edits: Edits, key: str, name: ast.Name) -> None:
    """Edit all that concerns one entry of the storage.

    Raises:
        Skip: it may be seen by something that does not divide it.
    """
    made = list(_made(script, kinds, rollout, name.id))
    inside = {id(n) for _, _, base in made for n in ast.walk(base)} | {id(name)}
    seen = _check_reads(script, kinds, rollout, name.id, inside)
    seen += _check_batch(script, kinds, key)
    if not seen:
        raise Skip(f"no network is given {name.id}")
    stacked = next(n for n in script.nodes if isinstance(n, ast.Tuple) and _lists(n, key, script.facts.storage_dtypes))
    for stmt, whole, base in made:
        text = script.source.text(base)
        edits.substitute(whole, f"torch.as_tensor({text}).to({script.device}, non_blocking=True, copy=True)")
        edits.after(stmt, render("pixels", name=name.id))
    left = [str(e.value) for e in stacked.elts if isinstance(e, ast.Constant) and e.value != key]
    edits.substitute(stacked, tuple_of(left))
    rows = f'[t["{key}"] for t in {script.facts.transitions}]'
    edits.after(script.source.statement(stacked), f'{script.facts.storage}["{key}"] = torch.stack({rows})')


def _lists(node: ast.Tuple, key: str, keys: dict[str, str]) -> bool:
    """Whether a tuple lists the entries that are stacked, among them `key`."""
    listed = [e.value for e in node.elts if isinstance(e, ast.Constant)]
    return len(listed) == len(node.elts) and key in listed and set(listed) <= set(keys)


def _made(script: Script, kinds: Kinds, rollout: ast.For, name: str) -> Iterator[tuple[ast.stmt, ast.expr, ast.expr]]:
    """Where a tensor is made of what the environment returned: the statement, the value, and the array in it.

    Raises:
        Skip: it may be made of something else.
    """
    hosts = Hosts(script, kinds, rollout)
    for stmt in statements(script.scope.body):
        if name not in access(stmt).binds:
            continue
        for value in values(stmt, name):
            chain = find_chain(script, value)
            if chain is None:
                if not hosts.binds(name, stmt) and not _resets(script, value):
                    raise Skip(f"line {stmt.lineno} may make {name} of something else than the environment's arrays")
            elif not chain.single or chain.flat or not isinstance(stmt, ast.Assign):
                raise Skip(f"line {stmt.lineno} does not cast {name} to float32")
            elif not hosts.is_host(chain.base, stmt) and not _reset(script, kinds, chain.base, stmt):
                raise Skip(f"line {stmt.lineno} may make {name} of something else than the environment's arrays")
            else:
                yield stmt, value, chain.base


def _resets(script: Script, node: ast.expr) -> bool:
    """`envs.reset()`, or its first part."""
    call = node.value if isinstance(node, ast.Subscript) else node
    step = script.phases.env_step.func
    if (
        not isinstance(call, ast.Call)
        or not isinstance(call.func, ast.Attribute)
        or not isinstance(step, ast.Attribute)
    ):
        return False
    return call.func.attr == "reset" and ast.unparse(call.func.value) == ast.unparse(step.value)


def _reset(script: Script, kinds: Kinds, node: ast.expr, stmt: ast.stmt) -> bool:
    """Whether an array is what the environment's reset returned."""
    if not isinstance(node, ast.Name):
        return _resets(script, node)
    bindings = list(kinds.bindings(node.id, stmt))
    return bool(bindings) and all(
        b is not None and all(_resets(script, v) for v in values(b, node.id)) for b in bindings
    )


def _check_reads(script: Script, kinds: Kinds, rollout: ast.For, name: str, inside: set[int]) -> int:
    """The number of calls that are given an observation.

    Raises:
        Skip: something else reads it.
    """
    hosts, found = Hosts(script, kinds, rollout), 0
    for node in script.nodes:
        if not isinstance(node, ast.Name) or node.id != name or id(node) in inside or isinstance(node.ctx, ast.Store):
            continue
        if script.scope_of(node) is not script.scope:
            if script.is_ours(node):
                raise Skip(f"a function reads {name} on line {node.lineno}")
            continue
        if kinds.produced(script.source.parents[node]) and divided_first(script, node):
            found += 1
        elif not hosts.is_array(node, script.source.statement(node)):
            raise Skip(f"line {node.lineno} does not divide {name} by a number first")
    return found


def _check_batch(script: Script, kinds: Kinds, key: str) -> int:
    """The number of calls that are given minibatches of an entry.

    Raises:
        Skip: something else reads the entry.
    """
    flat = set()
    for node in script.nodes:
        if isinstance(node, ast.Name) and node.id == script.facts.storage and isinstance(node.ctx, ast.Load):
            entry = script.source.parents[node]
            if not isinstance(entry, ast.Subscript) or not isinstance(entry.slice, ast.Constant):
                raise Skip(f"line {node.lineno} uses the storage as a whole")
            if entry.slice.value == key:
                flat.add(_flattened(script, entry))
    found = 0
    for node in script.nodes:
        if not isinstance(node, ast.Name) or node.id not in flat or not isinstance(node.ctx, ast.Load):
            continue
        part = script.source.parents[node]
        if script.scope_of(node) is not script.scope and not script.is_ours(node):
            continue
        given = isinstance(part, ast.Subscript) and part.value is node and kinds.produced(script.source.parents[part])
        if not given or not isinstance(part, ast.Subscript) or not divided_first(script, part):
            raise Skip(f"line {node.lineno} does not divide {node.id} by a number first")
        found += 1
    return found


def _flattened(script: Script, entry: ast.Subscript) -> str:
    """The name of `storage["obs"].flatten(0, 1)`.

    Raises:
        Skip: it has none, or others too.
    """
    node: ast.AST = entry
    while isinstance(method := script.source.parents[node], ast.Attribute) and method.attr in (
        "reshape",
        "flatten",
        "view",
    ):
        node = script.source.parents[method]
    stmt = script.source.parents[node]
    if not isinstance(stmt, ast.Assign) or stmt.value is not node or len(stmt.targets) != 1:
        raise Skip(f"line {entry.lineno} does more than flatten {ast.unparse(entry)}")
    target = stmt.targets[0]
    if not isinstance(target, ast.Name) or len(list(script.assignments(target.id))) != 1:
        raise Skip(f"line {entry.lineno} does more than flatten {ast.unparse(entry)}")
    return target.id


TRANSFORM = Transform(INFO, apply)
