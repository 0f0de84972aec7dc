"""Whether a network computes each row of a batch independently, so that it may get the rows of many steps at once."""

from __future__ import annotations

import ast

from transformer.dataflow.bindings import bound_to
from transformer.facts.torch_api import DISTRIBUTIONS, HOLDERS, OF, attributes, layers, methods, names
from transformer.recognition.changes import foreign_base
from transformer.recognition.roles import Roles
from transformer.syntax.query import parameters, statements, walk
from transformer.values.device.graph_capture import SAMPLED
from transformer.values.networks.attributes import kept_by

MODULES = layers(rows="row") | HOLDERS
"""Cheap modules of torch that compute row by row and draw no random numbers. Convolutions are excluded: their results
were computed already when the step chose its action."""
FUNCTIONS = names("torch", "functional", rows=("element", "broadcast"))
"""Elementwise functions of torch."""
METHODS = methods(rows=("element", "broadcast", "row"), waits="")
"""Elementwise or row-wise methods of tensors and distributions."""
ALONG = names("tensor", "torch", "functional", rows="inner")
"""Methods and functions that are row-wise along any dimension but the first."""
SIZES = attributes(reorders=True) | attributes(sizes=True)
"""Attributes that depend on the number of rows."""


class Rowwise:
    """Checks that a network's method, and the methods it calls, never mix the rows of the input."""

    def __init__(self, roles: Roles, cls: ast.ClassDef, seen: set[ast.AST] | None = None) -> None:
        self._tree = roles.tree
        self._roles, self._cls = roles, cls
        self._methods = {m.name: m for m in cls.body if isinstance(m, ast.FunctionDef)}
        self._seen = set() if seen is None else seen
        """Methods and functions already checked: a network may contain networks of its own class."""

    def obstacle(self, method: str = "forward") -> str | None:
        """What may mix the rows or costs too much to compute again, with its line; None if nothing does."""
        if (base := foreign_base(self._tree, self._cls)) is not None:
            return f"{self._cls.name} is derived from {base}, which is not in this file"
        if method not in self._methods:
            return f"{self._cls.name} has no method {method} of its own"
        if self._methods[method] in self._seen:
            return None
        self._seen.add(self._methods[method])
        own = self._methods[method].args.args[0].arg if self._methods[method].args.args else "self"
        body, drawn = self._methods[method].body, self._roles.history.drawn
        draws = [v for s in statements(body) if (v := getattr(s, "value", None)) and ast.unparse(v) in drawn]
        inside = {n for draw in draws for n in walk(draw)}
        for node in (n for stmt in body for n in walk(stmt) if n not in inside):
            why = self._makes_rows(node, own) if isinstance(node, ast.Call) else self._other(node)
            if why is not None:
                return why
        return None

    def _other(self, node: ast.AST) -> str | None:
        """How a node other than a call may mix rows or depend on their number; None if it does neither."""
        if isinstance(node, ast.Attribute) and node.attr in SIZES:
            return f"line {node.lineno} reads {ast.unparse(node)}"
        if isinstance(node, (ast.For, ast.While, ast.comprehension, ast.Lambda, ast.FunctionDef, ast.Starred)):
            line = node.target.lineno if isinstance(node, ast.comprehension) else node.lineno
            return f"line {line} holds a loop or a function"
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            return f"line {node.lineno} multiplies matrices"
        if isinstance(node, ast.Subscript) and not self._keeps_rows(node.slice):
            return f"line {node.lineno} indexes {ast.unparse(node)}"
        return None

    @staticmethod
    def _keeps_rows(index: ast.expr) -> bool:
        """Whether an index is `[:, 3]` or `[..., 3]`."""
        first = index.elts[0] if isinstance(index, ast.Tuple) and index.elts else None
        whole = isinstance(first, ast.Slice) and first.lower is first.upper is first.step is None
        return whole or (isinstance(first, ast.Constant) and first.value is ...)

    def _makes_rows(self, call: ast.Call, own: str) -> str | None:
        name, text = self._tree.qualified(call.func) or "", ast.unparse(call.func)
        last = name.rpartition(".")[2]
        if name.startswith(DISTRIBUTIONS):
            known = last in SAMPLED
        elif name.startswith("torch."):
            known = last in FUNCTIONS or (last in ALONG and _inner(call, 1, last)) or _joins_columns(call, last)
        elif isinstance(call.func, ast.Name) and call.func.id == own:
            return self._effect_of_own("__call__" if "__call__" in self._methods else "forward")
        elif isinstance(call.func, ast.Name):
            known = call.func.id == self._roles.history.sampler or call.func.id == "super"
        elif isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == own:
            return self._effect_of_own(call.func.attr)
        elif isinstance(call.func, ast.Attribute) and not name:
            known = call.func.attr in METHODS or (call.func.attr in ALONG and _inner(call, 0, call.func.attr))
        else:
            known = False
        return None if known else f"line {call.lineno} calls {text}(), which may mix the rows of a batch"

    def _effect_of_own(self, attribute: str) -> str | None:
        """Why `self.attribute(...)` may mix rows: in a method of the network, or in one of its modules."""
        if attribute in self._methods:
            return self.obstacle(attribute)
        made = self._methods.get("__init__")
        values = [value for name, value in kept_by(made) if name == attribute] if made is not None else []
        if not values or None in values:
            return f"nothing is known of {self._cls.name}.{attribute}"
        for value in filter(None, values):
            for call in (n for n in walk(value) if isinstance(n, ast.Call)):
                if (why := self._module_made(call)) is not None:
                    return why
        return None

    def _module_made(self, call: ast.Call) -> str | None:
        """Why a call that should make a module may make one that mixes rows; None if it does not."""
        name, text = self._tree.qualified(call.func) or "", ast.unparse(call.func)
        if name.startswith("torch.nn.") and name.rpartition(".")[2][:1].isupper():
            known = name.rpartition(".")[2] in MODULES
            return None if known else f"line {call.lineno} makes a {text}, which uses more than one row or is costly"
        if isinstance(call.func, ast.Name) and call.func.id in self._tree.classes:
            return Rowwise(self._roles, self._tree.classes[call.func.id], self._seen).obstacle()
        helper = self._tree.helper_called(call)
        if helper is not None and helper not in self._seen:
            self._seen.add(helper)
            for inner in (n for n in walk(helper) if isinstance(n, ast.Call)):
                if (why := self._module_made(inner)) is not None:
                    return why
        scope = self._tree.scope_of(call)
        if isinstance(scope, ast.FunctionDef) and isinstance(call.func, ast.Name) and text in parameters(scope):
            classes = bound_to(self._tree, call.func, own=True)  # `act()` with `act=nn.Tanh`
            known = all(c and (self._tree.qualified(c) or "").removeprefix("torch.nn.") in MODULES for c in classes)
            return (
                None
                if known
                else f"line {call.lineno} makes it with {text}(), which is not a known layer in every call"
            )
        harmless = helper is not None or name.partition(".")[0] in ("numpy", "math", "torch")
        plain = isinstance(call.func, ast.Name) and call.func.id in (
            "int",
            "float",
            "len",
            "max",
            "min",
            "prod",
            "range",
            "enumerate",
            "zip",
        )
        method = isinstance(call.func, ast.Attribute) and not name  # np.array(shape).prod()
        return None if harmless or plain or method else f"line {call.lineno} makes it with {text}()"


def _joins_columns(call: ast.Call, name: str) -> bool:
    """Whether a call is `torch.cat([x, action], 1)`, which joins matrices side by side; vectors would be an error."""
    given = [k.value for k in call.keywords if k.arg in ("dim", "axis")] or call.args[1:2]
    parts = call.args[0] if call.args and name in ("cat", "concat", "concatenate") else None
    return isinstance(parts, (ast.List, ast.Tuple)) and bool(given) and ast.unparse(given[0]) == "1"


def _inner(call: ast.Call, tensors: int, name: str) -> bool:
    """Whether a call works along an explicit dimension that is not the first.

    Args:
        call: the call.
        tensors: the number of tensors before its other arguments.
        name: the name of the function or method.
    """
    before = tensors + next(OF[kind][name].dim for kind in ("tensor", "torch", "functional") if name in OF[kind])
    given = [k.value for k in call.keywords if k.arg in ("dim", "axis")] or call.args[before : before + 1]
    return bool(given) and ast.unparse(given[0]) in ("-1", "1", "(-1,)", "(1,)", "[-1]", "[1]")
