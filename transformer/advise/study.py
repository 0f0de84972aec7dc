"""A script as seen by the rules of advice: which code is hot, which expressions are tensors, and where they are."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property

from transformer.advise.heat import FUNCTIONS, Function, Heat, Heats, is_network
from transformer.dataflow.access import access
from transformer.facts.torch_api import ARRAYS_LACK, attributes, names
from transformer.recognition.history import History
from transformer.recognition.roles import Roles
from transformer.syntax.query import method, names_in, parameters, receiver, statements, walk
from transformer.syntax.tree import Loop, Scope, Tree
from transformer.values.device.waits import parts_of
from transformer.values.tensors import Tensors, values

TENSOR_METHODS = ARRAYS_LACK | attributes(method="asks")
"""Methods that return a tensor, and that arrays do not have; `clone` exists only on tensors and generators."""

MAKERS = names("torch", made=("on host", "of host"))
"""Functions of torch that make a tensor on the host unless they are given a device."""

HOST_ONLY = names("torch", made="of host", device=False)
"""Functions among these that do not accept a device."""


class _View(Roles):
    """The script with one of its scopes as the training scope, for analyses that need one."""

    def __init__(self, tree: Tree, history: History, scope: Scope) -> None:
        super().__init__(tree, history)
        self._scope = scope

    @cached_property
    def scope(self) -> Scope:
        """The scope of this view."""
        return self._scope

    @cached_property
    def modules(self) -> tuple[str, ...]:
        """Names of networks: those that an optimizer holds, and instances of the file's network classes."""
        found = dict.fromkeys(super().modules)
        for name, kind in self._classes_made().items():
            if kind in self.tree.classes and is_network(self.tree, self.tree.classes[kind]):
                found[name] = None
        return tuple(found)

    @cached_property
    def variant(self) -> frozenset[str]:
        """Names that loops of the scope bind, because advice is also given on scripts without a training loop."""
        loops = [s for s in statements(self._scope.body) if isinstance(s, (ast.For, ast.While))]
        inner = (s for loop in loops for s in (loop, *statements(loop.body)))
        return frozenset(name for s in inner for name in access(s).binds)

    def _classes_made(self) -> dict[str, str]:
        made: dict[str, str] = {}
        for node in self.tree.of(ast.Assign):
            if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                call = self.tree.constructor(node.value)
                if call is not None and isinstance(call.func, ast.Name):
                    made[node.targets[0].id] = call.func.id
        return made


class _Tensors(Tensors):
    """The analysis of tensors for any scope, in which `x.detach()` is always a tensor."""

    def _call_is_tensor(self, node: ast.Call, stmt: ast.stmt) -> bool:
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr in TENSOR_METHODS and not node.args:
            return not (isinstance(func.value, ast.Name) and func.value.id in self._producers)
        return super()._call_is_tensor(node, stmt)

    def _all_are_tensors(self, name: str, bindings: Iterable[ast.stmt | None]) -> bool:
        """Unlike for a conversion, a name that may be unbound where it is read is assumed to be bound."""
        scope = self._roles.scope
        local = isinstance(scope, ast.Module) or name not in {a.arg for a in walk(scope.args) if isinstance(a, ast.arg)}
        return super()._all_are_tensors(name, (b for b in bindings if b is not None) if local else bindings)


class Study:
    """A script to give advice on.

    Raises:
        SyntaxError, ValueError: the text is not Python.
    """

    def __init__(self, code: str) -> None:
        self.tree = Tree(code)
        self.roles = Roles(self.tree, History(original=code))
        self.heats = Heats(self.roles)
        self._views: dict[Scope, tuple[_View, _Tensors]] = {}
        self._sent_names: dict[Scope, set[str]] = {}
        self._returns: dict[Function, bool] = {}
        self._asked: set[Function] = set()

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        """All calls."""
        return tuple(self.tree.of(ast.Call))

    @cached_property
    def uses_device(self) -> bool:
        """Whether the script may put tensors on a device other than the CPU."""
        for node in self.tree.nodes:
            if isinstance(node, ast.keyword) and node.arg == "device":
                return True
            if isinstance(node, ast.Attribute) and node.attr in ("cuda", "set_default_device"):
                return True
            if isinstance(node, ast.Call) and self.tree.calls(node, "torch.device"):
                return True
        return False

    def heat(self, node: ast.AST) -> Heat | None:
        """How often a node is evaluated in training; None if it is not part of training, or runs rarely."""
        return self.heats.of(node)

    def hot(self, node: ast.AST) -> Heat | None:
        """The heat of a node that is evaluated once per step or per minibatch; None for any other."""
        heat = self.heat(node)
        return heat if heat is not None and heat.hot else None

    def hot_calls(self) -> Iterator[tuple[ast.Call, Heat]]:
        """The calls that are hot."""
        for call in self.calls:
            heat = self.hot(call)
            if heat is not None:
                yield call, heat

    def qualified(self, node: ast.AST) -> str:
        """The qualified name of an expression through imports; empty if it has none."""
        return self.tree.qualified(node) or ""

    def text(self, node: ast.expr) -> str:
        """A short form of an expression, for a message."""
        text = ast.unparse(node)
        return text if len(text) <= 50 else text[:47] + "..."

    # --- tensors -----------------------------------------------------------------------------------------------

    def _view(self, node: ast.AST) -> tuple[_View, _Tensors]:
        scope = self.tree.scope_of(node)
        if scope not in self._views:
            view = _View(self.tree, self.roles.history, scope)
            self._views[scope] = view, _Tensors(view)
        return self._views[scope]

    def network(self, node: ast.expr) -> bool:
        """Whether an expression is the name of a network."""
        return isinstance(node, ast.Name) and node.id in self._view(node)[0].modules

    def tensor(self, node: ast.expr) -> bool:
        """Whether an expression is known to be a tensor that may be on a device; unknown values are not."""
        if not self.uses_device or self._bound_inside(node):
            return False
        if self._view(node)[1].tensor(node):
            return not self.on_host(node)
        return self._returns_tensors(node) or self._has_gradients(node)

    def _has_gradients(self, node: ast.expr) -> bool:
        """Whether a name is a tensor because `backward()` is called on the same value."""
        passes = (receiver(c) for c in self.calls if method(c) == "backward")
        names = [n for n in passes if isinstance(node, ast.Name) and isinstance(n, ast.Name) and n.id == node.id]
        return any(self.bindings(n) == self.bindings(node) != () for n in names)  # type: ignore[arg-type]

    def _returns_tensors(self, node: ast.expr) -> bool:
        """Whether an expression is the result of functions of the file that all return a tensor, or None."""
        calls: list[ast.expr] = [node]
        if isinstance(node, ast.Name):
            calls = [value for stmt in self.bindings(node) for value in values(stmt, node.id)]
        functions = [f for call in calls if isinstance(call, ast.Call) for f in self.heats.entered(call)]
        return bool(functions) and len(functions) >= len(calls) and all(map(self._returns_tensor, functions))

    def _returns_tensor(self, function: Function) -> bool:
        if function not in self._returns:
            self._returns[function] = False  # the answer for a function that calls itself
            given = (n.value for n in self.returns(function))
            found = [v for v in given if v is not None and not (isinstance(v, ast.Constant) and v.value is None)]
            self._returns[function] = bool(found) and all(map(self.tensor, found))
        return self._returns[function]

    def returns(self, function: Function) -> list[ast.Return]:
        """The return statements of a function, without those of inner functions."""
        return [n for n in walk(function) if isinstance(n, ast.Return) and self.tree.scope_of(n) is function]

    def _bound_inside(self, node: ast.expr) -> bool:
        """Whether an expression reads a name that a comprehension or lambda around it binds."""
        names = {n.id for n in walk(node) if isinstance(n, ast.Name)}
        for outer in self.tree.ancestors(node):
            if isinstance(outer, ast.stmt):
                return False
            if isinstance(outer, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
                if names & {n.id for g in outer.generators for n in walk(g.target) if isinstance(n, ast.Name)}:
                    return True
            if isinstance(outer, ast.Lambda) and names & {*parameters(outer)}:
                return True
        return False

    def bindings(self, name: ast.Name) -> tuple[ast.stmt, ...]:
        """The assignments that may reach a read of a name; empty if one of them is not known."""
        found = list(self._view(name)[1].bindings(name.id, self.tree.statement(name)))
        return tuple(b for b in found if b is not None) if None not in found else ()

    def reaches(self, binding: ast.stmt, name: ast.Name) -> bool:
        """Whether a read of a name may get the value that a statement assigned to it."""
        return binding in self._view(name)[1].bindings(name.id, self.tree.statement(name))

    def on_host(self, node: ast.expr, seen: frozenset[ast.stmt] = frozenset()) -> bool:
        """Whether a tensor is in host memory: made there, or copied there."""
        if isinstance(node, ast.Name):
            bindings = self.bindings(node)
            return bool(bindings) and all(b in seen or self._binds_on_host(node.id, b, seen | {b}) for b in bindings)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if is_copy_to_host(node):
                return True
            maker = self.maker(node)
            if maker is not None:
                return maker in HOST_ONLY or not any(k.arg in ("device", None) for k in node.keywords)
            if node.func.attr in ("to", "cuda") or self.qualified(node.func):
                return False
            return self.on_host(node.func.value, seen)
        if isinstance(node, (ast.Subscript, ast.Attribute)):
            return self.on_host(node.value, seen)
        if isinstance(node, ast.BinOp):
            sides = [s for s in (node.left, node.right) if not isinstance(s, ast.Constant)]
            return bool(sides) and all(self.on_host(s, seen) for s in sides)
        return False

    def _binds_on_host(self, name: str, stmt: ast.stmt, seen: frozenset[ast.stmt]) -> bool:
        found = [v for v in values(stmt, name) if v in self.tree.parents]
        return bool(found) and all(self.on_host(v, seen) for v in found)

    def maker(self, node: ast.expr) -> str | None:
        """The torch function that makes a tensor here, such as `zeros`; None for other expressions."""
        name = self.qualified(node.func) if isinstance(node, ast.Call) else ""
        root, _, last = name.rpartition(".")
        return last if root == "torch" and last in MAKERS else None

    def for_environment(self, node: ast.expr) -> bool:
        """Whether an expression is passed to the environment as an action, which has to be on the host."""
        steps = self.roles.env_steps
        around = [node, *self.tree.ancestors(node)]
        if any(step in around for step in steps):
            return True
        stmt = self.tree.statement(node)
        if isinstance(stmt, ast.Return):
            return self._is_action(stmt, node)
        if not isinstance(stmt, (ast.Assign, ast.AnnAssign)):
            return False
        bound = names_in(stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target])
        if bound & self._sent(self.tree.scope_of(stmt)):
            return True
        function = self.tree.scope_of(stmt)
        returns = self.returns(function) if isinstance(function, FUNCTIONS) else []
        parts = (part for r in returns if r.value is not None for part in parts_of(r.value))
        return any(isinstance(p, ast.Name) and p.id in bound and self.for_environment(p) for p in parts)

    def _is_action(self, stmt: ast.Return, node: ast.expr) -> bool:
        """Whether callers use the result returned here, or the part of it that contains `node`, as an action."""
        function = self.tree.scope_of(stmt)
        if stmt.value is None or not isinstance(function, FUNCTIONS) or function in self._asked:
            return False
        parts = parts_of(stmt.value)
        place = next((i for i, part in enumerate(parts) if any(n is node for n in walk(part))), 0)
        self._asked.add(function)
        try:
            return any(self._takes_action(call, place, len(parts)) for call in self.heats.calls_of(function))
        finally:
            self._asked.discard(function)

    def _takes_action(self, call: ast.Call, place: int, parts: int) -> bool:
        """Whether the part of a call's result at index `place` of `parts` is passed to the environment."""
        stmt = self.tree.parents[call]
        target = stmt.targets[0] if isinstance(stmt, ast.Assign) else None
        if parts > 1 and isinstance(target, ast.Tuple) and len(target.elts) == parts:
            return bool(names_in([target.elts[place]]) & self._sent(self.tree.scope_of(call)))
        return self.for_environment(call)

    def _sent(self, scope: Scope) -> set[str]:
        """Names in a scope whose values are passed to the environment, directly or through other names."""
        if scope not in self._sent_names:
            steps = [s for s in self.roles.env_steps if self.tree.scope_of(s) is scope]
            sent = names_in(a for s in steps for a in s.args)
            tensors = self._view(scope.body[0])[1]
            grown = True
            while grown:
                before = len(sent)
                for stmt in statements(scope.body):
                    if isinstance(stmt, ast.Assign) and sent & names_in(
                        t for t in stmt.targets if isinstance(t, ast.Name)
                    ):
                        if not any(tensors.produced(n) for n in walk(stmt.value)):
                            sent |= names_in([stmt.value])
                grown = len(sent) > before
            self._sent_names[scope] = sent
        return self._sent_names[scope]

    def steps_environment(self, loop: Loop) -> bool:
        """Whether a loop steps the environment."""
        return any(loop in self.tree.loops_around(s) for s in self.roles.env_steps)


def keyword(call: ast.Call, name: str) -> object:
    """The constant that a call passes for a keyword; None if it passes none."""
    for k in call.keywords:
        if k.arg == name and isinstance(k.value, ast.Constant):
            value: object = k.value.value
            return value
    return None


def is_copy_to_host(call: ast.AST) -> bool:
    """Whether a call is `x.cpu()` or `x.to("cpu")`."""
    if not isinstance(call, ast.Call):
        return False
    name = method(call)
    if name == "cpu":
        return not call.args
    target = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "device")]
    return name == "to" and any(isinstance(t, ast.Constant) and t.value == "cpu" for t in target)
