"""Keep a number that is read from a tensor after updates, such as SAC's temperature, in a tensor."""

from __future__ import annotations

import ast

from transformer.dataflow.access import access
from transformer.dataflow.closures import runs_elsewhere
from transformer.facts.torch_api import names
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import statements
from transformer.syntax.rewrite import Edits
from transformer.transforms.base import NotNeeded, Rewrite, Skip, Transform, TransformInfo, still_left
from transformer.transforms.whole_numbers import may_be_whole
from transformer.values.dtypes import Dtypes
from transformer.values.tensors import Tensors

INFO = TransformInfo(
    name="tensor-temperature",
    brief="a tuned temperature is a tensor",
    summary="keep a learned temperature in a tensor instead of reading it on the host after each of its updates",
    applies=(
        "to a name to which the training loop assigns a number read from a new tensor, such as `x.exp().item()`. "
        "Updates may only add it to float32 tensors, subtract it or multiply by it, and all other uses must read it as "
        "a number"
    ),
    safety=(
        "A tensor without dimensions takes part in sums and products with the number that it holds, and affects "
        "neither their dtype nor their shape, so the bits are the same as with the number. If it is logged or "
        "printed, it is read by float(), as before. A compiled update gets a tensor, and is not recompiled for new "
        "values."
    ),
    costs=(
        "The host waits for each update of the temperature, and compiled updates are compiled once more: read it once, "
        "by `.item()` below its own update, and only add it to tensors or multiply them by it."
    ),
    needs=(),
    before="alpha = log_alpha.exp().item()\n...\nwriter.add_scalar('losses/alpha', alpha, global_step)",
    after=(
        "alpha = log_alpha.exp().detach().reshape(())\n...\n"
        "writer.add_scalar('losses/alpha', float(alpha), global_step)"
    ),
)

FRESH = names("tensor", memory="new", dtype="kept", waits="", draws=False)
"""Methods of tensors that return new tensors of the same dtype."""
SAME = (ast.Add, ast.Sub, ast.Mult)
"""Operators for which a number and a one-element tensor give the same bits, on either side. Not so division: a number
divided by a tensor is computed through the reciprocal, and on some devices so is a tensor divided by a number."""


def apply(state: State) -> Rewrite:
    """Rewrite each such name.

    Raises:
        Skip: there is none, or a number is required.
    """
    roles, edits = state.roles, Edits(state.source)
    inside = [s for s in statements(roles.outermost.body) if isinstance(s, ast.Assign)]
    names = dict.fromkeys(n for s in inside if _exponential(s) is not None for n in access(s).binds)
    reasons: list[Skip] = []
    for name in names:
        try:
            _rewrite(roles, edits, name)
        except Skip as skip:
            reasons.append(skip)
    if edits:
        return Rewrite(edits, left=still_left(reasons))
    if reasons:
        raise Skip("; ".join(map(str, reasons)))
    raise NotNeeded("no update computes a number that later updates read")


def _exponential(stmt: ast.Assign) -> ast.expr | None:
    """The `x.exp()` of `name = x.exp().item()`."""
    call = stmt.value
    plain = len(stmt.targets) == 1 and isinstance(stmt.targets[0], ast.Name)
    if not plain or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    if call.func.attr != "item" or call.args or call.keywords:
        return None
    made = call.func.value
    fresh = isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr in FRESH
    return made if fresh else None


def _rewrite(roles: Roles, edits: Edits, name: str) -> None:
    """Edit the assignments and the reads of one name.

    Raises:
        Skip: a number is required somewhere.
    """
    tree, tensors, dtypes = roles.tree, Tensors(roles), Dtypes(roles)
    regions = [s for region in roles.phases.regions for s in statements(region.statements)]
    stored = [s for s in statements(roles.scope.body) if name in access(s).binds]
    read = {s: made for s in stored if isinstance(s, ast.Assign) and (made := _exponential(s)) is not None}
    for stmt in stored:
        if stmt in read and stmt in regions:
            raise Skip(f"line {stmt.lineno} reads {name} in the middle of an update")
        if stmt not in read and (stmt in set(statements(roles.outermost.body)) or not isinstance(stmt, ast.Assign)):
            raise Skip(f"line {stmt.lineno} assigns another value to {name}")
    if not any(stmt in read for stmt in statements(roles.outermost.body)):
        raise NotNeeded(f"{name} is read once")
    reads: list[ast.Name] = []
    for node in tree.nodes:
        if not isinstance(node, ast.Name) or node.id != name or not isinstance(node.ctx, ast.Load):
            continue
        if runs_elsewhere(tree, node, roles.scope):
            if roles.is_ours(node):
                raise Skip(f"line {node.lineno} reads {name} in a function")
            continue
        if tree.statement(node) in regions:
            _check_operand(roles, tensors, dtypes, node)
        elif not any(isinstance(outer, ast.JoinedStr) for outer in tree.ancestors(node)):
            reads.append(node)  # an f-string formats a zero-dimensional tensor like a number
        elif not isinstance(shown := tree.parents[node], ast.FormattedValue):
            raise Skip(f"line {node.lineno} computes with {name} inside an f-string")
        elif shown.conversion != -1:
            raise Skip(f"line {node.lineno} shows {name} by repr() or str() inside an f-string")
    for stmt in stored if reads else ():
        if isinstance(stmt, ast.Assign) and stmt not in read and may_be_whole(tree, stmt.value):
            raise Skip(f"{name} may be a whole number from line {stmt.lineno} on, and line {reads[0].lineno} reads it")
    for stmt, made in read.items():
        if not _is_float32(roles, dtypes, made):
            raise Skip(f"{ast.unparse(made)} is not known to be float32 (line {stmt.lineno})")
    for stmt, made in read.items():
        edits.replace(stmt, f"{name} = {tree.text(made)}.detach().reshape(())")
    for node in reads:
        edits.substitute(node, f"float({name})")


def _is_float32(roles: Roles, dtypes: Dtypes, made: ast.expr) -> bool:
    """Whether a call `x.exp()` returns a float32 tensor, judged by all values of the name `x`."""
    assert isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute)
    if made.args or made.keywords or not isinstance(made.func.value, ast.Name):
        return False
    name = made.func.value.id
    bound = [s for s in statements(roles.scope.body) if name in access(s).binds]
    given = [value for _, value in roles.assignments(name)]
    return bool(given) and len(bound) == len(given) and all(dtypes.float32(value) for value in given)


def _check_operand(roles: Roles, tensors: Tensors, dtypes: Dtypes, node: ast.Name) -> None:
    """Check that a number in an update is only added to float32 tensors, or multiplied with them.

    Raises:
        Skip: it may be combined with something for which the rounding differs.
    """
    outer = roles.tree.parents[node]
    if not isinstance(outer, ast.BinOp) or not isinstance(outer.op, SAME):
        raise Skip(f"line {node.lineno} does more with {node.id} than add or multiply it")
    other = outer.right if outer.left is node else outer.left
    if not tensors.tensor(other):
        raise Skip(f"line {node.lineno} combines {node.id} with something not known to be a tensor")
    if not dtypes.float32(other):
        raise Skip(f"{ast.unparse(other)} is not known to be float32 (line {node.lineno})")


TRANSFORM = Transform(INFO, apply, ("off-policy",))
