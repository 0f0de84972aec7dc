"""Numbers that compiled code reads from tensors.

With torch._dynamo.config.capture_scalar_outputs, a graph can contain such numbers as long as code only computes with
them and keeps them. Without it, the graph ends where they are read. If a number is an argument of a list's method,
torch.compile resumes with the bound method, a new object each time, and recompiles.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from functools import cached_property

from transformer.dataflow.access import access
from transformer.facts.python import CONVERTS
from transformer.recognition.roles import Roles
from transformer.syntax.query import calls_method, walk
from transformer.values.device.graph_breaks import FunctionCode, nodes_run, written_by_transform
from transformer.values.device.waits import arguments, computes_on_host
from transformer.values.effects.world import World
from transformer.values.tensors import Tensors


def reads_numbers(roles: Roles, functions: Iterable[ast.FunctionDef]) -> bool:
    """Whether functions, or functions that they run, may read a number from a tensor."""
    codes = [code for function in functions for code in _codes(roles, function)]
    return any(code.reads(node) for code in codes for node in nodes_run(code.owner))


def looks_up(roles: Roles, function: ast.FunctionDef) -> ast.expr | None:
    """Where a function, or one that it runs, may index a list by a number read from a tensor.

    Dynamo raises an error there, and also where such a number is formatted by format().
    """
    codes = _codes(roles, function)
    return next(
        (n for code in codes for n in nodes_run(code.owner) if isinstance(n, ast.expr) and code.looks_up(n)), None
    )


def _codes(roles: Roles, function: ast.FunctionDef) -> list[_Numbers]:
    """A function and those of this file that it may run; if it may run anything, those found by name."""
    run = roles.get(World).functions_run(function)
    called = roles.reached([function]) if run is None else sorted(run, key=lambda f: getattr(f, "lineno", 0))
    owners = dict.fromkeys(
        f for f in called if isinstance(f, (ast.FunctionDef, ast.Lambda)) and not written_by_transform(roles, f)
    )
    return [_Numbers(roles, owner) for owner in {function: None, **owners}]


class _Numbers(FunctionCode):
    """The code of one function, with the numbers that it reads from tensors."""

    @cached_property
    def _named(self) -> frozenset[str]:
        """Names bound to such numbers, or to what holds or is computed from them; tensors are excluded."""
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
        """Whether an argument is a Python number, or computed from such numbers by a library other than torch."""
        if isinstance(node, ast.Call) and computes_on_host(self.tree.qualified(node.func) or ""):
            return all(map(self._is_of_host, arguments(node)))
        return self.holds_numbers(node)

    def looks_up(self, node: ast.expr) -> bool:
        """Whether a node may index by such a number, or formats one, in a way that needs its value."""
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and not isinstance(node.slice, ast.Slice):
            things = self.world.of(node.value)
            known = bool(things) and all(t.kind in ("tensor", "array", "dict", "deque") for t in things)
            return not (known or self.roles.get(Tensors).tensor(node.value)) and self._uses(node.slice, self._named)
        if isinstance(node, ast.Call) and (calls_method(node, "pop") or self.tree.names.builtin(node.func) == "format"):
            return any(self._uses(given, self._named) for given in arguments(node))
        return False
