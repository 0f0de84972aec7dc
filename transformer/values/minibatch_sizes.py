"""Whether all minibatches of an update have the same size, which a CUDA graph needs."""

from __future__ import annotations

import ast

from transformer.dataflow.access import access
from transformer.recognition.history import Function
from transformer.recognition.roles import Roles
from transformer.syntax.query import assigns, calls_method, copied, names_in, statements, unparse
from transformer.syntax.tree import Loop
from transformer.values.replay import is_steady


class Unshown(Exception):
    """Nothing above the training loop determines the sizes."""


def evenness(roles: Roles, update: Function) -> str:
    """The condition under which all minibatches have the same size, in names bound above the training loop.

    The condition is empty if they always do: the loops around update() set none of its arguments, or only arguments of
    fixed size.

    Raises:
        Unshown: the minibatches are cut in a way whose sizes are not known.
    """
    loop, around = roles.minibatch_loop, roles.phases.updates[-1]
    bound = access(around).binds.union(*(access(s).binds for s in statements(around.body)))
    cut = {loop.target.id} if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name) else set()
    given = sorted(bound.intersection(update.params))
    pieces = [name for name in given if cut and _is_piece(loop, name, cut, bound)]
    if not all(name in pieces or is_steady(roles, name, _call(roles, update)) for name in given):
        raise Unshown
    return _of_cut(roles, loop.iter) if pieces and isinstance(loop, ast.For) else ""


def _call(roles: Roles, update: Function) -> ast.stmt:
    calls = (n for n in roles.tree.of(ast.Call) if unparse(n.func) == update.name)
    return roles.tree.statement(next(c for c in calls if roles.outermost in roles.tree.ancestors(c)))


def _is_piece(loop: Loop, name: str, cut: set[str], bound: frozenset[str]) -> bool:
    """Whether a name is a minibatch's indices, or the elements that they select: `mb_obs = b_obs[mb_inds]`."""
    setting = [s for s in statements(loop.body) if name in access(s).binds]
    values = [s.value for s in setting if isinstance(s, ast.Assign) and s in loop.body and assigns(s, name)]
    selected = [v for v in values if isinstance(v, ast.Subscript) and names_in([v.slice]) == cut]
    plain = all(isinstance(v.slice, ast.Name) and unparse(v.value) not in bound for v in selected)
    return plain and len(selected) == len(setting) and (name in cut) == (not setting)


def _of_cut(roles: Roles, cut: ast.expr) -> str:
    """The condition under which a tensor of indices is cut into equal parts; empty if it always is."""
    if not calls_method(cut) or roles.tree.qualified(cut.func) or not cut.args or cut.keywords:
        raise Unshown
    whole, parts = cut.func.value, cut.args[0]
    if cut.func.attr not in ("split", "chunk") or len(cut.args) > 1:
        raise Unshown
    if cut.func.attr == "split" and _is_whole_number_of(whole, parts):
        return ""
    rest = _Above(roles).visit(copied(ast.BinOp(_length(roles, whole), ast.Mod(), parts)))
    if roles.changed_by_training(rest) is not None:
        raise Unshown
    assert isinstance(rest, ast.expr)
    return unparse(ast.Compare(rest, [ast.Eq()], [ast.Constant(0)]))


def _is_whole_number_of(whole: ast.expr, size: ast.expr) -> bool:
    """Whether a tensor is shortened to a multiple of a size: `indices[: n // size * size]`."""
    stop = whole.slice.upper if isinstance(whole, ast.Subscript) and isinstance(whole.slice, ast.Slice) else None
    whole_number = isinstance(stop, ast.BinOp) and isinstance(stop.op, ast.Mult) and isinstance(stop.left, ast.BinOp)
    return whole_number and unparse(stop).endswith(f" // {unparse(size)} * {unparse(size)}")  # type: ignore[arg-type]


def _length(roles: Roles, whole: ast.expr) -> ast.expr:
    """The number of indices before they are cut into minibatches.

    Raises:
        Unshown: it is not a permutation or a range of a number of indices.
    """
    while calls_method(whole, "to", "long") and roles.tree.qualified(whole.func) is None:
        whole = whole.func.value
    if isinstance(whole, ast.Name):
        lengths = {unparse(n): n for _, v in roles.assignments(whole.id) for n in [_length(roles, v)]}
        others = [s for s in statements(roles.scope.body) if whole.id in access(s).binds]
        if len(lengths) == 1 and len(others) == len(roles.assignments(whole.id)):
            return next(iter(lengths.values()))
    elif roles.tree.calls(whole, "torch.randperm", "torch.arange") and isinstance(whole, ast.Call):
        if len(whole.args) == 1:
            return whole.args[0]
    raise Unshown


class _Above(ast.NodeTransformer):
    """Substitutes the values of names that the training loop binds, and rejects parts that are not numbers."""

    def __init__(self, roles: Roles) -> None:
        self._roles = roles
        self._inside: list[str] = []

    def visit(self, node: ast.AST) -> ast.AST:
        """Visit a part of a number.

        Raises:
            Unshown: it may be something else than a number, or another number when it is computed again.
        """
        if isinstance(node, ast.Call):
            if unparse(node.func) not in ("int", "max", "min") or node.keywords:
                raise Unshown
        elif isinstance(node, ast.expr) and not isinstance(node, (ast.BinOp, ast.Name, ast.Attribute, ast.Constant)):
            raise Unshown
        found: ast.AST = super().visit(node)
        return found

    def visit_Name(self, node: ast.Name) -> ast.expr:
        made = [value for _, value in self._roles.assignments(node.id)]
        if node.id not in self._roles.variant:
            if any(isinstance(value, (ast.List, ast.Tuple, ast.ListComp)) for value in made):
                raise Unshown
            return node
        others = [s for s in statements(self._roles.scope.body) if node.id in access(s).binds]
        if len(made) != 1 or len(others) != 1 or node.id in self._inside:
            raise Unshown
        self._inside.append(node.id)
        told = self.visit(copied(made[0]))
        self._inside.pop()
        assert isinstance(told, ast.expr)
        return told
