"""Whether a value of the rollout holds memory of its own, so that it may be kept for later without a copy."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from transformer.dataflow.memory import HARMLESS, changed_in_place, may_be_given, roots, shared
from transformer.recognition.buffers import find_allocations
from transformer.recognition.roles import Roles
from transformer.syntax.query import statements, walk
from transformer.torch_api import NEW, VIEWS
from transformer.values.networks.results import Results
from transformer.values.reports import is_report
from transformer.values.tensors import Tensors


class NewMemory:
    """Proofs that what a block computes with a network is new, and is neither changed nor handed to others there."""

    def __init__(self, roles: Roles, tensors: Tensors, body: Sequence[ast.stmt]) -> None:
        self._tree = roles.tree
        self._roles, self._tensors, self._body = roles, tensors, body
        self._copied_into = set(find_allocations(roles))
        self._changed = changed_in_place(body) - self._copied_into

    def is_fresh(self, value: ast.expr) -> bool:
        """Whether nothing else holds or changes the value's memory: it was computed in this step and is left alone."""
        while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            if self._tree.calls(value, "torch.tensor"):
                return True  # always copies, unlike torch.Tensor, as_tensor and from_numpy
            if self._tree.qualified(value.func):
                return False
            if value.func.attr not in VIEWS:
                return value.func.attr in NEW and not may_be_given(value) and self._tensors.tensor(value.func.value)
            value = value.func.value
        if isinstance(value, (ast.BinOp, ast.Compare)):
            return True
        if isinstance(value, ast.Subscript):
            return self._tensors.tensor(value.slice)  # indexing by a tensor copies
        if isinstance(value, ast.UnaryOp):
            return not isinstance(value.op, ast.UAdd)  # +tensor is the tensor itself
        if not isinstance(value, ast.Name) or not self._is_new(value):
            return False
        names = shared({value.id}, self._body, self._tensors.produced) - self._copied_into
        return not names & self._changed and not any(names & given for given in self._given())

    def _is_new(self, name: ast.Name) -> bool:
        """Whether a name holds what a network has just computed, and no other name holds that too."""
        stmt = self._tree.statement(name)
        bindings = list(self._tensors.bindings(name.id, stmt))
        return bool(bindings) and all(b is not None and self._binds_new(name.id, b) for b in bindings)

    def _binds_new(self, name: str, stmt: ast.stmt) -> bool:
        if not isinstance(stmt, ast.Assign) or len(stmt.targets) != 1 or not isinstance(stmt.value, ast.Call):
            return False
        target, call = stmt.targets[0], stmt.value
        if not self._tensors.produced(call):
            return False
        if isinstance(target, ast.Name):
            return Results(self._roles, call).is_new(None)
        if not isinstance(target, ast.Tuple):
            return False
        places = [i for i, t in enumerate(target.elts) if isinstance(t, ast.Name) and t.id == name]
        return len(places) == 1 and Results(self._roles, call).is_new(places[0], len(target.elts))

    def _given(self) -> Iterator[set[str]]:
        """What may be handed to code that keeps or changes it, call by call."""
        for stmt in statements(self._body):
            for node in walk(stmt):
                if isinstance(node, ast.Call) and not self._is_harmless(node):
                    yield {n for a in (*node.args, *(k.value for k in node.keywords)) for n in roots(a)}

    def _is_harmless(self, call: ast.Call) -> bool:
        if self._tensors.produced(call) or (self._tree.qualified(call.func) or "").startswith(("torch.", "numpy.")):
            return True
        if isinstance(call.func, ast.Name):
            return self._tree.names.builtin(call.func) in HARMLESS
        return is_report(self._tree, call) or (
            isinstance(call.func, ast.Attribute) and self._tensors.tensor(call.func.value)
        )
