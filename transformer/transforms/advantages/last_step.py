"""Move the turn of the last step out of a loop backwards in time that treats it specially."""

from __future__ import annotations

import ast

import libcst as cst

from transformer.dataflow.access import access
from transformer.dataflow.closures import Nested
from transformer.dataflow.liveness import Liveness
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import backwards, statements, walk
from transformer.syntax.rewrite import Edits, without_blank_lines
from transformer.transforms.advantages.time_loop import WITH_ARRAYS, choices, tests_for_last_step
from transformer.transforms.base import NotNeeded, Rewrite, Skip, Transform, TransformInfo, skipped, still_left
from transformer.values.arrays import computes_with_arrays
from transformer.values.shapes import Shapes

INFO = TransformInfo(
    name="last-step",
    brief="the last step is above the loop over time",
    summary="move the last step out of the loop backwards over time",
    applies=(
        "to a loop backwards over the rollout's steps whose body is a single if-else that tests for the last step and "
        "does more than choose values, if training does not change the number of steps"
    ),
    safety=(
        "The loop's first iteration is that of the last step, and a rollout has at least one step. Its statements run "
        "above the loop, with the same index, and those of all other steps in the same order in the loop."
    ),
    costs=(
        "Each step tests whether it is the last, and nothing is computed for all steps at once: let the loop run over "
        "`reversed(range(num_steps))`, and begin with the branch for the last step."
    ),
    needs=(),
    before=(
        "for t in reversed(range(args.num_steps)):\n    if t == args.num_steps - 1:\n"
        "        returns[t] = rewards[t] + args.gamma * next_value\n    else:\n        returns[t] = ..."
    ),
    after=(
        "t = args.num_steps - 1\nreturns[t] = rewards[t] + args.gamma * next_value\n"
        "for t in reversed(range(args.num_steps - 1)):\n    returns[t] = ..."
    ),
)


def apply(state: State) -> Rewrite:
    """Rewrite each such loop.

    Raises:
        Skip: there is none.
    """
    edits, places, done = Edits(state.source), [], 0
    on_device = [loop for loop in state.roles.gae_loops if not computes_with_arrays(state.roles, loop)]
    if state.roles.gae_loops and not on_device:
        raise NotNeeded(WITH_ARRAYS)
    for loop in on_device:
        try:
            _peel(state, edits, loop)
            done += 1
        except Skip as skip:
            places.append(skip.at("the loop", [loop]))
    if not done:
        none = "no `for t in reversed(range(n))` over the rollout's steps begins with a branch for the last step"
        raise skipped(places, none)
    return Rewrite(edits, left=still_left(places))


def _peel(state: State, edits: Edits, loop: ast.For) -> None:
    """Rewrite one loop.

    Raises:
        Skip: it has another form.
    """
    tree, roles = state.tree, state.roles
    count = backwards(loop.iter)
    if not isinstance(count, (ast.Name, ast.Attribute, ast.Constant)) or not isinstance(loop.target, ast.Name):
        raise Skip("it does not run over all steps with a plain index")
    branch = loop.body[0]
    if len(loop.body) > 1 or not isinstance(branch, ast.If) or not branch.orelse or loop.orelse:
        raise NotNeeded("it does more than choose between the last step and the others")
    is_last = tests_for_last_step(branch.test, loop.target.id, count, Shapes(roles))
    if is_last is None:
        raise NotNeeded(f"the branch on line {branch.lineno} does not test for the last step")
    last, others = (branch.body, branch.orelse) if is_last else (branch.orelse, branch.body)
    if all(choices(s) is not None for s in last):
        raise NotNeeded("its branch only chooses values")
    _check_loop(roles, loop, count)
    text = f"{tree.text(count)} - 1"
    first = [edits.lines_of(stmt) for stmt in last]
    first[0] = without_blank_lines(first[0])
    edits.before(loop, [cst.parse_statement(f"{loop.target.id} = {text}"), *first])
    edits.substitute(loop.iter, f"reversed(range({text}))")
    edits.replace(branch, [edits.lines_of(stmt) for stmt in others])


def _check_loop(roles: Roles, loop: ast.For, count: ast.expr) -> None:
    """Check that only the loop sets the index and the number of steps, and nothing leaves it.

    Raises:
        Skip: something else sets one, or a statement leaves the loop.
    """
    index = ast.unparse(loop.target)
    changed = roles.changed_by_training(count)
    if changed is not None:
        raise Skip(f"line {changed.lineno} sets {ast.unparse(count)}")
    for stmt in statements(loop.body):
        if isinstance(stmt, (ast.Break, ast.Continue, ast.Return, ast.Delete, ast.Global, ast.Nonlocal)):
            raise Skip(f"line {stmt.lineno} has a {type(stmt).__name__.lower()} statement")
        if index in access(stmt).binds:
            raise Skip(f"line {stmt.lineno} sets {index}")
    nested = next((n for n in walk(loop) if isinstance(n, Nested)), None)
    if nested is not None:
        raise Skip(f"line {nested.lineno} makes a function")
    if index in Liveness.of(roles.tree.scope_of(loop).body).after[loop]:
        raise Skip(f"{index} is read after it")


TRANSFORM = Transform(INFO, apply)
