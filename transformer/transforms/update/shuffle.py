"""Shuffle on the device: torch.randperm(...).split(...) instead of a shuffled numpy index array."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from transformer.dataflow.access import access
from transformer.dataflow.bindings import variables
from transformer.dataflow.closures import runs_elsewhere
from transformer.dataflow.variables import COMPREHENSIONS
from transformer.facts.torch_api import DRAWING, draws
from transformer.recognition.before_training import runs_before_training
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import bind_arguments, calls_method, is_number, names_in, root, statements, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.tree import Tree
from transformer.transforms.base import ALL, NotNeeded, Rewrite, Skip, Transform, TransformInfo, skipped, still_left
from transformer.values.effects.world import World
from transformer.values.minibatch import makes_sampler
from transformer.values.tensors import Tensors

INFO = TransformInfo(
    name="shuffle",
    brief="minibatches by torch.randperm on the device",
    summary="draw minibatches with torch.randperm on the device instead of shuffling numpy indices",
    applies=(
        "to consecutive slices of one permutation of `range(n)` that are only used to index tensors, if all that code "
        "run during training does with the random generators is draw from them. It also applies to lists of indices "
        "from torch's samplers, whose permutation stays the same"
    ),
    safety=(
        "Both draw a uniformly random permutation per epoch and cut it into the same pieces, including a smaller last "
        "one. Only the source of the permutation changes, from numpy's generator to torch's; given the same "
        "permutations, all results have the same bits."
    ),
    costs="Indices are shuffled on the host and copied for each minibatch: shuffle one `np.arange(n)` and slice it.",
    needs=(),
    before=(
        "b_inds = np.arange(args.batch_size)\nfor epoch in range(args.update_epochs):\n    np.random.shuffle(b_inds)\n"
        "    for start in range(0, args.batch_size, args.minibatch_size):\n        end = start + args.minibatch_size\n"
        "        mb_inds = b_inds[start:end]"
    ),
    after=(
        "for epoch in range(args.update_epochs):\n"
        "    for mb_inds in torch.randperm(args.batch_size, device=device).split(args.minibatch_size):\n        ..."
    ),
)


ANOTHER_ORDER = (
    "torch draws the permutations, not numpy: with one seed, both scripts differ from the first minibatch on; "
    "with --ignore shuffle, and no flags, they print the same"
)
"""The note to show if the order of minibatches differs from the original's."""


@dataclass
class Pattern:
    """The statements of a numpy shuffle, and what they compute."""

    indices: str
    size: ast.expr
    shuffle: ast.stmt | None
    """The statement that shuffles; None if torch already draws the permutation."""
    definition: ast.Assign | None
    loop: ast.For
    start: str
    chunk: ast.expr
    slices: list[ast.Assign]
    minibatch: str
    on_device: bool
    """Whether a minibatch's indices are already a tensor on the device of the data."""


def apply(state: State) -> Rewrite:
    """Rewrite the minibatch loop.

    Raises:
        Skip: the minibatches are not consecutive slices of one shuffled index array.
    """
    tree, roles = state.tree, state.roles
    sampled = [loop for loop in _minibatch_loops(roles) if makes_sampler(tree, loop.iter, "BatchSampler")]
    if sampled:
        return _from_samplers(state, sampled)
    if roles.kind == "off-policy":
        raise NotNeeded("no sampler makes its minibatches")
    found = _match(roles)
    _check_kept(roles, found)
    if found.shuffle is not None:
        _check_not_seeded(roles)
    grids = _check_uses(roles, found)
    edits = Edits(state.source)
    device = f", device={roles.device}" if roles.device else ""
    size, chunk = tree.text(found.size), tree.text(found.chunk)
    if found.shuffle is None:
        for cut in found.slices:
            edits.remove(cut)
        edits.substitute(found.loop.target, found.minibatch)
        edits.substitute(found.loop.iter, f"{found.indices}.split({chunk})")
        note = f"{found.indices} is already drawn by torch.randperm; only its slices become split()"
        return Rewrite(edits, notes=(note,), brief="minibatches by split() of what torch.randperm drew")
    for stmt in (found.shuffle, found.definition, *found.slices):
        if stmt is not None:
            edits.remove(stmt)
    for grid in grids:
        edits.substitute(grid, f"torch.arange({tree.text(grid.args[0])}{device})")
    edits.substitute(found.loop.target, found.minibatch)
    edits.substitute(found.loop.iter, f"torch.randperm({size}{device}).split({chunk})")
    return Rewrite(edits, notes=(ANOTHER_ORDER,))


_TAKEN = [ast.arg(name) for name in ("sampler", "batch_size", "drop_last")]
SAMPLER = ast.Lambda(ast.arguments([], _TAKEN, None, [], [], None, []), ast.Constant(None))
"""The parameters of BatchSampler."""


def _minibatch_loops(roles: Roles) -> list[ast.For]:
    """The innermost `for` loops around the optimizers' steps."""
    steps = [step for region in roles.phases.regions for step in region.steps]
    loops = [roles.tree.loops_around(step)[0] for step in steps] if steps else [roles.minibatch_loop]
    return [loop for loop in dict.fromkeys(loops) if isinstance(loop, ast.For)]


def _from_samplers(state: State, loops: Sequence[ast.For]) -> Rewrite:
    """The rewrite that replaces `BatchSampler(SubsetRandomSampler(range(n)), size, drop_last)`.

    Raises:
        Skip: no loop over such a sampler could be rewritten.
    """
    edits, left = Edits(state.source), []
    for loop in loops:
        try:
            _replace_sampler(state.roles, loop, edits)
        except Skip as skip:
            left.append(skip)
    if not edits:
        raise skipped(left, "")
    return Rewrite(edits, left=still_left(left))


def _replace_sampler(roles: Roles, loop: ast.For, edits: Edits) -> None:
    """Rewrite a loop over a sampler. A random sampler too draws one torch.randperm(n) from torch's generator.

    Raises:
        Skip: there is another sampler, or the minibatches are used for more than indexing tensors.
    """
    tree = roles.tree
    text, call = tree.text, loop.iter
    assert isinstance(call, ast.Call)
    bound = bind_arguments(SAMPLER, call)
    if bound is None or not isinstance(loop.target, ast.Name) or loop.orelse:
        raise Skip("the minibatches' BatchSampler does not get a sampler, a size and drop_last")
    given = bound.given
    sampler, made = given["sampler"], None
    if isinstance(sampler, ast.Name):
        uses = [n for n in tree.of(ast.Name) if n.id == sampler.id]
        assigned = list(roles.assignments(sampler.id))
        if len(assigned) != 1 or len(uses) != 2 or assigned[0][1] is not assigned[0][0].value:
            raise Skip(f"{sampler.id} is used for more than minibatches")
        made, sampler = assigned[0]
    whole = sampler.args[0] if isinstance(sampler, ast.Call) and len(sampler.args) == 1 else None
    drawn = makes_sampler(tree, sampler, "SubsetRandomSampler")
    plain = isinstance(whole, ast.Call) and ast.unparse(whole.func) == "range" and len(whole.args) == 1
    plain = plain and (drawn or makes_sampler(tree, sampler, "SequentialSampler"))
    if not isinstance(whole, ast.Call) or not plain or getattr(sampler, "keywords", None):
        raise Skip("the minibatches' indices come from another sampler than SubsetRandomSampler(range(batch size))")
    drop = given["drop_last"]
    if not isinstance(drop, ast.Constant):
        raise Skip("it is not known whether a last, smaller minibatch is dropped")
    if made is not None:
        _check_same(roles, whole.args[0], made, loop)
    tensors, name = roles.get(Tensors), loop.target.id
    for node in tree.nodes:
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) and roles.is_ours(node):
            ours = runs_elsewhere(tree, node, roles.scope) or loop in tensors.bindings(name, tree.statement(node))
            if ours and not _is_index(roles, node):
                raise Skip(f"line {node.lineno} uses {name} for more than indexing a tensor")
    device = f", device={roles.device}" if roles.device else ""
    size, chunk = text(whole.args[0]), text(given["batch_size"])
    order = f"torch.{'randperm' if drawn else 'arange'}({size}{device})"
    if made is not None:
        edits.remove(made)
    if drop.value:
        indices = tree.names.fresh("b_inds")
        edits.before(loop, f"{indices} = {order}")
        edits.substitute(loop.iter, f"{indices}[: {size} // {chunk} * {chunk}].split({chunk})")
    else:
        edits.substitute(loop.iter, f"{order}.split({chunk})")


def _check_not_seeded(roles: Roles) -> None:
    """Check that training only draws from the generators: seeding or restoring them would determine the permutations.

    Raises:
        Skip: training may do more with them.
    """
    tree = roles.tree
    for node in tree.nodes:
        name = tree.qualified(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
        if name is None or isinstance(tree.parents[node], ast.Attribute):
            continue
        module, _, last = name.rpartition(".")
        if module in ("numpy.random", "random"):
            other = last not in DRAWING
        else:
            other = not last.startswith(("get_", "initial_")) and ("seed" in last or "rng" in last)
        if other and not runs_before_training(roles, node):
            raise Skip(f"line {getattr(node, 'lineno', 0)} sets a random state, which may determine the permutations")


def _generator_called(roles: Roles, call: ast.Call) -> ast.FunctionDef | None:
    """The generator function of this file that a call may run."""
    called = ((thing.of[0] if thing.kind == "bound" else thing).node for thing in roles.get(World).of(call.func))
    functions = (f for f in called if isinstance(f, ast.FunctionDef))
    generators = (f for f in functions if any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in walk(f)))
    return next(generators, None)


def _match(roles: Roles) -> Pattern:
    loop = roles.minibatch_loop
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name) or loop.orelse:
        raise _unmatched(roles, "the minibatch loop is not a for loop over slice starts")
    span = loop.iter
    drawn = [n for n in walk(span) if isinstance(n, ast.Call) and roles.tree.calls(n, "torch.randperm")]
    if drawn:
        raise NotNeeded("the minibatches are already drawn by torch.randperm")
    named = root(span.func if isinstance(span, ast.Call) else span)
    bound = [value for _, value in roles.assignments(named)]
    if bound and all(_drawn_by_torch(roles.tree, value) is not None for value in bound):
        raise NotNeeded(f"the minibatches are already drawn by torch.randperm, as {named}")
    if isinstance(span, ast.Call) and (generator := _generator_called(roles, span)) is not None:
        raise Skip(
            f"line {loop.lineno} gets its minibatches from {generator.name}(), a generator (line {generator.lineno}): "
            "write its loop in place of this one"
        )
    if not isinstance(span, ast.Call) or ast.unparse(span.func) != "range" or len(span.args) != 3:
        raise _unmatched(roles, "the minibatch loop does not run over range(0, batch size, minibatch size)")
    if not is_number(span.args[0], 0):
        raise _unmatched(roles, "the minibatch loop does not start at 0")
    start, chunk = loop.target.id, span.args[2]
    slices, indices, minibatch, on_device = _slices(roles, loop, start, chunk)
    shuffle, definition, size = _source(roles, loop, indices)
    stop = ast.unparse(span.args[1])
    if stop not in (ast.unparse(size), f"len({indices})", f"{indices}.shape[0]", f"{indices}.size"):
        raise Skip(f"the minibatch loop runs to {stop}, but {ast.unparse(size)} indices are shuffled")
    return Pattern(indices, size, shuffle, definition, loop, start, chunk, slices, minibatch, on_device)


def _slices(roles: Roles, loop: ast.For, start: str, chunk: ast.expr) -> tuple[list[ast.Assign], str, str, bool]:
    """The statements that slice a minibatch, the names of the array and the minibatch, and whether that is a tensor.

    They are `end = start + size`, `mb = indices[start:end]`, and a conversion to a tensor.
    """
    assert isinstance(loop.iter, ast.Call)
    used: list[ast.Assign] = []
    size, stop = ast.unparse(chunk), ast.unparse(loop.iter.args[1])
    ends = {f"{start} + {size}", f"{size} + {start}"}
    ends |= {f"min({', '.join(pair)})" for end in ends for pair in ((end, stop), (stop, end))}
    for place, stmt in enumerate(loop.body):
        if not isinstance(stmt, ast.Assign) or len(stmt.targets) != 1 or not isinstance(stmt.targets[0], ast.Name):
            break
        name = stmt.targets[0].id
        if ast.unparse(stmt.value) in ends:
            ends.add(name)
            used.append(stmt)
            continue
        value, moved = _as_numpy(roles, stmt.value)
        cut = value.slice if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name) else None
        if not isinstance(cut, ast.Slice) or cut.step or not cut.lower or not cut.upper:
            break
        if ast.unparse(cut.lower) != start or ast.unparse(cut.upper) not in ends:
            break
        assert isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name)
        following = loop.body[place + 1] if place + 1 < len(loop.body) else None
        if value is stmt.value and isinstance(following, ast.Assign) and isinstance(following.targets[0], ast.Name):
            given, there = _as_numpy(roles, following.value)
            if given is not following.value and ast.unparse(given) == name and len(following.targets) == 1:
                return [*used, stmt, following], value.value.id, following.targets[0].id, there
        return [*used, stmt], value.value.id, name, value is not stmt.value and moved
    begins = "the minibatch loop does not begin by slicing an index array from start to start + minibatch size"
    raise _unmatched(roles, begins)


PERMUTING = draws(makes="order")


def _unmatched(roles: Roles, reason: str) -> Skip:
    """The skip of minibatches made in another way: "not needed" if nothing in the script draws a permutation."""
    kind = NotNeeded if PERMUTING.isdisjoint(roles.tree.mentioned) else Skip
    return kind(reason).at("the loop", [roles.minibatch_loop])


def _as_numpy(roles: Roles, value: ast.expr) -> tuple[ast.expr, bool]:
    """The source of a tensor of 64-bit integers, and whether the tensor is on the device of the data.

    An expression that does not make such a tensor in a known way is returned as it is.
    """
    made, whole = False, value
    devices: set[str | None] = {None} if roles.device is None else set()
    while isinstance(value, ast.Call) and not made:
        made = roles.tree.calls(value, "torch.as_tensor", "torch.from_numpy", "torch.tensor", "torch.LongTensor")
        others = value.args[1:] if made else value.args
        if not made and not (isinstance(value.func, ast.Attribute) and value.func.attr in ("to", "long")):
            return whole, False
        for other in (*others, *(k.value for k in value.keywords)):
            if roles.tree.qualified(other) not in ("torch.long", "torch.int64"):
                if ast.unparse(other) != roles.device:
                    return whole, False
                devices.add(roles.device)
        if made and not value.args:
            return whole, False
        value = value.args[0] if made else value.func.value  # type: ignore[attr-defined]
    return (value, roles.device in devices) if made else (whole, False)


def _source(roles: Roles, loop: ast.For, indices: str) -> tuple[ast.stmt | None, ast.Assign | None, ast.expr]:
    """The statement that shuffles, the array's definition if it then becomes unused, and the number of indices."""
    tree = roles.tree
    block = tree.block(loop)
    definitions = list(roles.assignments(indices))
    if len(definitions) != 1:
        raise Skip(f"{indices} is assigned {len(definitions)} times")
    definition, value = definitions[0]
    if value is not definition.value:
        raise Skip(f"{indices} is assigned together with other names")
    for stmt in block[: block.index(loop)]:
        if stmt is definition and (size := _drawn_by_torch(tree, value)) is not None:
            return None, None, size
        if stmt is definition and isinstance(value, ast.Call) and tree.calls(value, "numpy.random.permutation"):
            if len(value.args) == 1 and not isinstance(value.args[0], ast.Starred):
                return stmt, None, value.args[0]
        if isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Call) and _shuffles(tree, stmt.value, indices):
            if isinstance(value, ast.Call) and tree.calls(value, "numpy.arange") and len(value.args) == 1:
                _check_same(roles, value.args[0], definition, loop)
                return stmt, definition, value.args[0]
            raise Skip(f"{indices} is not numpy.arange(batch size)")
    raise Skip(f"no numpy shuffle of {indices} was found just above the minibatch loop")


def _check_kept(roles: Roles, found: Pattern) -> None:
    """Check that minibatch size and indices do not change while in use, because all minibatches are cut at once.

    Raises:
        Skip: a minibatch may change one of them.
    """
    world, rest = roles.get(World), [s for s in found.loop.body if s not in found.slices]
    for node in (found.chunk, found.size):
        held = world.resets(node, rest)
        if held is not None:
            raise Skip(f"line {held.lineno} {held.what} inside the minibatch loop")
    held = world.changes(world.named(found.indices), rest)
    if held is not None:
        raise Skip(f"line {held.lineno} {held.what}: {found.indices}, inside the minibatch loop")
    if any(found.indices in access(s).binds for s in statements(rest)):
        raise Skip(f"{found.indices} is bound again inside the minibatch loop")


def _check_same(roles: Roles, size: ast.expr, definition: ast.stmt, loop: ast.For) -> None:
    """Check that the number of indices has not changed since the array was made.

    Raises:
        Skip: it may not be.
    """
    tensors = roles.get(Tensors)
    for node in walk(size):
        if isinstance(node, ast.Name) and set(tensors.bindings(node.id, definition)) != set(
            tensors.bindings(node.id, loop)
        ):
            raise Skip(f"{node.id} may change between line {definition.lineno} and line {loop.lineno}")
        if isinstance(node, ast.Attribute) and definition not in statements(roles.outermost.body):
            other = roles.changed_by_training(node)
            if other is not None:
                raise Skip(f"line {other.lineno} changes {ast.unparse(node)}")


def _drawn_by_torch(tree: Tree, value: ast.expr) -> ast.expr | None:
    """The `n` of `torch.randperm(n)`, moved to a device or not."""
    while calls_method(value, "to", "cuda"):
        value = value.func.value
    if isinstance(value, ast.Call) and tree.calls(value, "torch.randperm") and len(value.args) == 1:
        return value.args[0]
    return None


def _shuffles(tree: Tree, call: ast.Call, indices: str) -> bool:
    same = len(call.args) == 1 and ast.unparse(call.args[0]) == indices
    generator = isinstance(call.func, ast.Attribute) and call.func.attr == "shuffle"
    return same and generator and tree.calls(call, "numpy.random.shuffle")


def _check_uses(roles: Roles, found: Pattern) -> list[ast.Call]:
    """Check that start, end and array are used for nothing else, and minibatch indices only index tensors.

    Returns:
        the calls of numpy.arange that make grids of indices, from which a minibatch takes the columns of its
        environments.

    Raises:
        Skip: there are other uses.
    """
    tree = roles.tree
    removed = {n for s in (found.shuffle, found.definition, *found.slices) if s for n in walk(s)}
    removed |= set(walk(found.loop.iter))
    makers: set[ast.stmt] = {found.loop, *found.slices, *(s for s in (found.shuffle, found.definition) if s)}
    helpers = {found.indices, found.start} | {n for s in found.slices[:-1] for n in names_in(s.targets)}
    if found.shuffle is None:
        helpers -= {found.indices}
    tensors = roles.get(Tensors)
    grids: list[ast.Call] = []
    for node in tree.of(ast.Name):
        changed = isinstance(tree.parents[node], ast.AugAssign)  # `start += 1` needs its old value
        if node in removed or not (isinstance(node.ctx, (ast.Load, ast.Del)) or changed):
            continue
        if node.id not in helpers and node.id != found.minibatch:
            continue
        if isinstance(variables(tree).owner_of(node), COMPREHENSIONS):
            continue
        if not runs_elsewhere(tree, node, roles.scope):
            if not makers & set(tensors.bindings(node.id, tree.statement(node))):
                continue  # another variable of the same name
            if node.id == found.minibatch:
                if found.shuffle is None or found.on_device:
                    continue
                if _is_index(roles, node):
                    continue
                if grid := _grid(roles, tensors, node):
                    grids.append(grid)
                    continue
        elif not roles.is_ours(node):
            continue
        if node.id == found.minibatch:
            raise Skip(f"line {node.lineno} uses {node.id} for more than indexing a tensor")
        raise Skip(f"line {node.lineno} also uses {node.id}, which only the minibatches may use")
    return list(dict.fromkeys(grids))


def _is_index(roles: Roles, node: ast.Name) -> bool:
    """Whether a use of minibatch indices works with a tensor too: indexing one, or taking their number."""
    tree, world = roles.tree, roles.get(World)
    parent = tree.parents[node]
    indexed = _indexed(tree, node)
    if indexed is not None:
        found = world.of(indexed.value)
        return roles.get(Tensors).tensor(indexed.value) or (world.are_tensors(found) and world.is_known(found))
    if isinstance(parent, ast.Call):
        made = tree.calls(parent, "torch.as_tensor") and parent.args[:1] == [node]  # converts the indices to a tensor
        return made or ast.unparse(parent.func) == "len"
    size = isinstance(parent, ast.Attribute) and parent.attr == "shape"  # a shape prints differently, so only shape[0]
    item = tree.parents[parent]
    return size and isinstance(item, ast.Subscript) and item.value is parent and is_number(item.slice, 0)


def _indexed(tree: Tree, node: ast.Name) -> ast.Subscript | None:
    """The `x[mb]` or `x[:, mb]` in which a name is the index."""
    index: ast.expr = node
    parent = tree.parents[node]
    if isinstance(parent, ast.Tuple) and all(e is node or _is_all(e) for e in parent.elts):
        index, parent = parent, tree.parents[parent]
    return parent if isinstance(parent, ast.Subscript) and parent.slice is index else None


def _is_all(node: ast.expr) -> bool:
    return isinstance(node, ast.Slice) and node.lower is node.upper is node.step is None


def _grid(roles: Roles, tensors: Tensors, node: ast.Name) -> ast.Call | None:
    """The numpy.arange of `grid = np.arange(n).reshape(steps, envs)`, used only in `mb = grid[:, node].ravel()`.

    As tensors, the grid holds the same integers, its columns the same indices in the same order.
    """
    tree = roles.tree
    columns = _indexed(tree, node)
    if columns is None or not isinstance(columns.value, ast.Name):
        return None
    grid = columns.value.id
    made = list(roles.assignments(grid))
    uses = [n for n in tree.of(ast.Name) if n.id == grid and isinstance(n.ctx, ast.Load)]
    if len(made) != 1 or uses != [columns.value] or made[0][1] is not made[0][0].value:
        return None
    call: ast.expr = made[0][1]
    while calls_method(call, "reshape"):
        call = call.func.value
    if not isinstance(call, ast.Call) or not tree.calls(call, "numpy.arange") or len(call.args) != 1 or call.keywords:
        return None
    stmt = tree.statement(node)
    if not isinstance(stmt, ast.Assign) or len(stmt.targets) != 1 or not isinstance(stmt.targets[0], ast.Name):
        return None
    flat = stmt.value.func if isinstance(stmt.value, ast.Call) and not stmt.value.args else None
    if not isinstance(flat, ast.Attribute) or flat.value is not columns or flat.attr not in ("ravel", "flatten"):
        return None
    for use in tree.nodes:
        if isinstance(use, ast.Name) and use.id == stmt.targets[0].id and isinstance(use.ctx, ast.Load):
            if runs_elsewhere(tree, use, roles.scope):
                if roles.is_ours(use):
                    return None
            elif stmt in tensors.bindings(use.id, tree.statement(use)) and not _is_index(roles, use):
                return None
    return call


TRANSFORM = Transform(INFO, apply, ALL)
