"""Whether a method only computes: torch.compile would recompile for any other effect, or omit it."""

from __future__ import annotations

import ast

from transformer.dataflow.written_numbers import is_of_written_numbers
from transformer.facts.python import builtin_names
from transformer.facts.torch_api import DISTRIBUTIONS, NO_GRAD, OF, TYPES, names
from transformer.recognition.roles import Roles
from transformer.syntax.query import calls_itself, calls_method, first_parameter, statements, unparse, walk

METHODS = (OF["tensor"].keys() | OF["distribution"].keys()) - names("tensor", memory="number", waits="value")
"""Methods that compute on a device."""
FUNCTIONS = OF["torch"].keys() | OF["functional"].keys()
BUILTINS = builtin_names(makes=("number", "class", "access"), varies=False)
SIMPLE = (ast.Assign, ast.AnnAssign)


class Computation:
    """Checks methods of a class for anything but computation."""

    def __init__(self, roles: Roles, cls: ast.ClassDef | None) -> None:
        self._roles, self._tree, self._class = roles, roles.tree, cls
        self._is_module = cls is not None and roles.is_module(cls)
        self._seen: set[ast.FunctionDef] = set()

    def other(self, method: ast.FunctionDef) -> str | None:
        """What a method does besides computing, as `line 12` or `line 12 calls f()`; None if it only computes."""
        if method in self._seen:
            return None
        self._seen.add(method)
        for decorator in method.decorator_list:
            if not self._tree.calls(decorator, *NO_GRAD) and self._tree.qualified(decorator) not in NO_GRAD:
                return f"line {decorator.lineno} decorates it"
        own = first_parameter(method) if self._class is not None else None
        for stmt in statements(method.body):
            if not isinstance(stmt, (*SIMPLE, ast.Return, ast.If, ast.With, ast.Pass)):
                if not (isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant)):
                    return f"line {stmt.lineno}"
        for node in (n for stmt in method.body for n in walk(stmt)):
            stored = isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load)
            if stored or isinstance(node, (ast.Lambda, ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)):
                return f"line {node.lineno}"  # type: ignore[attr-defined]
            if isinstance(node, ast.Call) and not self._is_known(node, own):
                inner = self._own_function(node, own)
                if inner is None:
                    return f"line {node.lineno} calls {unparse(node.func)}()"
                array = next((n for n in walk(inner) if calls_method(n, "numpy")), None)
                if array is not None:
                    return f"line {array.lineno} makes an array of a tensor"
                if (found := self.other(inner)) is not None:
                    return found
        return None

    def _own_function(self, call: ast.Call, own: str | None) -> ast.FunctionDef | None:
        """The method of the class that a call runs on its object, or the function of the file."""
        if calls_itself(call, own):
            return method_of(self._class, "forward") if self._is_module else None
        if isinstance(call.func, ast.Attribute) and unparse(call.func.value) == own:
            return method_of(self._class, call.func.attr)
        return self._tree.function_called(call) if self._class is None else None

    def _is_known(self, call: ast.Call, own: str | None) -> bool:
        """Whether a call only computes: a function of torch, a method of a tensor, or a network."""
        name = self._tree.qualified(call.func) or ""
        last = name.rpartition(".")[2]
        if name.startswith(DISTRIBUTIONS):
            return True
        if name.startswith("torch."):
            return name not in TYPES and (last in FUNCTIONS or name in NO_GRAD)
        if isinstance(call.func, ast.Name):
            network = self._class is None and call.func.id in self._roles.networks
            known = bool(network) or call.func.id == self._roles.history.sampler
            return known or self._tree.names.builtin(call.func) in BUILTINS
        if name or not isinstance(call.func, ast.Attribute):
            return is_of_written_numbers(self._tree, call)
        receiver = unparse(call.func.value)
        if receiver == own:  # a part of the network, or a network of the object
            network = self._is_module or f"{own}.{call.func.attr}" in self._roles.networks
            return network and method_of(self._class, call.func.attr) is None
        return receiver in self._roles.networks or call.func.attr in METHODS


def method_of(cls: ast.ClassDef | None, name: str) -> ast.FunctionDef | None:
    """A method that a class itself defines."""
    return next((s for s in cls.body if isinstance(s, ast.FunctionDef) and s.name == name), None) if cls else None
