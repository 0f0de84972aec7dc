"""Give calls of other networks in a step names of their own: curiosity, intrinsic rewards, a separate critic."""

from __future__ import annotations

import ast
from dataclasses import replace

from transformer.recognition.arguments import decided
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import is_none, parameters, walk
from transformer.syntax.rewrite import Edits
from transformer.transforms.base import NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.extraction import define, top_level
from transformer.transforms.rollout.policy import acting_callee, is_tensor, network_name, records_nothing
from transformer.values.effects.graphs import Graphs
from transformer.values.networks.computing import KnownNetworks
from transformer.values.tensors import Tensors

INFO = TransformInfo(
    name="step-networks",
    brief="calls of other networks in a step have names",
    summary="give calls of networks that do not choose the actions names, which --compile and --cudagraphs rebind",
    applies=(
        "to calls, in the steps of the rollout, of a network that is made once, above the training loop, of modules of "
        "this file and layers of torch that only compute. An example is an intrinsic reward, such as that of RND. The "
        "calls must be given tensors. They must run without gradients, or nothing may use the gradients of their "
        "results"
    ),
    safety="A function of its own makes the same call, in the same place, with the same tensors.",
    costs="This network is not compiled where a step calls it: give it tensors, under torch.no_grad().",
    needs=("flags",),
    before="with torch.no_grad():\n    rewards[step] += icm.intrinsic_reward(last_obs, next_obs, action)",
    after=(
        "def intrinsic_reward(obs, next_obs, action):\n    return icm.intrinsic_reward(obs, next_obs, action)\n\n"
        "with torch.no_grad():\n    rewards[step] += intrinsic_reward(last_obs, next_obs, action)"
    ),
    prepares=True,
)


def apply(state: State) -> Rewrite:
    """Define a function for each call above the training loop, and call it instead.

    Raises:
        Skip: none of the calls is known to compute only.
    """
    tree, roles = state.tree, state.roles
    calls = _calls_per_step(roles)
    if not calls:
        raise NotNeeded("a step calls no network but the one that chooses the actions")
    edits, functions, reasons = Edits(state.source), list[str](), list[str]()
    anchor = roles.outermost if not isinstance(roles.scope, ast.Module) else top_level(tree, roles.outermost)
    for call in calls:
        try:
            names = _inputs(roles, call)
        except Skip as skip:
            reasons.append(str(skip))
            continue
        callee = tree.text(call.func)
        name = tree.names.fresh(callee.rpartition(".")[2])
        given = ", ".join([*names[: len(call.args)], *(f"{k.arg}={n}" for k, n in _by_keyword(call, names))])
        doc = "Compute what a step needs beside the actions."
        made = define(state, name, names, doc, [], [f"{callee}({given})"], anchor.col_offset)
        edits.before(anchor, [made], gap=1 if anchor.col_offset else 2)
        edits.substitute(call.func, name)
        functions.append(name)
    if not functions:
        raise Skip("; ".join(dict.fromkeys(reasons)))
    return Rewrite(edits, replace(state.history, step_networks=tuple(functions)), tuple(dict.fromkeys(reasons)))


def _calls_per_step(roles: Roles) -> list[ast.Call]:
    """The calls of trained networks that every step makes, except those that choose the actions."""
    steps, acting = roles.phases.steps[:1] or roles.phases.acting, acting_callee(roles)
    found = [n for s in steps for n in walk(s) if isinstance(n, ast.Call) and network_name(n.func) in roles.modules]
    other = [c for c in found if acting is None or ast.unparse(c.func) != ast.unparse(acting)]
    return sorted((c for c in other if _always_runs(roles, c)), key=lambda c: (c.lineno, c.col_offset))


def _always_runs(roles: Roles, call: ast.Call) -> bool:
    """Whether every step makes a call or none does, as the script's arguments decide."""
    stmt = roles.tree.statement(call)
    for outer in (stmt, *roles.tree.ancestors(stmt)):
        if outer in roles.phases.steps or outer is roles.outermost:
            return True
        if isinstance(outer, ast.If) and not (outer is not stmt and decided(roles, outer.test)):
            return False
        if isinstance(outer, (ast.For, ast.While, ast.Try, ast.Match)):
            return False
    return False


def _by_keyword(call: ast.Call, names: list[str]) -> list[tuple[ast.keyword, str]]:
    return list(zip(call.keywords, names[len(call.args) :], strict=True))


def _owner(roles: Roles, network: str) -> ast.ClassDef | None:
    """The class of this file of which a network is an instance wherever it is made; None if it may be another."""
    made = [v for _, v in roles.assignments(network) if not is_none(v)]
    calls = [roles.tree.constructor(v) for v in made]
    classes = {None if c is None else roles.tree.classes[ast.unparse(c.func)] for c in calls}
    return classes.pop() if len(classes) == 1 else None


def _inputs(roles: Roles, call: ast.Call) -> list[str]:
    """Names for the tensors that a call is given.

    Raises:
        Skip: the call may do more than compute with them.
    """
    tree, callee, line = roles.tree, ast.unparse(call.func), f"line {call.lineno}"
    network, owner, known = network_name(call.func), _owner(roles, network_name(call.func)), roles.get(KnownNetworks)
    above = all(stmt in roles.setup or _is_above(roles, stmt) for stmt, _ in roles.assignments(network))
    if owner is None or network in roles.variant or not above:
        raise Skip(f"{line} calls {callee}(), which is not made once above the training loop, of a class of this file")
    part = call.func.attr if isinstance(call.func, ast.Attribute) else None
    methods = {s.name: s for s in owner.body if isinstance(s, ast.FunctionDef)}
    method = methods.get(part or "forward")
    if not (part in known.networks(owner) if method is None else known.runs(owner, part or "forward")):
        raise Skip(f"{line} calls {callee}(), which may do more than compute")
    stmt = tree.statement(call)
    bound = [t.id for t in stmt.targets if isinstance(t, ast.Name)] if isinstance(stmt, ast.Assign) else []
    direct = len(bound) == 1 and isinstance(stmt, ast.Assign) and stmt.value is call
    if not records_nothing(roles, call) and not (direct and roles.get(Graphs).seen(bound, [stmt]) is None):
        raise Skip(f"{line} calls {callee}() with gradients: put it under torch.no_grad()")
    for value in (*call.args, *(k.value for k in call.keywords)):
        kept = isinstance(value, ast.Subscript) and ast.unparse(value.value) == roles.history.transition
        if isinstance(value, ast.Constant) or not (kept or is_tensor(tree, roles.get(Tensors), value)):
            raise Skip(f"{line} gives {callee}() {ast.unparse(value)}, which is not known to be a tensor")
    if any(k.arg is None for k in call.keywords):
        raise Skip(f"{line} gives {callee}() arguments whose names are not written out")
    declared = parameters(method)[1:] if method is not None else []
    names = [declared[at] if at < len(declared) else f"x{at or ''}" for at in range(len(call.args))]
    return [*names, *(k.arg or "" for k in call.keywords)]


def _is_above(roles: Roles, stmt: ast.stmt) -> bool:
    """Whether a statement is inside a block, such as an `if`, above the training loop."""
    return any(outer in roles.setup for outer in roles.tree.ancestors(stmt) if not isinstance(outer, ast.For))


TRANSFORM = Transform(INFO, apply)
