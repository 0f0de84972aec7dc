"""Which statements of a scope only compute with tensors, so that they may be moved into a function and compiled."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from transformer.dataflow.access import access, scope_access
from transformer.dataflow.grad_mode import without_gradients
from transformer.dataflow.reaching import Bindings
from transformer.facts.torch_api import (
    DISTRIBUTIONS,
    MODULE_CONTAINERS,
    NO_GRAD,
    OF,
    OF_DISTRIBUTIONS,
    OF_HOST,
    attributes,
    may_be_given,
    names,
)
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
from transformer.values.effects.world import World
from transformer.values.networks.attributes import MODULE, NUMBER, BoundScope, Unknown, Values, kept_by, no_class
from transformer.values.networks.results import Results
from transformer.values.networks.sealed import (
    FUNCTIONS,
    METHODS,
    is_plain_class,
    makes_inplace,
    meaning,
    only_computes,
    stays,
)
from transformer.values.networks.without_gradients import differs, layer_differs, reached
from transformer.values.tensors import Tensors

MOMENTS = OF_DISTRIBUTIONS | attributes(graph=True)
"""Attributes of tensors and of distributions that are tensors."""
BOTH = attributes("pair")
"""Attributes of the pairs that `x.max(1)` and similar selections along a dimension return."""
CHOOSING = names("tensor", pairs=True)
CHANGES = names("tensor", memory=("new", "shared"))
"""Methods that may be called on a tensor when it leaves a computation."""


class Computing:
    """Examines the statements of a function in order, and tracks the names that they bind.

    Args:
        roles: the script.
        scope: the scope of the statements: a method, a function of the file, or the training scope.
        cls: the method's class; None for anything else.
        stays: whether the computation stays in place, with or without gradients as before; then any network may be
            called.
    """

    def __init__(self, roles: Roles, scope: Scope, cls: ast.ClassDef | None, *, stays: bool = False) -> None:
        self._roles, self._tree, self._scope, self._class, self._stays = roles, roles.tree, scope, cls, stays
        self._own = first_parameter(scope) if cls is not None and isinstance(scope, ast.FunctionDef) else None
        self._known_networks = roles.get(KnownNetworks)
        self._networks = self._known_networks.named(scope) if cls is None else self._known_networks.networks(cls)
        self._numbers = frozenset[str]() if cls is None else self._known_networks.numbers(cls)
        self.begin(scope.body[0])

    def begin(self, first: ast.stmt) -> None:
        """Start over at a statement, with no names known."""
        self._first = first
        self.known: set[str] = set()
        """Names that the statements have bound."""
        self.inputs: dict[str, None] = {}
        """Names bound above the statements that these read: tensors, or what a condition tests."""
        self.distributions: set[str] = set()
        """The bound names that are, or may be, distributions."""
        self.calls_network = self.draws = self.records = False
        self.in_order = True
        """Whether the statements so far are contiguous: then a network may do more than compute."""
        self._quiet = without_gradients(self._tree, first)

    def statement(self, stmt: ast.stmt) -> bool:
        """Whether a statement only computes; if so, the names that it binds are known from then on."""
        before = dict(self.inputs), set(self.known), set(self.distributions)
        flags = self.calls_network, self.draws, self.records
        if self._statement_computes(stmt):
            return True
        self.inputs, self.known, self.distributions = before
        self.calls_network, self.draws, self.records = flags
        return False

    def expression(self, node: ast.expr) -> bool:
        """Whether an expression only computes."""
        before, flags = dict(self.inputs), (self.calls_network, self.draws, self.records)
        if self._expression(node):
            return True
        self.inputs = before
        self.calls_network, self.draws, self.records = flags
        return False

    def _statement_computes(self, stmt: ast.stmt) -> bool:
        if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1:
            target, value = stmt.targets[0], stmt.value
            bound = target.elts if isinstance(target, ast.Tuple) else [target]
            if not all(isinstance(n, ast.Name) for n in bound) or not self._expression(value):
                return False
            self._note_names([n.id for n in bound if isinstance(n, ast.Name)], value)
            return True
        if isinstance(stmt, ast.If):
            if not self._same_each_step(stmt.test):
                return False
            before, sides = set(self.known), []
            for side in (stmt.body, stmt.orelse):
                self.known = set(before)
                if not all(self._statement_computes(s) for s in side):
                    return False
                sides.append(self.known)
            self.known = sides[0] & sides[1]  # below, only names that both sides bind are known
            return True
        if isinstance(stmt, ast.With):
            enters = [i.context_expr for i in stmt.items if i.optional_vars is None]
            quiet = len(enters) == len(stmt.items) and all(
                isinstance(e, ast.Call) and meaning(self._tree, e.func) in NO_GRAD and not e.args and not e.keywords
                for e in enters
            )
            recorded, outside = self.records, self._quiet
            self._quiet = True
            done = quiet and all(self._statement_computes(s) for s in stmt.body)
            self.records, self._quiet = recorded, outside
            return done
        return False

    def _note_names(self, bound: list[str], value: ast.expr) -> None:
        self.known.update(bound)
        name = meaning(self._tree, value.func) if isinstance(value, ast.Call) else ""
        if name.startswith(DISTRIBUTIONS) or (
            self._trusts and self._roles.get(World).may_be_made_by(value, DISTRIBUTIONS)
        ):
            self.distributions.update(bound)
        elif isinstance(value, ast.Call) and self._is_network(value):
            places = [(None, 1)] if len(bound) == 1 else [(place, len(bound)) for place in range(len(bound))]
            results = Results(self._roles, value)
            self.distributions.update(n for n, at in zip(bound, places, strict=True) if not results.is_tensor(*at))

    def _expression(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Constant):
            return True
        if isinstance(node, ast.Name) and node.id in self._networks and self._known_networks.is_parameter(node.id):
            self.records = True
            return True
        if isinstance(node, ast.Name):
            return node.id in self.known or self._is_input(node.id) or (self._trusts and self._is_trusted(node))
        if isinstance(node, (ast.BinOp, ast.UnaryOp)):
            parts = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.operand]
            return not isinstance(getattr(node, "op", None), ast.Not) and all(self._expression(n) for n in parts)
        if isinstance(node, ast.Tuple):
            return all(self._expression(n) for n in node.elts)
        if isinstance(node, ast.IfExp):
            return self._same_each_step(node.test) and self._expression(node.body) and self._expression(node.orelse)
        if isinstance(node, ast.Subscript):
            return self._expression(node.value) and self._is_index(node.slice)
        if isinstance(node, ast.Attribute):
            if self._is_own_object(node.value):
                self.records |= node.attr in self._networks
                return node.attr in self._numbers or node.attr in self._networks
            found = node.attr in BOTH and isinstance(node.value, ast.Call) and _gives_both(node.value)
            return (found or node.attr in MOMENTS) and self._expression(node.value)
        return isinstance(node, ast.Call) and self._call_computes(node)

    def _call_computes(self, call: ast.Call) -> bool:
        func, name = call.func, meaning(self._tree, call.func)
        if not name and self._tree.qualified(func):
            return False  # here, the name may be something else
        if unparse(call) in self._roles.history.drawn:  # as written by the transform `sampling`
            self.draws = True
            return names_in([call]) - {"torch"} <= self.known
        if may_be_given(call):
            return False
        given = [*call.args, *(k.value for k in call.keywords)]
        if name in OF_HOST:
            return False
        last = name.rpartition(".")[2]
        if name.startswith(DISTRIBUTIONS):
            return last[:1].isupper() and all(self._expression(a) for a in given)
        if name.startswith("torch."):
            plain = name in (f"torch.{last}", f"torch.nn.functional.{last}")
            return plain and last in FUNCTIONS and all(self._expression(a) for a in given)
        if self._is_network(call) or (self._trusts and self._is_trained(call)):
            self.calls_network = self.records = True
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
        """Whether a call runs a fully known network: one that the object keeps, or the object itself."""
        if calls_itself(call, self._own):
            cls = self._class
            return cls is not None and self._known_networks.runs(cls, "forward")
        func = call.func
        if self._class is None:
            return isinstance(func, ast.Name) and func.id in self._networks
        return isinstance(func, ast.Attribute) and self._is_own_object(func.value) and func.attr in self._networks

    @property
    def _trusts(self) -> bool:
        """Whether any network may be called: the call stays in place, or runs without gradients."""
        return self.in_order and (self._quiet or self._stays)

    def _is_trained(self, call: ast.Call) -> bool:
        """Whether a call runs a trained network or another module, by its name or as an attribute of the object."""
        func = call.func
        if isinstance(func, ast.Attribute) and self._tree.methods(func.attr) and func.attr not in self._keeps:
            func = func.value  # self.actor.act(state)
            if self._class is not None and self._is_own_object(func):
                return self._roles.is_module(self._class)  # self.forward(state)
        own = isinstance(func, ast.Attribute) and self._is_own_object(func.value)
        seen = self._scope is self._roles.scope or unparse(func) not in self._variables  # a nested function sees it
        if not own and not (isinstance(func, ast.Name) and self._class is None and seen):
            return False
        return unparse(func) in self._roles.networks or self._roles.get(World).is_module(func)

    @cached_property
    def _variables(self) -> frozenset[str]:
        """The variables of a function; of the training scope, those that the training loop binds."""
        local = scope_access(self._scope.body).binds | self._parameters()
        return local & self._roles.variant if self._scope is self._roles.scope else local

    @cached_property
    def _keeps(self) -> frozenset[str]:
        """The attributes that the methods of the class set."""
        methods = [s for s in self._class.body if isinstance(s, ast.FunctionDef)] if self._class is not None else []
        return frozenset(name for method in methods for name, _ in kept_by(method))

    def _is_trusted(self, name: ast.Name) -> bool:
        """Whether a name bound above the statements is always a tensor, or a flag; if so, it becomes an input."""
        if self._is_flag(name.id):
            return True
        world = self._roles.get(World)
        above = bool(self._before(name.id)) and self._roles.is_ours(name, self._scope)
        if not above or not world.are_tensors(world.of(name)):
            return False
        self.inputs.setdefault(name.id)
        self.records = True
        return True

    def _is_flag(self, name: str) -> bool:
        """Whether a name is a parameter to which every call passes True or False; if so, it becomes an input."""
        function = self._scope
        if not isinstance(function, ast.FunctionDef) or function is self._roles.scope:
            return False
        if name not in self._parameters() or name in scope_access(function.body).binds:
            return False
        calls = self._calls_with_name(function)
        receiver = None if self._class is None else ast.Constant(None)
        bound = [bind_arguments(function, call, receiver) for call in calls]
        values = [b.values.get(name) if b is not None else None for b in bound]
        found = bool(values) and all(isinstance(v, ast.Constant) and isinstance(v.value, bool) for v in values)
        if found:
            self.inputs.setdefault(name)
        return found

    def _is_own_object(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self._own

    def _is_device_or_dtype(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Attribute) and self._is_own_object(node.value):
            return node.attr in self._numbers
        named = isinstance(node, ast.Name) and node.id not in self._variables
        return named or isinstance(node, ast.Constant) or meaning(self._tree, node).startswith("torch.")

    def _is_index(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Tuple):
            return all(self._is_index(n) for n in node.elts)
        if isinstance(node, ast.Slice):
            return all(self._is_index(n) for n in (node.lower, node.upper, node.step) if n is not None)
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.op, ast.USub) and self._is_index(node.operand)
        return isinstance(node, ast.Constant)

    def _same_each_step(self, test: ast.expr) -> bool:
        """Whether a condition is the same in each step: it tests an option of the object or an omitted parameter."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self._same_each_step(test.operand)
        if isinstance(test, ast.Attribute):
            return self._is_own_object(test.value) and test.attr in self._numbers
        asked = test.left if isinstance(test, ast.Compare) and _tests_for_none(test) else test
        if isinstance(asked, ast.Name) and asked.id not in self.known and self._has_default(asked.id):
            self.inputs.setdefault(asked.id)
            return True
        return False

    def _has_default(self, name: str) -> bool:
        """Whether a name is a parameter with the default None, True or False that is not bound again."""
        if not isinstance(self._scope, ast.FunctionDef):
            return False
        args = self._scope.args
        positional = [*args.posonlyargs, *args.args]
        late = zip(positional[len(positional) - len(args.defaults) :], args.defaults, strict=True)
        by_name = ((a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None)
        defaults = {a.arg: d for a, d in (*late, *by_name)}
        default = defaults.get(name)
        return (
            isinstance(default, ast.Constant) and default.value in (None, True, False) and self._before(name) == (None,)
        )

    def _is_input(self, name: str) -> bool:
        """Whether a name is a tensor above the statements; if so, it becomes an input."""
        bindings = self._before(name)
        shown = bool(bindings) and all(
            self._gets_tensors(name) if stmt is None else self._binds_tensor(stmt, name) for stmt in bindings
        )
        if shown:
            self.inputs.setdefault(name)
            values = [v for stmt in bindings for v in (self._values_bound(stmt, name) if stmt is not None else [None])]
            self.records |= not all(v is not None and self._is_of_host(v) for v in values)
        return shown

    def _before(self, name: str) -> Bindings:
        return self._roles.reaching(self._scope).before(name, self._first)

    @staticmethod
    def _values_bound(stmt: ast.stmt, name: str) -> list[ast.expr]:
        pairs = pairwise(stmt) if isinstance(stmt, ast.Assign) else []
        return [v for t, v in pairs if isinstance(t, ast.Name) and t.id == name]

    def _binds_tensor(self, stmt: ast.stmt, name: str) -> bool:
        values = self._values_bound(stmt, name)
        return bool(values) and all(self._makes_tensor(v) for v in values)

    def _is_of_host(self, value: ast.expr) -> bool:
        """Whether a known tensor is made from host values, and so has no gradient."""
        while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and not self._makes(value):
            value = self._tensor_reshaped(value) or value.func.value
        return self._makes(value)

    def _tensor_reshaped(self, call: ast.Call) -> ast.expr | None:
        """`x` in `torch.unsqueeze(x, 0)`."""
        name = meaning(self._tree, call.func)
        last = name.rpartition(".")[2]
        return call.args[0] if call.args and name == f"torch.{last}" and last in FUNCTIONS else None

    def _makes(self, value: ast.expr) -> bool:
        return isinstance(value, ast.Call) and meaning(self._tree, value.func) in OF_HOST

    def _makes_tensor(self, value: ast.expr) -> bool:
        """Whether a value is a tensor made from host values or by a network, perhaps moved or reshaped."""
        while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            func, inner = value.func, self._tensor_reshaped(value)
            if self._makes(value) or self._is_network(value):
                return True
            text = func.attr == "type" and not value.args
            if inner is None and (func.attr not in CHANGES - {"numpy"} or text):
                return False
            value = inner or func.value
        return self._makes(value)

    def _gets_tensors(self, name: str) -> bool:
        """Whether each call passes a tensor for a parameter, or omits it and a condition tests it."""
        function, tensors = self._scope, self._roles.get(Tensors)
        if not isinstance(function, ast.FunctionDef) or name not in self._parameters() or function is self._roles.scope:
            return False
        calls = self._calls_with_name(function)
        receiver = None if self._class is None else ast.Constant(None)
        for call in calls:
            bound = bind_arguments(function, call, receiver)
            value = bound.given.get(name) if bound is not None else None
            left_out = bound is not None and value is None and self._has_default(name)
            given = value not in (None, receiver) and (
                self._makes_tensor(value)
                or (self._tree.scope_of(value) is self._roles.scope and tensors.tensor(value))
                or (self._trusts and self._bound_to_tensors(value, set()))
            )
            if not left_out and not given:
                return False
        return bool(calls)

    def _bound_to_tensors(self, node: ast.expr, seen: set[ast.AST]) -> bool:
        """Whether an expression of the training scope is a tensor or None, judged by the bindings of its names."""
        if isinstance(node, ast.Constant):
            return node.value is None and bool(seen)
        if not isinstance(node, ast.Name) or self._tree.scope_of(node) is not self._roles.scope:
            world = self._roles.get(World)
            return world.are_tensors(world.of(node))
        bindings = self._roles.reaching(self._roles.scope).before(node.id, self._tree.statement(node))
        new = [stmt for stmt in bindings if stmt is not None and stmt not in seen]
        seen.update(new)
        values = [self._values_bound(stmt, node.id) for stmt in new]
        return None not in bindings and all(v and all(self._bound_to_tensors(e, seen) for e in v) for v in values)

    def _calls_with_name(self, function: ast.FunctionDef) -> list[ast.Call]:
        """All calls of a function or method with the name of the function."""
        calls = self._tree.of(ast.Call)
        return [c for c in calls if function.name in (getattr(c.func, "id", ""), self._tree.last_name(c.func))]

    def _parameters(self) -> set[str]:
        return set(parameters(self._scope)) if isinstance(self._scope, ast.FunctionDef) else set()


def _gives_both(call: ast.Call) -> bool:
    """Whether a call returns values and indices: `x.max(1)`."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return name in CHOOSING and bool(call.args or call.keywords or not OF["tensor"][name].reduces)


def _tests_for_none(test: ast.Compare) -> bool:
    plain = len(test.ops) == 1 and isinstance(test.ops[0], (ast.Is, ast.IsNot))
    return plain and isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None


class KnownNetworks:
    """The fully known networks of a script, and the numbers that stay the same.

    The networks are layers of torch and modules of this file that compute the same bits without gradients (see
    `differs`), do not change their arguments, and keep their parts (see `sealed`).
    """

    def __init__(self, roles: Roles) -> None:
        self._roles, self._tree = roles, roles.tree
        self._networks: dict[ast.ClassDef, frozenset[str]] = {}
        self._runs: dict[tuple[ast.ClassDef, str | None], bool] = {}

    def networks(self, cls: ast.ClassDef) -> frozenset[str]:
        """The attributes that only the constructor of a class sets, each to a parameter or a fully known network."""
        if cls not in self._networks:
            self._networks[cls] = frozenset()  # a class that instantiates itself is unknown
            self._networks[cls] = frozenset(
                name
                for name, frame, value in _kept_once(self._roles, cls)
                if not set(_gathered(value)) & scope_access(frame.scope.body).binds  # may be filled later
                and self._is_network(value, frame)
                and (self._is_parameter(value) or stays(self._roles, self._occurrences(ast.Attribute, name)))
            )
        return self._networks[cls]

    def named(self, scope: Scope) -> frozenset[str]:
        """The names visible in a scope that are bound once, above the training loop, to fully known networks."""
        roles, tree = self._roles, self._tree
        if scope is not roles.scope and not isinstance(roles.scope, ast.Module):
            return frozenset()
        local = set(parameters(scope)) if isinstance(scope, ast.FunctionDef) else set[str]()
        local |= scope_access(scope.body).binds if scope is not roles.scope else roles.variant
        found = ((n, roles.only_value(n)) for s in roles.setup if isinstance(s, ast.Assign) for n in access(s).binds)
        return frozenset(
            name
            for name, value in found
            if value is not None
            and name not in local | tree.declared
            and self._is_network(value, BoundScope(roles.scope))
            and (self._is_parameter(value) or stays(roles, self._occurrences(ast.Name, name)))
        )

    def is_parameter(self, name: str) -> bool:
        """Whether a name of the training scope is bound once, to a parameter."""
        value = self._roles.only_value(name)
        return value is not None and self._is_parameter(value)

    def numbers(self, cls: ast.ClassDef) -> frozenset[str]:
        """The attributes that only the constructor of a class sets, to numbers, devices and similar values."""
        values = Values(self._roles, no_class)
        return frozenset(
            name
            for name, frame, value in _kept_once(self._roles, cls)
            if isinstance(value, ast.Constant) or self._asks(value) or _leaves_if_known(values, value, frame) == NUMBER
        )

    def _asks(self, value: ast.expr) -> bool:
        return isinstance(value, ast.Call) and self._tree.names.builtin(value.func) == "isinstance"

    def runs(self, cls: ast.ClassDef, called: str | None = None) -> bool:
        """Whether a module of a class only computes, given the parts that its constructor makes."""
        key = cls, called
        if key not in self._runs:
            self._runs[key] = False
            known = self._roles.is_module(cls) and differs(self._roles, cls, called) is None
            self._runs[key] = known and all(
                self._only_computes(one, called if one is cls else None) for one in self._tree.used_classes(cls)
            )
        return self._runs[key]

    def _only_computes(self, cls: ast.ClassDef, called: str | None) -> bool:
        methods = [s for s in cls.body if isinstance(s, ast.FunctionDef)]
        run = [m for m in (methods if called is None else reached(methods, called)) if m.name != "__init__"]
        kept = {name for m in methods for name, _ in kept_by(m)}
        constructors = [m for m in methods if m.name == "__init__"]
        return (
            self._roles.is_module(cls)
            and is_plain_class(self._tree, cls)
            and only_computes(self._roles, cls, run)
            and {n for m in run for n in _own_attributes(m)} & kept <= self.networks(cls) | self.numbers(cls)
            and not any(makes_inplace(n) for m in constructors for n in walk(m))
        )

    def _is_network(self, value: ast.expr, frame: BoundScope) -> bool:
        plain = not any(layer_differs(self._roles, n) or makes_inplace(n) for n in walk(value))
        return plain and _leaves_if_known(Values(self._roles, self._check_made), value, frame) == MODULE

    def _check_made(self, made: ast.ClassDef, call: ast.Call, frame: BoundScope) -> None:
        if not self.runs(made):
            raise Unknown(f"line {call.lineno} makes {made.name}()")

    def _is_parameter(self, value: ast.expr) -> bool:
        """Whether a value is a parameter; only its values can change."""
        return isinstance(value, ast.Call) and meaning(self._tree, value.func) == "torch.nn.Parameter"

    def _occurrences(self, kind: type[ast.Name] | type[ast.Attribute], name: str) -> list[ast.Name | ast.Attribute]:
        return [n for n in self._tree.of(kind) if (n.id if isinstance(n, ast.Name) else n.attr) == name]


def _gathered(value: ast.expr) -> Iterator[str]:
    """The names that a value may be or contain, except arguments of layers."""
    if isinstance(value, ast.Name):
        yield value.id
    elif isinstance(value, ast.Call):
        made = value.func.attr if isinstance(value.func, ast.Attribute) else unparse(value.func)
        if made in MODULE_CONTAINERS:
            yield from (n for a in (*value.args, *(k.value for k in value.keywords)) for n in _gathered(a))
        elif isinstance(value.func, ast.Attribute) and made in ("to", "requires_grad_"):
            yield from _gathered(value.func.value)
    else:
        yield from (n for c in ast.iter_child_nodes(value) if isinstance(c, ast.expr) for n in _gathered(c))


def _own_attributes(method: ast.FunctionDef) -> set[str]:
    """The attributes of `self` that a method mentions."""
    own = first_parameter(method)
    found = (n for s in method.body for n in walk(s) if isinstance(n, ast.Attribute))
    return {n.attr for n in found if isinstance(n.value, ast.Name) and n.value.id == own}


def _leaves_if_known(values: Values, value: ast.expr, frame: BoundScope) -> object:
    try:
        return values.leaves(value, frame)
    except Unknown:
        return None


def _kept_once(roles: Roles, cls: ast.ClassDef) -> Iterator[tuple[str, BoundScope, ast.expr]]:
    """The attributes that the constructor sets once each, to a plain value, and nothing else in the file sets."""
    constructor = next((s for s in cls.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"), None)
    if constructor is None:
        return
    kept = list(kept_by(constructor))
    stored = (n for n in roles.tree.of(ast.Attribute) if not isinstance(n.ctx, ast.Load))
    elsewhere = {n.attr for n in stored if not in_constructor(roles, n)}
    elsewhere |= {  # a part of a network that another part replaces
        n.value.attr
        for n in roles.tree.of(ast.Subscript)
        if not isinstance(n.ctx, ast.Load) and isinstance(n.value, ast.Attribute)
    }
    frame = _frame_of_only_call(roles, cls, constructor) or BoundScope(constructor)
    for name, value in kept:
        if value is not None and [n for n, _ in kept].count(name) == 1 and name not in elsewhere:
            yield name, frame, value


def _frame_of_only_call(roles: Roles, cls: ast.ClassDef, constructor: ast.FunctionDef) -> BoundScope | None:
    """The constructor's frame in the only call of its class; None if the file mentions the class elsewhere."""
    tree = roles.tree
    mentions = [n for n in tree.of(ast.Name) if n.id == cls.name]
    call = tree.parents[mentions[0]] if len(mentions) == 1 else None
    if not isinstance(call, ast.Call) or call.func is not mentions[0]:
        return None
    return Values(roles, no_class).enter(constructor, call, BoundScope(tree.scope_of(call)))


def in_constructor(roles: Roles, node: ast.Attribute) -> bool:
    """Whether a constructor sets an attribute of its own object."""
    scope = roles.tree.scope_of(node)
    if not isinstance(scope, ast.FunctionDef) or scope.name != "__init__":
        return False
    return isinstance(node.value, ast.Name) and node.value.id == first_parameter(scope)
