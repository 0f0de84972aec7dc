"""Leave the minibatch loop below the optimizer's step, not above it."""

from __future__ import annotations

import ast
from dataclasses import replace

import libcst as cst

from transformer.state import State
from transformer.syntax.query import blocks, statements
from transformer.syntax.rewrite import Edits, without_blank_lines
from transformer.syntax.tree import Tree
from transformer.transforms.base import NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.values.minibatch import first_computation, last_step

INFO = TransformInfo(
    name="late-exit",
    brief="the early exit stands below the step",
    summary="leave the minibatch loop below the optimizer's step, not above it",
    applies=(
        "where the minibatch loop is left in one place between its computation and the optimizer's step, by a `break` "
        "or `continue` at the end of an `if` of the loop's own (or of one nested in it) without an `else`"
    ),
    safety=(
        "The condition is evaluated once, where it was. Where it holds, what stood below it is not run, as before, and "
        "the loop is left by the same statements; where it does not, the same statements run in the same order."
    ),
    costs="The exit cuts update() in two: leave the minibatch loop at its end.",
    needs=(),
    before=(
        "for mb_inds in ...:\n    ...\n    if approx_kl > args.target_kl:\n        break\n    loss = ...\n"
        "    optimizer.step()"
    ),
    after=(
        "for mb_inds in ...:\n    ...\n    stop = bool(approx_kl > args.target_kl)\n    if not stop:\n"
        "        loss = ...\n        optimizer.step()\n    if stop:\n        break"
    ),
)


def apply(state: State) -> Rewrite:
    """Put what follows the condition, to the optimizer's step, under its opposite.

    Raises:
        Skip: nothing leaves the loop above the step, or not by one condition of the loop's own.
    """
    roles = state.roles
    loop = roles.minibatch_loop
    first, last = first_computation(roles), last_step(roles)
    if first is None or last is None:
        raise Skip("no tensor computation was found above the optimizer's step")
    exits = [i for i in range(first, last) if any(map(_leaves, _own(loop.body[i])))]
    if not exits and not any(map(_leaves, _own(loop.body[last]))):
        raise NotNeeded("nothing leaves the minibatch loop between its computation and the optimizer's step")
    if len(exits) != 1:
        raise Skip(f"the minibatch loop is left above the optimizer's step in {len(exits) or 'other'} places")
    place = loop.body[exits[0]]
    conditions, block = _conditions(place)
    if not isinstance(block[-1], (ast.Break, ast.Continue)) or any(_leaves(s) for s in statements(block[:-1])):
        raise Skip(f"line {place.lineno} leaves the minibatch loop in another way than at the end of a condition")
    stop = state.tree.names.fresh("stop")
    edits = Edits(state.source)
    condition = " and ".join(_operand(state.tree, test) for test in conditions)
    guarded = [edits.move(stmt) for stmt in loop.body[exits[0] + 1 : last + 1]]
    guarded[0] = without_blank_lines(guarded[0])
    leaving = [edits.lines_of(stmt) for stmt in block]
    edits.replace(
        place,
        [
            cst.parse_statement(f"{stop} = bool({condition})"),
            cst.If(cst.parse_expression(f"not {stop}"), cst.IndentedBlock(guarded)),
            cst.If(cst.Name(stop), cst.IndentedBlock(leaving)),
        ],
    )
    return Rewrite(edits, replace(state.history, stop=stop))


def _own(stmt: ast.stmt) -> list[ast.stmt]:
    """The statements that belong to a loop's own turn: those of loops inside it leave those."""
    found, pending = [], [stmt]
    while pending:
        one = pending.pop()
        found.append(one)
        if isinstance(one, (ast.For, ast.AsyncFor, ast.While)):
            pending += one.orelse
        elif not isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            pending += [s for block in blocks(one) for s in block]
    return found


def _leaves(stmt: ast.stmt) -> bool:
    return isinstance(stmt, (ast.Break, ast.Continue, ast.Return))


def _conditions(stmt: ast.stmt) -> tuple[list[ast.expr], list[ast.stmt]]:
    """The conditions that hold together where a nest of `if` does something, and what it does.

    Raises:
        Skip: it is not such a nest.
    """
    conditions: list[ast.expr] = []
    block = [stmt]
    while len(block) == 1 and isinstance(block[0], ast.If):
        if block[0].orelse:
            raise Skip(f"line {stmt.lineno} leaves the minibatch loop or does something else")
        conditions.append(block[0].test)
        block = block[0].body
    if not conditions:
        raise Skip(f"line {stmt.lineno} leaves the minibatch loop in another way than at the end of a condition")
    return conditions, block


def _operand(tree: Tree, test: ast.expr) -> str:
    """A condition as written, in brackets where `and` would bind more closely than what it is made of."""
    text = tree.text(test)
    either = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or)
    return f"({text})" if either or isinstance(test, (ast.IfExp, ast.Lambda, ast.NamedExpr)) else text


TRANSFORM = Transform(INFO, apply, ("on-policy", "update"))
