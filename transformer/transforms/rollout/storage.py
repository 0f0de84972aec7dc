"""Collect the rollout's steps and stack them once into a TensorDict, instead of filling preallocated buffers."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from transformer.dataflow.access import access
from transformer.dataflow.closures import runs_elsewhere
from transformer.facts.torch_api import FLOAT32, OF, dtypes, methods, names, tells_values
from transformer.recognition.buffers import (
    ALLOCATIONS,
    Buffer,
    Store,
    dimensions,
    find_allocations,
    find_buffers,
    is_matrix,
    leading_sizes,
    resized,
    sets_default,
)
from transformer.recognition.environment import is_made_with, is_vector
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.imports import add_imports
from transformer.syntax.names import singular
from transformer.syntax.query import calls_method, children, is_number, names_in, pairwise, statements, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.syntax.tree import Tree
from transformer.transforms.base import NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.values.dtypes import Dtypes
from transformer.values.effects.world import World
from transformer.values.networks.results import Results
from transformer.values.tensors import Tensors, values

INFO = TransformInfo(
    name="storage",
    brief="a TensorDict instead of preallocated buffers",
    summary="stack the rollout's steps once into a TensorDict instead of writing into preallocated buffers",
    applies=(
        "to a torch buffer on the script's device that the rollout writes exactly once per step, at the step's index, "
        "with a tensor known to have one element per environment. Nothing else may write it, keep it, or read it "
        "before the rollout has ended, except a step that reads what it wrote itself"
    ),
    safety=(
        "Every buffer was written exactly once per step and read only after the rollout, so the stacked steps hold "
        "the same values. They are cast to the buffers' dtypes, and a value that may share memory with the "
        "environment, or that is changed in place later, is cloned when it is recorded."
    ),
    costs=(
        "Each step writes into device memory row by row: allocate a buffer by `torch.zeros((num_steps, "
        "num_envs), device=device)` in a variable, and write it once in each step, `rewards[step] = reward`."
    ),
    needs=(),
    before=(
        "values = torch.zeros((args.num_steps, args.num_envs)).to(device)\nfor step in range(args.num_steps):\n"
        "    values[step] = value.flatten()\nreturns = advantages + values"
    ),
    after=(
        "transitions = []\nfor step in range(args.num_steps):\n    transition = {}\n"
        "    transitions.append(transition)\n"
        '    transition["values"] = value.flatten()\nstorage = TensorDict(\n'
        "    {k: torch.stack([t[k] for t in transitions]) for k in transitions[0]}, batch_size=[args.num_steps]\n"
        ').to(device, torch.float32)\nreturns = advantages + storage["values"]'
    ),
)


def apply(state: State) -> Rewrite:
    """Replace the buffers that are only written in the rollout and only read after it.

    Raises:
        Skip: there are not at least two such buffers, or the rollout may end early.
    """
    roles = state.roles
    rollout = roles.rollout
    if not isinstance(rollout, ast.For) or not isinstance(rollout.target, ast.Name):
        raise _without_buffers(roles, "the rollout is not a for loop over a step index")
    if rollout is not roles.phases.collect:
        raise _without_buffers(roles, "the rollout loop is inside another statement")
    steps = _count(rollout.iter)
    if steps is None:
        raise _without_buffers(roles, "the rollout does not run over range(number of steps)")
    for node in statements(rollout.body):
        if isinstance(node, ast.Break) and state.tree.loops_around(node)[0] is rollout:
            ends = f"the break on line {node.lineno} may end the rollout before the buffers are full"
            raise _without_buffers(roles, ends)
    if rollout.orelse:
        raise _without_buffers(roles, "the rollout loop has an else block")
    changed = _why_rows_differ(roles, rollout, steps)
    if changed is not None:
        raise _without_buffers(roles, changed)
    tensors = roles.get(Tensors)
    reasons: dict[str, str] = {}
    replaced = list(roles.get(find_buffers))
    while True:  # a buffer that stays may keep others: those allocated like it, or together with it
        for buffer in replaced:
            shape = dimensions(roles, buffer.call)
            if shape[:1] != [roles.spelled(steps)]:
                reasons[buffer.name] = "its length is not the rollout's"
            reason = _obstacle(roles, tensors, rollout, buffer, replaced)
            if reason:
                reasons[buffer.name] = reason
        left = [b for b in replaced if b.name not in reasons]
        if left == replaced:
            break
        replaced = left
    if len(replaced) < 2 and reasons:
        raise Skip("; ".join(_by_reason(reasons)))
    if len(replaced) < 2:
        few = (
            f"only one preallocated torch buffer, {replaced[0].name}," if replaced else "no preallocated torch buffers"
        )
        raise _without_buffers(roles, f"the rollout writes {few} at its step index")
    return _rewrite(state, tensors, rollout, replaced, steps, _by_reason(reasons))


def _by_reason(reasons: Mapping[str, str]) -> tuple[str, ...]:
    """The reasons why buffers stay, each once."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(name)
    return tuple(
        f"{', '.join(n)} {'stays a preallocated buffer' if len(n) == 1 else 'stay preallocated buffers'}: {reason}"
        for reason, n in names.items()
    )


def _without_buffers(roles: Roles, reason: str) -> Skip:
    """The skip of a script whose buffers stay: not needed if the rollout writes into no new tensor."""
    written = {
        n.value.id
        for n in walk(roles.phases.collect)
        if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    for node in (n for n in walk(roles.phases.collect) if isinstance(n, ast.Subscript)):
        kept = node.value if isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Attribute) else None
        if kept is not None and _is_kept_tensor(roles, kept.attr):
            text = ast.unparse(kept)
            return Skip(f"line {node.lineno} writes into {text}, an attribute; only variables are followed")
    return (NotNeeded if written.isdisjoint(roles.get(find_allocations)) else Skip)(reason)


def _is_kept_tensor(roles: Roles, attribute: str) -> bool:
    """Whether an object of the file keeps a new tensor in an attribute of this name."""
    stored = (s for s in roles.tree.of(ast.Assign) for t in s.targets if getattr(t, "attr", None) == attribute)
    return any(roles.tree.calls(n, *ALLOCATIONS) for s in stored for n in walk(s.value) if isinstance(n, ast.Call))


def _count(iterable: ast.expr) -> ast.expr | None:
    if isinstance(iterable, ast.Call) and ast.unparse(iterable.func) == "range" and not iterable.keywords:
        if len(iterable.args) == 1:
            return iterable.args[0]
        if len(iterable.args) == 2 and is_number(iterable.args[0], 0):
            return iterable.args[1]
    return None


def _why_rows_differ(roles: Roles, rollout: ast.For, steps: ast.expr) -> str | None:
    """Why the rollout's steps may not correspond to the buffer's rows in order."""
    assert isinstance(rollout.target, ast.Name)
    node = resized(roles, steps)
    if node is not None:
        return f"line {node.lineno} changes the number of steps"
    for stmt in statements(rollout.body):
        if rollout.target.id in access(stmt).binds:
            return f"line {stmt.lineno} changes the step index"
    return None


def _obstacle(
    roles: Roles, tensors: Tensors, rollout: ast.For, buffer: Buffer, replaced: Sequence[Buffer]
) -> str | None:
    """Why a buffer cannot become an entry of the TensorDict."""
    tree = roles.tree
    if len(buffer.stores) != 1:
        return "it is written more than once per step"
    if any(k.arg not in ("dtype", "device") for k in buffer.call.keywords):
        return "it is allocated with unusual arguments"
    store, value = buffer.stores[0].stmt, buffer.stores[0].value
    if len(store.targets) != 1:
        return f"line {store.lineno} assigns it together with other targets"
    for outer in tree.ancestors(store):
        if outer is rollout:
            break
        if not isinstance(outer, ast.With):
            return f"line {store.lineno} writes it only under a condition"
    for node in statements(rollout.body):
        if isinstance(node, ast.Continue) and tree.loops_around(node)[0] is rollout and node.lineno < store.lineno:
            return f"the continue on line {node.lineno} may skip its write"
    if not _stores_tensor(roles, tensors, buffer.stores[0]):
        return f"the value written on line {store.lineno} is not known to be a tensor"
    if not _is_on_device(roles, buffer.stmt):
        return "it is not allocated on the device"
    if not _has_rows_of_environments(roles, buffer):
        return "the size of its rows may differ from the number of environments"
    width = dimensions(roles, buffer.call)[1:2]
    many = is_matrix(roles, buffer.call) or is_vector(roles, width)
    rows = _Rows(roles, tensors, "".join(width), many)
    if not rows.hold(value, store):
        cause = rows.unknown(value, store)
        what = f"{_in_short(tree, cause)} on line {cause.lineno}"
        return f"what it gets, {what}, is not known to have one element per environment{_by_front(cause)}"
    bound = [
        n
        for n in tree.of(ast.Name)
        if n.id == buffer.name and isinstance(n.ctx, ast.Store)
        if not isinstance(tree.parents[n], ast.AugAssign)  # this changes the buffer in place, like a write to an entry
    ]
    if sum(roles.is_ours(n) for n in bound) != 1:
        return "its name is bound more than once"
    if not names_in(buffer.stmt.targets) <= {b.name for b in replaced}:
        return "it is allocated together with a buffer that stays"
    if buffer.name in roles.liveness.raised[rollout]:
        return "it may be read after an exception in a step"
    kept = _kept(roles, buffer, replaced) or _left(roles, rollout, buffer, replaced)
    if kept is not None:
        return kept
    for use in _uses_of_buffer(roles, buffer, replaced):
        where = tree.ancestors(use)
        if any(isinstance(n, ast.JoinedStr) for n in tree.ancestors(use)):
            return f"line {use.lineno} reads it inside an f-string"
        asked = tree.parents[use]
        if isinstance(asked, ast.Attribute) and asked.value is use and not tells_values(asked.attr):
            return f"line {use.lineno} reads its {asked.attr}, which may identify its memory"
        if runs_elsewhere(tree, use, roles.scope) or any(isinstance(n, ast.ClassDef) for n in where):
            return f"a function reads it on line {use.lineno}"
        if _read_back(roles, rollout, buffer, use):
            continue
        if use.lineno <= (rollout.end_lineno or 0) and not _shaped_like(roles, buffer, use):
            return f"line {use.lineno} uses it before the rollout is complete"
        if isinstance(use.ctx, ast.Del):
            return f"line {use.lineno} deletes it"
        if use.lineno > (roles.phases.loop.end_lineno or 0):
            return f"line {use.lineno} reads it below the training loop, which may not run at all"
    return None


def _has_rows_of_environments(roles: Roles, buffer: Buffer) -> bool:
    """Whether a buffer's second size appears to be the number of environments.

    If buffers differ in their second size, it must be the one with which the environment is made.
    """
    width = dimensions(roles, buffer.call)[1:2]
    widths = {tuple(dimensions(roles, b.call)[1:2]) for b in roles.get(find_buffers)} - {()}
    return not width or len(widths) < 2 or width[0].endswith("num_envs") or is_made_with(roles, width)


def _is_on_device(roles: Roles, stmt: ast.Assign, depth: int = 4) -> bool:
    """Whether a buffer is allocated on the device of the stacked steps, as far as the script shows."""
    if roles.device is None or sets_default(roles.tree):
        return True
    for node in walk(stmt.value):
        if ast.unparse(node) == roles.device or (isinstance(node, ast.Attribute) and node.attr in ("device", "cuda")):
            return True
        if isinstance(node, ast.Call) and roles.tree.calls(node, "torch.zeros_like") and depth and node.args:
            like = node.args[0]
            made = roles.get(find_allocations).get(like.id) if isinstance(like, ast.Name) else None
            if made is not None and _is_on_device(roles, made[0], depth - 1):
                return True
    return False


def _stores_tensor(roles: Roles, tensors: Tensors, store: Store) -> bool:
    """Whether the value that a step writes is a tensor."""
    if store.value is roles.phases.env_step and isinstance(roles.phases.env_step.func, ast.Attribute):
        return tensors.in_step(store.stmt, ast.unparse(store.target))
    if store.unpacked:
        call = store.value
        return isinstance(call, ast.Call) and tensors.produced(call) and Results(roles, call).is_tensor(*_place(store))
    return tensors.tensor(store.value) or tensors.must_be_tensor(store.value)


def _place(store: Store) -> tuple[int, int]:
    """The index of a target among those of an unpacking, and their number."""
    parts = next(t.elts for t in store.stmt.targets if isinstance(t, (ast.Tuple, ast.List)) and store.target in t.elts)
    return parts.index(store.target), len(parts)


def _kept(roles: Roles, buffer: Buffer, replaced: Sequence[Buffer]) -> str | None:
    """Why code elsewhere may expect the next rollout's values, which the buffer would hold but the stack does not."""
    world = roles.get(World)
    held = world.outlives(world.of(buffer.call), {b.name for b in replaced}, roles.phases.loop.body)
    if held is None or held.node is None:
        return held.what if held is not None else None
    return f"line {held.lineno}: {held.what}"


def _left(roles: Roles, rollout: ast.For, buffer: Buffer, replaced: Sequence[Buffer]) -> str | None:
    """What may hold a row after the rollout: a row is a view of the buffer, but not of the stack."""
    world, live = roles.get(World), roles.liveness.after[rollout]
    held = world.outlives(world.of(buffer.call), {b.name for b in replaced}, rollout.body, live)
    return None if held is None else f"line {held.lineno}: after the rollout {held.what}" if held.node else held.what


def _uses_of_buffer(roles: Roles, buffer: Buffer, replaced: Sequence[Buffer]) -> list[ast.Name]:
    """Every use of a buffer except its store and the allocations to remove."""
    ours = {n for s in buffer.stores for n in walk(s.target)}
    ours |= {n for b in replaced for n in walk(b.stmt)}
    return [n for n in roles.tree.of(ast.Name) if n.id == buffer.name and n not in ours and roles.is_ours(n)]


def _read_back(roles: Roles, rollout: ast.For, buffer: Buffer, use: ast.Name) -> ast.Subscript | None:
    """The `buffer[step]` that reads back what the same step has written; None for any other use."""
    tree = roles.tree
    node, store = tree.parents[use], buffer.stores[0].stmt
    if (
        not isinstance(node, ast.Subscript)
        or not isinstance(node.ctx, ast.Load)
        or rollout not in tree.loops_around(use)
    ):
        return None
    if ast.unparse(node) != ast.unparse(buffer.stores[0].target):
        return None
    outer = tree.parents[node]
    changed = isinstance(outer, ast.Subscript) and not isinstance(outer.ctx, ast.Load)
    if changed or (isinstance(outer, ast.Attribute) and outer.attr.endswith("_")):
        return None
    around = [roles.tree.statement(use), *roles.tree.ancestors(use)]
    above: ast.AST = store
    while isinstance(above, (ast.Assign, ast.With)):
        block = tree.block(above)
        if any(s in around for s in block[block.index(above) + 1 :]):
            return node
        above = tree.parents[above]
    return None


def _shaped_like(roles: Roles, buffer: Buffer, use: ast.Name) -> tuple[ast.Call, str] | None:
    """A `torch.zeros_like(buffer)` above the training loop, and the text that makes the same tensor from its shape."""
    tree = roles.tree
    call = tree.parents[use]
    if not isinstance(call, ast.Call) or not tree.calls(call, "torch.zeros_like", "torch.ones_like"):
        return None
    given = {k.arg: tree.text(k.value) for k in call.keywords}
    if tree.statement(use) not in roles.setup or set(given) - {"dtype", "device"}:
        return None
    own = {k.arg: tree.text(k.value) for k in buffer.call.keywords}
    moved = isinstance(outer := tree.parents[call], ast.Attribute) and outer.attr in ("to", "cuda")
    if roles.device and not moved and any(roles.device == ast.unparse(n) for n in walk(buffer.stmt)):
        own["device"] = roles.device
    shape = [tree.text(a) for a in buffer.call.args]
    made = ast.unparse(call.func).removesuffix("_like")
    return call, f"{made}({', '.join([*shape, *(f'{k}={v}' for k, v in {**own, **given}.items())])})"


def _rewrite(
    state: State, tensors: Tensors, rollout: ast.For, buffers: list[Buffer], steps: ast.expr, left: tuple[str, ...]
) -> Rewrite:
    tree, roles = state.tree, state.roles
    edits, names = Edits(state.source), tree.names
    storage, transition, transitions = names.fresh("storage"), names.fresh("transition"), names.fresh("transitions")
    dtypes = {b.dtype for b in buffers}
    common = dtypes.pop() if len(dtypes) == 1 else None
    recorded: dict[ast.expr, str] = {}
    again: dict[ast.expr, str] = {
        node: f'{transition}["{b.name}"]'
        for b in buffers
        for use in _uses_of_buffer(roles, b, buffers)
        if (node := _read_back(roles, rollout, b, use)) is not None
    }
    for buffer in buffers:
        edits.remove(buffer.stmt)
        store = buffer.stores[0]
        part = names.fresh(singular(buffer.name)) if store.unpacked else None
        read = any(_read_back(roles, rollout, buffer, use) for use in _uses_of_buffer(roles, buffer, buffers))
        value = _recorded(roles, tensors, rollout, buffer, buffer.dtype if read or not common else None, part, again)
        if read and not part and not value.endswith(".clone()"):
            value += ".clone()"  # a reader may change it
        line = f'{transition}["{buffer.name}"] = {value}'
        if part:
            edits.substitute(store.target, part)
            edits.after(store.stmt, line)
        else:
            recorded[store.target] = line
        for use in _uses_of_buffer(roles, buffer, buffers):
            like = _shaped_like(roles, buffer, use) if use.lineno < rollout.lineno else None
            if node := _read_back(roles, rollout, buffer, use):
                edits.substitute(node, again[node])
            elif like:
                edits.substitute(*like)
            else:
                edits.substitute(use, f'{storage}["{buffer.name}"]')
    for stmt in {b.stores[0].stmt: None for b in buffers if not b.stores[0].unpacked}:
        lines = [recorded.get(t) or f"{tree.text(t)} = {_with(tree, v, again)}" for t, v in pairwise(stmt)]
        edits.replace(stmt, "\n".join(lines))
    edits.before(rollout, f"{transitions} = []")
    edits.before(rollout.body[0], f"{transition} = {{}}\n{transitions}.append({transition})")
    target = ", ".join(filter(None, (roles.device, common)))
    count = tree.text(steps)
    widths = {tuple(dimensions(roles, b.call)[1:2]) for b in buffers}
    sizes = [count, *widths.pop()] if len(widths) == 1 else [count]
    edits.after(
        rollout,
        render(
            "storage", storage=storage, transition=transition, transitions=transitions, sizes=sizes,
            target=target,
        ),
    )  # fmt: skip
    add_imports(tree.root, edits, "from tensordict import TensorDict")
    history = replace(
        state.history,
        transition=transition,
        transitions=transitions,
        storage=storage,
        storage_dtypes={b.name: b.dtype for b in buffers},
        storage_sizes={b.name: leading_sizes(roles, b.call) for b in buffers},
    )
    return Rewrite(edits, history, left=left)


def _with(tree: Tree, value: ast.expr, texts: Mapping[ast.expr, str]) -> str:
    """The text of a value, with some of its parts replaced."""
    inside = set(walk(value))
    return tree.splice(value, [(node, text) for node, text in texts.items() if node in inside])


def _recorded(
    roles: Roles,
    tensors: Tensors,
    rollout: ast.For,
    buffer: Buffer,
    dtype: str | None,
    part: str | None,
    again: Mapping[ast.expr, str],
) -> str:
    """The text of the value that a step records, in the shape of a buffer's row, sharing no memory that may change.

    `part` is the name that the value is unpacked into, if any; `again` has the texts for reads of the step's records.
    """
    value = buffer.stores[0].value
    text = part or _with(roles.tree, value, again)
    if not part and isinstance(value, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.IfExp)):
        text = f"({text})"
    if is_matrix(roles, buffer.call) and (part or not _is_flat(value)):
        text += ".flatten()"
    sizes, complete = leading_sizes(roles, buffer.call)
    if is_matrix(roles, buffer.call):
        if _may_be_one_number(roles, value) or _may_be_reduced(roles, tensors, buffer.stores[0]):
            text += f".expand({sizes[1]})"
    elif complete and len(sizes) == 1:
        text += ".reshape(())"
    elif complete and not tensors.must_be_tensor(value) and not _is_of_env(roles, value):  # a buffer broadcasts it
        text += f".expand({', '.join(sizes[1:])})"
    known = dtype in FLOAT32 and not part and roles.get(Dtypes).float32(value)
    if dtype and not known:
        text += f".to({dtype})"
    world = roles.get(World)
    if not (world.parts_are_left_alone if part else world.is_left_alone)(value, rollout.body):
        text += ".clone()"
    return text


RESHAPES = methods(rows=("element", "broadcast")) | names("tensor", memory="shared", dtype="kept", waits="")
"""Methods whose result has one element per element of their object, perhaps in another shape."""
ELEMENTWISE = (
    names("torch", "numpy", rows=("element", "broadcast"))
    | names("torch", "numpy", made="of host")
    | names("torch", joins=True)
    | dtypes()
)
"""Functions of torch and numpy whose result has one element per element of an argument."""


def _may_be_one_number(roles: Roles, value: ast.expr) -> bool:
    """Whether a value is taken from the infos, where an environment may use one number for all."""
    named = [roles.only_value(n.id) or n for n in walk(value) if isinstance(n, ast.Name)]
    return any(
        isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Constant) and isinstance(n.slice.value, str)
        for part in (value, *named)
        for n in walk(part)
    )


def _is_of_env(roles: Roles, value: ast.expr) -> bool:
    """Whether a name is an action or an observation, which have one row per environment."""
    step = roles.phases.env_step
    if not isinstance(value, ast.Name):
        return False
    if value.id in names_in((*step.args, *(k.value for k in step.keywords))):
        return True
    stmt = roles.tree.statement(step)
    whole = [t for t in getattr(stmt, "targets", ()) if isinstance(t, ast.Tuple)]
    observed = names_in([t.elts[0] for t in whole if t.elts])
    return (
        all(
            names_in([made]) & observed or any(isinstance(n, ast.Call) and _resets(n) for n in walk(made))
            for _, made in roles.assignments(value.id)
            if made is not step
        )
        and value.id in observed
    )


def _may_be_reduced(roles: Roles, tensors: Tensors, store: Store) -> bool:
    """Whether a value is computed from a network's result that may be one element for all environments."""
    if store.unpacked:
        call = store.value
        produced = isinstance(call, ast.Call) and tensors.produced(call)
        return produced and isinstance(call, ast.Call) and not Results(roles, call).has_rows(*_place(store))
    return _reduced(roles, tensors, store.value, store.stmt, 4)


def _reduced(roles: Roles, tensors: Tensors, value: ast.expr, stmt: ast.stmt, depth: int) -> bool:
    if isinstance(value, ast.Call) and tensors.produced(value):
        return not Results(roles, value).has_rows(None)
    if isinstance(value, ast.Name):
        found = tensors.bindings(value.id, stmt) if depth else ()
        for bound in (b for b in found if isinstance(b, ast.Assign)):
            for made in values(bound, value.id):
                place = [
                    (t.elts.index(e), len(t.elts))
                    for t in bound.targets
                    for e in (t.elts if isinstance(t, (ast.Tuple, ast.List)) and made is bound.value else ())
                    if isinstance(t, (ast.Tuple, ast.List)) and isinstance(e, ast.Name) and e.id == value.id
                ]
                if isinstance(made, ast.Call) and tensors.produced(made) and place:
                    if not Results(roles, made).has_rows(*place[0]):
                        return True
                elif _reduced(roles, tensors, made, bound, depth - 1):
                    return True
        return False
    parts = [*value.args, value.func] if isinstance(value, ast.Call) else [*children(value)]
    if isinstance(value, ast.BinOp):  # it suffices that one operand has one element per environment
        return all(_reduced(roles, tensors, p, stmt, depth) for p in (value.left, value.right))
    return any(_reduced(roles, tensors, p, stmt, depth) for p in parts if isinstance(p, ast.expr))


@dataclass(frozen=True)
class _Rows:
    """Values with one element per environment, as networks and, if there are `many`, environments return them.

    Such a value is not broadcast when it is written into a buffer whose second size is `width`, as written, or "".
    """

    roles: Roles
    tensors: Tensors
    width: str
    many: bool

    def hold(self, value: ast.expr, stmt: ast.stmt, depth: int = 4) -> bool:
        """Whether a value of a statement is such a row."""
        if self.tensors.produced(value) or (self.many and self.tensors.must_be_tensor(value)):
            return True
        if isinstance(value, ast.Name) and depth:
            bindings = list(self.tensors.bindings(value.id, stmt))
            return bool(bindings) and all(
                b is not None and all(self.hold(v, b, depth - 1) for v in values(b, value.id)) for b in bindings
            )
        if isinstance(value, ast.Subscript):
            if isinstance(value.slice, ast.Constant) and isinstance(value.slice.value, str):
                return True  # infos["cost"]
            if self.tensors.tensor(value.slice) and self.hold(value.slice, stmt, depth):
                return self.tensors.tensor(value.value)  # an element of a table for each environment
            first = is_number(value.slice, 0) and isinstance(value.value, ast.Call) and _resets(value.value)
            return self.many and first
        if isinstance(value, ast.BinOp):
            return any(self.hold(side, stmt, depth) for side in (value.left, value.right))
        if isinstance(value, ast.UnaryOp):
            return self.hold(value.operand, stmt, depth)
        if isinstance(value, ast.Attribute) and value.attr == "data":
            return self.hold(value.value, stmt, depth)
        return isinstance(value, ast.Call) and self._returns_row(value, stmt, depth)

    def unknown(self, value: ast.expr, stmt: ast.stmt, depth: int = 4) -> ast.expr:
        """The part of a value that is no such row, because of which the value is not known to be one."""
        if isinstance(value, ast.Name) and depth:
            for bound in (b for b in self.tensors.bindings(value.id, stmt) if b is not None):
                for made in (v for v in values(bound, value.id) if not self.hold(v, bound, depth - 1)):
                    return self.unknown(made, bound, depth - 1)
        if calls_method(value) and not self.hold(value.func.value, stmt, depth):
            return self.unknown(value.func.value, stmt, depth)
        return value

    def _returns_row(self, call: ast.Call, stmt: ast.stmt, depth: int) -> bool:
        """Whether a call returns such a row."""
        if _resets(call) or (call is self.roles.phases.env_step and isinstance(call.func, ast.Attribute)):
            return self.many
        if not isinstance(call.func, ast.Attribute):
            return False
        qualified = self.roles.tree.qualified(call.func) or ""
        if qualified in ("torch.zeros", "torch.ones", "torch.empty"):
            return bool(call.args) and self._is_width(call.args[0])
        if qualified.startswith(("torch.", "numpy.")):
            kept = qualified.rpartition(".")[2] in ELEMENTWISE
            return kept and any(self.hold(a, stmt, depth) for a in call.args)
        if call.func.attr in OF["distribution"] and (made := self.tensors.distributions(call.func.value, stmt)):
            several = OF["distribution"][call.func.attr].draws and (call.args or call.keywords)
            given = [[c, *c.args, *(k.value for k in c.keywords)] for c, _ in made]  # a network's, or made from rows
            holds = (any(self.hold(a, at, depth - 1) for a in g) for g, (_, at) in zip(given, made, strict=True))
            return depth > 0 and not several and all(holds)
        kept = call.func.attr in RESHAPES or call.func.attr in ELEMENTWISE or _keeps_rows(call)
        return kept and self.hold(call.func.value, stmt, depth)

    def _is_width(self, size: ast.expr) -> bool:
        """Whether the size of a new tensor is the buffer's second size, or an attribute of the same name.

        A tensor with one row, or a number, would be broadcast.
        """
        if isinstance(size, (ast.Tuple, ast.List)):
            return bool(size.elts) and self._is_width(size.elts[0])
        if is_number(size, 1):
            return False
        name = self.roles.spelled(size)
        return not self.width or name.rpartition(".")[2] == self.width.rpartition(".")[2]


def _keeps_rows(call: ast.Call) -> bool:
    """Whether a call is `x.sum(1)` or `x.mean(dim=1)`, which keeps the first dimension."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("sum", "mean", "norm"):
        return False
    dims = [d.value if isinstance(d, ast.Constant) else None for d in _dims(call, call.func.attr)]
    return len(dims) == 1 and type(dims[0]) is int and dims[0] > 0


def _dims(call: ast.Call, method: str) -> list[ast.expr]:
    """The dimensions that `x.sum(...)`, `x.mean(...)` or `x.norm(...)` goes over, as written."""
    return [*(k.value for k in call.keywords if k.arg == "dim"), *(call.args if method != "norm" else [])]


def _by_front(value: ast.expr) -> str:
    """For a message: what to write for `x.sum(-1)`, which makes one number of a vector; "" for other values."""
    if not calls_method(value) or value.func.attr not in ("sum", "mean", "norm"):
        return ""
    method, named = value.func.attr, "dim=" if value.func.attr == "norm" else ""
    by_last = any(is_number(d, -1) for d in _dims(value, method))
    return f": count dimensions from the front, .{method}({named}1)" if by_last else ""


def _in_short(tree: Tree, value: ast.expr) -> str:
    """An expression for a message; of a call, without a long list of arguments."""
    text = tree.text(value)
    return f"{tree.text(value.func)}(...)" if len(text) > 60 and isinstance(value, ast.Call) else text


def _resets(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "reset"


def _is_flat(value: ast.expr) -> bool:
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return False
    flat = value.func.attr in ("view", "reshape") and len(value.args) == 1 and is_number(value.args[0], -1)
    return flat or (value.func.attr == "flatten" and not value.args)


TRANSFORM = Transform(INFO, apply)
