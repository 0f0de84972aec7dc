"""Extract the computation of one minibatch, up to the optimizer's step, into a function."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from transformer.dataflow.access import access
from transformer.dataflow.reaching import Bindings
from transformer.recognition.history import Function
from transformer.recognition.off_policy import Region, collects, leading
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import calls_method, is_read, method, statements, unparse, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.tree import Tree
from transformer.transforms.base import ALL, Rewrite, Skip, Transform, TransformInfo, each_region, skipped, still_left
from transformer.transforms.extraction import extract
from transformer.values.effects.graphs import LEAVES
from transformer.values.effects.kept_optimizers import trained_by
from transformer.values.effects.moves import clears_otherwise
from transformer.values.effects.recorded import Recorded
from transformer.values.minibatch import first_computation, last_step
from transformer.values.tensors import Tensors

INFO = TransformInfo(
    name="update",
    brief="a minibatch's update is update()",
    summary="extract forward, backward and optimizer step of one minibatch into update()",
    applies=(
        "to the statements of a minibatch, if nothing jumps out of them, nothing made in them outlives them and reads "
        "their variables, and no other function sets these"
    ),
    safety=(
        "The same statements run in the same order, with one exception: clearing gradients above the sampling moves "
        "below it if nothing in between may use them. Parameters and results follow from liveness. Results are "
        "detached, also in a dictionary, list or tuple that is made for them: the backward pass has freed their graph, "
        "and they are only read afterwards."
    ),
    costs=(
        "The update is not compiled, which is most of the gain: let nothing jump out of a minibatch above "
        "optimizer.step(), and let other functions set none of its names."
    ),
    headline="the minibatches' update is not compiled",
    needs=(),
    before="for mb_inds in ...:\n    loss = ...\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()",
    after="for mb_inds in ...:\n    approx_kl, v_loss, pg_loss = update(mb_inds, b_obs, b_actions, b_returns)",
)


def apply(state: State) -> Rewrite:
    """Extract the minibatch loop's body from its first tensor to the last optimizer step.

    Raises:
        Skip: it cannot be moved.
    """
    roles = state.roles
    if roles.kind == "off-policy":
        return _each_region(state)
    loop = roles.minibatch_loop
    tensors = roles.get(Tensors)
    first, last = first_computation(roles), last_step(roles)
    if first is None or last is None or first > last:
        raise Skip("no tensor computation was found above the optimizer's step")
    region = loop.body[first : last + 1]
    passes = sum(method(n) == "backward" for s in region for n in walk(s))
    if not passes:
        raise Skip("the minibatch loop steps the optimizer but calls no backward()")
    edits = Edits(state.source)
    doc = "Optimize the networks on one minibatch."
    function = extract(state, edits, region, "update", doc, detach=True)
    static = not any(_branches(tensors, n) for s in region for n in walk(s))
    history = state.history.with_function("update", function)
    brief = f"a minibatch's update is {function.name}()"
    return Rewrite(edits, replace(history, backwards=passes, static_update=static), brief=brief)


def _each_region(state: State) -> Rewrite:
    """Extract each update region of a loop over environment steps.

    Raises:
        Skip: none can be moved.
    """
    reasons: list[Skip] = []

    def extract(state: State, region: Region) -> State:
        try:
            return state if state.roles.is_update(region.steps[0]) else _extracted(state, region)
        except Skip as skip:
            reasons.append(skip)
            return state

    state = each_region(state, extract)
    if not state.history.updates:
        raise skipped(reasons, "no update was found")
    return Rewrite(state, left=still_left(reasons))


def _extracted(state: State, region: Region) -> State:
    """The state with one update region in a function of its own.

    Raises:
        Skip: it cannot be moved; the reason has the line numbers of the original.
    """
    while (sunk := _with_clearing(state, region)) is not None:
        state, region = sunk
    try:
        return _in_function(state, region)
    except Skip as skip:
        raise skip.at("the update", region.statements).recorded(state.recorded) from None


def _in_function(state: State, region: Region) -> State:
    roles, tensors = state.roles, state.roles.get(Tensors)
    passes = sum(method(n) == "backward" for s in region.statements for n in walk(s))
    if not passes:
        raise Skip("an optimizer is stepped, but no backward() is called")
    edits = Edits(state.source)
    single = _single_tensors(roles, region)
    doc = f"Optimize {' and '.join(single) + ' ' if single else ''}on one batch of stored steps{_by(roles, region)}."
    function = extract(state, edits, region.statements, _name(region, single), doc, detach=True)
    _check_graphs(roles, tensors, region, function)
    history = state.history.with_function(function.name, function)
    small = history.small_updates | ({function.name} if single else set())
    return state.after(edits, replace(history, updates={**history.updates, function.name: passes}, small_updates=small))


def _by(roles: Roles, region: Region) -> str:
    """Words that name the optimizers that a region steps, if the script has others; "" otherwise."""
    stepped = sorted({unparse(step.func.value) for step in region.steps if isinstance(step.func, ast.Attribute)})
    others = {optimizer.name for optimizer in roles.optimizers}.difference(stepped)
    return f", by {' and '.join(stepped)}" if others else ""


def _with_clearing(state: State, region: Region) -> tuple[State, Region] | None:
    """The state in which `optimizer.zero_grad()` moves down to become a region's first statement, and the new region.

    None if no such call stands above in the block, or a statement between the two may use the gradients.
    """
    roles = state.roles
    stepped = {unparse(step.func.value) for step in region.steps if isinstance(step.func, ast.Attribute)}
    cleared = {unparse(c.func.value) for s in region.statements for c in walk(s) if calls_method(c, "zero_grad")}
    for place, stmt in reversed([*enumerate(region.block[: region.first])]):
        call = stmt.value if isinstance(stmt, ast.Expr) else None
        if calls_method(call, "zero_grad") and not (call.args or call.keywords):
            if unparse(call.func.value) not in stepped - cleared:
                return None
            if clears_otherwise(roles, call, region.block[place + 1 : region.first]) is not None:
                return None
            edits = Edits(state.source)
            edits.remove(stmt)
            edits.before(region.statements[0], state.tree.text(stmt))
            later = state.after(edits, state.history)
            new = [r for r in later.roles.phases.regions if len(r.statements) == len(region.statements) + 1]
            index = roles.phases.regions.index(region)
            found = later.roles.phases.regions[index : index + 1]
            return (later, found[0]) if found and found[0] in new else None
    return None


def _single_tensors(roles: Roles, region: Region) -> list[str]:
    """The tensors of the region's optimizers, if listed one by one, as in `Adam([log_alpha])`; empty otherwise."""
    stepped = {ast.unparse(step.func.value) for step in region.steps if isinstance(step.func, ast.Attribute)}
    made = [one for one in roles.optimizers if one.name in stepped]
    given = [value for one in made for value in one.params]
    lists = [value.elts for value in given if isinstance(value, (ast.List, ast.Tuple))]
    each = [n for elements in lists for n in elements]
    one_by_one = len(lists) == len(made) and all(isinstance(n, (ast.Name, ast.Attribute)) for n in each)
    return list(dict.fromkeys(map(ast.unparse, each))) if one_by_one else []


def _name(region: Region, single: Sequence[str]) -> str:
    """`update_actor` for `actor_optimizer`; `update` for `optimizer`, and for several.

    `update_alpha` for `a_optimizer`, if `log_alpha` is its single tensor.
    """
    if len(region.steps) > 1:
        return "update"
    receiver = region.steps[-1].func
    assert isinstance(receiver, ast.Attribute)
    own = trained_by(ast.unparse(receiver.value))
    if len(own) <= len("_a") and len(single) == 1:
        own = f"_{single[0].rpartition('.')[2].removeprefix('log_')}"
    return f"update{own}"


def _check_graphs(roles: Roles, tensors: Tensors, region: Region, function: Function) -> None:
    """Check that no gradient flows from a region's losses to values computed outside, or from other losses into it.

    Raises:
        Skip: one may.
    """
    tree, inside = roles.tree, set(statements(region.statements))
    turn = list(statements(roles.outermost.body))
    lead = leading(turn, [tree.statement(step) for step in roles.optimizer_steps])
    reaching = {n: roles.reaching(roles.scope).before(n, region.statements[0]) for n in function.params}
    if roles.history.at_once and (carried := _with_graph(roles, region, reaching)):
        raise Skip(f"its input {carried[0]} may carry gradients of the rollout")
    for stmt in turn:
        if stmt in inside or _without_gradients(tree, stmt):
            continue
        own = access(stmt)
        computed = any(tensors.produced(n) for n in walk(stmt)) and not isinstance(stmt, BLOCKS)
        given = {name for name, stmts in reaching.items() if stmt in stmts} if computed else set()
        if carried := _with_graph(roles, region, {name: reaching[name] for name in sorted(given)}):
            raise Skip(f"its input {carried[0]} carries gradients from line {stmt.lineno}")
        read = own.reads & function.tensor_results
        if (
            read
            and (own.binds | collects(stmt)) & lead
            and not isinstance(stmt, BLOCKS)
            and not _reads_numbers(stmt, read)
        ):
            raise Skip(f"line {stmt.lineno} computes with {min(read)}, perhaps with gradients")


def _with_graph(roles: Roles, region: Region, inputs: Mapping[str, Bindings]) -> list[str]:
    """The inputs of a region that may be tensors with a graph where it reads them.

    Args:
        roles: the script.
        region: the region.
        inputs: their names, each with the statements that may have bound it.
    """
    recorded, found = roles.get(Recorded), list[str]()
    for name, bound in inputs.items():
        detached = [isinstance(s, ast.Assign) and method(s.value) in LEAVES and len(s.targets) == 1 for s in bound]
        reads = (
            n for s in region.statements for n in walk(s) if isinstance(n, ast.Name) and n.id == name and is_read(n)
        )
        if not (detached and all(detached)) and any(recorded.may_be(n) for n in reads):
            found.append(name)
    return found


BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try)


def _without_gradients(tree: Tree, stmt: ast.stmt) -> bool:
    return any(
        isinstance(outer, ast.With) and any(tree.calls(i.context_expr, "torch.no_grad") for i in outer.items)
        for outer in tree.ancestors(stmt)
    )


def _reads_numbers(stmt: ast.stmt, names: AbstractSet[str]) -> bool:
    """Whether a statement only takes values without gradients from some tensors: `x.item()`, `x.detach()`."""
    detached = {n for c in walk(stmt) if method(c) in ("item", "detach", "tolist") for n in walk(c)}
    read = (n for n in walk(stmt) if isinstance(n, ast.Name) and n.id in names and is_read(n))
    return all(n in detached for n in read)


def _branches(tensors: Tensors, node: ast.AST) -> bool:
    """Whether control flow depends on a tensor's value, which a CUDA graph would freeze."""
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        return any(tensors.tensor(n) or method(n) == "item" for n in walk(node.test) if isinstance(n, ast.expr))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("bool", "float", "int"):
        return any(tensors.tensor(n) for a in node.args for n in walk(a) if isinstance(n, ast.expr))
    return method(node) in ("item", "tolist", "numpy", "cpu")


TRANSFORM = Transform(INFO, apply, ALL)
