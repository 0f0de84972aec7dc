"""Which expressions, in any function of a script, are known to be tensors or numpy arrays, by what makes them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from transformer.dataflow.access import access
from transformer.facts.python import CONTAINERS
from transformer.facts.torch_api import JOINS, VIEWS, names
from transformer.recognition.roles import Roles
from transformer.syntax.query import bind_arguments, names_in, pairwise, parameters, statements, walk
from transformer.syntax.tree import Scope
from transformer.values.effects.world import World
from transformer.values.tensors import Tensors

Kind = Literal["tensor", "array"]

ARRAYS = names("numpy", rows="mixed", reduces=False)
"""Functions of numpy that return arrays."""
ELEMENTWISE = names("numpy", rows=("element", "broadcast"))
"""Functions of numpy that return an array if given one."""
TENSORS = names("torch", made=("of host", "on host")) | names("torch", rows=("element", "broadcast")) | JOINS
"""Functions of torch that return tensors."""
SAME = VIEWS | names("tensor", "array", rows=("element", "broadcast"))
"""Methods that return a tensor if called on a tensor, and an array if called on an array."""


class KnownArrays:
    """Whether expressions anywhere in the script are known to be tensors or arrays."""

    def __init__(self, roles: Roles) -> None:
        self._roles, self._tree = roles, roles.tree
        self._tensors = roles.get(Tensors)
        self._entered: set[tuple[str, Scope]] = set()

    def kind(self, value: ast.expr) -> Kind | None:
        """What an expression is known to be; None if it may be anything else, such as a size, a number or a list."""
        scope = self._tree.scope_of(value)
        if scope is self._roles.scope and self._tensors.tensor(value):
            return "tensor"
        if isinstance(value, ast.BinOp):
            sides = {self.kind(value.left), self.kind(value.right)}
            return "tensor" if "tensor" in sides else "array" if "array" in sides else None
        if isinstance(value, ast.UnaryOp) and not isinstance(value.op, ast.Not):
            return self.kind(value.operand)
        if isinstance(value, ast.Subscript):
            whole = self.kind(value.value)
            return whole if whole == "tensor" or isinstance(value.slice, ast.Slice) else None
        if isinstance(value, ast.Call):
            return self._of_call(value)
        return self._of_name(value.id, scope) if isinstance(value, ast.Name) else None

    def _of_call(self, call: ast.Call) -> Kind | None:
        module, _, function = (self._tree.qualified(call.func) or "").rpartition(".")
        if module:
            if module == "numpy":
                of_arrays = function in ELEMENTWISE and any(self.kind(a) for a in call.args)
                return "array" if function in ARRAYS or of_arrays else None
            pair = function == "where" and len(call.args) == 1
            return "tensor" if module == "torch" and function in TENSORS and not pair else None
        if not isinstance(call.func, ast.Attribute):
            return None
        if call.func.attr in ("numpy", "astype"):
            return "array"
        return self.kind(call.func.value) if call.func.attr in SAME else None

    def _of_name(self, name: str, scope: Scope) -> Kind | None:
        """The one kind of all values that a name may have in a scope; every assignment must be known."""
        if (name, scope) in self._entered:
            return "array"  # its previous value, which the other assignments cover
        self._entered.add((name, scope))
        found = set(self._kinds_bound(name, scope))
        if isinstance(scope, ast.FunctionDef) and name in parameters(scope):
            found |= set(self._kinds_passed(name, scope))
        self._entered.discard((name, scope))
        return None if None in found or not found else "tensor" if found == {"tensor"} else "array"

    def _kinds_bound(self, name: str, scope: Scope) -> Iterator[Kind | None]:
        for stmt in statements(scope.body):
            if name not in access(stmt).binds:
                continue
            if isinstance(stmt, ast.AugAssign):
                continue  # changes the value, but not its kind
            values = (
                [(t, v) for t, v in pairwise(stmt) if name in access(t).binds] if isinstance(stmt, ast.Assign) else []
            )
            if not values:
                yield None
            for target, value in values:
                if isinstance(target, ast.Name):
                    yield "array" if self._is_observed(value) else self.kind(value)
                else:
                    yield "array" if name in self._observed(target, value) else None

    def _observed(self, target: ast.expr, value: ast.expr) -> list[str]:
        """The targets that receive an environment's results, except the infos."""
        if not isinstance(target, ast.Tuple) or not self._is_observed(value):
            return []
        return [ast.unparse(element) for element in target.elts[:-1]]

    def _is_observed(self, value: ast.expr) -> bool:
        """Whether a value is what an environment returns: the observations, alone or first in a tuple."""
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
            return False
        others = {o.name for o in self._roles.optimizers}
        observes = value.func.attr == "reset" or self._roles.is_step(value)
        return observes and ast.unparse(value.func.value) not in others

    def _kinds_passed(self, param: str, function: ast.FunctionDef) -> Iterator[Kind | None]:
        """The kinds that calls pass for a parameter, if every use of the function is a call or an alias."""
        parents = self._tree.parents
        owner = parents[function]
        names, size = {function.name}, 0
        while len(names) > size:
            size = len(names)
            for stmt in self._tree.of(ast.Assign):
                if self._last(stmt.value) in names:
                    names |= {t.id for t in stmt.targets if isinstance(t, ast.Name)}
        for node in self._tree.nodes:
            if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
                continue
            if (node.id if isinstance(node, ast.Name) else node.attr) not in names:
                continue
            parent = parents[node]
            if isinstance(parent, ast.Assign) or (isinstance(parent, ast.Call) and self._last(parent) in names):
                continue
            if not isinstance(parent, ast.Call) or parent.func is not node:
                yield None
                return
            bound = bind_arguments(function, parent, node if isinstance(owner, ast.ClassDef) else None)
            given = bound.given.get(param) if bound is not None else None
            yield self.kind(given) if given is not None else None

    def _last(self, value: ast.expr) -> str | None:
        """The name of the called function, also if it was compiled or captured."""
        if isinstance(value, ast.Call) and value.args:
            made = (self._tree.qualified(value.func) or "").rpartition(".")[2]
            return self._last(value.args[0]) if made in ("compile", "CudaGraphModule") else None
        return value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else None


def computes_with_arrays(roles: Roles, loop: ast.For) -> bool:
    """Whether a loop indexes only numpy arrays and lists of numbers by its variable, and reads no tensor."""
    world, index = roles.get(World), names_in([loop.target])
    nodes = [n for s in loop.body for n in walk(s) if isinstance(n, (ast.Name, ast.Attribute, ast.Subscript))]
    rows = [n.value for n in nodes if isinstance(n, ast.Subscript) and names_in([n.slice]) & index]
    known_arrays = roles.get(KnownArrays)
    if not rows or any(known_arrays.kind(row) == "tensor" for row in rows):  # decided without World
        return False
    held = [thing for row in rows for thing in world.of(row)]
    held += [part for thing in held for part in world.contents(thing)]
    tensors = any(thing.kind == "tensor" for node in nodes for thing in world.of(node))
    arrays = all(thing.kind == "array" or thing.kind in CONTAINERS for thing in held)
    known = all(world.of(row) or world.are_numbers(row) for row in rows)
    return known and arrays and not tensors
