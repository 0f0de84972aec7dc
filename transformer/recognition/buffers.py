"""The preallocated tensors that a rollout writes, and their sizes."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from transformer.facts.torch_api import functions, others
from transformer.recognition.roles import Roles
from transformer.syntax.query import pairwise, statements, walk
from transformer.syntax.tree import Tree

LIKE = functions("torch", fills="like")
ALLOCATIONS = functions("torch", dtype="default", fills="sizes") | LIKE


@dataclass(frozen=True)
class Store:
    """A write of a step's value into a buffer: the statement, its target, and the value."""

    stmt: ast.Assign
    target: ast.expr
    value: ast.expr
    """The assigned value, or the value that the assigned part is unpacked from."""
    unpacked: bool = False
    """Whether the target is one of several that the value is unpacked into."""


@dataclass(frozen=True)
class Buffer:
    """A preallocated rollout buffer (num_steps, num_envs, ...), written once per step.

    `call` is the allocation that sets its shape and dtype: its own, or the one that zeros_like refers to.
    """

    name: str
    stmt: ast.Assign
    call: ast.Call
    dtype: str
    stores: tuple[Store, ...]


def find_buffers(roles: Roles) -> tuple[Buffer, ...]:
    """Preallocated tensors that the rollout writes at its step index."""
    rollout = roles.rollout
    if not isinstance(rollout, ast.For) or not isinstance(rollout.target, ast.Name):
        return ()
    index = rollout.target.id
    stores: dict[str, list[Store]] = {}
    for stmt in statements(rollout.body):
        if isinstance(stmt, ast.Assign):
            for target, value in pairwise(stmt):
                unpacked = isinstance(target, (ast.Tuple, ast.List))
                for part in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
                    if (
                        isinstance(part, ast.Subscript)
                        and isinstance(part.value, ast.Name)
                        and isinstance(part.slice, ast.Name)
                        and part.slice.id == index
                    ):
                        stores.setdefault(part.value.id, []).append(Store(stmt, part, value, unpacked))
    return tuple(
        Buffer(name, stmt, call, _dtype(roles.tree, call), tuple(stores[name]))
        for name, (stmt, call) in roles.get(find_allocations).items()
        if name in stores
    )


def find_allocations(roles: Roles) -> dict[str, tuple[ast.Assign, ast.Call]]:
    """Names that are bound to a new tensor, each with the call that sets its shape and dtype."""
    found: dict[str, tuple[ast.Assign, ast.Call]] = {}
    for stmt in statements(roles.scope.body):
        if not isinstance(stmt, ast.Assign) or len(stmt.targets) != 1:
            continue
        for one, made in pairwise(stmt):
            call = _allocation(roles, made)
            if call is not None and roles.tree.calls(call, *LIKE) and not call.keywords:
                like = call.args[0] if len(call.args) == 1 else None
                call = found[like.id][1] if isinstance(like, ast.Name) and like.id in found else None
            if call is not None and isinstance(one, ast.Name):
                found[one.id] = (stmt, call)
    return found


def _dtype(tree: Tree, call: ast.Call) -> str:
    """The text of an allocation's dtype."""
    given = next((k.value for k in call.keywords if k.arg == "dtype"), None)
    if given is not None:
        return ast.unparse(given)
    return "torch.get_default_dtype()" if sets_default(tree, others("precision")) else "torch.float32"


def sets_default(tree: Tree, functions: frozenset[str] = others("precision", "place")) -> bool:
    """Whether a script sets a default dtype or device for new tensors."""
    return not functions.isdisjoint(tree.mentioned)


def _allocation(roles: Roles, value: ast.expr) -> ast.Call | None:
    """The `torch.zeros(...)` of an allocation that is at most moved to a device."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and _only_moves(roles, value):
        value = value.func.value
    if isinstance(value, ast.Call) and roles.tree.qualified(value.func) in ALLOCATIONS:
        return value
    return None


def _only_moves(roles: Roles, call: ast.Call) -> bool:
    """Whether `x.to(...)` names a device and no dtype."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("to", "cuda"):
        return False
    given = [ast.unparse(a) for a in (*call.args, *(k.value for k in call.keywords if k.arg in (None, "device")))]
    others = {k.arg for k in call.keywords} - {"device", "non_blocking"}
    places = all(g == roles.device or g[:1] in "'\"" or g.endswith(".device") or "device(" in g for g in given)
    return places and not others


def dimensions(roles: Roles, call: ast.Call) -> list[str]:
    """The leading dimensions of an allocation, as written: `(T, N)` and `(T, N) + shape` both begin with T and N."""
    return leading_sizes(roles, call)[0]


def leading_sizes(roles: Roles, call: ast.Call) -> tuple[list[str], bool]:
    """The leading dimensions of an allocation, as written, and whether these are all."""
    return _sizes(roles, _shape(call))


def is_matrix(roles: Roles, call: ast.Call) -> bool:
    """Whether an allocation has exactly two dimensions."""
    known, complete = leading_sizes(roles, call)
    return complete and len(known) == 2


def _shape(call: ast.Call) -> ast.expr:
    return call.args[0] if len(call.args) == 1 else ast.Tuple(list(call.args), ast.Load())


def _sizes(roles: Roles, shape: ast.expr | None) -> tuple[list[str], bool]:
    """The sizes that start a shape, and whether these are all."""
    if isinstance(shape, ast.BinOp) and isinstance(shape.op, ast.Add):
        left, complete = _sizes(roles, shape.left)
        right, rest = _sizes(roles, shape.right) if complete else ([], False)
        return left + right, complete and rest
    if isinstance(shape, ast.Name):
        return _sizes(roles, roles.only_value(shape.id))
    if not isinstance(shape, (ast.Tuple, ast.List)):
        return [], False
    found: list[str] = []
    for element in shape.elts:
        if isinstance(element, ast.Starred):
            more, complete = _sizes(roles, element.value)
            found += more
            if not complete:
                return found, False
        else:
            found.append(roles.spelled(element))
    return found, True


def resized(roles: Roles, size: ast.expr) -> ast.expr | None:
    """Where a size may change after the buffers were made with it, on any object; None if nowhere.

    An attribute may be set in one place: in its object's constructor, or in the training scope above the buffers.
    """
    if (changed := roles.changed_by_training(size)) is not None:
        return changed
    tree = roles.tree
    made = [stmt.lineno for stmt, _ in roles.get(find_allocations).values()]
    for node in (n for n in walk(size) if isinstance(n, (ast.Name, ast.Attribute))):
        if isinstance(node, ast.Name):
            if len(again := [stmt for stmt, _ in roles.assignments(node.id)]) > 1:
                return again[-1].targets[0]
            continue
        origins = list[ast.Attribute]()
        for one in tree.attributes_set(node.attr):
            scope = tree.scope_of(one)
            constructor = isinstance(scope, ast.FunctionDef) and scope.name == "__init__"
            own = constructor and tree.class_of_self(one.value, scope) is not None
            above = scope is roles.scope and bool(made) and one.lineno < min(made)
            if not isinstance(tree.statement(one), (ast.Assign, ast.AnnAssign)) or not (own or above):
                return one
            origins += [one] if own else []
        if len(origins) > 1:
            return origins[-1]
    return None
