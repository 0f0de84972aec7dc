"""Helpers that get a loss and an optimizer, compute gradients and step, and are called for several networks.

`def learn(loss, optimizer): optimizer.zero_grad(); loss.backward(); optimizer.step()`.
"""

from __future__ import annotations

import ast
from typing import cast

import libcst as cst

from transformer.dataflow.name_lookups import looks_up_names, texts_of
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import calls_method, parameters, root, walk
from transformer.syntax.rewrite import Edits


def with_own_helpers(state: State) -> tuple[State, tuple[str, ...]] | None:
    """The state in which each call of a helper has its own copy, and the names of the copies; None if there is none.

    The copies behave like the helper: the script only calls it, and its defaults are constants.
    """
    tree = state.tree
    for function in tree.of(ast.FunctionDef):
        if not _steps_for_others(state.roles, function):
            continue
        uses = [n for n in tree.of(ast.Name) if n.id == function.name]
        calls = [c for u in uses if isinstance(c := tree.parents[u], ast.Call) and tree.function_called(c) is function]
        inside = any(function in tree.ancestors(call) for call in calls)
        if (
            len(calls) < max(2, len(uses))
            or inside
            or (function.name in texts_of(tree) and looks_up_names(tree, tree.root))
        ):
            continue
        edits, names = Edits(state.source), [function.name]
        copied = cast(cst.FunctionDef, edits.lines_of(function))
        for call in calls[1:]:
            names.append(tree.names.fresh(function.name))
            edits.after(function, [copied.with_changes(name=cst.Name(names[-1]), leading_lines=[])])
            edits.substitute(call.func, names[-1])
        return state.after(edits), tuple(names)
    return None


def _steps_for_others(roles: Roles, function: ast.FunctionDef) -> bool:
    """Whether a function of the module gets all optimizers that it steps, and all losses, as arguments."""
    tree, given = roles.tree, parameters(function)
    steps = [step for step in roles.optimizer_steps if tree.scope_of(step) is function]
    losses = [n for n in walk(function) if calls_method(n, "backward")]
    plain = all(
        isinstance(d, ast.Constant) for d in (*function.args.defaults, *function.args.kw_defaults) if d is not None
    )
    return (
        function in tree.root.body
        and not function.decorator_list
        and plain
        and bool(steps and losses)
        and all(root(step.func) in given for step in steps)
        and all(root(_receiver(loss)) in given for loss in losses)
    )


def _receiver(loss: ast.expr) -> ast.expr:
    """The loss of `loss.mean().backward()`."""
    while isinstance(loss, (ast.Call, ast.Attribute)):
        loss = loss.func if isinstance(loss, ast.Call) else loss.value
    return loss
