"""What the networks of this file return, judged by their methods."""

from __future__ import annotations

import ast

from transformer.dataflow.access import access
from transformer.dataflow.memory import roots
from transformer.facts.python import WRITES, builtin_names
from transformer.facts.torch_api import DISTRIBUTIONS, LOSSES, NEW, REDUCES, VIEWS, layers, may_be_given, names
from transformer.recognition.roles import Roles
from transformer.syntax.query import (
    bind_arguments,
    calls_method,
    children,
    first_parameter,
    parameters,
    statements,
    unparse,
    walk,
)
from transformer.syntax.tree import Tree
from transformer.values.networks.attributes import kept_by
from transformer.values.networks.distributions import is_made

NEW_OF_TORCH = names("torch", memory="new")
NEW_OF_FUNCTIONAL = names("functional", memory="new")
LAYERS = layers(memory="new")
"""A module made of one of these computes a new tensor."""
"""Functions of torch whose results have a dimension, and so can be an index."""
HOST = builtin_names(makes=("number", "text", "numbers", "container", "tuple", "mapping"))
"""Builtins whose results are no tensors."""


def loss_called(tree: Tree, func: ast.expr) -> str:
    """The function computed by a loss object of torch that the script makes and calls: `criterion = nn.MSELoss()`.

    "" if the name or the attribute may be something else.
    """
    if not isinstance(func, (ast.Name, ast.Attribute)):
        return ""
    name = func.id if isinstance(func, ast.Name) else func.attr
    stores = tree.stores.get((type(func), name), ())
    values = [tree.assigned[target] for target in stores if target in tree.assigned]
    given = isinstance(func, ast.Name) and any(a.arg == name for a in tree.of(ast.arg))
    if given or not stores or len(values) != len(stores) or tree.methods(name):
        return ""
    classes = {tree.qualified(v.func) or "" if isinstance(v, ast.Call) else "" for v in values}
    module, _, last = classes.pop().rpartition(".") if len(classes) == 1 else ("", "", "")
    return f"torch.nn.functional.{LOSSES[last]}" if module == "torch.nn" and last in LOSSES else ""


def kept_network(roles: Roles, node: ast.expr) -> ast.ClassDef | None:
    """The class of the network in `agent.critic`, which only the agent's constructor sets, and makes there.

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


class Results:
    """What a call of a network of this file returns."""

    def __init__(self, roles: Roles, call: ast.Call) -> None:
        self._tree = roles.tree
        self._roles, self._call = roles, call
        self._class, self._method = self._find()

    @property
    def called(self) -> tuple[ast.ClassDef | None, ast.FunctionDef | None]:
        """The class and the method of this file that the call runs, if known."""
        return self._class, self._method

    def is_new(self, place: int | None, count: int = 1) -> bool:
        """Whether the call computes a result (the only one, if `place` is None), and it is distinct from the other
        results."""
        if self._method is None:
            return False
        returns = [s for s in statements(self._method.body) if isinstance(s, ast.Return)]
        return bool(returns) and all(self._returns_new(s.value, place, count) for s in returns)

    def _returns_new(self, value: ast.expr | None, place: int | None, count: int) -> bool:
        assert self._method is not None
        if value is None:
            return False
        if place is None:
            return self._new(value, self._method)
        if not isinstance(value, ast.Tuple) or len(value.elts) != count:
            return False
        others = {n for i, e in enumerate(value.elts) if i != place for n in roots(e)}
        return not roots(value.elts[place]) & others and self._new(value.elts[place], self._method)

    def has_rows(self, place: int | None, count: int = 1) -> bool:
        """Whether nothing suggests that a result is one number for all rows of the call's argument."""
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

    def _makes_distribution(self, node: ast.expr, method: ast.FunctionDef) -> bool:
        if isinstance(node, ast.Name) and node.id not in parameters(method):
            bound = [s for s in statements(method.body) if node.id in access(s).binds]
            found = _values_of_name(node.id, method)
            return len(found) == len(bound) > 0 and all(self._makes_distribution(v, method) for v in found)
        return is_made(self._tree, node)

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

    def _new(self, node: ast.expr, method: ast.FunctionDef, depth: int = 8) -> bool:
        """Whether an expression of a method is a tensor that the method computes."""
        if not depth:
            return False
        if isinstance(node, (ast.BinOp, ast.Compare)):
            return True
        if isinstance(node, ast.UnaryOp):
            return not isinstance(node.op, ast.UAdd)
        if isinstance(node, ast.Name):
            return self._new_name(node.id, method, depth - 1)
        if isinstance(node, ast.Subscript):  # indexing by a tensor copies
            index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return any(self._tree.calls(n, "torch.arange") for n in index) and self._new(node.value, method, depth - 1)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return False
        qualified = self._tree.qualified(node.func) or ""
        if qualified.startswith("torch."):
            return _makes_new(qualified, node)
        if node.func.attr in NEW:
            return not may_be_given(node)
        if node.func.attr in VIEWS:
            return self._new(node.func.value, method, depth - 1)
        own = first_parameter(method)
        if ast.unparse(node.func.value).split(".")[0] != own:
            return False
        inner = self._method_of(self._class, node.func.attr) if isinstance(node.func.value, ast.Name) else None
        if inner is not None:
            returns = [s for s in statements(inner.body) if isinstance(s, ast.Return)]
            return bool(returns) and all(s.value is not None and self._new(s.value, inner, depth - 1) for s in returns)
        return self._is_layer(ast.unparse(node.func))

    def _new_name(self, name: str, method: ast.FunctionDef, depth: int) -> bool:
        found = _values_of_name(name, method)
        return (
            bool(found)
            and not self._may_be_argument(name, method)
            and not _is_kept(name, method)
            and all(self._new(v, method, depth) for v in found)
        )

    def _may_be_argument(self, name: str, method: ast.FunctionDef) -> bool:
        """Whether a name is a parameter that may hold a caller's argument."""
        if name not in parameters(method):
            return False
        bound = bind_arguments(method, self._call, self._call.func) if method is self._method else None
        return bound is None or name in bound.given

    def _is_layer(self, attribute: str) -> bool:
        """Whether `self.x` is made of a layer that computes something."""
        for stmt in walk(self._class) if self._class else ():
            if isinstance(stmt, ast.Assign) and attribute in map(ast.unparse, stmt.targets):
                return self._makes_layer(stmt.value)
        return False

    def _makes_layer(self, node: ast.AST, depth: int = 3) -> bool:
        """Whether an expression makes a layer, directly or in a function of this file that it calls."""
        made = {n.attr for n in walk(node) if isinstance(n, ast.Attribute)}
        made |= {n.id for n in walk(node) if isinstance(n, ast.Name)}
        if made & LAYERS:
            return True
        helpers = [n for n in self._tree.root.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name in made]
        return depth > 0 and any(self._makes_layer(helper, depth - 1) for helper in helpers)


def _makes_new(qualified: str, call: ast.Call) -> bool:
    """Whether a function of torch returns new memory; `relu(x, True)` works in place."""
    module, _, name = qualified.rpartition(".")
    if may_be_given(call):
        return False
    if module == "torch.nn.functional":
        in_place = any(isinstance(a, ast.Constant) and a.value is True for a in call.args)
        return name in NEW_OF_FUNCTIONAL and not in_place
    return module == "torch" and name in NEW_OF_TORCH


def _is_kept(name: str, method: ast.FunctionDef) -> bool:
    """Whether a method stores a name's memory in an attribute or a container, where others may change it."""
    for node in walk(method):
        if isinstance(node, ast.Assign):
            held = any(isinstance(t, ast.Name) and t.id == name for t in node.targets) or name in roots(node.value)
            if held and any(isinstance(t, (ast.Attribute, ast.Subscript)) for t in node.targets):
                return True
        elif calls_method(node, *WRITES):
            if any(name in roots(a) for a in node.args):
                return True
    return False


def _values_of_name(name: str, method: ast.FunctionDef) -> list[ast.expr]:
    """The values of a method's assignments to this name alone."""
    return [
        s.value
        for s in statements(method.body)
        if isinstance(s, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in s.targets)
    ]
