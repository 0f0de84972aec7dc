"""The ranks and first dimensions of tensors in the training scope, if their construction determines them."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import TypeVar

from transformer.dataflow.access import scope_access
from transformer.facts.torch_api import LOSSES, REDUCES, methods, names
from transformer.recognition.buffers import find_allocations, leading_sizes
from transformer.recognition.roles import Roles
from transformer.syntax.query import is_number, names_in, parameters, statements
from transformer.values.effects.world import World
from transformer.values.networks.results import loss_called
from transformer.values.tensors import Tensors, values

T = TypeVar("T")

SAME_SHAPE = methods(rows="element")
"""Methods whose result has the shape of their object."""


class Shapes:
    """Ranks and first sizes of expressions where they are evaluated; None if unknown."""

    def __init__(self, roles: Roles) -> None:
        self._roles, self._tree = roles, roles.tree
        self._tensors = roles.get(Tensors)
        self._allocations = roles.get(find_allocations)
        self._busy: set[tuple[str, ast.stmt]] = set()

    def rank(self, node: ast.expr) -> int | None:
        """The number of dimensions."""
        return self._rank(node, self._tree.statement(node))

    def rows(self, node: ast.expr) -> str | None:
        """The size of the first dimension, as written."""
        return self._rows(node, self._tree.statement(node))

    def spelled(self, node: ast.expr) -> str:
        """A number of rows as text, in names of the training scope if possible."""
        return self._spelled(node, self._tree.statement(node))

    def _spelled(self, node: ast.expr, stmt: ast.stmt) -> str:
        counted = whose_rows(node)
        if counted is not None:
            return self._rows(counted, stmt) or self._foreign(node, stmt)
        if isinstance(node, ast.Attribute) and self._tensors.helper_at(stmt):
            return f"{self._spelled(node.value, stmt)}.{node.attr}"
        if isinstance(node, ast.Name):
            (binding, *others) = self._tensors.bindings(node.id, stmt) or (None,)
            if isinstance(binding, ast.Assign) and not others:
                for value in values(binding, node.id):
                    first = _is_first(binding, node.id)
                    if first and isinstance(value, ast.Attribute) and value.attr == "shape":
                        return self._rows(value.value, binding) or self._foreign(node, stmt)
                    simple = isinstance(value, (ast.Name, ast.Attribute, ast.Constant)) or whose_rows(value) is not None
                    if simple and not _is_unpacked(binding, value) and self._tensors.helper_at(stmt):
                        return self._spelled(value, binding)
        return self._foreign(node, stmt)

    def _foreign(self, node: ast.expr, stmt: ast.stmt) -> str:
        """The text of an unresolved expression, distinct from equal text in another scope."""
        helper = self._tensors.helper_at(stmt)
        if helper is None or isinstance(node, ast.Constant):
            return self._roles.spelled(node)
        text = ast.unparse(node)
        return f"{text} of {helper.function.name}()" if names_in([node]) & helper.own else text

    def _rank(self, node: ast.expr, stmt: ast.stmt) -> int | None:
        made = self._leading_sizes(node, stmt)
        if made is not None:
            return len(made[0]) if made[1] else None
        if isinstance(node, ast.Name):
            return self._common(node.id, stmt, self._rank)
        if isinstance(node, ast.BinOp):
            ranks = [self._rank(n, stmt) for n in (node.left, node.right) if self._tensors.tensor_at(n, stmt)]
            found = max(r for r in ranks if r is not None) if ranks and None not in ranks else None
            # An unknown operand may have more dimensions than a number
            alone = len(ranks) == 2 or any(map(self._roles.get(World).are_numbers, (node.left, node.right)))
            return found if found or alone else None
        if isinstance(node, ast.UnaryOp):
            return self._rank(node.operand, stmt)
        if isinstance(node, ast.Subscript):
            kept = self._rank(node.value, stmt)
            return kept if isinstance(node.slice, ast.Slice) else None
        if isinstance(node, ast.Call):
            if self._reduces_all(node, stmt):
                return 0
            ranks = [r for part in self._joined(node) if (r := self._rank(part, stmt)) is not None]
            if ranks:
                return ranks[0]
            if sizes := self._viewed(node, stmt):
                return len(sizes)
            like = self._like(node)
            return self._rank(like, stmt) if like is not None else None
        return None

    def _rows(self, node: ast.expr, stmt: ast.stmt) -> str | None:
        made = self._leading_sizes(node, stmt)
        if made is not None:
            return made[0][0] if made[0] else None
        if isinstance(node, ast.Name):
            return self._common(node.id, stmt, self._rows)
        if isinstance(node, ast.BinOp):
            sides = [n for n in (node.left, node.right) if self._tensors.tensor_at(n, stmt)]
            rows = {self._rows(n, stmt) for n in sides if self._rank(n, stmt) == self._rank(node, stmt)}
            return rows.pop() if len(rows) == 1 else None
        if isinstance(node, ast.UnaryOp):
            return self._rows(node.operand, stmt)
        if isinstance(node, ast.Call):
            parts = self._joined(node)
            if len(parts) == 2 and _from_second(parts[0]) and self._is_one_row(parts[1], stmt):
                first = parts[0]
                assert isinstance(first, ast.Subscript)
                return self._rows(first.value, stmt)
            if len(parts) == 2 and self._is_one_row(parts[1], stmt):
                all_but_one = self._rows(parts[0], stmt)
                return all_but_one and f"{all_but_one} + 1"
            if sizes := self._viewed(node, stmt):
                return None if _is_negative(sizes[0]) else self._roles.spelled(sizes[0])
            like = self._like(node)
            return self._rows(like, stmt) if like is not None else None
        return None

    def _leading_sizes(self, node: ast.expr, stmt: ast.stmt) -> tuple[list[str], bool] | None:
        """The sizes that start an allocation or a storage entry, and whether these are all."""
        facts = self._roles.history
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == facts.storage:
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            return facts.storage_sizes.get(str(key))
        if isinstance(node, ast.Name) and node.id in self._allocations:
            made, call = self._allocations[node.id]
            if self._making(node.id, stmt) == {made} and not self._varies(made, call):
                return leading_sizes(self._roles, call)
        return None

    def _varies(self, made: ast.stmt, call: ast.Call) -> bool:
        """Whether the sizes of an allocation above the training loop may have changed inside the loop."""
        above = made not in statements([self._roles.outermost])
        return above and self._roles.changed_by_training(call) is not None

    def _making(self, name: str, stmt: ast.stmt) -> set[ast.stmt | None]:
        """The bindings of a name. If one changes it in place, which keeps the shape, those of the changed value."""
        found: set[ast.stmt | None] = set()
        new = set(self._tensors.bindings(name, stmt))
        while new:
            found |= new
            changes = [b for b in new if isinstance(b, ast.AugAssign)]
            new = {b for change in changes for b in self._tensors.bindings(name, change)} - found
        return {b for b in found if not isinstance(b, ast.AugAssign)}

    def _common(self, name: str, stmt: ast.stmt, of: Callable[[ast.expr, ast.stmt], T | None]) -> T | None:
        """The answer that all bindings of a name agree on; None if they differ."""
        found: set[T | None] = set()
        for binding in self._tensors.bindings(name, stmt):
            if binding is None and self._is_unset(name, stmt):
                continue
            if binding is None or (name, binding) in self._busy:
                return None
            self._busy.add((name, binding))
            assigned = [v for v in values(binding, name) if isinstance(binding, ast.Assign)]
            found |= {of(v, binding) for v in assigned if not _is_unpacked(binding, v)} or {None}
            self._busy.discard((name, binding))
        return found.pop() if len(found) == 1 else None

    def _is_unset(self, name: str, stmt: ast.stmt) -> bool:
        """Whether reading a name of the training scope before the scope binds it is an error."""
        scope = self._roles.scope
        ours = self._tensors.helper_at(stmt) is None and name in scope_access(scope.body).binds
        given = name in parameters(scope) if isinstance(scope, ast.FunctionDef) else hasattr(builtins, name)
        starred = any(a.name == "*" for n in self._tree.of(ast.ImportFrom) for a in n.names)
        return ours and not (given or starred or name in self._tree.declared)

    def _joined(self, call: ast.Call) -> list[ast.expr]:
        """The parts of a `torch.cat([...])` along the first dimension."""
        if not self._tree.calls(call, "torch.cat", "torch.concat", "torch.concatenate") or not call.args:
            return []
        axis = [*call.args[1:], *(k.value for k in call.keywords)]
        parts = call.args[0]
        along = not axis or (isinstance(axis[0], ast.Constant) and axis[0].value == 0)
        return parts.elts if along and isinstance(parts, (ast.List, ast.Tuple)) else []

    def _is_one_row(self, node: ast.expr, stmt: ast.stmt) -> bool:
        if not isinstance(node, ast.Name):
            return _is_one_row(node)
        bindings = list(self._tensors.bindings(node.id, stmt))
        return bool(bindings) and all(
            isinstance(b, ast.Assign) and all(_is_one_row(v) for v in values(b, node.id)) for b in bindings
        )

    def _viewed(self, call: ast.Call, stmt: ast.stmt) -> list[ast.expr]:
        """The explicit sizes in `x.view(...)` or `x.reshape(...)`; none if they are not explicit."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("view", "reshape") or call.keywords:
            return []
        whole = call.args[0] if len(call.args) == 1 else None
        sizes = whole.elts if isinstance(whole, (ast.Tuple, ast.List)) else call.args if whole is None else []
        plain = not any(isinstance(size, ast.Starred) for size in sizes)
        return list(sizes) if plain and self._tensors.tensor_at(call, stmt) else []

    def _reduces_all(self, call: ast.Call, stmt: ast.stmt) -> bool:
        """Whether a call reduces all elements to one number: `x.mean()`, `torch.sum(x)`, `F.mse_loss(x, y)`."""
        if call.keywords or any(isinstance(a, ast.Starred) for a in call.args):
            return False
        called = self._tree.qualified(call.func) or loss_called(self._tree, call.func, as_made=True)
        module, _, name = called.rpartition(".")
        if module == "torch.nn.functional":
            return name in LOSSES.values() and len(call.args) == 2
        if module == "torch":
            return name in names("torch", reduces=True) and len(call.args) == 1
        method = isinstance(call.func, ast.Attribute) and not called and call.func.attr in REDUCES
        return method and not call.args and self._tensors.tensor_at(call.func.value, stmt)  # type: ignore[attr-defined]

    def _like(self, call: ast.Call) -> ast.expr | None:
        """The expression whose shape a call's result has."""
        if self._tree.calls(call, "torch.zeros_like", "torch.ones_like", "torch.empty_like") and call.args:
            return call.args[0]
        if isinstance(call.func, ast.Attribute) and call.func.attr in SAME_SHAPE:
            if self._tree.qualified(call.func) is None:
                return call.func.value
        return None


def whose_rows(node: ast.expr) -> ast.expr | None:
    """The `x` of `len(x)`, `x.shape[0]` or `x.size(0)`."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        if isinstance(node.func, ast.Name) and node.func.id == "len":
            return node.args[0]
        if isinstance(node.func, ast.Attribute) and node.func.attr == "size" and is_number(node.args[0], 0):
            return node.func.value
    if isinstance(node, ast.Subscript) and is_number(node.slice, 0):
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return node.value.value
    return None


def _is_first(stmt: ast.Assign, name: str) -> bool:
    """Whether a name is the first of several that a value is unpacked into."""
    return any(
        isinstance(t, (ast.Tuple, ast.List)) and t.elts and isinstance(t.elts[0], ast.Name) and t.elts[0].id == name
        for t in stmt.targets
    )


def _is_unpacked(stmt: ast.stmt, value: ast.expr) -> bool:
    """Whether a value is unpacked into several names, so that none has its shape."""
    if not isinstance(stmt, ast.Assign) or value is not stmt.value:
        return False
    return any(isinstance(t, (ast.Tuple, ast.List)) for t in stmt.targets)


def _is_negative(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)


def _from_second(node: ast.expr) -> bool:
    """Whether an expression is `x[1:]`."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Slice):
        return False
    cut = node.slice
    return isinstance(cut.lower, ast.Constant) and cut.lower.value == 1 and cut.upper is None and cut.step is None


def _is_one_row(node: ast.expr) -> bool:
    """Whether an expression is `x.unsqueeze(0)`, `x[None]`, `x.reshape(1, -1)` or `x.view(1, -1)`."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value is None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    given = [ast.unparse(a) for a in node.args]
    return (node.func.attr, given) in (("unsqueeze", ["0"]), ("reshape", ["1", "-1"]), ("view", ["1", "-1"]))
