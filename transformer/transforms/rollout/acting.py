"""Choose the actions without recording gradients."""

from __future__ import annotations

import ast
import re

from transformer.dataflow.access import access
from transformer.dataflow.closures import runs_elsewhere
from transformer.dataflow.own_compiling import own_compiling
from transformer.facts.libraries import library_does, role
from transformer.facts.torch_api import NO_GRAPH, names
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import statements
from transformer.syntax.rewrite import Edits
from transformer.transforms.base import BOTH, NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.rollout.policy import (
    OWN_METHOD,
    acting_callee,
    calls_before_update,
    is_own_method,
    network_name,
    records_nothing,
)
from transformer.values.effects.graphs import Graphs
from transformer.values.networks.without_gradients import differs

INFO = TransformInfo(
    name="acting",
    brief="acting records no gradients",
    summary="choose the actions under torch.no_grad()",
    applies=(
        "to calls of a trained network that choose the actions. Only the values of their results, and of what is "
        "computed from these, may be used, and the network must be made of modules and functions known to compute the "
        "same without gradients"
    ),
    safety=(
        "No loss is computed from the network's results, only from their values: `.detach()`, `.item()`, `.numpy()`. "
        "So the graph was recorded for nothing, and nothing reveals whether there was one. Linear layers with a bias, "
        "convolutions without groups, elementwise operations, operations along a dimension, argmax, and distributions "
        "compute the same bits and draw the same numbers whether a graph is recorded or not."
    ),
    costs="A graph is recorded for each action, and the policy is not compiled: act under torch.no_grad().",
    needs=(),
    before="actions, _, _ = actor.get_action(torch.Tensor(obs).to(device))\nactions = actions.detach().cpu().numpy()",
    after=(
        "with torch.no_grad():\n    actions, _, _ = actor.get_action(torch.Tensor(obs).to(device))\n"
        "actions = actions.detach().cpu().numpy()"
    ),
)

FOLLOWED = 4
"""The maximum number of assignments to follow from the network's result to the numbers."""


def apply(state: State) -> Rewrite:
    """Put each call that chooses the actions under torch.no_grad().

    Raises:
        Skip: there is none, or its results may be used for more than their values.
    """
    tree, roles = state.tree, state.roles
    compiling = own_compiling(tree)
    if compiling is not None:
        raise Skip(f"line {compiling.lineno} already compiles code that may compute differently without gradients")
    callee = acting_callee(roles)
    if callee is None:
        raise NotNeeded("no call of a trained network in the training loop itself chooses the actions")
    if is_own_method(roles, callee):
        raise NotNeeded(OWN_METHOD)
    calls = [c for c in calls_before_update(roles) if ast.unparse(c.func) == ast.unparse(callee)]
    bare = [c for c in calls if not records_nothing(roles, c)]
    if not bare:
        raise NotNeeded("the actions are already chosen under torch.no_grad()")
    network = network_name(callee)
    made = [call for _, value in roles.assignments(network) if (call := tree.constructor(value)) is not None]
    if len(made) != 1 or network in roles.variant:
        raise Skip(f"{network} is not made once, of a class of this file")
    called = callee.attr if isinstance(callee, ast.Attribute) else "forward"
    if (found := differs(roles, tree.classes[ast.unparse(made[0].func)], called)) is not None:
        raise Skip(f"{found}, which is not known to compute the same without gradients")
    if (seen := _seen_from_outside(roles)) is not None:
        raise Skip(f"line {seen.lineno} may observe or replace what the network computes: {ast.unparse(seen)}")
    edits = Edits(state.source)
    for stmt in dict.fromkeys(tree.statement(call) for call in bare):
        _check_use(roles, stmt)
        edits.put_under(stmt, "with torch.no_grad():")
    return Rewrite(edits)


def _seen_from_outside(roles: Roles) -> ast.expr | None:
    """A hook on more than optimizers' steps, or an assignment that replaces a function of torch or of a module."""
    for node in roles.tree.nodes:
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            name = roles.tree.qualified(node) or ""
            if node.attr in ("forward", "__call__") or (name.startswith("torch.") and library_does(name) != "settings"):
                return node
        name = roles.tree.last_name(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
        if not re.search(r"(?<!step_pre)(?<!step_post)_hook|Mode$", name):
            continue
        if role(roles.tree.qualified(node) or "") in (None, "tensors"):  # not an environment's mode
            return node  # type: ignore[return-value]
    return None


def _check_use(roles: Roles, stmt: ast.stmt) -> None:
    """Check that nothing can notice whether a statement's results, and the tensors that it writes to, have a graph.

    Raises:
        Skip: something may.
    """
    numbers = isinstance(stmt, ast.Assign) and _leaves_numbers(roles, stmt, FOLLOWED)
    if not numbers:
        if roles.kind == "off-policy" or not isinstance(stmt, ast.Assign):
            raise Skip(f"the results of line {stmt.lineno} may be used for more than their values")
        if not all(isinstance(n, (ast.Name, ast.Tuple, ast.Starred)) for n in stmt.targets):
            raise Skip(f"line {stmt.lineno} keeps its result in an object")
    bound = () if numbers else access(stmt).binds
    if (held := roles.get(Graphs).seen(bound, [stmt], in_place=True)) is not None:
        raise Skip(f"line {held.lineno or stmt.lineno} {held.what}")


def _leaves_numbers(roles: Roles, stmt: ast.Assign, depth: int) -> bool:
    """Whether the names that a statement binds are only turned into numbers, arrays, or values without a graph."""
    tree, bound = roles.tree, access(stmt).binds
    if not all(isinstance(n, (ast.Name, ast.Tuple, ast.Starred)) for n in stmt.targets) or not depth:
        return False
    if becomes_numbers(stmt.value) or _has_no_graph(roles, stmt.value):
        return True
    for node in tree.nodes:
        if not isinstance(node, ast.Name) or node.id not in bound or not isinstance(node.ctx, ast.Load):
            continue
        if not roles.is_ours(node):
            continue
        if runs_elsewhere(tree, node, roles.scope):
            return False
        where = tree.statement(node)
        if stmt not in roles.reaching(roles.scope).before(node.id, where):
            continue
        chain: list[ast.AST] = [node, *tree.ancestors(node)]
        taking = next((i for i, outer in enumerate(chain) if _takes(roles, outer, node)), None)
        if taking is not None and not any(map(roles.get(Graphs).is_caught, chain[:taking])):
            continue
        if not isinstance(where, ast.Assign) or not _leaves_numbers(roles, where, depth - 1):
            return False
    return not any(isinstance(s, ast.AugAssign) and access(s).binds & bound for s in statements(roles.outermost.body))


def becomes_numbers(node: ast.AST) -> bool:
    """Whether an expression is a chain of calls that turns a tensor into numbers."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in NO_GRAPH:
            return True
        node = node.func.value
    return False


def _has_no_graph(roles: Roles, node: ast.AST) -> bool:
    """Whether a node is a call of a function of torch whose result has no graph: `torch.argmax(values, dim=1)`."""
    name = roles.tree.qualified(node.func) or "" if isinstance(node, ast.Call) else ""
    return name.startswith("torch.") and name.removeprefix("torch.") in names("torch", graph=False)


def _takes(roles: Roles, outer: ast.AST, name: ast.Name) -> bool:
    """Whether an expression turns a name, or a torch function's result for it, into values without a graph."""
    if _has_no_graph(roles, outer):
        return name in outer.args  # type: ignore[attr-defined]
    if not becomes_numbers(outer):
        return False
    inner = outer
    while isinstance(inner, (ast.Call, ast.Attribute, ast.Subscript)):
        if isinstance(inner, ast.Call):
            if (roles.tree.qualified(inner.func) or "").startswith("torch."):
                return name in inner.args
            inner = inner.func
        else:
            inner = inner.value
    return inner is name


TRANSFORM = Transform(INFO, apply, BOTH)
