"""Numbers that compiled code reads from tensors, and what waits for them.

With torch._dynamo.config.capture_scalar_outputs a graph holds such numbers, as long as they are only computed with and
kept. Where a graph ends while the arguments of a method are computed, code goes on with the method itself: that of a
list is a new object each time, for which torch.compile compiles anew.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from functools import cached_property

from transformer.dataflow.access import access
from transformer.dataflow.variables import COMPREHENSIONS
from transformer.facts.python import CONTAINERS, CONVERTS, builtin_names, has
from transformer.facts.torch_api import OF
from transformer.recognition.roles import Roles
from transformer.syntax.query import calls_method, walk
from transformer.values.device.graph_breaks import Code, run
from transformer.values.device.waits import arguments, computes_on_host
from transformer.values.effects.world import Held, World
from transformer.values.reports import is_report
from transformer.values.tensors import Tensors

COMPUTES = CONVERTS | builtin_names(gives="new") | builtin_names(gives="contents and given", acts=False)
"""Builtins that compute with numbers of a graph."""
HOLDS = (ast.BinOp, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Starred, ast.JoinedStr, ast.FormattedValue)
KEEPS = (*HOLDS, ast.UnaryOp, ast.keyword, *COMPREHENSIONS)
"""Expressions that keep a graph's numbers in it, as do comparisons of two."""


def reads_numbers(roles: Roles, functions: Iterable[ast.FunctionDef]) -> bool:
    """Whether functions, or functions that they run, may read a number from a tensor."""
    codes = [code for function in functions for code in _codes(roles, function)]
    return any(code.reads(node) for code in codes for node in run(code.owner))


def looks_up(roles: Roles, function: ast.FunctionDef) -> ast.expr | None:
    """Where a function, or one that it runs, may choose an item of a list by a number that it reads from a tensor.

    Dynamo stops there with an error, and where it formats one by format().
    """
    codes = _codes(roles, function)
    return next((n for code in codes for n in run(code.owner) if isinstance(n, ast.expr) and code.looks_up(n)), None)


def ends_while_called(roles: Roles, function: ast.FunctionDef) -> tuple[Held, str] | None:
    """Where a graph may end while a method waits for its arguments, in a function or one that it runs; the method."""
    for code in _codes(roles, function):
        for call in run(code.owner):
            if isinstance(call, ast.Call) and code.is_new_method(call) and (held := _ends(roles, code, call)):
                return Held(call, held.what), ast.unparse(call.func)
    return None


def _ends(roles: Roles, code: _Numbers, call: ast.Call) -> Held | None:
    """Where a graph may end in the arguments of a call, or in what these run."""
    nodes = [n for argument in arguments(call) for n in walk(argument)]
    inside = [n for n in nodes if not (isinstance(n, (ast.Name, ast.Constant)) or code.is_tensors(n))]
    if not inside or not isinstance(code.owner, ast.FunctionDef):
        return None
    called, unknown = roles.get(World).run_at(code.owner, inside)
    others = (_Numbers(roles, owner) for owner in called if not _is_ours(roles, owner))
    ends = [code.ends_but_for_numbers(nodes)]
    ends += [other.ends_but_for_numbers(run(other.owner)) for other in others]
    ends += [Held(unknown, "runs unknown code")] if unknown is not None else []
    return next(filter(None, ends), None)


def _codes(roles: Roles, function: ast.FunctionDef) -> list[_Numbers]:
    """A function, and those of this file that it may run; by their names if it may run anything."""
    run = roles.get(World).functions_run(function)
    called = roles.reached([function]) if run is None else sorted(run, key=lambda f: getattr(f, "lineno", 0))
    owners = dict.fromkeys(f for f in called if isinstance(f, (ast.FunctionDef, ast.Lambda)) and not _is_ours(roles, f))
    return [_Numbers(roles, owner) for owner in {function: None, **owners}]


def _is_ours(roles: Roles, owner: ast.AST) -> bool:
    """Whether a transform has written a function."""
    return getattr(owner, "name", "") in roles.history.on_device


class _Numbers(Code):
    """The code of one function, with the numbers that it reads from tensors."""

    @cached_property
    def _named(self) -> frozenset[str]:
        """Names that the function binds to such numbers, or to what holds or is computed from these, save tensors."""
        bound = [s for s in walk(self.owner) if isinstance(s, (ast.Assign, ast.AnnAssign, ast.AugAssign))]
        values = [(s, s.value) for s in bound if s.value is not None and not self.roles.get(Tensors).tensor(s.value)]
        found, before = frozenset[str](), None
        while found != before:
            before = found
            found |= {n for s, value in values if self._uses(value, found) for n in access(s).binds}
        return found

    def _uses(self, node: ast.AST, names: Collection[str]) -> bool:
        return any(self.reads(n) or (isinstance(n, ast.Name) and n.id in names) for n in walk(node))

    def reads(self, node: ast.AST) -> bool:
        """Whether a node may read one number from a tensor."""
        if not isinstance(node, ast.Call):
            return False
        converts = self.tree.names.builtin(node.func) in CONVERTS
        return calls_method(node, "item") or (converts and not all(map(self._is_of_host, arguments(node))))

    def _is_of_host(self, node: ast.expr) -> bool:
        """Whether an argument is a number of Python's, or computed from such numbers by another library than torch."""
        if isinstance(node, ast.Call) and computes_on_host(self.tree.qualified(node.func) or ""):
            return all(map(self._is_of_host, arguments(node)))
        return self.holds_numbers(node)

    def is_tensors(self, node: ast.AST) -> bool:
        """Whether a node calls a method as tensors have, and no class of this file."""
        return calls_method(node, *OF["tensor"]) and not self.tree.methods(node.func.attr)

    def looks_up(self, node: ast.expr) -> bool:
        """Whether a node may choose an item by such a number, or formats one, by functions that need its value."""
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and not isinstance(node.slice, ast.Slice):
            things = self.world.of(node.value)
            known = bool(things) and all(t.kind in ("tensor", "array", "dict", "deque") for t in things)
            return not (known or self.roles.get(Tensors).tensor(node.value)) and self._uses(node.slice, self._named)
        if isinstance(node, ast.Call) and (calls_method(node, "pop") or self.tree.names.builtin(node.func) == "format"):
            return any(self._uses(given, self._named) for given in arguments(node))
        return False

    def is_new_method(self, call: ast.Call) -> bool:
        """Whether what is called may be a method that is a new object at each call, as those of containers and texts
        are."""
        if not calls_method(call) or is_report(self.tree, call) or self.tree.qualified(call.func):
            return False
        if not (hasattr(str, call.func.attr) or any(has(kind, call.func.attr) for kind in CONTAINERS)):
            return False
        things = self.world.of(call.func.value)
        if not things:
            return not self.roles.get(Tensors).tensor(call.func.value)
        torchs = {t for t in things if t.kind == "made" and t.name.startswith("torch.")}
        return any(t.kind in (*CONTAINERS, "made", "method", "unknown") for t in things - torchs)

    def ends_but_for_numbers(self, nodes: Iterable[ast.AST]) -> Held | None:
        """The first of some nodes where a graph may end, though it holds the numbers that it reads."""
        for node in nodes:
            if self.reads(node) or (isinstance(node, ast.Name) and node.id in self._named):
                if not self._is_kept(node):
                    return Held(node, f"uses {ast.unparse(node)}")
            elif what := self.ends(node):
                return Held(node, what)
        return None

    def _is_kept(self, node: ast.AST) -> bool:
        """Whether a number is only computed with, and put into a container, a variable, or an argument of a method."""
        outer = self.tree.parents[node]
        while not isinstance(outer, ast.stmt):
            computes = (
                isinstance(outer, ast.Call)
                and node is not outer.func
                and (
                    self.tree.names.builtin(outer.func) in COMPUTES
                    or (self.tree.qualified(outer.func) or "").startswith("torch.")
                )
            )
            compares = isinstance(outer, ast.Compare) and len(outer.ops) == 1
            chosen = isinstance(outer, ast.IfExp) and node is not outer.test
            if isinstance(outer, ast.Call) and self.is_new_method(outer) and node is not outer.func:
                return True
            if not (isinstance(outer, KEEPS) or computes or compares or chosen):
                return False
            node, outer = outer, self.tree.parents[outer]
        return not isinstance(outer, (ast.If, ast.While, ast.Assert, ast.For))
