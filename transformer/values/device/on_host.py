"""What the rollout computes on the host: the environment's arrays, and the tensors made from them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from transformer.facts.torch_api import FLOAT32, SINGLE, dtypes, functions, names
from transformer.recognition.roles import Roles
from transformer.syntax.query import children, is_number, statements
from transformer.syntax.tree import Tree
from transformer.values.tensors import Tensors, values

MAKES = functions("torch", dtype="given", made="of host") | SINGLE
SAME_VALUES = (
    names("tensor", copies=True, dtype="kept", moves=False)
    | names("tensor", copies=True, dtype="cast", moves=True)
    | names("tensor", copies=True, dtype="cast") & dtypes(kind="float", bits=32)
)
RESHAPES = names("tensor", flat=True) | names("tensor", memory="shared", sizes=True)
ARRAY_METHODS = names("array", memory=("new", "shared"), reduces=False)


@dataclass(frozen=True)
class Chain:
    """The source of a tensor, through moves and reshapes that keep its values."""

    base: ast.expr
    flat: bool
    """Whether the tensor is flattened to one dimension."""
    single: bool
    """Whether the tensor is cast to float32, whatever the array holds."""


def recorded(roles: Roles, rollout: ast.For) -> Iterator[tuple[ast.Assign, str, ast.expr]]:
    """The statements `transition["key"] = value` of the rollout, with key and value."""
    for stmt in statements(rollout.body):
        if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1:
            for key in roles.history.storage_dtypes:
                if names_entry(roles, stmt.targets[0], key):
                    yield stmt, key, stmt.value


def names_entry(roles: Roles, node: ast.AST, key: str) -> bool:
    """Whether a node is `transition["key"]`, the entry that a step records under a key."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == roles.history.transition
        and isinstance(node.slice, ast.Constant)
        and node.slice.value == key
    )


def unwrapped(roles: Roles, value: ast.expr) -> tuple[ast.expr, list[ast.Call]] | None:
    """The object of a chain of methods that keep a tensor's values, and their calls; None if one may change them."""
    calls = []
    while (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and not roles.tree.qualified(value.func)
    ):
        if not _keeps_values(roles, value):
            return None
        calls.append(value)
        value = value.func.value
    return value, calls


def flattens(calls: list[ast.Call]) -> bool:
    """Whether one of these methods flattens the tensor to one dimension."""
    return any(isinstance(c.func, ast.Attribute) and c.func.attr in RESHAPES for c in calls)


def find_chain(roles: Roles, value: ast.expr) -> Chain | None:
    """The source of `torch.tensor(x).to(device).view(-1)`: the array x, flattened."""
    tree = roles.tree
    found = unwrapped(roles, value)
    if found is None:
        return None
    made, calls = found
    if not isinstance(made, ast.Call) or not tree.calls(made, *MAKES) or len(made.args) != 1:
        return None
    for given in made.keywords:
        if given.arg != "device" and not (given.arg == "dtype" and _is_float32(tree, given.value)):
            return None
    single = tree.calls(made, *SINGLE) or any(k.arg == "dtype" for k in made.keywords)
    casts = any(
        (isinstance(c.func, ast.Attribute) and c.func.attr == "float") or any(_is_float32(tree, a) for a in c.args)
        for c in calls
    )
    return Chain(made.args[0], flattens(calls), single or casts)


def _is_float32(tree: Tree, node: ast.expr) -> bool:
    return tree.qualified(node) in FLOAT32


def _keeps_values(roles: Roles, call: ast.Call) -> bool:
    """Whether a method only moves a tensor, casts it to float32, or flattens it."""
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr in RESHAPES:
        minus_one = len(call.args) == 1 and is_number(call.args[0], -1)
        return not call.keywords and (minus_one or (call.func.attr in names("tensor", flat=True) and not call.args))
    places = [a for a in call.args if not _is_float32(roles.tree, a)]
    named = {k.arg for k in call.keywords}
    return (
        call.func.attr in SAME_VALUES
        and all(ast.unparse(p) == roles.device for p in places)
        and named <= {"non_blocking", "copy"}
    )


class OnHost:
    """Finds the expressions of the rollout that are arrays or numbers on the host, from the environment."""

    def __init__(self, roles: Roles, tensors: Tensors, rollout: ast.For) -> None:
        self._roles, self._tensors, self._rollout = roles, tensors, rollout
        self._asked: set[tuple[str, ast.stmt]] = set()
        """The assignments being checked: `x = 0.9 * x + y` does not count against x."""

    def is_host(self, node: ast.expr, stmt: ast.stmt) -> bool:
        """Whether an expression is known not to be a tensor where it is evaluated."""
        if isinstance(node, ast.Name):
            bindings = list(self._tensors.bindings(node.id, stmt))
            return bool(bindings) and all(b is not None and self.binds(node.id, b) for b in bindings)
        return self.is_array(node, stmt)

    def is_array(self, node: ast.expr, stmt: ast.stmt) -> bool:
        """Whether an expression is known to be computed by numpy, or to be a result of the environment."""
        if isinstance(node, ast.Name):
            return self.is_host(node, stmt)
        if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare)):
            operands = [n for n in children(node) if isinstance(n, ast.expr)]
            known = [self.is_array(n, stmt) for n in operands if not isinstance(n, ast.Constant)]
            return bool(known) and all(known)
        if not isinstance(node, ast.Call):
            return False
        if (self._roles.tree.qualified(node.func) or "").startswith("numpy."):
            return not any(self._tensors.tensor_at(a, stmt) for a in node.args)
        method = node.func if isinstance(node.func, ast.Attribute) else None
        return method is not None and method.attr in ARRAY_METHODS and self.is_array(method.value, stmt)

    def binds(self, name: str, stmt: ast.stmt) -> bool:
        """Whether a statement of the rollout binds a name to an array or to part of a step's result, except the
        infos."""
        if not isinstance(stmt, ast.Assign) or self._rollout not in self._roles.tree.loops_around(stmt):
            return False
        if (name, stmt) in self._asked:
            return True
        self._asked.add((name, stmt))
        known = all(self._is_of_step(name, stmt, value) for value in values(stmt, name))
        self._asked.discard((name, stmt))
        return known

    def _is_of_step(self, name: str, stmt: ast.Assign, value: ast.expr) -> bool:
        if value is not self._roles.phases.env_step:
            return self.is_array(value, stmt)
        parts = [t.elts[:-1] for t in stmt.targets if isinstance(t, ast.Tuple)]
        return any(isinstance(p, ast.Name) and p.id == name for part in parts for p in part)
