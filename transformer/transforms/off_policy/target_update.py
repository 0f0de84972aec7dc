"""Update all parameters of the target networks in one call."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from transformer.dataflow.access import scope_access
from transformer.dataflow.bindings import variables
from transformer.dataflow.grad_mode import without_gradients
from transformer.facts.libraries import module_methods
from transformer.facts.torch_api import layers
from transformer.recognition.changes import Changes
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.options import holds_options
from transformer.syntax.query import (
    blocks,
    calls_method,
    first_parameter,
    is_number,
    names_in,
    pairwise,
    parameters,
    statements,
    unparse,
    walk,
    without_methods,
)
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.syntax.tree import Tree
from transformer.transforms.base import Rewrite, Skip, Transform, TransformInfo, skipped, still_left
from transformer.transforms.extraction import top_level
from transformer.transforms.off_policy.kept_networks import Kept, changed_unseen, makes_new
from transformer.transforms.off_policy.moved_parameters import ByState, moved_in_place, of_state_dicts, parameter_of
from transformer.values.effects.kept_optimizers import exchanged, grown
from transformer.values.effects.world import World
from transformer.values.networks.attributes import Values
from transformer.values.networks.uses import NetworkUses

INFO = TransformInfo(
    name="target-update",
    brief="target networks are updated in one call",
    summary="update the target networks' parameters from the trained ones in one call for all of them",
    applies=(
        "to loops over the float32 parameters of two networks that only copy `a * p + b * t` into each t, or multiply "
        "t by a number in place and add a multiple of p, or call `t.lerp_(p, a)`; or that do this with the entries of "
        "both state_dict() and load the result. The numbers must be constant for the whole run. Both networks must be "
        "made once and in the same way, above the training loop, or as copies by the constructor of an object. They "
        "must share nothing and keep their parameters. A function to which both networks are passed looks up their "
        "parameters in each call"
    ),
    safety=(
        "torch's foreach functions round each product and each sum as the loop did, element by element; only the "
        "order of the two addends differs, which changes no sum. All parameters of consecutive loops are updated "
        "together, because none of them is read by another loop. As before, no graph is recorded. A state that is "
        "loaded contains parameters only: the networks are made of torch's layers without buffers."
    ),
    costs=(
        "Each parameter of the target networks is updated by calls of its own: make both networks alike, pass neither "
        "them nor their optimizers to other code, and update the target below the update of the network, in one loop "
        "over `zip(target.parameters(), network.parameters())`."
    ),
    needs=(),
    before=(
        "for param, target_param in zip(qf1.parameters(), qf1_target.parameters()):\n"
        "    target_param.data.copy_(args.tau * param.data + (1 - args.tau) * target_param.data)"
    ),
    after=(
        "def update_targets():\n    with torch.no_grad():\n        torch._foreach_mul_(targets, 1 - args.tau)\n"
        "        torch._foreach_add_(targets, torch._foreach_mul(sources, args.tau))\n\n\n"
        "targets, sources = list(qf1_target.parameters()), list(qf1.parameters())\n...\nupdate_targets()"
    ),
)


SAME_PARAMETERS = module_methods(gives="itself", sets=("mode", "place", "learning"))
"""Methods that return the network with the same parameters."""


@dataclass(frozen=True)
class Factors:
    """How a target's parameter t follows p: `t * kept + p * rate` or, if `kept` is None, `t.lerp_(p, rate)`."""

    kept: str | None
    rate: str
    by_alpha: bool = False
    """Whether p is added by `add_(p, alpha=rate)`, which rounds once."""


@dataclass(frozen=True)
class _Loop:
    """A loop that moves the parameters of `target` towards those of `network`, both as written."""

    stmt: ast.For
    target: str
    network: str
    factors: Factors
    besides: tuple[ast.stmt, ...] = ()
    """Statements beside the loop that belong to the update."""


def apply(state: State) -> Rewrite:
    """Replace consecutive loops by a function call.

    Raises:
        Skip: there is none, or none of the known form.
    """
    tree, roles = state.tree, state.roles
    for node in tree.of(ast.Attribute):
        stored = node.attr == "data" and not isinstance(node.ctx, ast.Load)
        if node.attr == "set_" or (stored and roles.get(World).may_be_tensor(node.value)):
            raise Skip(f"line {node.lineno} replaces a tensor's memory, so two networks may share it")
    if (where := state.history.other_precision) is not None:
        raise Skip(f"{where}, so a network may have parameters of another dtype than float32, and a copy would be cast")
    for call in tree.called.get("torch.nn.Parameter", ()):
        if len(call.args) > 1 or any(k.arg in ("requires_grad", None) for k in call.keywords):
            raise Skip(f"line {call.lineno} makes a parameter that may hold integers")
    uses, reasons, edits = NetworkUses(roles, structure=True), list[Skip](), Edits(state.source)
    names: list[str] = []
    nested = not isinstance(roles.scope, ast.Module)
    anchor = roles.outermost if nested else top_level(tree, roles.outermost)
    for group in _groups(roles, reasons):
        try:
            _check_networks(roles, uses, group)
        except Skip as skip:
            reasons.append(skip.at("the loop", [group[0].stmt]))
            continue
        function, targets, sources = (tree.names.fresh(n) for n in ("update_targets", "targets", "sources"))
        lists = (_all_parameters([one.target for one in group]), _all_parameters([one.network for one in group]))
        edits.before(roles.outermost, f"{targets} = {lists[0]}\n{sources} = {lists[1]}")
        moves = render("foreach_move", targets=targets, sources=sources, factors=group[0].factors)
        code = render("update_targets", function=function, moves=moves)
        edits.before(anchor, code, gap=1 if nested else 2)
        edits.replace(group[0].stmt, f"{function}()")
        for other in (*(one.stmt for one in group[1:]), *(stmt for one in group for stmt in one.besides)):
            edits.remove(other)
        names.append(function)
    helped = [*_in_helpers(roles, reasons)]
    for one in helped:
        pairs, targets, sources = (tree.names.fresh(n) for n in ("pairs", "targets", "sources"))
        named = {"pairs": pairs, "targets": targets, "sources": sources}
        moves = render("foreach_move", targets=targets, sources=sources, factors=one.factors)
        code = render("move_targets", target=one.target, network=one.network, moves=moves, **named)
        edits.replace(one.stmt, code)
    if not names and not helped:
        raise skipped(reasons, "no loop in the training loop goes through the parameters of two networks")
    history = replace(state.history, target_updates=tuple(names))
    return Rewrite(edits, history, left=still_left(reasons))


def _in_helpers(roles: Roles, reasons: list[Skip]) -> Iterator[_Loop]:
    """Known loops over the parameters of two networks that are arguments of a function of the file."""
    functions = (f for f in roles.run_by_training if isinstance(f, ast.FunctionDef) and f is not roles.scope)
    for function in functions:
        for stmt in statements(function.body):
            pair = _parameters_of_two(stmt) if isinstance(stmt, ast.For) else None
            if pair is None or not isinstance(stmt, ast.For) or not _are_given(function, pair.values()):
                continue
            try:
                one = _understood(roles, stmt, pair)
                _check_given(roles, function, stmt, list(pair.values()))
            except Skip as skip:
                reasons.append(skip.at("the loop", [stmt]))
            else:
                yield one


def _are_given(function: ast.FunctionDef, networks: Iterable[ast.expr]) -> bool:
    """Whether both networks are parameters of a function, which does not rebind them."""
    bound, given = scope_access(function.body).binds, parameters(function)
    return all(isinstance(n, ast.Name) and n.id in given and n.id not in bound for n in networks)


def _check_given(roles: Roles, function: ast.FunctionDef, loop: ast.For, networks: Sequence[ast.expr]) -> None:
    """Check that the networks passed to a function never share parameters, and the loop's names are not read below.

    Raises:
        Skip: they may share some, or may be read.
    """
    world = roles.get(World)
    moved, followed = (world.reach(world.of(network)) for network in networks)
    if not moved or not followed or not (world.is_known(moved) and world.is_known(followed)):
        raise Skip(f"the networks passed to {function.name}() are not known: write its loop where it is called")
    if moved & followed:
        raise Skip(f"the networks passed to {function.name}() may share parameters")
    names, inside = names_in([loop.target]), {*walk(loop)}
    if any(isinstance(n, ast.Name) and n.id in names and n not in inside for n in walk(function)):
        raise Skip("a parameter of the loop's last iteration may be read after it")


def _all_parameters(networks: Sequence[str]) -> str:
    """A list of the parameters of all networks."""
    if len(networks) == 1:
        return f"list({networks[0]}.parameters())"
    return f"[{', '.join(f'*{network}.parameters()' for network in networks)}]"


def _groups(roles: Roles, reasons: list[Skip]) -> Iterator[list[_Loop]]:
    """Consecutive known loops in one block, with one rate; the reasons for other loops go to `reasons`."""
    inside = [roles.outermost, *statements(roles.outermost.body)]
    for block in (block for stmt in inside for block in blocks(stmt)):
        group: list[_Loop] = []
        for stmt in block:
            pair = _parameters_of_two(stmt) if isinstance(stmt, ast.For) else None
            one = None
            if pair is not None and isinstance(stmt, ast.For):
                try:
                    one = _understood(roles, stmt, pair)
                except Skip as skip:
                    reasons.append(skip.at("the loop", [stmt]))
            elif isinstance(stmt, ast.For) and (found := of_state_dicts(roles, block, stmt)) is not None:
                yield from _by_state(roles, stmt, found, reasons)
            if group and (one is None or one.factors != group[0].factors):
                yield group
                group = []
            group += [one] if one is not None else []
        if group:
            yield group


def _by_state(roles: Roles, stmt: ast.For, found: ByState, reasons: list[Skip]) -> Iterator[list[_Loop]]:
    """The loop as a group of its own, if its factors are constant."""
    text = roles.tree.text
    try:
        _check_numbers(roles, found.kept, found.rate)
    except Skip as skip:
        reasons.append(skip)
        return
    factors = Factors(text(found.kept), text(found.rate))
    yield [_Loop(stmt, text(found.target), text(found.network), factors, found.besides)]


def _check_networks(roles: Roles, uses: NetworkUses, group: Sequence[_Loop]) -> None:
    """Check that the networks keep their parameters and are made alike, and that none is updated twice or followed too.

    Raises:
        Skip: this is not known.
    """
    targets, networks = [one.target for one in group], [one.network for one in group]
    if len({*targets, *networks}) < len(targets) + len(set(networks)):
        raise Skip("a network is updated twice, or towards one that is updated too")
    for one in group:
        if "." in one.target or "." in one.network:
            _check_kept(roles, one)
            continue
        made = [list(roles.assignments(name)) for name in (one.target, one.network)]
        loops = (outer for outer in _around(roles, one.stmt) if isinstance(outer, ast.For))
        if any(one.target in names_in([outer.target]) for outer in loops):
            raise Skip("it is in a loop over pairs of networks: write one loop for each pair")
        if any(len(values) != 1 for values in made):
            raise Skip(f"{one.target} or {one.network} is not made exactly once, above the training loop")
        (_, target), (stmt, network) = made[0][0], made[1][0]
        copied = _copies(roles.tree, target, one.network)
        if not copied and unparse(target) != unparse(network):
            raise Skip(f"{one.target} is made differently from {one.network} (line {stmt.lineno})")
        if not copied and roles.tree.constructor(target) is None:
            raise Skip(f"{one.target} is not made of a class of this file")
        for name in (one.network,) if copied else (one.target, one.network):
            if (why := uses.obstacle(name)) is not None:
                raise Skip(why)
        if copied:
            held = roles.get(World).resets(ast.Name(one.target, ast.Load()), roles.outermost.body)
            if held is not None:
                raise Skip(f"line {held.lineno} {held.what}: {one.target} may get other parameters")
            if (why := changed_unseen(roles, {one.target}, ast.Name)) is not None:
                raise Skip(why)
    for one in group:
        if any(one.stmt in statements(region.statements) for region in roles.phases.regions):
            raise Skip("it is in the middle of an update")
        if (late := _late_pass(roles, one.stmt)) is not None:
            # Autograd does not count a write to .data as a change of a saved tensor, but counts the functions' writes
            raise Skip(f"line {late.lineno} may compute gradients through {one.target} as it was before")
        names = {n.id for n in ast.walk(one.stmt.target) if isinstance(n, ast.Name)}
        if read := names & roles.liveness.after[one.stmt]:
            raise Skip(f"{min(read)} of its last iteration is read after it")


def _late_pass(roles: Roles, loop: ast.For) -> ast.Call | None:
    """A backward pass outside the updates, below a loop over parameters, in the same turn of the training loop."""
    updating = {n for region in roles.phases.regions for s in region.statements for n in walk(s)}
    calls = (n for n in walk(roles.outermost) if isinstance(n, ast.Call))
    passes = (n for n in calls if calls_method(n, "backward") or _is_of_autograd(roles.tree, n))
    return next((n for n in passes if n not in updating and n.lineno > (loop.end_lineno or 0)), None)


def _is_of_autograd(tree: Tree, call: ast.Call) -> bool:
    """Whether a call may compute gradients by a function of torch: `torch.autograd.grad(...)`."""
    return (tree.qualified(call.func) or "").startswith(("torch.autograd.", "torch.func."))


def _check_kept(roles: Roles, one: _Loop) -> None:
    """Check that an object's networks are set only above training, are made alike, and keep their parts.

    Raises:
        Skip: this is not known.
    """
    target, network = (Kept.of(roles, path) for path in (one.target, one.network))
    if target is None or network is None or target.maker is not network.maker:
        raise Skip(f"{one.target} or {one.network} is not set only above the training loop, in one way, by one object")
    own = first_parameter(target.maker)
    source = f"{own}.{one.network.rpartition('.')[2]}"
    copied = _copies(roles.tree, target.value, source)
    if not (copied and target.value.lineno > network.value.lineno) and not _are_alike(roles, target, network):
        raise Skip(
            f"{one.target} and {one.network} are not known to be alike and to share nothing: "
            f"make {one.target} by copy.deepcopy({source})"
        )
    names = {path.rpartition(".")[2] for path in (one.target, one.network)}
    if (why := changed_unseen(roles, names, ast.Attribute)) is not None:
        raise Skip(why)
    changes = roles.get(Changes)
    if changes.by_text is not None:
        raise Skip(f"line {changes.by_text} sets an attribute whose name is known only at run time")
    if (part := exchanged(roles, changes) or grown(roles)) is not None:
        raise Skip(part)


def _copies(tree: Tree, made: ast.expr, network: str) -> bool:
    """Whether an expression is a deep copy of a network, as written, perhaps frozen, moved or in another mode."""
    made = without_methods(made, SAME_PARAMETERS)
    return tree.calls(made, "copy.deepcopy") and unparse(made).endswith(f"deepcopy({network})")


def _around(roles: Roles, stmt: ast.stmt) -> Iterator[ast.AST]:
    """What is around a statement in the training loop."""
    return takewhile(lambda outer: outer is not roles.outermost, roles.tree.ancestors(stmt))


def _are_alike(roles: Roles, target: Kept, network: Kept) -> bool:
    """Whether both are made by equal calls of a class of the file, from numbers only, so that they share nothing."""
    made, call = target.frame(roles), roles.tree.constructor(target.value)
    if unparse(target.value) != unparse(network.value) or call is None or made is None:
        return False
    lines = sorted((target.value.lineno, network.value.lineno))
    between = [s for s in statements(target.maker.body) if lines[0] <= s.lineno < lines[1]]
    given = (*call.args, *(k.value for k in call.keywords))
    if any(roles.get(World).resets(value, between, of=target.maker) is not None for value in given):
        return False
    return makes_new(roles, Values(roles, lambda *_: None), target.value, made)


def _parameters_of_two(loop: ast.For) -> dict[str, ast.expr] | None:
    """The names of a loop over `zip(a.parameters(), b.parameters())`, each with its network."""
    call, target = loop.iter, loop.target
    if not isinstance(call, ast.Call) or unparse(call.func) != "zip" or len(call.args) != 2 or loop.orelse:
        return None
    if not isinstance(target, ast.Tuple) or not all(isinstance(t, ast.Name) for t in target.elts):
        return None
    found: dict[str, ast.expr] = {}
    for name, given in zip(target.elts, call.args, strict=False):
        plain = isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and not given.args
        if not plain or not isinstance(given, ast.Call) or not isinstance(given.func, ast.Attribute):
            return None
        if given.func.attr != "parameters" or given.keywords or not isinstance(name, ast.Name):
            return None
        found[name.id] = given.func.value
    return found if len(found) == len(target.elts) == 2 else None


def _understood(roles: Roles, loop: ast.For, networks: dict[str, ast.expr]) -> _Loop:
    """The update that a loop computes, if it is known.

    Raises:
        Skip: it is not.
    """
    quiet, text = without_gradients(roles.tree, loop), roles.tree.text
    _check_parameters(roles, networks.values())
    moved = moved_in_place(loop.body, [*networks], quiet=quiet)
    if moved is not None:
        _check_numbers(roles, *filter(None, (moved.kept, moved.rate)))
        (source,) = (name for name in networks if name != moved.into)
        how = Factors(text(moved.kept) if moved.kept is not None else None, text(moved.rate), moved.by_alpha)
        return _Loop(loop, text(networks[moved.into]), text(networks[source]), how)
    stmt = loop.body[0]
    call = stmt.value if isinstance(stmt, ast.Expr) and len(loop.body) == 1 else None
    copied = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "copy_"
    if not copied or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        raise Skip("it does more than copy into each parameter")
    into = parameter_of(call.func.value, quiet=quiet)
    value = call.args[0] if len(call.args) == 1 and not call.keywords else None
    if into not in networks or not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
        raise Skip("the copied value is not a sum of both parameters")
    factors: dict[str | None, ast.expr] = {}
    for product in (value.left, value.right):
        if not isinstance(product, ast.BinOp) or not isinstance(product.op, ast.Mult):
            raise Skip("the copied value is not a sum of both parameters, each times a number")
        left, right = (parameter_of(side, quiet=quiet) for side in (product.left, product.right))
        left, right = (name if name in networks else None for name in (left, right))
        factors |= {left: product.right} if left else {right: product.left}
    (other,) = (name for name in networks if name != into)
    rate, rest = factors.get(other), factors.get(into)
    if rate is None or rest is None or set(factors) != set(networks):
        raise Skip("the copied value is not a sum of both parameters, each times a number")
    _check_numbers(roles, rest, rate)
    return _Loop(loop, text(networks[into]), text(networks[other]), Factors(text(rest), text(rate)))


def _check_parameters(roles: Roles, networks: Iterable[ast.expr]) -> None:
    """Check that each network has parameters: without any, a loop does nothing, but torch's function raises an error.

    Raises:
        Skip: one may have none.
    """
    world = roles.get(World)
    for network in networks:
        for thing in world.of(network):
            made = (t.name.removeprefix("torch.nn.") for t in world.reach([thing]) if t.kind == "made")
            if layers(autocast="product").isdisjoint(made):
                raise Skip(f"{roles.tree.text(network)} is not known to have parameters")


def _check_numbers(roles: Roles, *factors: ast.expr) -> None:
    """Check that factors are numbers that never change.

    Raises:
        Skip: one may; the reason names the factor's line, not the loop's.
    """
    for factor in factors:
        if not _is_number_for_run(roles, factor):
            raise Skip(f"line {factor.lineno}: {roles.tree.text(factor)} is not known to be a constant number")


def _is_number_for_run(roles: Roles, rate: ast.expr) -> bool:
    """Whether an expression is one number for the whole run: a literal, an option, a name or attribute that never
    changes, or one minus such a number."""
    if isinstance(rate, ast.Constant):
        return isinstance(rate.value, (int, float))
    if isinstance(rate, ast.BinOp):
        return isinstance(rate.op, ast.Sub) and is_number(rate.left, 1) and _is_number_for_run(roles, rate.right)
    if isinstance(rate, ast.Name):
        names = variables(roles.tree)
        owner = names.owner_of(rate)
        if isinstance(owner, ast.FunctionDef) and rate.id in parameters(owner):
            bound = (n for n in roles.tree.of(ast.Name) if n.id == rate.id and not isinstance(n.ctx, ast.Load))
            steady = not any(names.owner_of(n) is owner for n in bound)  # a helper evaluates it in each call
            return (steady or owner is not roles.scope) and roles.get(World).are_numbers(rate)
        value = roles.only_value(rate.id)
        stored = [n for n in roles.tree.of(ast.Name) if n.id == rate.id and not isinstance(n.ctx, ast.Load)]
        if value is None and len(stored) == 1:  # such as TAU = 0.005 at the top of the file
            stmt = roles.tree.statement(stored[0])
            pairs = pairwise(stmt) if isinstance(stmt, ast.Assign) and stmt in roles.tree.root.body else []
            value = next((v for target, v in pairs if target is stored[0] and isinstance(v, ast.Constant)), None)
        given = any(a.arg == rate.id for a in roles.tree.of(ast.arg))
        return value is not None and len(stored) == 1 and not given and _is_number_for_run(roles, value)
    if not isinstance(rate, ast.Attribute):
        return False
    world = roles.get(World)
    steady = world.are_numbers(rate) and world.resets(rate, [roles.outermost]) is None
    return steady or holds_options(roles.tree, rate.value, roles.scope)


TRANSFORM = Transform(INFO, apply, ("off-policy",))
