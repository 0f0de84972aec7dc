"""Which expressions of the training scope are torch tensors, by their reaching definitions.

An expression counts as a tensor only if it is shown to be one, so a transform that needs one may not apply.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from transformer.dataflow.access import access
from transformer.dataflow.reaching import Bindings
from transformer.facts.libraries import OF_MODULE
from transformer.facts.torch_api import OF, OF_DISTRIBUTIONS, names, others
from transformer.recognition.called_once import CalledOnce
from transformer.recognition.roles import Roles
from transformer.syntax.query import assigns, bind_arguments, calls_method, copied, parameters, statements, walk
from transformer.values.networks.results import Results, kept_network, loss_called, makes_distribution, result_index

HOST_METHODS = names("tensor", memory="number") | names("tensor", waits="value", graph=False)
"""Methods of tensors that do not return a tensor."""
NETWORK_METHODS = OF_MODULE
"""Methods of a network that do not compute with it."""

CASTS = names("tensor", dtype="cast") - names("array")
"""Methods that neither numbers nor numpy arrays have; a cast value is a tensor, or an object of the script's own."""

NESTED = 4
"""The maximum depth of nested calls in arguments."""


class Tensors:
    """Whether expressions of the training scope are tensors where they are evaluated."""

    def __init__(self, roles: Roles) -> None:
        self._roles, self._tree = roles, roles.tree
        self._passed: dict[ast.stmt, ast.stmt] = {
            a: helper.stmt for helper in roles.called_once.values() for a in helper.given.values()
        }
        """The arguments of helper calls, each with the statement that evaluates it."""
        self._known: dict[tuple[str, ast.stmt], bool] = {}
        self._entered: list[ast.FunctionDef] = []
        facts = roles.history
        self._producers = {*roles.modules, *([facts.policy] if facts.policy else [])}
        self._functions = {f.name: f for f in facts.functions.values()}

    def tensor(self, node: ast.expr) -> bool:
        """Whether an expression of the script is a tensor where it is evaluated."""
        return self._tensor(node, self._tree.statement(node))

    def tensor_at(self, node: ast.expr, stmt: ast.stmt) -> bool:
        """Whether an expression is a tensor when it is evaluated at `stmt`."""
        return self._tensor(node, stmt)

    def tensor_before(self, name: str, stmt: ast.stmt) -> bool:
        """Whether a name is a tensor just before `stmt`."""
        return self._all_are_tensors(name, self.bindings(name, stmt))

    def tensors_before(self, name: str, stmt: ast.stmt) -> bool:
        """Whether a name is a tensor, or a tuple of tensors by a tuple display, just before `stmt`."""
        return self._all_tensors(name, self.bindings(name, stmt))

    def tensors_after(self, name: str, stmt: ast.stmt) -> bool:
        """Whether a name is a tensor, or a tuple of tensors by a tuple display, just after `stmt`."""
        return self._all_tensors(name, self._roles.reaching(self._roles.scope).after(name, stmt))

    def tensor_after(self, name: str, stmt: ast.stmt) -> bool:
        """Whether a name is a tensor just after `stmt`."""
        return self._all_are_tensors(name, self._roles.reaching(self._roles.scope).after(name, stmt))

    def produced(self, node: ast.AST) -> bool:
        """Whether a node calls a network, its method or an alias of it; the results are new tensors."""
        if not isinstance(node, ast.Call):
            return False
        func = node.func
        if kept_network(self._roles, func) is not None:
            return True
        if isinstance(func, ast.Attribute):
            if func.attr in NETWORK_METHODS:
                return False
            func = func.value
        if kept_network(self._roles, func) is not None:
            return True
        return isinstance(func, ast.Name) and func.id in self._producers

    def must_be_tensor(self, node: ast.expr) -> bool:
        """Whether a value written to a buffer is also a network's input in the rollout: then it is not a number."""
        if not isinstance(node, ast.Name):
            return False
        statement = self._tree.statement
        bindings = set(self.bindings(node.id, statement(node)))
        return any(
            isinstance(a, ast.Name) and a.id == node.id and set(self.bindings(a.id, statement(a))) == bindings
            for call in walk(self._roles.phases.collect)
            if isinstance(call, ast.Call) and self.produced(call)
            for a in call.args
        )

    def bindings(self, name: str, stmt: ast.stmt) -> Bindings:
        """The definitions of a name that may reach `stmt`; a helper's result counts as assigned inside the helper."""
        stmt = self._passed.get(stmt, stmt)
        helper = self.helper_at(stmt)
        if helper is None:
            return self._roles.reaching(self._roles.scope).before(name, stmt)
        found = self._roles.reaching(helper.function).before(name, stmt)
        if None not in found:
            return found
        if name in helper.given:
            return (*(stmt for stmt in found if stmt is not None), helper.given[name])
        free = helper.sees_callers_names and name not in helper.own
        return self.bindings(name, helper.stmt) if free else found

    def helper_at(self, stmt: ast.stmt) -> CalledOnce | None:
        """The helper that contains a statement."""
        if not self._roles.called_once or stmt in self._passed:
            return None
        scope = self._tree.scope_of(stmt)
        return self._roles.called_once.get(scope) if isinstance(scope, ast.FunctionDef) else None

    def _all_are_tensors(self, name: str, bindings: Iterable[ast.stmt | None]) -> bool:
        found = list(bindings)
        return bool(found) and all(b is not None and self._binds_tensor(name, b) for b in found)

    def _all_tensors(self, name: str, bindings: Iterable[ast.stmt | None]) -> bool:
        found = list(bindings)
        return bool(found) and all(
            b is not None and (self._binds_tensor(name, b) or self._binds_tuple(name, b)) for b in found
        )

    def _binds_tuple(self, name: str, stmt: ast.stmt) -> bool:
        found = list(values(stmt, name))
        return bool(found) and all(
            all(self._tensor(part, stmt) for part in v.elts)
            if isinstance(v, ast.Tuple)
            else self._is_extracted(name, v, tuples=True)
            for v in found
        )

    def _is_extracted(self, name: str, value: ast.expr, *, tuples: bool = False) -> bool:
        """Whether a value calls an extracted function whose result `name` is a tensor, or a tuple of tensors."""
        function = (
            self._functions.get(value.func.id)
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Name)
            else None
        )
        return function is not None and name in (function.tuple_results if tuples else function.tensor_results)

    def _once(self, what: str, stmt: ast.stmt, holds: Callable[[], bool]) -> bool:
        """Decide once whether something holds at a statement; a cycle (x = x + 1) does not count against it."""
        known = (what, stmt)
        if known not in self._known:
            self._known[known] = True
            before = len(self._known)
            if not holds():
                # Conclusions that relied on this one are valid only if it is
                for later in [k for k, held in list(self._known.items())[before:] if held]:
                    del self._known[later]
                self._known[known] = False
        return self._known[known]

    def _binds_tensor(self, name: str, stmt: ast.stmt) -> bool:
        def holds() -> bool:
            found = list(values(stmt, name))
            several = any if isinstance(stmt, ast.AugAssign) else all  # a tensor divided by a number is a tensor
            return bool(found) and several(self._yields(name, v, stmt) for v in found)

        return self._once(name, stmt, holds)

    def _yields(self, name: str, value: ast.expr, stmt: ast.stmt) -> bool:
        """Whether a name becomes a tensor when a value is assigned to it, unpacked into it, or iterated over."""
        if isinstance(stmt, ast.For):
            if self._iterates_tensors(stmt, name, stmt):
                return True
            pieces = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr
            return pieces in ("split", "chunk", "unbind") and self._tensor(value, stmt)
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in self._functions:
            return self._is_extracted(name, value)
        if isinstance(value, ast.Call) and self.produced(value):
            return _result(self._roles, stmt, value, name)
        if self._is_env(value, "step"):
            return self.in_step(stmt, name)
        if helper := self._helper_called(value):
            place, count = result_index(stmt, name)
            returned = helper.returned(place, count)
            return bool(returned) and all(self._tensor(part, at) for part, at in returned)
        if isinstance(value, (ast.GeneratorExp, ast.ListComp)) and not assigns(stmt, name):
            return self._tensor(value.elt, stmt)
        place, count = result_index(stmt, name)
        if place is not None and isinstance(value, ast.Call):
            if self._tree.function_called(value) is not None:
                return self._returns_tensor(value, stmt, place, count)
        return self._tensor(value, stmt)

    def _helper_called(self, value: ast.expr) -> CalledOnce | None:
        """The helper whose only call is this value."""
        return next((h for h in self._roles.called_once.values() if h.call is value), None)

    def _is_dict_of_tensors(self, node: ast.expr, stmt: ast.stmt) -> bool:
        """Whether all values of a dict display or comprehension are tensors."""
        if isinstance(node, ast.Name):
            name = node.id

            def holds() -> bool:
                bindings = list(self.bindings(name, stmt))
                made = bool(bindings) and all(
                    b is not None
                    and bool(found := list(values(b, name)))
                    and all(_is_empty(v) or self._is_dict_of_tensors(v, b) for v in found)
                    for b in bindings
                )
                return made and self._only_tensors_enter(name)

            return self._once(f"{name}.values()", stmt, holds)
        if isinstance(node, ast.DictComp):
            return self._tensor(node.value, stmt)
        return isinstance(node, ast.Dict) and bool(node.values) and all(self._tensor(v, stmt) for v in node.values)

    def _only_tensors_enter(self, name: str) -> bool:
        """Whether only tensors are ever written into the dicts with a name, and other code only reads the dicts."""
        parents = self._tree.parents
        for node in self._tree.of(ast.Name):
            if node.id != name or not isinstance(node.ctx, ast.Load):
                continue
            if not self._roles.is_ours(node):
                continue
            parent = parents[node]
            if isinstance(parent, ast.Subscript) and parent.value is node:
                stmt = parents[parent]
                if isinstance(parent.ctx, ast.Load):
                    continue
                if not isinstance(stmt, ast.Assign) or not self._tensor(stmt.value, stmt):
                    return False
            elif isinstance(parent, ast.Attribute):
                if parent.attr not in ("items", "keys", "values", "get"):
                    return False
            elif not (isinstance(parent, (ast.For, ast.comprehension)) or self.produced(parent)):
                return False
        return True

    def _of_comprehension(self, node: ast.Name, stmt: ast.stmt) -> bool | None:
        """Whether a name bound by a comprehension is a tensor; None if no enclosing comprehension binds it."""
        for outer in self._tree.ancestors(node):
            for generator in getattr(outer, "generators", ()):
                if node.id in {n.id for n in walk(generator.target) if isinstance(n, ast.Name)}:
                    return self._iterates_tensors(generator, node.id, stmt)
            if isinstance(outer, ast.stmt):
                break
        return None

    def _iterates_tensors(self, generator: ast.comprehension | ast.For, name: str, stmt: ast.stmt) -> bool:
        call, target = generator.iter, generator.target
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.args:
            return False
        pair = isinstance(target, ast.Tuple) and len(target.elts) == 2 and ast.unparse(target.elts[1]) == name
        wanted = "items" if pair else "values" if isinstance(target, ast.Name) else None
        return call.func.attr == wanted and self._is_dict_of_tensors(call.func.value, stmt)

    def in_step(self, stmt: ast.stmt, part: str) -> bool:
        """Whether a part of a step's result is a tensor; the text of its target identifies it.

        If the environment returns tensors, every part is one except the infos, which come last.
        """
        targets = stmt.targets if isinstance(stmt, ast.Assign) else []
        parts = [ast.unparse(e) for t in targets if isinstance(t, ast.Tuple) for e in t.elts[:-1]]
        return isinstance(stmt, ast.Assign) and self._is_env(stmt.value, "step") and part in parts

    def _is_env(self, node: ast.expr, method: str) -> bool:
        """Whether a node calls a method of an environment that is known to return tensors."""
        env = self._roles.history.tensor_env
        if env is None or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return False
        return node.func.attr == method and ast.unparse(node.func.value) == env

    def _torch_function(self, call: ast.Call) -> str | None:
        qualified = self._tree.qualified(call.func) or ""
        if qualified in ("torch.distributions.kl_divergence", "torch.distributions.kl.kl_divergence"):
            return "kl_divergence"
        for prefix in ("torch.nn.functional.", "torch."):
            if qualified.startswith(prefix) and "." not in qualified[len(prefix) :]:
                return qualified[len(prefix) :]
        return None

    def _tensor(self, node: ast.expr, stmt: ast.stmt) -> bool:
        if isinstance(node, ast.Name):
            inner = self._of_comprehension(node, stmt)
            return self.tensor_before(node.id, stmt) if inner is None else inner
        if isinstance(node, ast.Call):
            return self._call_is_tensor(node, stmt)
        if isinstance(node, ast.Subscript):
            storage = self._roles.history.storage
            if isinstance(node.value, ast.Name) and node.value.id == storage:
                return isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
            if isinstance(node.value, ast.Name) and self._is_dict_of_tensors(node.value, stmt):
                return True
            return self._tensor(node.value, stmt) or self._element(node, stmt)
        if isinstance(node, ast.Attribute):
            if node.attr in OF_DISTRIBUTIONS and self.distributions(node.value, stmt):
                return True
            return self._is_buffer(node) or (
                node.attr in ("T", "data", "grad", "mT") and self._tensor(node.value, stmt)
            )
        if isinstance(node, ast.BinOp):
            return self._tensor(node.left, stmt) or self._tensor(node.right, stmt)
        if isinstance(node, ast.UnaryOp):
            return not isinstance(node.op, ast.Not) and self._tensor(node.operand, stmt)
        if isinstance(node, ast.Compare):
            return any(self._tensor(n, stmt) for n in (node.left, *node.comparators))
        if isinstance(node, ast.IfExp):
            return self._tensor(node.body, stmt) and self._tensor(node.orelse, stmt)
        return False

    def _is_buffer(self, node: ast.Attribute) -> bool:
        """Whether an attribute of a network is a buffer that its class registers and nothing else sets."""
        roles, tree = self._roles, self._tree
        made = roles.only_value(node.value.id) if isinstance(node.value, ast.Name) else None
        call = tree.constructor(made) if made is not None else None
        if call is None or tree.classes[ast.unparse(call.func)] not in roles.network_classes:
            return False
        if any(n.attr == node.attr and not isinstance(n.ctx, ast.Load) for n in tree.of(ast.Attribute)):
            return False
        registered = (n for n in walk(tree.classes[ast.unparse(call.func)]) if calls_method(n, "register_buffer"))
        return any(
            [a.value for a in n.args[:1] if isinstance(a, ast.Constant)] == [node.attr]
            and all(isinstance(a, ast.Call) for a in n.args[1:2])
            for n in registered
            if isinstance(n, ast.Call)
        )

    def _element(self, node: ast.Subscript, stmt: ast.stmt) -> bool:
        """Whether `pair[0]` is a tensor, for a pair that is a network's result or a tuple display."""
        if not (isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Constant)):
            return False
        name, at = node.value.id, node.slice.value
        bindings = self.bindings(name, stmt)
        return bool(bindings) and all(b is not None and self._binds_element(name, at, b) for b in bindings)

    def _binds_element(self, name: str, at: object, stmt: ast.stmt) -> bool:
        def holds() -> bool:
            found = list(values(stmt, name))
            return bool(found) and all(
                self._tensor(v.elts[at], stmt)
                if isinstance(v, ast.Tuple) and isinstance(at, int) and at in range(len(v.elts))
                else self._is_extracted(name, v, tuples=True) or self._yields(name, v, stmt)
                for v in found
            )

        return self._once(f"{name}[{at}]", stmt, holds)

    def _call_is_tensor(self, node: ast.Call, stmt: ast.stmt) -> bool:
        if self.produced(node) or self._is_env(node, "reset"):
            return True
        if self._is_env(node, "step"):
            return False
        if loss_called(self._tree, node.func):
            return True
        if isinstance(node.func, ast.Name) and node.func.id not in self._functions:
            return self._returns_tensor(node, stmt)
        if not isinstance(node.func, ast.Attribute):
            return False
        function = self._torch_function(node)
        if function is not None:
            return function == "Tensor" or (function not in others() and not function[:1].isupper())
        if node.func.attr in OF["distribution"] and self.distributions(node.func.value, stmt):
            return True
        if node.func.attr == "type" and not (node.args or node.keywords):
            return False  # a string
        if node.func.attr in CASTS and isinstance(node.func.value, (ast.Compare, ast.BinOp)):
            return not self._tree.methods(node.func.attr)
        return node.func.attr not in HOST_METHODS and self._tensor(node.func.value, stmt)

    def distributions(self, node: ast.expr, stmt: ast.stmt) -> list[tuple[ast.Call, ast.stmt]]:
        """The calls that may make the value of an expression at `stmt`, with their statements; none if others may.

        They call classes of torch.distributions, or networks that return distributions.
        """
        if isinstance(node, ast.Name):
            found = list[tuple[ast.Call, ast.stmt]]()
            for bound in self.bindings(node.id, stmt):
                made = list(values(bound, node.id)) if bound is not None else []
                place = result_index(bound, node.id) if bound is not None else (None, 0)
                calls = [c for v in made if isinstance(v, ast.Call) for c in self._distribution(v, bound, place)]
                if not made or len(calls) != len(made):
                    return []
                found += calls
            return found
        return self._distribution(node, stmt, (None, 0)) if isinstance(node, ast.Call) else []

    def _distribution(
        self, call: ast.Call, stmt: ast.stmt | None, place: tuple[int | None, int]
    ) -> list[tuple[ast.Call, ast.stmt]]:
        if self.produced(call):
            made = Results(self._roles, call).is_distribution(*place)
        else:
            made = place[0] is None and makes_distribution(self._tree, call)
        return [(call, stmt)] if made and stmt is not None else []

    def _returns_tensor(self, call: ast.Call, stmt: ast.stmt, place: int | None = None, count: int = 0) -> bool:
        """Whether a function of this file returns a tensor for these arguments, alone or at an index among `count`."""
        function = self._tree.function_called(call)
        if function is None or self._entered.count(function) == NESTED:
            return False
        self._entered.append(function)
        try:
            results = results_of(function, call)
            if place is not None:
                parts = [r.elts if isinstance(r, ast.Tuple) else [] for r in results]
                results = [p[place] if len(p) == count else ast.Constant(None) for p in parts]
            return bool(results) and all(self._tensor(r, stmt) for r in results)
        finally:
            self._entered.pop()


def _is_empty(value: ast.expr) -> bool:
    """Whether a value is a dict without entries."""
    return ast.unparse(value) in ("{}", "dict()")


def results_of(function: ast.FunctionDef, call: ast.Call) -> list[ast.expr]:
    """The values that a function returns, with a call's arguments substituted; None for each local variable.

    Empty if the arguments cannot be matched to parameters, or if the function may return no value.
    """
    bound = bind_arguments(function, call)
    if bound is None or function.decorator_list:
        return []
    given = bound.given
    inside = list(statements(function.body))
    own = frozenset(n for s in inside for n in access(s).binds) | set(parameters(function))
    own -= {p for p in given if not any(p in access(s).binds for s in inside)}
    returns = [s for s in inside if isinstance(s, ast.Return)]
    if not returns or returns[-1] is not function.body[-1]:
        return []
    fill = _Fill({**given, **dict.fromkeys(own, ast.Constant(None))})
    return [fill.visit(copied(s.value)) if s.value else ast.Constant(None) for s in returns]


class _Fill(ast.NodeTransformer):
    """Substitutes expressions for names."""

    def __init__(self, given: dict[str, ast.expr]) -> None:
        self._given = given

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._given.get(node.id, node)


def _result(roles: Roles, stmt: ast.stmt, call: ast.Call, name: str) -> bool:
    """Whether a network's result that a statement binds to a name is a tensor, as far as anything shows."""
    results = Results(roles, call)
    for target in stmt.targets if isinstance(stmt, ast.Assign) else []:
        if isinstance(target, ast.Name) and target.id == name:
            return results.is_tensor(None)
        for place, element in enumerate(target.elts if isinstance(target, ast.Tuple) else []):
            if isinstance(element, ast.Name) and element.id == name and isinstance(target, ast.Tuple):
                if not results.is_tensor(place, len(target.elts)):
                    return False
    return True


def values(stmt: ast.stmt, name: str) -> Iterator[ast.expr]:
    """The values that a statement assigns to a name; the whole right side if it is unpacked; of `x += y` both sides."""
    if isinstance(stmt, ast.Assign):
        for target in stmt.targets:
            yield from _matched(target, stmt.value, name)
    elif isinstance(stmt, (ast.AnnAssign, ast.AugAssign)) and stmt.value is not None:
        yield stmt.value
        if isinstance(stmt, ast.AugAssign):
            yield stmt.target
    elif isinstance(stmt, ast.For):
        yield stmt.iter


def _matched(target: ast.expr, value: ast.expr, name: str) -> Iterator[ast.expr]:
    if isinstance(target, ast.Name) and target.id == name:
        yield value
    elif isinstance(target, (ast.Tuple, ast.List)):
        if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
            for t, v in zip(target.elts, value.elts, strict=True):
                yield from _matched(t, v, name)
        elif any(isinstance(t, ast.Name) and t.id == name for t in target.elts):
            yield value
