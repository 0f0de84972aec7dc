"""The kinds of values that a network's constructor keeps: modules, numbers, lists of these, or something unknown."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from transformer.dataflow.access import access, scope_access
from transformer.facts.libraries import module_methods
from transformer.facts.python import COMPUTES, SAME, builtin_names
from transformer.facts.torch_api import MODULE_CONTAINERS, NO_GRAD, layers, names
from transformer.recognition.roles import Roles
from transformer.syntax.options import holds_options
from transformer.syntax.query import bind_arguments, children, pairwise, parameters, root, statements, walk
from transformer.syntax.tree import Tree

Leaf: TypeAlias = Literal["module", "number", "list", "nested", "unknown"]
"""module: a registered module or a parameter. number: an immutable value on the host. list: a list, array or iterator
of either. nested: one of lists."""
Leaves: TypeAlias = frozenset[Leaf]

NONE: Leaves = frozenset()
MODULE: Leaves = frozenset({"module"})
NUMBER: Leaves = frozenset({"number"})
LIST: Leaves = frozenset({"list"})
NESTED: Leaves = frozenset({"list", "nested"})
UNKNOWN: Leaves = frozenset({"unknown"})

LAYERS = layers()
"""Modules of torch that compute the same in training and evaluation mode and draw no random numbers."""
WRITING = names("tensor", memory="in place") - module_methods(sets="learning")
"""Methods that write values into a tensor."""
SPACES = frozenset("observation_space action_space single_observation_space single_action_space".split())
"""Attributes of gym's environments."""
TO_NUMBER = SAME - builtin_names(makes="class")
"""Builtins whose result is immutable and made from their arguments."""
TO_LIST = COMPUTES & builtin_names(makes=("container", "iterator"))
"""Builtins whose result is mutable or an iterator."""
REDUCING = names("numpy", reduces=True)
ELEMENTWISE = names("numpy", rows=("element", "broadcast"))
"""Functions of numpy that return a number if given numbers, and an array if given an array."""
ACTIVATIONS = layers(rows="row", same_bits=True)
"""Layers that compute row by row and the same with and without gradients; made without arguments, activations."""
ARRAYS = names("numpy", made="of host")
"""Functions of numpy that make an array, as a step towards a product."""
OF_ARRAYS = names("array", reduces=True)
"""Methods that reduce an array to a number unless a dimension is given."""


DEEP = 20
"""The maximum depth of nested calls."""


class Unknown(Exception):
    """Something is not known to be harmless; the message is a clause with a line number."""


@dataclass(frozen=True)
class BoundScope:
    """A scope. For a called function, also its arguments by parameter, and the bound scope that they come from."""

    scope: ast.Module | ast.FunctionDef
    given: Mapping[str, ast.expr] = field(default_factory=dict)
    caller: BoundScope | None = None

    @property
    def key(self) -> Hashable:
        """A key that distinguishes bound scopes: the arguments, and the calls that pass them."""
        return self.scope, tuple(self.given.items()), self.caller and self.caller.key

    @property
    def depth(self) -> int:
        """The number of nested calls."""
        return 0 if self.caller is None else self.caller.depth + 1


class Values:
    """Follows values through names, parameters and this file's functions.

    Args:
        roles: the script.
        check_class: called with each class of the file of which an object is made on the way; raises if it is not the
            class of a known network.
    """

    def __init__(self, roles: Roles, check_class: Callable[[ast.ClassDef, ast.Call, BoundScope], None]) -> None:
        self._roles, self._tree = roles, roles.tree
        self._check_class = check_class
        self._busy: set[tuple[str, ast.AST, ast.AST]] = set()

    def leaves(self, value: ast.AST | None, frame: BoundScope) -> Leaves:
        """The kinds that the value of an expression may be, or be made of.

        Raises:
            Unknown: more than DEEP nested calls make it, such as those of a recursive function.
        """
        if frame.depth > DEEP:
            raise Unknown(f"line {getattr(value, 'lineno', 1)} is reached by too many nested calls")
        if isinstance(value, (ast.Constant, ast.JoinedStr)):
            return NUMBER
        if isinstance(value, ast.Name):
            return self._name(value.id, frame)
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):  # a repeated list
            sides = self.leaves(value.left, frame), self.leaves(value.right, frame)
            return NONE.union(*(s for s in sides if "list" in s)) or sides[0] | sides[1]
        if isinstance(value, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.Tuple, ast.Dict)):
            parts = (n for n in children(value) if isinstance(n, ast.expr))
            found = NONE.union(*(self.leaves(n, frame) for n in parts))
            return _list_of(found) if isinstance(value, ast.Dict) else found
        if isinstance(value, ast.IfExp):
            return self.leaves(value.body, frame) | self.leaves(value.orelse, frame)
        if isinstance(value, ast.List):
            spread = [self.leaves(e, frame) for e in value.elts if isinstance(e, ast.Starred)]
            return LIST.union(
                *spread, *(_list_of(self.leaves(e, frame)) for e in value.elts if not isinstance(e, ast.Starred))
            )
        if isinstance(value, ast.Starred):
            return self.leaves(value.value, frame)
        if isinstance(value, ast.Subscript):
            return _element(self.leaves(value.value, frame))
        if isinstance(value, (ast.ListComp, ast.GeneratorExp)):
            bound = {n.id: g.iter for g in value.generators for n in walk(g.target) if isinstance(n, ast.Name)}
            elements = {n: ast.Subscript(i, ast.Constant(0), ast.Load()) for n, i in bound.items()}
            inner = BoundScope(frame.scope, {**frame.given, **elements}, frame)
            return _list_of(self.leaves(value.elt, inner))
        if isinstance(value, ast.Attribute):
            return self._leaves_of_attribute(value, frame)
        return self._leaves_of_call(value, frame) if isinstance(value, ast.Call) else UNKNOWN

    def enter(self, function: ast.FunctionDef, call: ast.Call, caller: BoundScope) -> BoundScope | None:
        """The bound scope of a called function or constructor; None if its arguments cannot be bound to parameters."""
        method = isinstance(self._tree.parents[function], ast.ClassDef)
        receiver = ast.Constant(None) if method else None
        matched = bind_arguments(function, call, receiver)
        if matched is None:
            return None
        given = {n: v for n, v in matched.given.items() if v is not receiver}
        return BoundScope(function, matched.defaults | given, caller)

    def function_called(self, call: ast.Call, *, local: bool = False) -> ast.FunctionDef | None:
        """The function of this file that a call certainly runs, decorated at most by no_grad(); `local`: or one that a
        function around the call defines."""
        function = self._tree.helper_called(call) if local else self._tree.function_called(call)
        plain = function is not None and all(self._tree.calls(d, *NO_GRAD) for d in function.decorator_list)
        return function if plain else None

    def class_called(self, call: ast.expr) -> ast.ClassDef | None:
        """The class that a call instantiates, if the file defines it once, at its top level."""
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return None
        name = call.func.id
        found = [n for n in self._tree.of(ast.ClassDef) if n.name == name]
        once = len(found) == 1 and found[0] in self._tree.root.body
        once = once and name not in self.bound and name not in self._tree.imports
        return found[0] if once else None

    @cached_property
    def bound(self) -> frozenset[str]:
        """All names that the file binds other than by imports and definitions."""
        return self._tree.bound | {n.arg for n in self._tree.of(ast.arg)}

    @cached_property
    def set_in_training(self) -> frozenset[str]:
        """Names and attributes that the training loop, including what it calls, may set."""
        found = set()
        for node in self._roles.run_by_training:
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                found.add(node.attr)
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                if self._tree.scope_of(node) in (self._roles.scope, self._tree.root):
                    found.add(node.id)
            elif isinstance(node, (ast.Global, ast.Nonlocal)):
                found.update(node.names)
        return frozenset(found)

    def _name(self, name: str, frame: BoundScope) -> Leaves:
        key = name, frame.scope, frame.given.get(name, frame.scope)
        if key in self._busy:
            return NONE  # a cycle, which adds nothing to the union
        self._busy.add(key)
        try:
            found = [self._bound_by(s, name, frame) for s in statements(frame.scope.body)]
            parts = [leaves for leaves in found if leaves is not None]
            if name in frame.given:
                parts.append(self.leaves(frame.given[name], frame.caller or frame))
            elif isinstance(frame.scope, ast.FunctionDef) and name in parameters(frame.scope):
                return UNKNOWN
            elif not parts and isinstance(frame.scope, ast.FunctionDef):
                return self._name(name, self._frame_around(frame))
            elif not isinstance(frame.scope, ast.FunctionDef) or frame.scope is self._roles.scope:
                if name in self.set_in_training:
                    return UNKNOWN
            return NONE.union(*parts) if parts else UNKNOWN
        finally:
            self._busy.discard(key)

    def _frame_around(self, frame: BoundScope) -> BoundScope:
        """The bound scope around a function: the caller's, if that scope makes the call."""
        outer, caller = self._tree.scope_of(frame.scope), frame.caller
        return caller if caller is not None and caller.scope is outer else BoundScope(outer)

    def _bound_by(self, stmt: ast.stmt, name: str, frame: BoundScope) -> Leaves | None:
        """What a statement binds a name to, or adds to its list; None if it does neither."""
        if isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Call):
            func = stmt.value.func
            if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == name:
                added = NONE.union(*(self.leaves(a, frame) for a in stmt.value.args))
                return added if func.attr == "extend" else _list_of(added) - LIST | added
        if name not in access(stmt).binds:
            return None
        if isinstance(stmt, ast.AugAssign) and isinstance(stmt.target, ast.Name):
            return self.leaves(stmt.value, frame)
        if isinstance(stmt, ast.For):
            return _element(self.leaves(stmt.iter, frame))
        if isinstance(stmt, ast.AnnAssign):
            return self.leaves(stmt.value, frame)
        if not isinstance(stmt, ast.Assign):
            return UNKNOWN
        parts = [_value_in_target(t, stmt.value, name) for t in stmt.targets]
        return NONE.union(*(self.leaves(p, frame) for p in parts if p is not None)) if any(parts) else UNKNOWN

    def _leaves_of_attribute(self, value: ast.Attribute, frame: BoundScope) -> Leaves:
        name = self._tree.qualified(value) or ""
        if name.startswith(("math.", "numpy.", "torch.")):
            return NUMBER if name.rpartition(".")[2] in ("pi", "e", "inf") else UNKNOWN
        if value.attr in ("shape", "ndim") or (value.attr in ("n", "nvec") and self._is_space(value.value, frame)):
            return NUMBER
        if self._is_options(value.value, frame):
            changed = value.attr in self.set_in_training or self._roles.changed_by_training(value) is not None
            return UNKNOWN if changed else NUMBER
        own = frame.scope.args.args[:1] if isinstance(frame.scope, ast.FunctionDef) else []
        if isinstance(value.value, ast.Name) and [a.arg for a in own] == [value.value.id]:
            return self._kept(value.attr, frame)
        return UNKNOWN

    def _kept(self, attribute: str, frame: BoundScope) -> Leaves:
        """What the object of a method keeps in an attribute that the method sets."""
        key = f".{attribute}", frame.scope, frame.scope
        if key in self._busy:
            return NONE  # as for names: `self.size = self.size * 2`
        self._busy.add(key)
        try:
            values = [v for name, v in kept_by(frame.scope) if name == attribute]
            return NONE.union(*(self.leaves(v, frame) for v in values)) if values else UNKNOWN
        finally:
            self._busy.discard(key)

    def origin(self, value: ast.expr, frame: BoundScope) -> tuple[ast.expr, BoundScope]:
        """The argument that a parameter receives, traced through all callers; other values are returned unchanged."""
        while isinstance(value, ast.Name) and value.id in frame.given and frame.caller is not None:
            value, frame = frame.given[value.id], frame.caller
        return value, frame

    def _is_options(self, value: ast.expr, frame: BoundScope) -> bool:
        origin, where = self.origin(value, frame)
        return isinstance(origin, ast.Name) and holds_options(self._tree, origin, where.scope)

    def _is_space(self, value: ast.expr, frame: BoundScope) -> bool:
        origin, where = self.origin(value, frame)
        if isinstance(origin, ast.Name):
            made = _assigned(where.scope.body, origin.id)
            return (
                bool(made)
                and not any(isinstance(m, ast.Name) for m in made)
                and all(self._is_space(m, where) for m in made)
            )
        if isinstance(origin, ast.Call):  # PettingZoo has one space per agent
            origin = origin.func
        return isinstance(origin, ast.Attribute) and origin.attr in SPACES

    def _leaves_of_call(self, call: ast.Call, frame: BoundScope) -> Leaves:
        if self.makes_module(call, frame):
            return MODULE
        name, func = self._tree.qualified(call.func) or "", call.func
        given = NONE.union(*(self.leaves(a, frame) for a in call.args))
        if builtin := self._tree.names.builtin(func):
            given = given.union(*(self.leaves(k.value, frame) for k in call.keywords))
            if builtin in builtin_names(makes=("number", "text")):
                return NUMBER
            if builtin in TO_LIST:
                return LIST | given
            return given - (LIST if given <= NUMBER | LIST else NONE) if builtin in TO_NUMBER else UNKNOWN
        if name == "torch.device" or name.startswith("math."):
            return NUMBER if given <= NUMBER | LIST else UNKNOWN
        if name.startswith("numpy.") and (last := name.removeprefix("numpy.")) in ARRAYS | ELEMENTWISE | REDUCING:
            number = len(call.args) == 1 if last in REDUCING else last in ELEMENTWISE and "list" not in given
            result = NUMBER if number and not call.keywords else NUMBER | LIST
            return result if given <= NUMBER | LIST else UNKNOWN
        function = self.function_called(call, local=True)
        if function is not None:
            inner = self.enter(function, call, frame)
            returned = [s.value for s in statements(function.body) if isinstance(s, ast.Return)]
            return NONE.union(*(self.leaves(v, inner) for v in returned)) if inner and returned else UNKNOWN
        if not isinstance(func, ast.Attribute) or name:
            return UNKNOWN
        if func.attr in ("to", "requires_grad_"):
            return self.leaves(func.value, frame) & MODULE or UNKNOWN
        if func.attr in OF_ARRAYS and not call.args and not call.keywords:
            return NUMBER if self.leaves(func.value, frame) <= NUMBER | LIST else UNKNOWN
        classes = self._classes_of(func.value, frame)
        methods = [m for cls in classes for m in cls.body if isinstance(m, ast.FunctionDef) and m.name == func.attr]
        return NUMBER if len(classes) == 1 and methods and _only_counts(methods[0]) else UNKNOWN

    def _classes_of(self, value: ast.expr, frame: BoundScope) -> list[ast.ClassDef]:
        """The class of this file whose instance a local name is."""
        if not isinstance(value, ast.Name):
            return []
        made = _assigned(frame.scope.body, value.id)
        classes = [self.class_called(m) for m in made]
        return [c for c in classes if c is not None] if len(classes) == 1 else []

    def _qualified_import(self, node: ast.expr) -> str:
        """The qualified name of an expression whose root is bound only by imports."""
        name, kinds = root(node), (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        defined = any(isinstance(n, kinds) and n.name == name for n in self._tree.root.body)
        return "" if defined or name in self.bound else self._tree.qualified(node) or ""

    def _makes_given(self, call: ast.Call, frame: BoundScope) -> bool:
        """Whether a call without arguments makes an activation given as a parameter: `act()` with `act=nn.Tanh`."""
        func: ast.expr = call.func
        while isinstance(func, ast.Name) and func.id in frame.given and not (call.args or call.keywords):
            if func.id in scope_access(frame.scope.body).binds:
                return False
            func, frame = frame.given[func.id], frame.caller or frame
        return func is not call.func and self._qualified_import(func).removeprefix("torch.nn.") in ACTIVATIONS

    def makes_module(self, call: ast.Call, frame: BoundScope) -> bool:
        """Whether a call makes a known module or a parameter; classes of this file are followed."""
        name = self._qualified_import(call.func)
        last = name.rpartition(".")[2]
        if not name and self._makes_given(call, frame):
            return True
        if name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter"):
            return True
        if name == f"torch.nn.{last}" and last in LAYERS:
            return all(k.arg not in (None, "dropout") for k in call.keywords)
        if name == f"torch.nn.{last}" and last in MODULE_CONTAINERS:
            parts = NONE.union(*(self.leaves(v, frame) for a in call.args for v in _values_of_dict(a)))
            return parts <= MODULE | LIST and not call.keywords
        cls = self.class_called(call)
        if cls is not None and not self._roles.is_distribution(cls):
            self._check_class(cls, call, frame)
            return True
        return False


def initializes_all(tree: Tree, asked: ast.Attribute) -> bool:
    """Whether `net.modules` is called in a loop over all parts that only writes values into parameters."""
    call = tree.parents[asked]
    loop = tree.parents[call] if isinstance(call, ast.Call) and call.func is asked else None
    return (
        asked.attr == "modules"
        and isinstance(loop, ast.For)
        and loop.iter is call
        and isinstance(loop.target, ast.Name)
        and not loop.orelse
        and only_initializes(tree, loop.body)
    )


def only_initializes(tree: Tree, body: Sequence[ast.stmt]) -> bool:
    """Whether statements only write values into parameters: `nn.init.orthogonal_(m.weight)`."""
    for node in (n for s in body for n in walk(s)):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            return False
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            return False
        if isinstance(node, ast.Call):
            known = (tree.qualified(node.func) or "").startswith(("torch.nn.init.", "math.", "numpy."))
            written = isinstance(node.func, ast.Attribute) and node.func.attr in WRITING
            if not (known or written or tree.names.builtin(node.func) in ("isinstance", "type", "float", "int")):
                return False
    return True


def no_class(made: ast.ClassDef, call: ast.Call, frame: BoundScope) -> None:
    """Let `Values` follow nothing but layers of torch.

    Raises:
        Unknown: always.
    """
    raise Unknown(f"line {call.lineno} makes {made.name}()")


def kept_by(function: ast.FunctionDef | ast.Module) -> Iterator[tuple[str, ast.expr | None]]:
    """The attributes of `self` that a method sets, each with its value, or None if that is not a single plain value."""
    own = function.args.args[0].arg if isinstance(function, ast.FunctionDef) and function.args.args else ""
    for stmt in statements(function.body):
        for node in stores(stmt):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == own:
                pairs = pairwise(stmt) if isinstance(stmt, ast.Assign) else []
                value = stmt.value if isinstance(stmt, ast.AnnAssign) else None
                yield node.attr, next((v for target, v in pairs if target is node), value)


def stores(stmt: ast.stmt) -> Iterator[ast.Attribute | ast.Subscript]:
    """The attributes and elements that a statement sets or deletes, excluding statements in its blocks."""
    for node in own_nodes(stmt):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            yield node


def own_nodes(stmt: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement, without those of the statements in its blocks."""
    stack: list[ast.AST] = [stmt]
    while stack:
        node = stack.pop()
        yield node
        inner = (ast.stmt, ast.excepthandler, ast.match_case)
        stack += [n for n in children(node) if not isinstance(n, inner)]


def _list_of(leaves: Leaves) -> Leaves:
    """The kinds of a list of elements of these kinds."""
    return leaves | (NESTED if "list" in leaves else LIST)


def _element(leaves: Leaves) -> Leaves:
    """The kinds of an element of a list of these kinds."""
    return leaves if "nested" in leaves else leaves - LIST


def _values_of_dict(value: ast.expr) -> list[ast.expr]:
    """The values of a dict display; any other value, or a dict with `**x`, is returned as it is."""
    return value.values if isinstance(value, ast.Dict) and None not in value.keys else [value]


def _assigned(body: Sequence[ast.stmt], name: str) -> list[ast.expr]:
    """The values that assignments give a name as a whole."""
    made = (s for s in statements(body) if isinstance(s, ast.Assign))
    return [s.value for s in made if any(isinstance(t, ast.Name) and t.id == name for t in s.targets)]


def _value_in_target(target: ast.expr, value: ast.expr, name: str) -> ast.expr | None:
    """The value that an assignment gives a name within its target; for an unpacked name, an element of the value."""
    if isinstance(target, ast.Name):
        return value if target.id == name else None
    inside = any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in walk(target))
    return ast.Subscript(value, ast.Constant(0), ast.Load()) if inside else None


def _only_counts(method: ast.FunctionDef) -> bool:
    """Whether a method computes its result only by arithmetic on attributes and numbers."""
    allowed = (ast.Return, ast.Assign, ast.Tuple, ast.Name, ast.Attribute, ast.Constant, ast.BinOp, ast.UnaryOp)
    rest = (ast.Subscript, ast.operator, ast.unaryop, ast.expr_context, ast.Expr)
    return all(isinstance(n, allowed + rest) for stmt in method.body for n in walk(stmt))
