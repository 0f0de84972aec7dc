"""The memory of a block's values: whether it is fresh, and who else holds, keeps or changes it.

dataflow/memory.py decides from names alone; this module also knows what networks return and what methods keep. Where it
cannot tell, it assumes sharing, keeping and change. Two properties are easily confused: *fresh* memory belongs to one
value and stays so, and can be kept without a copy; memory that is *left alone* may have other holders, but they only
read it, so a later read returns the same.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property

from transformer.dataflow.memory import (
    changed_in_place,
    is_in_place,
    roots,
    shared,
)
from transformer.facts.python import HARMLESS
from transformer.facts.torch_api import NEW, VIEWS, may_be_given, names
from transformer.recognition.buffers import find_allocations
from transformer.recognition.roles import Roles
from transformer.syntax.query import calls_method, statements, walk
from transformer.values.networks.results import Results, loss_called
from transformer.values.reports import is_report
from transformer.values.tensors import Tensors, values

MADE = names("torch", "functional", memory="new")
"""Functions of torch whose results are new memory."""


class Memory:
    """The memory of the values of one block, such as a step of the rollout or a turn of the training loop."""

    def __init__(self, roles: Roles, body: Sequence[ast.stmt]) -> None:
        self._roles, self._tree, self._body = roles, roles.tree, body
        self._tensors = roles.get(Tensors)
        self._copied_into = set(roles.get(find_allocations))

    # --- who else holds it -----------------------------------------------------------------------------------

    def shared_with(self, names: Collection[str]) -> set[str]:
        """The names, and all names that may share memory with them in the block."""
        return shared(names, self._body, lambda value: self._tensors.produced(value) or self._is_of_torch(value))

    def _is_of_torch(self, value: ast.expr) -> bool:
        """Whether a value is new memory: computed by a function of torch, or by a loss object of the script."""
        if not isinstance(value, ast.Call) or may_be_given(value):
            return False
        if any(isinstance(a, ast.Constant) and a.value is True for a in value.args):  # F.relu(x, True) writes into x
            return False
        name = self._tree.qualified(value.func) or loss_called(self._tree, value.func)
        return name.removeprefix("torch.").removeprefix("nn.functional.") in MADE

    # --- whether it is fresh ---------------------------------------------------------------------------------

    def is_fresh(self, value: ast.expr) -> bool:
        """Whether the value's memory was computed in this step and nothing else holds or changes it."""
        while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            if self._tree.calls(value, "torch.tensor"):
                return True  # always copies, unlike torch.Tensor, as_tensor and from_numpy
            if self._tree.qualified(value.func):
                return False
            if value.func.attr not in VIEWS:
                return value.func.attr in NEW and not may_be_given(value) and self._tensors.tensor(value.func.value)
            value = value.func.value
        if _is_computed(value):
            return True
        if isinstance(value, ast.Subscript):
            return self._tensors.tensor(value.slice)  # indexing by a tensor copies
        if not isinstance(value, ast.Name) or not self._is_made_new(value):
            return False
        names = self.shared_with({value.id}) - self._copied_into
        changed = changed_in_place(self._body) - self._copied_into
        return not names & changed and not any(names & given for given in self._escaping())

    def _is_made_new(self, name: ast.Name) -> bool:
        """Whether a name holds a network's new result, and no other name does."""
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

    def _escaping(self) -> Iterator[set[str]]:
        """For each call, the names passed to it whose memory it may keep or change."""
        for stmt in statements(self._body):
            for node in walk(stmt):
                if isinstance(node, ast.Call) and not self._keeps_nothing(node):
                    yield {n for a in (*node.args, *(k.value for k in node.keywords)) for n in roots(a)}

    def _keeps_nothing(self, call: ast.Call) -> bool:
        """Whether a call is known neither to keep nor to change its arguments."""
        if self._tensors.produced(call) or (self._tree.qualified(call.func) or "").startswith(("torch.", "numpy.")):
            return True
        if isinstance(call.func, ast.Name):
            return self._tree.names.builtin(call.func) in HARMLESS
        return is_report(self._tree, call) or (
            isinstance(call.func, ast.Attribute) and self._tensors.tensor(call.func.value)
        )

    # --- whether it is left alone ----------------------------------------------------------------------------

    @cached_property
    def changed(self) -> set[str]:
        """Names whose memory the block changes in place."""
        return self.shared_with(changed_in_place(self._body))

    @cached_property
    def _handed(self) -> set[str]:
        """Names whose memory is passed to code that may change it."""
        nodes = (n for stmt in self._body for n in walk(stmt))
        calls = [n for n in nodes if isinstance(n, ast.Call) and not self._changes_nothing(n)]
        return self.shared_with({n for c in calls for a in (*c.args, *(k.value for k in c.keywords)) for n in roots(a)})

    def is_left_alone(self, node: ast.expr, inside: Collection[ast.stmt], depth: int = 6) -> bool:
        """Whether some of the block's statements compute a tensor, and nothing changes its memory afterwards."""
        if isinstance(node, ast.Name):
            bindings = list(self._tensors.bindings(node.id, self._tree.statement(node)))
            if not depth or not bindings or node.id in self.changed | self._handed:
                return False
            return all(
                b is not None
                and b in inside
                and (
                    self._is_result(node.id, b)
                    or all(self.is_left_alone(v, inside, depth - 1) for v in values(b, node.id))
                )
                for b in bindings
            )
        if calls_method(node):
            if node.func.attr in VIEWS:
                return self.is_left_alone(node.func.value, inside, depth)
            return (node.func.attr in NEW and not may_be_given(node)) or self._is_of_torch(node)
        return _is_computed(node) or self._is_of_torch(node)

    def _is_result(self, name: str, stmt: ast.stmt) -> bool:
        """Whether a name is one of several results of a network's call, which computes it anew."""
        several = isinstance(stmt, ast.Assign) and isinstance(stmt.targets[0], ast.Tuple)
        return several and self._roles.kind == "off-policy" and self._binds_new(name, stmt)

    def _changes_nothing(self, call: ast.Call, inside: int = 3) -> bool:
        """Whether a call leaves the memory of its arguments alone."""
        if may_be_given(call):
            return False
        qualified = self._tree.qualified(call.func) or ""
        if qualified.startswith(("torch.", "numpy.")):
            return not is_in_place(qualified)
        function = self._tree.function_called(call)
        if function is not None:
            inner = [n for stmt in function.body for n in walk(stmt) if isinstance(n, ast.Call)]
            alone = not changed_in_place(function.body) and not function.decorator_list
            return inside > 0 and alone and all(self._changes_nothing(c, inside - 1) for c in inner)
        if isinstance(call.func, ast.Name):
            return self._tree.names.builtin(call.func) in HARMLESS or self._tensors.produced(call)
        if not isinstance(call.func, ast.Attribute):
            return False
        known = is_report(self._tree, call) or self._tensors.produced(call)
        return known or self._tensors.tensor(call.func.value)


def _is_computed(value: ast.expr) -> bool:
    """Whether a value is the result of an operator and so new; `+tensor` is the tensor itself."""
    plain = isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.UAdd)
    return isinstance(value, (ast.BinOp, ast.Compare, ast.UnaryOp)) and not plain
