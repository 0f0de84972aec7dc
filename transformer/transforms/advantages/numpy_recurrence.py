"""On a CPU, let the loop over time work on numpy's views of its tensors."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from transformer.state import State
from transformer.syntax.query import backwards, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.syntax.tree import Tree
from transformer.transforms.base import NotNeeded, Rewrite, Skip, Transform, TransformInfo, skipped

INFO = TransformInfo(
    name="numpy-recurrence",
    summary="on a CPU, let the recurrence backwards over time work on numpy's views of its tensors",
    applies=(
        "to a loop backwards over time that only adds, subtracts, multiplies and divides rows of its function's "
        "parameters; what they are is asked when it runs"
    ),
    safety=(
        "The loop stays as it is, and its results land in the same memory. It only adds, subtracts, multiplies and "
        "divides, element by element, which numpy rounds as torch does: to the nearest float32. Whether all rows are "
        "float32 tensors on the CPU, and all else plain numbers, is asked when it runs."
    ),
    needs=("compile",),
    before=(
        "def recurrence(advantages, lastgaelam, delta, discount):\n    for t in reversed(range(args.num_steps)):\n"
        "        advantages[t] = lastgaelam = delta[t] + discount[t] * lastgaelam"
    ),
    after=(
        "def recurrence(advantages, lastgaelam, delta, discount):\n    if ...:  # float32 tensors on the CPU\n"
        "        advantages, delta, discount = (r.numpy() for r in rows)\n"
        "    for t in reversed(range(args.num_steps)):\n"
        "        advantages[t] = lastgaelam = delta[t] + discount[t] * lastgaelam"
    ),
)


def apply(state: State) -> Rewrite:
    """Add the views at the top of each function that holds a recurrence.

    Raises:
        Skip: there is none, or it does more than add, subtract, multiply and divide.
    """
    tree = state.tree
    recurrences = list(_recurrences(tree))
    if tree.imports.get("torch") != "torch":
        raise (Skip if recurrences else NotNeeded)("torch is not imported by its name")
    edits, reasons, done = Edits(state.source), list[Skip](), set[str]()
    for function, loop in recurrences:
        try:
            arrays, numbers = _operands(function, loop)
        except Skip as skip:
            reasons.append(skip)
            continue
        rows, shared = tree.names.fresh("rows"), tree.names.fresh("shared")
        edits.before(loop, render("numpy_recurrence", rows=rows, shared=shared, arrays=arrays, numbers=numbers))
        done.add(function.name)
    if not done:
        raise skipped(reasons, "there is no loop over time of its own that returns nothing")
    on_device = state.history.on_device | done
    return Rewrite(edits, replace(state.history, on_device=on_device), tuple(map(str, reasons)))


def _recurrences(tree: Tree) -> Iterator[tuple[ast.FunctionDef, ast.For]]:
    """The functions that the compile transform made of loops backwards over time, and their loops."""
    for function in tree.nodes:
        if isinstance(function, ast.FunctionDef):
            eager = any(tree.qualified(d) == "torch.compiler.disable" for d in function.decorator_list)
            loop = function.body[-1]
            if eager and isinstance(loop, ast.For) and backwards(loop.iter) is not None:
                yield function, loop


def _operands(function: ast.FunctionDef, loop: ast.For) -> tuple[list[str], list[str]]:
    """The parameters that the loop takes by their rows, and those that it takes as they are.

    Raises:
        Skip: the loop does more than add, subtract, multiply and divide them.
    """
    params = [a.arg for a in function.args.args]
    own = {n.id for s in loop.body for n in walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    arrays: set[str] = set()
    numbers: set[str] = set()
    index = ast.unparse(loop.target)

    def check(node: ast.expr) -> None:
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in params:
            if ast.unparse(node.slice) != index:
                raise Skip(f"line {node.lineno} takes another row than the step's")
            arrays.add(node.value.id)
        elif isinstance(node, ast.Name) and node.id in params:
            numbers.add(node.id)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
            check(node.left)
            check(node.right)
        elif not (isinstance(node, ast.Name) and node.id in own) and not isinstance(node, ast.Constant):
            raise Skip(f"line {node.lineno} does more than add, subtract, multiply and divide")

    for stmt in loop.body:
        if not isinstance(stmt, ast.Assign) or not all(isinstance(t, (ast.Name, ast.Subscript)) for t in stmt.targets):
            raise Skip(f"line {stmt.lineno} is not an assignment")
        for part in (*stmt.targets, stmt.value):
            check(part)
    if both := sorted(arrays & (numbers | own)):
        raise Skip(f"{both[0]} is taken by its rows and as it is")
    return [p for p in params if p in arrays], [p for p in params if p in numbers]


TRANSFORM = Transform(INFO, apply)
