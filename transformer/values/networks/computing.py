"""Which statements of a scope only compute with tensors, so that they may be moved into a function, and compiled."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from transformer.dataflow.access import access, scope_access
from transformer.dataflow.grad_mode import NO_GRAD
from transformer.recognition.roles import Roles
from transformer.syntax.query import (
    bind_arguments,
    calls_itself,
    first_parameter,
    names_in,
    pairwise,
    parameters,
    unparse,
    walk,
)
from transformer.syntax.tree import Scope
from transformer.torch_api import OF, OF_TYPE, OTHERWISE, names
from transformer.values.networks.attributes import MODULE, NUMBER, Frame, Unknown, Values, kept_by
from transformer.values.networks.without_gradients import differs, layer_differs
from transformer.values.tensors import Tensors

METHODS = names("tensor", memory=("new", "shared"), waits="") - {"cuda"} | OF["distribution"].keys()
"""Methods that compute with tensors, or with distributions, and change nothing."""
FUNCTIONS = names("torch", memory=("new", "shared"), waits="", made="") | names("functional", memory=("new", "shared"))
MAKING = frozenset({"torch.Tensor", *OF_TYPE, *(f"torch.{n}" for n in names("torch", made="of host"))})
"""Functions that make a tensor of what the host holds."""
MOMENTS = frozenset("T loc logits mean mode probs scale stddev variance".split())
"""Attributes of tensors and of distributions that are tensors."""
DISTRIBUTIONS = "torch.distributions."
CHANGES = names("tensor", memory=("new", "shared"))
"""What a tensor is asked for on its way out of a computation."""


class Computing:
    """Looks at statements of a function, one after the other, and knows the names that they have bound.

    Args:
        roles: the script.
        scope: what they belong to: a method, a function of the file, or what trains.
        cls: the method's class; None for anything else.
    """

    def __init__(self, roles: Roles, scope: Scope, cls: ast.ClassDef | None) -> None:
        self._roles, self._tree, self._scope, self._class = roles, roles.tree, scope, cls
        self._own = first_parameter(scope) if cls is not None and isinstance(scope, ast.FunctionDef) else None
        self._networks = named_networks(roles, scope) if cls is None else kept_networks(roles, cls)
        self._numbers = frozenset[str]() if cls is None else kept_numbers(roles, cls)
        self.begin(scope.body[0])

    def begin(self, first: ast.stmt) -> None:
        """Know nothing, and look at statements from this one on."""
        self._first = first
        self.known: set[str] = set()
        """Names that the statements have bound."""
        self.inputs: dict[str, None] = {}
        """Names from above them that they read: of tensors, or of what a condition asks."""
        self.distributions: set[str] = set()
        """Those of the names bound that are, or may be, distributions."""
        self.calls_network = self.draws = False

    def statement(self, stmt: ast.stmt) -> bool:
        """Whether a statement only computes; if so, the names that it binds are known from now on."""
        before = dict(self.inputs), set(self.known), set(self.distributions), self.calls_network, self.draws
        if self._statement(stmt):
            return True
        self.inputs, self.known, self.distributions, self.calls_network, self.draws = before
        return False

    def expression(self, node: ast.expr) -> bool:
        """Whether an expression only computes."""
        before = dict(self.inputs), self.calls_network, self.draws
        if self._expression(node):
            return True
        self.inputs, self.calls_network, self.draws = before
        return False

    def _statement(self, stmt: ast.stmt) -> bool:
        if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1:
            target, value = stmt.targets[0], stmt.value
            bound = target.elts if isinstance(target, ast.Tuple) else [target]
            if not all(isinstance(n, ast.Name) for n in bound) or not self._expression(value):
                return False
            self._bind([n.id for n in bound if isinstance(n, ast.Name)], value)
            return True
        if isinstance(stmt, ast.If):
            if not self._is_steady(stmt.test) or not all(self._statement(s) for s in stmt.body):
                return False
            return all(self._statement(s) for s in stmt.orelse)
        if isinstance(stmt, ast.With):
            enters = [i.context_expr for i in stmt.items if i.optional_vars is None]
            quiet = len(enters) == len(stmt.items) and all(
                isinstance(e, ast.Call) and self._tree.calls(e, *NO_GRAD) and not e.args and not e.keywords
                for e in enters
            )
            return quiet and all(self._statement(s) for s in stmt.body)
        return False

    def _bind(self, bound: list[str], value: ast.expr) -> None:
        self.known.update(bound)
        name = self._tree.qualified(value.func) or "" if isinstance(value, ast.Call) else ""
        if name.startswith(DISTRIBUTIONS):
            self.distributions.update(bound)

    def _expression(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Constant):
            return True
        if isinstance(node, ast.Name):
            return node.id in self.known or self._is_input(node.id)
        if isinstance(node, (ast.BinOp, ast.UnaryOp)):
            parts = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.operand]
            return not isinstance(getattr(node, "op", None), ast.Not) and all(self._expression(n) for n in parts)
        if isinstance(node, ast.Tuple):
            return all(self._expression(n) for n in node.elts)
        if isinstance(node, ast.IfExp):
            return self._is_steady(node.test) and self._expression(node.body) and self._expression(node.orelse)
        if isinstance(node, ast.Subscript):
            return self._expression(node.value) and self._is_index(node.slice)
        if isinstance(node, ast.Attribute):
            if self._is_own(node.value):
                return node.attr in self._numbers or node.attr in self._networks
            return node.attr in MOMENTS and self._expression(node.value)
        return isinstance(node, ast.Call) and self._call(node)

    def _call(self, call: ast.Call) -> bool:
        func, name = call.func, self._tree.qualified(call.func) or ""
        if unparse(call) in self._roles.history.drawn:  # as the transform sampling has written it
            self.draws = True
            return names_in([call]) - {"torch"} <= self.known
        if any(k.arg is None or k.arg in OTHERWISE for k in call.keywords):
            return False
        given = [*call.args, *(k.value for k in call.keywords)]
        if self._roles.tree.calls(call, *MAKING) or (isinstance(func, ast.Name) and func.id in MAKING):
            return False
        last = name.rpartition(".")[2]
        if name.startswith(DISTRIBUTIONS):
            return last[:1].isupper() and all(self._expression(a) for a in given)
        if name.startswith("torch."):
            plain = name in (f"torch.{last}", f"torch.nn.functional.{last}")
            return plain and last in FUNCTIONS and all(self._expression(a) for a in given)
        if self._is_network(call):
            self.calls_network = True
            return all(self._expression(a) for a in given)
        if isinstance(func, ast.Name):
            drawn = func.id == self._roles.history.sampler
            self.draws |= drawn
            return drawn and all(self._expression(a) for a in given)
        if not isinstance(func, ast.Attribute) or name or func.attr not in METHODS or not self._expression(func.value):
            return False
        self.draws |= func.attr in names("distribution", draws=True)
        if func.attr == "to":
            return all(self._is_device_or_dtype(a) for a in given)
        return all(self._expression(a) or self._is_index(a) for a in given)

    def _is_network(self, call: ast.Call) -> bool:
        """Whether a call runs a network of which all is known: one that the object keeps, or the object itself."""
        if calls_itself(call, self._own):
            cls = self._class
            return cls is not None and self._roles.is_module(cls) and differs(self._roles, cls, "forward") is None
        func = call.func
        if self._class is None:
            return isinstance(func, ast.Name) and func.id in self._networks
        return isinstance(func, ast.Attribute) and self._is_own(func.value) and func.attr in self._networks

    def _is_own(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self._own

    def _is_device_or_dtype(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Attribute) and self._is_own(node.value):
            return node.attr in self._numbers
        local = set(scope_access(self._scope.body).binds) | self._parameters()
        if self._scope is self._roles.scope:
            local &= self._roles.variant
        named = isinstance(node, ast.Name) and node.id not in local
        return named or isinstance(node, ast.Constant) or (self._tree.qualified(node) or "").startswith("torch.")

    def _is_index(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Tuple):
            return all(self._is_index(n) for n in node.elts)
        if isinstance(node, ast.Slice):
            return all(self._is_index(n) for n in (node.lower, node.upper, node.step) if n is not None)
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.op, ast.USub) and self._is_index(node.operand)
        return isinstance(node, ast.Constant)

    def _is_steady(self, test: ast.expr) -> bool:
        """Whether a condition asks what is the same in each step: an option of the object, or what is left out."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self._is_steady(test.operand)
        if isinstance(test, ast.Attribute):
            return self._is_own(test.value) and test.attr in self._numbers
        asked = test.left if isinstance(test, ast.Compare) and _is_none(test) else test
        if isinstance(asked, ast.Name) and asked.id not in self.known and self._has_default(asked.id):
            self.inputs.setdefault(asked.id)
            return True
        return False

    def _has_default(self, name: str) -> bool:
        """Whether a name is a parameter that is None, True or False unless a caller says otherwise, and stays so."""
        if not isinstance(self._scope, ast.FunctionDef):
            return False
        args = self._scope.args
        positional = [*args.posonlyargs, *args.args]
        late = zip(positional[len(positional) - len(args.defaults) :], args.defaults, strict=True)
        by_name = ((a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None)
        defaults = {a.arg: d for a, d in (*late, *by_name)}
        default = defaults.get(name)
        return (
            isinstance(default, ast.Constant) and default.value in (None, True, False) and self._before(name) == {None}
        )

    def _is_input(self, name: str) -> bool:
        """Whether a name is a tensor above the statements; it is one of their inputs, then."""
        bindings = self._before(name)
        shown = bool(bindings) and all(
            self._is_given(name) if stmt is None else self._binds_tensor(stmt, name) for stmt in bindings
        )
        if shown:
            self.inputs.setdefault(name)
        return shown

    def _before(self, name: str) -> frozenset[ast.stmt | None]:
        return self._roles.reaching(self._scope).before(name, self._first)

    def _binds_tensor(self, stmt: ast.stmt, name: str) -> bool:
        pairs = pairwise(stmt) if isinstance(stmt, ast.Assign) else []
        values = [v for t, v in pairs if isinstance(t, ast.Name) and t.id == name]
        return bool(values) and all(self._makes_tensor(v) for v in values)

    def _makes_tensor(self, value: ast.expr) -> bool:
        """Whether a value is a tensor that is made of what the host holds, or by a network, and moved or reshaped."""
        while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            if self._tree.calls(value, *MAKING) or self._is_network(value):
                return True
            cast = value.func.attr == "type" and value.args  # without arguments it is a text
            if value.func.attr not in CHANGES - {"numpy"} and not cast:
                return False
            value = value.func.value
        return isinstance(value, ast.Call) and self._tree.calls(value, *MAKING)

    def _is_given(self, name: str) -> bool:
        """Whether a parameter is a tensor in each call, or is left out, which a condition asks."""
        function, tensors = self._scope, self._roles.get(Tensors)
        if not isinstance(function, ast.FunctionDef) or name not in self._parameters() or function is self._roles.scope:
            return False
        calls = [n for n in self._tree.of(ast.Call) if self._tree.last_name(n.func) == function.name]
        receiver = None if self._class is None else ast.Constant(None)
        for call in calls:
            bound = bind_arguments(function, call, receiver)
            value = bound.given.get(name) if bound is not None else None
            left_out = bound is not None and value is None and self._has_default(name)
            given = value is not None and (
                self._makes_tensor(value) or (self._tree.scope_of(value) is self._roles.scope and tensors.tensor(value))
            )
            if not left_out and not given:
                return False
        return bool(calls)

    def _parameters(self) -> set[str]:
        return set(parameters(self._scope)) if isinstance(self._scope, ast.FunctionDef) else set()


def _is_none(test: ast.Compare) -> bool:
    plain = len(test.ops) == 1 and isinstance(test.ops[0], (ast.Is, ast.IsNot))
    return plain and isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None


def kept_networks(roles: Roles, cls: ast.ClassDef) -> frozenset[str]:
    """The attributes that a class's constructor alone sets, to networks of which all is known that they compute.

    They are layers of torch, and modules of this file, that compute the same bits without gradients: see `differs`.
    """

    values = Values(roles, _checks_modules(roles))
    return frozenset(
        name
        for name, frame, value in _kept_once(roles, cls)
        if not any(layer_differs(roles, n) for n in walk(value)) and _leaves(values, value, frame) == MODULE
    )


def named_networks(roles: Roles, scope: Scope) -> frozenset[str]:
    """The names that are bound once, above the training loop, to such networks, and that a scope sees."""
    if scope is not roles.scope and not isinstance(roles.scope, ast.Module):
        return frozenset()
    values = Values(roles, _checks_modules(roles))
    local = set(parameters(scope)) if isinstance(scope, ast.FunctionDef) else set[str]()
    local |= scope_access(scope.body).binds if scope is not roles.scope else roles.variant
    found = ((n, roles.only_value(n)) for s in roles.setup if isinstance(s, ast.Assign) for n in access(s).binds)
    return frozenset(
        name
        for name, value in found
        if value is not None
        and name not in local
        and not any(layer_differs(roles, n) for n in walk(value))
        and _leaves(values, value, Frame(roles.scope)) == MODULE
    )


def kept_numbers(roles: Roles, cls: ast.ClassDef) -> frozenset[str]:
    """The attributes that a class's constructor alone sets, to numbers, devices and the like."""
    values = Values(roles, _no_class)
    return frozenset(
        name
        for name, frame, value in _kept_once(roles, cls)
        if isinstance(value, ast.Constant) or _leaves(values, value, frame) == NUMBER
    )


def _checks_modules(roles: Roles) -> Callable[[ast.ClassDef, ast.Call, Frame], None]:
    """What raises Unknown for each class but modules that compute the same bits without gradients."""

    def check(made: ast.ClassDef, call: ast.Call, frame: Frame) -> None:
        if not roles.is_module(made) or differs(roles, made) is not None:
            raise Unknown(f"line {call.lineno} makes {made.name}()")

    return check


def _no_class(made: ast.ClassDef, call: ast.Call, frame: Frame) -> None:
    raise Unknown(f"line {call.lineno} makes {made.name}()")


def _leaves(values: Values, value: ast.expr, frame: Frame) -> object:
    try:
        return values.leaves(value, frame)
    except Unknown:
        return None


def _kept_once(roles: Roles, cls: ast.ClassDef) -> Iterator[tuple[str, Frame, ast.expr]]:
    """The attributes that the constructor sets, each by one plain value, and nothing else in the file does."""
    constructor = next((s for s in cls.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"), None)
    if constructor is None:
        return
    kept = list(kept_by(constructor))
    inside = {*walk(constructor)}
    elsewhere = {
        n.attr
        for n in roles.tree.of(ast.Attribute)
        if not isinstance(n.ctx, ast.Load) and n not in inside and not _in_constructor(roles, n)
    }
    elsewhere |= {  # a part of a network that is put in another's place
        n.value.attr
        for n in roles.tree.of(ast.Subscript)
        if not isinstance(n.ctx, ast.Load) and isinstance(n.value, ast.Attribute)
    }
    for name, value in kept:
        if value is not None and [n for n, _ in kept].count(name) == 1 and name not in elsewhere:
            yield name, Frame(constructor), value


def _in_constructor(roles: Roles, node: ast.Attribute) -> bool:
    """Whether another class's constructor sets an attribute of its own object."""
    scope = roles.tree.scope_of(node)
    if not isinstance(scope, ast.FunctionDef) or scope.name != "__init__":
        return False
    return isinstance(node.value, ast.Name) and node.value.id == first_parameter(scope)
