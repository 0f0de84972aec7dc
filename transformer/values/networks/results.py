"""What the networks of this file return, judged by their methods."""

from __future__ import annotations

import ast
import re
from typing import TypeAlias

from transformer.dataflow.access import access
from transformer.facts.python import builtin_names
from transformer.facts.torch_api import DISTRIBUTIONS, LOSSES, REDUCES, functions, names
from transformer.recognition.roles import Roles
from transformer.syntax.query import (
    children,
    first_parameter,
    last_written,
    parameters,
    statements,
    unparse,
)
from transformer.syntax.tree import Tree
from transformer.values.networks.attributes import kept_by

HOST = builtin_names(makes=("number", "text", "numbers", "container", "tuple", "mapping"))
"""Builtins whose results are no tensors."""


def makes_distribution(tree: Tree, node: ast.expr) -> bool:
    """Whether an expression is a call of a class of torch.distributions."""
    name = tree.qualified(node.func) or "" if isinstance(node, ast.Call) else ""
    return name.startswith(DISTRIBUTIONS) and name.rpartition(".")[2][:1].isupper()


def loss_called(tree: Tree, func: ast.expr, *, as_made: bool = False) -> str:
    """The function computed by a loss object of torch that the script makes and calls: `criterion = nn.MSELoss()`.

    "" if the name or attribute may be something else, or (with `as_made`) if the object is made with arguments.
    """
    if not isinstance(func, (ast.Name, ast.Attribute)):
        return ""
    name = func.id if isinstance(func, ast.Name) else func.attr
    stores = tree.stores.get((type(func), name), ())
    values = [tree.assigned[target] for target in stores if target in tree.assigned]
    given = isinstance(func, ast.Name) and any(a.arg == name for a in tree.of(ast.arg))
    if given or not stores or len(values) != len(stores) or tree.methods(name):
        return ""
    if as_made and any(isinstance(v, ast.Call) and (v.args or v.keywords) for v in values):
        return ""
    classes = {tree.qualified(v.func) or "" if isinstance(v, ast.Call) else "" for v in values}
    module, _, last = classes.pop().rpartition(".") if len(classes) == 1 else ("", "", "")
    return f"torch.nn.functional.{LOSSES[last]}" if module == "torch.nn" and last in LOSSES else ""


def kept_network(roles: Roles, node: ast.expr) -> ast.ClassDef | None:
    """The class of the network in `agent.critic`, if only the agent's constructor sets the attribute, to a new network.

    None if it may be something else.
    """
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return None
    tree, made = roles.tree, roles.only_value(node.value.id)
    call = tree.constructor(made) if made is not None else None
    owner = tree.classes[unparse(call.func)] if call is not None else None
    if owner is None or roles.is_module(owner):
        return None
    stores = roles.tree.attributes_set(node.attr)
    constructors = [s for s in owner.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"]
    kept = [value for one in constructors for name, value in kept_by(one) if name == node.attr]
    if len(kept) != 1 or len(stores) != 1 or kept[0] is None or tree.methods(node.attr):
        return None
    value: ast.expr = kept[0]
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in ("to", "cuda"):
        value = value.func.value
    cls = tree.classes.get(unparse(value.func)) if isinstance(value, ast.Call) else None
    return cls if cls is not None and roles.is_module(cls) else None


ResultIndex: TypeAlias = tuple[int | None, int | None]
"""The index of a result in a tuple (None for all results), and the size of the tuple, if known."""
DEEP = 6
"""The maximum number of names and methods to follow."""
OF_DISTRIBUTIONS = names("distribution") - names("distribution", draws=True, graph=False)
"""Methods of distributions whose results are floats; draws without a graph, such as categories, are excluded."""
KEPT = names("tensor", dtype="kept") | names("tensor", dtype="other", reduces=True)
KEEPING = functions("torch", "functional", dtype="kept")
JOINING = functions("torch", joins=True)
"""Methods and functions whose results are floats if their arguments are."""


class Results:
    """What a call of a network of this file returns."""

    def __init__(self, roles: Roles, call: ast.Call) -> None:
        self._tree = roles.tree
        self._roles, self._call = roles, call
        self._class, self._method = self._find()
        self._asked: set[tuple[str, ast.FunctionDef]] = set()

    @property
    def called(self) -> tuple[ast.ClassDef | None, ast.FunctionDef | None]:
        """The class and the method of this file that the call runs, if known."""
        return self._class, self._method

    def has_rows(self, place: int | None, count: int = 1) -> bool:
        """Whether nothing suggests that a result is a single number for all rows of the call's argument."""
        if self._method is None:
            return bool(self._call.args or self._call.keywords)
        returns = [s.value for s in statements(self._method.body) if isinstance(s, ast.Return) and s.value is not None]
        parts = [
            v.elts[place] if isinstance(v, ast.Tuple) and place is not None and len(v.elts) == count else v
            for v in returns
        ]
        return all(self._rows(part, self._method) for part in parts)

    def _rows(self, node: ast.AST, method: ast.FunctionDef, depth: int = 8) -> bool:
        """Whether an expression of a method is made from its arguments, without a sum over all rows."""
        if isinstance(node, ast.Name):
            if node.id in parameters(method):
                return node.id != first_parameter(method)
            found = _values_of_name(node.id, method)
            return not found or (depth > 0 and all(self._rows(v, method, depth - 1) for v in found))
        if isinstance(node, ast.Call):
            whole = [*node.args, *node.keywords]
            if isinstance(node.func, ast.Attribute) and node.func.attr in REDUCES | {"item"}:
                if len(whole) <= (1 if self._tree.qualified(node.func) else 0):
                    return False
            return any(self._rows(part, method, depth) for part in (node.func, *whole))
        return any(self._rows(part, method, depth) for part in children(node))

    def is_tensor(self, place: int | None, count: int = 1) -> bool:
        """Whether nothing suggests that a result is a number, a distribution, a tuple or another object."""
        if self._method is None:
            return True
        returns = [s.value for s in statements(self._method.body) if isinstance(s, ast.Return) and s.value is not None]
        found = []
        for value in returns:
            if place is None:
                found.append(value)
            elif isinstance(value, ast.Tuple) and len(value.elts) == count:
                found.append(value.elts[place])
        return not any(self._is_other(value, self._method) for value in found)

    def is_distribution(self, place: int | None, count: int = 1) -> bool:
        """Whether a result is a torch distribution that the method itself makes.

        If a name is returned, it must only ever be bound to such a value.
        """
        if self._method is None:
            return False
        returns = [s.value for s in statements(self._method.body) if isinstance(s, ast.Return)]
        parts = [
            v if place is None else v.elts[place] if isinstance(v, ast.Tuple) and len(v.elts) == count else None
            for v in returns
        ]
        return bool(parts) and all(p is not None and self._makes_distribution(p, self._method) for p in parts)

    def is_floating(self, place: int | None, count: int | None = 1) -> bool:
        """Whether a result is computed by layers, or from results of layers.

        Actions do not count: they are drawn, selected by index, or passed to the method.

        Args:
            place: the place of the result in a tuple; None for all results.
            count: the size of the tuple, if it is known.
        """
        if self._method is None:
            return not self._tree.methods(last_written(self._call.func))
        return self._returns_floats(self._method, place, count, DEEP)

    def _returns_floats(self, method: ast.FunctionDef, place: int | None, count: int | None, depth: int) -> bool:
        returns = [s.value for s in statements(method.body) if isinstance(s, ast.Return) and s.value is not None]
        parts: list[ast.expr] = []
        for value in returns:
            several = value.elts if isinstance(value, ast.Tuple) else [value]
            known = place is not None and (count == len(several) or (count is None and 0 <= place < len(several)))
            parts += several[place : place + 1] if known and place is not None else several
        return bool(parts) and all(self._floating(part, method, depth) for part in parts)

    def _floating(self, node: ast.expr, method: ast.FunctionDef, depth: int, place: ResultIndex = (None, 1)) -> bool:
        """Whether an expression of a method, or its element at a place, is known to be a tensor of floats."""
        if not depth:
            return False
        if isinstance(node, ast.Name):
            if (node.id, method) in self._asked:
                return node.id not in parameters(method)  # in terms of itself: `z = z - 1`
            given = node.id in parameters(method) and not _is_always_bound(node.id, method)
            self._asked.add((node.id, method))
            known = not given and self._is_bound_to_floats(node.id, method, depth - 1)
            self._asked.discard((node.id, method))
            return known
        if isinstance(node, (ast.Subscript, ast.Starred)):
            return self._floating(node.value, method, depth)
        if isinstance(node, ast.UnaryOp):
            return self._floating(node.operand, method, depth)
        if isinstance(node, ast.BinOp):
            return any(self._floating(side, method, depth) for side in (node.left, node.right))
        if not isinstance(node, ast.Call):
            return False
        name, owner = last_written(node.func), first_parameter(method)
        if (qualified := self._tree.qualified(node.func)) is not None:
            first = node.args[:1]
            if first and isinstance(first[0], (ast.List, ast.Tuple)):
                return qualified in JOINING and any(self._floating(one, method, depth) for one in first[0].elts)
            return qualified in KEEPING and bool(first) and self._floating(first[0], method, depth)
        if name in OF_DISTRIBUTIONS or name == "float":
            return True
        if not isinstance(node.func, ast.Attribute):
            return name == owner and self._is_own("forward", place, depth)
        if re.fullmatch(rf"{owner}(\.\w+)+", unparse(node.func)):
            return self._is_own(name, place, depth) if self._tree.methods(name) else True  # a layer
        return name in KEPT and self._floating(node.func.value, method, depth)

    def _is_own(self, name: str, place: ResultIndex, depth: int) -> bool:
        """Whether a result of a method of the network's class is known to be floats; with place None, all results."""
        own = self._method_of(self._class, name)
        return own is not None and self._returns_floats(own, *place, depth - 1)

    def _is_bound_to_floats(self, name: str, method: ast.FunctionDef, depth: int) -> bool:
        bound = [s for s in statements(method.body) if name in access(s).binds]
        if not all(isinstance(s, (ast.Assign, ast.AugAssign)) for s in bound):
            return False
        made = [s for s in bound if isinstance(s, ast.Assign)]  # `x += y` works in place, so x keeps its dtype
        return bool(made) and all(self._floating(s.value, method, depth, result_index(s, name)) for s in made)

    def _makes_distribution(self, node: ast.expr, method: ast.FunctionDef) -> bool:
        if isinstance(node, ast.Name) and node.id not in parameters(method):
            bound = [s for s in statements(method.body) if node.id in access(s).binds]
            found = _values_of_name(node.id, method)
            return len(found) == len(bound) > 0 and all(self._makes_distribution(v, method) for v in found)
        return makes_distribution(self._tree, node)

    def _is_other(self, node: ast.expr, method: ast.FunctionDef, depth: int = 4) -> bool:
        """Whether an expression of a method is certainly not a tensor."""
        if isinstance(node, (ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.JoinedStr)):
            return True
        if isinstance(node, ast.Name) and depth:
            return any(self._is_other(v, method, depth - 1) for v in _values_of_name(node.id, method))
        if not isinstance(node, ast.Call):
            return False
        if self._tree.names.builtin(node.func) in HOST or ast.unparse(node.func) in self._tree.classes:
            return True
        qualified = self._tree.qualified(node.func) or ""
        other = qualified.startswith((DISTRIBUTIONS, "numpy.", "math."))
        return other or (isinstance(node.func, ast.Attribute) and node.func.attr in ("item", "tolist", "numpy"))

    def _find(self) -> tuple[ast.ClassDef | None, ast.FunctionDef | None]:
        """The class and the method that the call runs, found through the policy's name."""
        node = self._call.func
        for network, called in ((node, "forward"), (getattr(node, "value", node), getattr(node, "attr", ""))):
            if (kept := kept_network(self._roles, network)) is not None:
                return kept, self._method_of(kept, called)
        facts, func = self._roles.history, ast.unparse(self._call.func)
        func = facts.policy_target or func if func == facts.policy else func
        name, _, method = func.partition(".")
        for _, value in self._roles.assignments(name):
            constructor = self._tree.constructor(value)
            if constructor is not None:
                cls = self._tree.classes[ast.unparse(constructor.func)]
                return cls, self._method_of(cls, method or "forward")
        return None, None

    def _method_of(self, cls: ast.ClassDef | None, name: str) -> ast.FunctionDef | None:
        for stmt in cls.body if cls else ():
            if isinstance(stmt, ast.FunctionDef) and stmt.name == name:
                return stmt
        return None


def result_index(stmt: ast.stmt, name: str) -> tuple[int | None, int]:
    """The index of a name among the targets of an unpacking, and their number; index None for the whole value."""
    for target in stmt.targets if isinstance(stmt, ast.Assign) else []:
        if isinstance(target, (ast.Tuple, ast.List)):
            for place, element in enumerate(target.elts):
                if isinstance(element, ast.Name) and element.id == name:
                    return place, len(target.elts)
    return None, 1


def _is_always_bound(name: str, method: ast.FunctionDef) -> bool:
    """Whether a method whose only `return` is at its end rebinds a parameter on every path."""
    returns = [s for s in statements(method.body) if isinstance(s, ast.Return)]
    return returns == method.body[-1:] and any(
        isinstance(s, ast.Assign) and name in access(s).binds for s in method.body
    )


def _values_of_name(name: str, method: ast.FunctionDef) -> list[ast.expr]:
    """The values of a method's assignments to this name alone."""
    return [
        s.value
        for s in statements(method.body)
        if isinstance(s, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in s.targets)
    ]
