"""Add to all rows of a tensor at once, and not row by row."""

from __future__ import annotations

import ast

from transformer.facts.torch_api import OF, functions
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import is_number, statements, unparse
from transformer.syntax.rewrite import Edits
from transformer.transforms.base import ALL, Rewrite, Skip, Transform, TransformInfo, skipped, still_left
from transformer.values.shapes import whose_rows
from transformer.values.tensors import Tensors

INFO = TransformInfo(
    name="scatter-rows",
    brief="rows are added to in one call",
    summary="add to all rows of a tensor with scatter_add_() instead of a loop over its rows",
    applies=(
        "to loops over the rows of a tensor that only do `x[i].index_add_(0, index[i].long(), source[i])`, if the "
        "tensor is new and no other name in the loop refers to it"
    ),
    safety=(
        "Within a row, additions to an element happen in the order of the index, one call after the other, as in the "
        "loop. Rows share no elements, so interleaving them changes no sum. If index and source differ in their "
        "number of rows or columns, both versions raise an error."
    ),
    costs="Each row takes calls of its own: add to all rows with scatter_add_().",
    needs=(),
    before=(
        "for i in range(target_pmfs.size(0)):\n    target_pmfs[i].index_add_(0, l[i].long(), d_m_l[i])\n"
        "    target_pmfs[i].index_add_(0, u[i].long(), d_m_u[i])"
    ),
    after="target_pmfs.scatter_add_(1, l.long(), d_m_l)\ntarget_pmfs.scatter_add_(1, u.long(), d_m_u)",
)

LIKE = functions("torch", fills="like")


def apply(state: State) -> Rewrite:
    """Rewrite each such loop.

    Raises:
        Skip: there is none, or it may do more.
    """
    roles, edits = state.roles, Edits(state.source)
    reasons: list[Skip] = []
    for loop in (s for s in statements(roles.outermost.body) if isinstance(s, ast.For)):
        calls = [s.value for s in loop.body if isinstance(s, ast.Expr)]
        if not any(_adds(call) for call in calls):
            continue
        try:
            edits.replace(loop, "\n".join(_rewritten(roles, loop)))
        except Skip as skip:
            reasons.append(skip.at("the loop", [loop]))
    if not edits:
        raise skipped(reasons, "no loop adds to the rows of a tensor")
    return Rewrite(edits, left=still_left(reasons))


def _adds(call: ast.expr) -> bool:
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "index_add_"


def _rewritten(roles: Roles, loop: ast.For) -> list[str]:
    """The statements that do for all rows at once what a loop does for each.

    Raises:
        Skip: the loop does something else too, or its rows are not known.
    """
    tensors = Tensors(roles)
    if not isinstance(loop.target, ast.Name) or loop.orelse:
        raise Skip("it is not a plain loop over rows")
    index, whole = loop.target.id, _rows_looped_over(loop.iter)
    if whole is None:
        raise Skip(f"{unparse(loop.iter)} is not known to be the rows of a tensor")
    made = list(tensors.bindings(whole, loop))
    value = made[0].value if len(made) == 1 and isinstance(made[0], ast.Assign) else None
    if not (isinstance(value, ast.Call) and roles.tree.calls(value, *LIKE)) or made[0] not in roles.tree.block(loop):
        raise Skip(f"{whole} is not known to be a new tensor")
    if index in roles.liveness.after[loop]:
        raise Skip(f"{index} is read after it")
    like = unparse(value.args[0]) if value.args else ""
    lines, others = [], set[str]()
    for stmt in loop.body:
        call = stmt.value if isinstance(stmt, ast.Expr) else None
        if not isinstance(call, ast.Call) or not _adds(call) or call.keywords or len(call.args) != 3:
            raise Skip(f"line {stmt.lineno} does more than add to a row")
        assert isinstance(call.func, ast.Attribute)
        dim, at, source = call.args
        cast = isinstance(at, ast.Call) and isinstance(at.func, ast.Attribute) and at.func.attr == "long"
        place = at.func.value if cast and isinstance(at, ast.Call) and isinstance(at.func, ast.Attribute) else at
        rows = [_row(node, index) for node in (call.func.value, place, source)]
        if not is_number(dim, 0) or rows[0] != whole or rows[1] is None or rows[2] is None:
            raise Skip(f"line {stmt.lineno} does more than add to a row")
        for name in rows[1:]:
            bound = list(tensors.bindings(str(name), loop))
            if not bound or not all(isinstance(b, ast.Assign) and _is_no_list(b.value, like) for b in bound):
                raise Skip(f"{name} is not known to be a tensor")
        others |= {rows[1], rows[2]}
        lines.append(f"{whole}.scatter_add_(1, {rows[1]}{'.long()' if cast else ''}, {rows[2]})")
    for name in sorted(others):
        for binding in tensors.bindings(name, loop):
            shared = isinstance(binding, ast.Assign) and whole in {
                n.id for n in ast.walk(binding.value) if isinstance(n, ast.Name)
            }
            if name == whole or shared:
                raise Skip(f"{name} may share memory with {whole}")
    return lines


def _is_no_list(node: ast.expr, tensor: str) -> bool:
    """Whether a value is certainly no list, whose rows could be tensors too: differences and quotients are no lists.

    Args:
        node: the value.
        tensor: an expression that is known to be a tensor.
    """
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, (ast.Sub, ast.Div)):
            return True
        return isinstance(node.op, ast.Mult) and all(_is_no_list(n, tensor) for n in (node.left, node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in OF["tensor"]
    return unparse(node) == tensor


def _rows_looped_over(iterable: ast.expr) -> str | None:
    """The `x` of `range(x.size(0))`, `range(x.shape[0])` or `range(len(x))`."""
    if not isinstance(iterable, ast.Call) or unparse(iterable.func) != "range" or len(iterable.args) != 1:
        return None
    counted = whose_rows(iterable.args[0])
    return counted.id if isinstance(counted, ast.Name) else None


def _row(node: ast.expr, index: str) -> str | None:
    """The `x` of `x[i]`."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Name):
        return node.value.id if node.slice.id == index else None
    return None


TRANSFORM = Transform(INFO, apply, ALL)
