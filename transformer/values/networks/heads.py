"""The heads of networks: the linear layers whose results an update computes with."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.dataflow.access import access
from transformer.facts.libraries import LEAVES_PARTS
from transformer.facts.torch_api import HOLDERS, PRODUCTS, distributions, layers
from transformer.recognition.roles import Roles
from transformer.syntax.query import (
    bind_arguments,
    calls_method,
    first_parameter,
    is_read,
    parameters,
    statements,
    walk,
    without_methods,
)
from transformer.values.networks.attributes import Unknown, kept_by

KNOWN = layers(autocast=("product", "kept")) | HOLDERS


class Heads:
    """The heads of the trained networks that functions call, as the calls of nn.Linear that make them.

    All results of a network are computed from the results of its heads, so they are float32 if those are. The results
    of other layers are only inputs of layers.
    """

    def __init__(self, roles: Roles) -> None:
        self._roles, self._tree = roles, roles.tree
        self._seen: set[ast.FunctionDef] = set()
        self._heads: dict[ast.Call, None] = {}
        self._classes: dict[ast.ClassDef, None] = {}

    @property
    def found(self) -> list[ast.Call]:
        """The calls that make heads, in source order."""
        return sorted(self._heads, key=lambda call: (call.lineno, call.col_offset))

    @property
    def others(self) -> list[ast.Call]:
        """The calls that make the networks' other layers with matrix products."""
        calls = (n for n in self._roles.reached(self._classes) if isinstance(n, ast.Call))
        return [call for call in calls if self._layer(call) in layers(autocast="product") and call not in self._heads]

    def add(self, function: ast.FunctionDef) -> list[ast.stmt]:
        """Record the networks that a function calls; return the statements that call them.

        Raises:
            Unknown: a network may return something not computed from heads and float32 values.
        """
        found: dict[ast.stmt, None] = {}
        for name in walk(function):
            if not isinstance(name, ast.Name) or not is_read(name):
                continue
            if name.id == self._roles.history.policy:
                raise Unknown(f"line {name.lineno} calls the rollout's {name.id}()")
            if name.id in self._roles.modules and (call := self._network_call(name)) is not None:
                cls = self._class_of(name)
                method = "forward" if call.func is name else call.func.attr if calls_method(call) else ""
                self._enter_method(cls, method, call.lineno)
                found[self._plain(call)] = None
        return list(found)

    def _network_call(self, name: ast.Name) -> ast.Call | None:
        """The call of a network or of its method; None if only its parameters are read or its mode is set.

        Raises:
            Unknown: the network is used in another way.
        """
        node: ast.AST = name
        while isinstance(self._tree.parents[node], ast.Attribute):
            node = self._tree.parents[node]
        parent = self._tree.parents[node]
        called = isinstance(parent, ast.Call) and parent.func is node
        if isinstance(node, ast.Attribute) and (
            node.attr in LEAVES_PARTS | {"modules"} if called else self._is_parameter(name, node)
        ):
            return None
        if called and (node is name or (isinstance(node, ast.Attribute) and node.value is name)):
            assert isinstance(parent, ast.Call)
            return parent
        raise Unknown(f"line {name.lineno} uses {name.id} other than by calling its methods")

    def _is_parameter(self, name: ast.Name, read: ast.Attribute) -> bool:
        """Whether an attribute read from a network is a parameter, not a layer."""
        first = self._tree.parents[name]
        assert isinstance(first, ast.Attribute)
        cls = self._class_of(name)
        computed = self._modules(cls) | {method.name for method in _methods(cls)}
        return first.attr not in computed or read.attr in ("weight", "bias")

    def _class_of(self, name: ast.Name) -> ast.ClassDef:
        made = [value for _, value in self._roles.assignments(name.id)]
        constructor = self._tree.constructor(made[0]) if len(made) == 1 else None
        if constructor is None:
            raise Unknown(f"{name.id} is not made exactly once, from a class of this file")
        cls = self._tree.classes[ast.unparse(constructor.func)]
        for used in self._tree.used_classes(cls):
            self._check_products(used)
            self._classes[used] = None
        if [self._tree.qualified(base) for base in cls.bases] != ["torch.nn.Module"]:
            raise Unknown(f"line {cls.lineno}: {cls.name} is not derived directly from nn.Module")
        return cls

    def _check_products(self, cls: ast.ClassDef) -> None:
        """Check that in a class, and in functions that it may call, only torch's layers compute matrix products.

        Raises:
            Unknown: something else may.
        """
        for node in (n for n in self._roles.reached([cls]) if isinstance(n, ast.expr)):
            if self._is_product(node):
                raise Unknown(f"line {node.lineno} computes a matrix product outside a layer")
            module, _, name = (self._tree.qualified(node) or "").rpartition(".")
            whole = (
                module.startswith("torch.distributions")
                and name[:1].isupper()
                and name not in distributions(products=False)
            )
            if whole or (module == "torch.nn" and name not in KNOWN | {"init", "functional", "utils"}):
                raise Unknown(f"line {node.lineno}: what {ast.unparse(node)} does under autocast is not known")

    def _is_product(self, node: ast.AST) -> bool:
        """Whether a node is a matrix product, or the name of a function that computes one."""
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, ast.MatMult)
        return isinstance(node, (ast.Name, ast.Attribute)) and self._tree.last_name(node) in PRODUCTS

    def _plain(self, call: ast.Call) -> ast.stmt:
        """The simple statement that contains a call."""
        stmt = self._tree.statement(call)
        if not isinstance(stmt, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)):
            raise Unknown(f"line {call.lineno} calls a network in a compound statement")
        if any(map(self._is_product, self._roles.reached([stmt]))):
            raise Unknown(f"line {call.lineno} also computes a matrix product")
        return stmt

    def _enter_method(self, cls: ast.ClassDef, name: str, line: int) -> None:
        """Record the heads behind a method's results, or the layer that is called instead."""
        method = next((s for s in cls.body if isinstance(s, ast.FunctionDef) and s.name == name), None)
        if method is not None:
            self._layers_in_method(cls, method)
        else:
            self._head_of_attribute(cls, name, line)

    def _layers_in_method(self, cls: ast.ClassDef, method: ast.FunctionDef) -> None:
        """Record the layers whose results are used other than as inputs of layers."""
        if method in self._seen:
            return
        self._seen.add(method)
        own = first_parameter(method)
        if any(isinstance(n, ast.Name) and n.id in ("super", own) and self._is_whole(n) for n in walk(method)):
            raise Unknown(f"line {method.lineno}: {method.name}() uses the network as a whole")
        modules = self._modules(cls)
        for node in walk(method):
            if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name) or node.value.id != own:
                continue
            call = self._tree.parents[node]
            if isinstance(call, ast.Call) and call.func is node:
                if not self._feeds_layers(call, method, own, modules):
                    self._enter_method(cls, node.attr, node.lineno)
            elif node.attr in modules | {m.name for m in _methods(cls)}:
                raise Unknown(f"line {node.lineno} uses {ast.unparse(node)} other than by calling it")

    def _is_whole(self, name: ast.Name) -> bool:
        return is_read(name) and not isinstance(self._tree.parents[name], ast.Attribute)

    def _feeds_layers(self, call: ast.Call, method: ast.FunctionDef, own: str | None, modules: frozenset[str]) -> bool:
        """Whether a result of a layer is used only as the input of layers."""

        def inside_layer(node: ast.AST) -> bool:
            return any(
                calls_method(outer, *modules) and ast.unparse(outer.func.value) == own and outer is not node
                for outer in self._tree.ancestors(node)
            )

        if inside_layer(call):
            return True
        stmt = self._tree.parents[call]
        target = stmt.targets[0] if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 else None
        if not isinstance(target, ast.Name):
            return False
        reads = [n for n in walk(method) if isinstance(n, ast.Name) and n.id == target.id and is_read(n)]
        return all(map(inside_layer, reads))

    def _modules(self, cls: ast.ClassDef) -> frozenset[str]:
        """The attributes that may hold layers."""
        kept = (pair for method in _methods(cls) for pair in kept_by(method))
        return frozenset(name for name, value in kept if value is not None and self._makes_module(value))

    def _makes_module(self, value: ast.expr) -> bool:
        """Whether a value may hold layers: it contains a call that is not known to return only tensors and numbers."""
        calls = [n for n in walk(value) if isinstance(n, ast.Call) and self._layer(n) != "Parameter"]
        names = [self._tree.qualified(call.func) or ast.unparse(call.func) for call in calls]
        return any(n.startswith("torch.nn.") or not n.startswith(("torch.", "numpy.", "math.")) for n in names)

    def _head_of_attribute(self, cls: ast.ClassDef, name: str, line: int) -> None:
        """Record the last linear layer of an attribute's value."""
        made = [value for method in _methods(cls) for kept, value in kept_by(method) if kept == name]
        if not made or None in made:
            raise Unknown(f"line {line}: the value of {name} of {cls.name} is not known")
        for value in made:
            assert value is not None
            self._last_linear(value, name)

    def _last_linear(self, value: ast.expr, name: str, depth: int = 8) -> None:
        value = without_methods(value, ("to", "requires_grad_"))
        layer = self._layer(value)
        if isinstance(value, ast.Call) and layer == "Linear":
            self._heads[value] = None
            return
        if layer == "Sequential" and isinstance(value, ast.Call):
            starred = any(isinstance(a, ast.Starred) for a in value.args)
            parts = [] if starred else [a for a in value.args if self._layer(a) not in layers(autocast="kept")][-1:]
        else:
            parts = self._values_returned(value)
        if not parts or not depth:
            raise Unknown(f"line {value.lineno}: the result of {name} is not that of a linear layer")
        for part in parts:
            self._last_linear(part, name, depth - 1)

    def _values_returned(self, call: ast.expr) -> list[ast.expr]:
        """What a function of this file may return for a call such as `mlp(2, 1)` or `layer_init(nn.Linear(2, 1))`."""
        function = self._tree.helper_called(call) if isinstance(call, ast.Call) else None
        matched = bind_arguments(function, call) if function is not None and isinstance(call, ast.Call) else None
        if function is None or matched is None:
            return []
        found = list[ast.expr | None]()
        for value in (s.value for s in statements(function.body) if isinstance(s, ast.Return)):
            name = value.id if isinstance(value, ast.Name) else ""
            bound = [s for s in statements(function.body) if name in access(s).binds]
            if bound:
                plain = all(isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) for s in bound)
                found += [s.value for s in bound if isinstance(s, ast.Assign)] if plain else [None]
                found += [None] if name in parameters(function) else []
            else:
                found.append(matched.given.get(name) if name else value)
        return [] if None in found else [value for value in found if value is not None]

    def _layer(self, node: ast.AST) -> str:
        """The name of the torch module that a call makes."""
        qualified = self._tree.qualified(node.func) or "" if isinstance(node, ast.Call) else ""
        return qualified.rpartition(".")[2] if qualified.startswith("torch.nn.") and qualified.count(".") == 2 else ""


def _methods(cls: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    return (stmt for stmt in cls.body if isinstance(stmt, ast.FunctionDef))
