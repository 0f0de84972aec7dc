"""Extract the minibatch computation of other training phases: auxiliary phases, other losses."""

from __future__ import annotations

import ast
from dataclasses import replace

from transformer.dataflow.access import access
from transformer.facts.torch_api import names
from transformer.recognition.history import Function, History
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import children, method, names_in, statements, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.tree import Loop, Tree
from transformer.transforms.base import NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.extraction import extract, signature
from transformer.values.effects.world import World
from transformer.values.tensors import Tensors, results_of

INFO = TransformInfo(
    name="auxiliary-update",
    brief="further phases are update_auxiliary()",
    summary="extract the minibatches of further training phases into update_auxiliary()",
    applies=(
        "to further loops that step an optimizer after a backward pass, if no iteration needs what another one "
        "computed, under the conditions of `update`"
    ),
    safety=(
        "The same statements run in the same order, except that tensors which are only gathered are gathered before "
        "the first forward pass of their minibatch, which changes none of them. Parameters and results follow from "
        "liveness; results are detached, because the backward pass has freed their graph."
    ),
    costs="The further phase is not compiled: let no iteration of its loop need what another one computed.",
    needs=(),
    before=(
        "for mb_inds in ...:\n    value = agent.aux_value(aux_obs[mb_inds])\n    target = aux_returns[mb_inds]\n"
        "    loss = F.mse_loss(value, target)\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()"
    ),
    after=(
        "for mb_inds in ...:\n    target = aux_returns[mb_inds]\n    loss = update_auxiliary(aux_obs, mb_inds, target)"
    ),
)


def apply(state: State) -> Rewrite:
    """Extract a function from every loop in the training loop, except the minibatch loop, that steps an optimizer.

    Raises:
        Skip: there is no such loop, or none that can be moved.
    """
    loops = _further_loops(state.roles)
    if not loops:
        raise NotNeeded("the minibatch loop is the only one that steps an optimizer")
    edits, reasons, history = Edits(state.source), list[str](), state.history
    for loop in loops:
        try:
            function, passes = _extract(state, edits, loop)
        except Skip as skip:
            reasons.append(str(skip))
        else:
            history = _with_update(history, function, passes)
    if len(reasons) == len(loops):
        raise Skip("; ".join(reasons))
    return Rewrite(edits, history, tuple(reasons))


def _with_update(history: History, function: Function, passes: int) -> History:
    extracted = history.with_function(function.name, function)
    return replace(extracted, auxiliary={**history.auxiliary, function.name: passes})


def _further_loops(roles: Roles) -> list[Loop]:
    """The innermost loops around optimizer steps that belong neither to the minibatch loop nor to the rollout."""
    p = roles.phases
    around = {p.loop, *roles.tree.loops_around(p.loop), *p.steps, *p.updates}
    found: dict[Loop, None] = {}
    for step in roles.optimizer_steps:
        loops = roles.tree.loops_around(step)
        if roles.outermost in loops and roles.minibatch_loop not in loops and loops[0] not in around:
            found[loops[0]] = None
    return list(found)


def _extract(state: State, edits: Edits, loop: Loop) -> tuple[Function, int]:
    """Move the gathering of rows up and the rest into a function; returns it and the number of its backward passes.

    Raises:
        Skip: it cannot be moved.
    """
    roles = state.roles
    region = _region(roles, loop)
    passes = sum(method(n) == "backward" for s in region for n in walk(s))
    if not passes:
        raise Skip(f"the loop on line {loop.lineno} steps an optimizer but calls no backward()")
    doc = "Optimize the networks on one minibatch of a further training phase."
    above = _gathers(roles, region)
    sig = signature(roles, region, above=above)
    carried = [r for r in sig.results if r in sig.params and roles.get(Tensors).tensor_after(r, region[-1])]
    if carried:
        raise Skip(f"{carried[0]} is carried from one iteration of the loop on line {loop.lineno} to the next")
    return extract(state, edits, region, "update_auxiliary", doc, detach=True, above=above), passes


def _region(roles: Roles, loop: Loop) -> list[ast.stmt]:
    """The statements from the first network call to the last optimizer step, in the innermost block that contains both.

    Raises:
        Skip: there is no such region.
    """
    block, tensors = loop.body, roles.get(Tensors)
    while True:
        trains = [s for s in block if any(n in roles.optimizer_steps or method(n) == "backward" for n in walk(s))]
        if len(trains) != 1 or not isinstance(trains[0], (ast.Try, ast.With)):
            break
        block = trains[0].body
    computes = [
        s
        for s in block
        if any(tensors.produced(n) for n in walk(s)) and not isinstance(s, (ast.FunctionDef, ast.ClassDef))
    ]
    first = computes[0] if computes else trains[0]
    if block.index(first) > block.index(trains[-1]):
        raise Skip(f"the loop on line {loop.lineno} calls no network before its optimizer's step")
    return block[block.index(first) : block.index(trains[-1]) + 1]


def _gathers(roles: Roles, region: list[ast.stmt]) -> list[ast.stmt]:
    """Statements that select a minibatch's rows from tensors, and depend on nothing computed in the region."""
    tensors, world, found = roles.get(Tensors), roles.get(World), list[ast.stmt]()
    for at, stmt in enumerate(region):
        if not isinstance(stmt, ast.Assign) or len(stmt.targets) != 1 or not isinstance(stmt.targets[0], ast.Name):
            continue
        passed = [s for s in region[:at] if s not in found]
        seen = {n for s in statements(passed) for n in access(s).binds | access(s).reads}
        bound = {n for s in statements(passed) for n in access(s).binds}
        name, reads = stmt.targets[0].id, names_in([stmt.value])
        if name in seen or reads & bound or not tensors.tensor(stmt.value):
            continue
        read = {t for n in walk(stmt.value) if isinstance(n, ast.expr) for t in world.of(n)}
        if _only_gathers(roles.tree, stmt.value) and world.changes(read, region) is None:
            found.append(stmt)
    return found


def _only_gathers(tree: Tree, node: ast.expr) -> bool:
    """Whether an expression only indexes, moves, casts or reshapes, without computing or changing anything."""
    if isinstance(node, (ast.Name, ast.Constant)):
        return True
    if isinstance(node, ast.Attribute):
        return _only_gathers(tree, node.value)
    if isinstance(node, ast.Call):
        arguments = [*node.args, *(k.value for k in node.keywords)]
        if not all(_only_gathers(tree, a) for a in arguments):
            return False
        if isinstance(node.func, ast.Attribute):
            return node.func.attr in GATHERING and _only_gathers(tree, node.func.value)
        function = tree.function_called(node)
        body = [s for s in function.body if not _is_docstring(s)] if function else []
        results = results_of(function, node) if function and len(body) == 1 else []
        return bool(results) and all(_only_gathers(tree, r) for r in results)
    if isinstance(node, (ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.Starred, ast.UnaryOp)):
        return all(_only_gathers(tree, n) for n in children(node) if isinstance(n, ast.expr))
    return False


GATHERING = names("tensor", memory="shared", waits="") | names("tensor", selects=True, waits="")


def _is_docstring(stmt: ast.stmt) -> bool:
    return isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant)


TRANSFORM = Transform(INFO, apply)
