"""Which tensors are known to be float32, the dtype in which PPO computes unless a script says otherwise."""

from __future__ import annotations

import ast

from transformer.facts.torch_api import FLOAT32, SINGLE, functions, names
from transformer.recognition.roles import Roles
from transformer.values.networks.results import ResultIndex, Results, result_index
from transformer.values.tensors import Tensors, values

SAME_DTYPE = names("tensor", dtype="kept") - names("tensor", rows="broadcast")
"""Methods whose result's dtype depends on no other tensor than an argument."""
NEW = functions("torch", dtype="default")
GIVEN = functions("torch", dtype="given")
"""Functions whose result has the dtype of the given values unless a dtype is given."""


class Dtypes:
    """Proves that expressions are float32 where they are evaluated."""

    def __init__(self, roles: Roles) -> None:
        self._roles = roles
        self._tensors = roles.get(Tensors)
        self._busy: set[tuple[str, ast.stmt]] = set()
        self._networks_are_float32 = roles.history.other_precision is None

    def float32(self, node: ast.expr) -> bool:
        """Whether an expression of the script is a float32 tensor where it is evaluated."""
        return self._float32(node, self._roles.tree.statement(node))

    def _float32(self, node: ast.expr, stmt: ast.stmt, place: ResultIndex = (None, 1)) -> bool:
        if isinstance(node, ast.Name):
            bindings = list(self._tensors.bindings(node.id, stmt))
            return bool(bindings) and all(b is not None and self._is_bound_to_float32(node.id, b) for b in bindings)
        if isinstance(node, ast.BinOp):
            sides = (node.left, node.right)
            if isinstance(node.op, ast.MatMult):  # a product may be computed in another precision, like a network's
                return False
            return any(self._float32(s, stmt) for s in sides) and all(self._float32_or_number(s, stmt) for s in sides)
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.op, (ast.USub, ast.UAdd)) and self._float32(node.operand, stmt)
        if isinstance(node, ast.Subscript):
            facts = self._roles.history
            if isinstance(node.value, ast.Name) and node.value.id == facts.storage:
                key = node.slice.value if isinstance(node.slice, ast.Constant) else None
                return facts.storage_dtypes.get(str(key)) in FLOAT32
            index = node.slice.value if isinstance(node.slice, ast.Constant) else None
            return self._float32(node.value, stmt, (index if isinstance(index, int) else None, None))
        return isinstance(node, ast.Call) and self._call_is_float32(node, stmt, place)

    def _float32_or_number(self, node: ast.expr, stmt: ast.stmt) -> bool:
        number = isinstance(node, ast.Constant) or not self._tensors.tensor_at(node, stmt)
        return number or self._float32(node, stmt)

    def _is_bound_to_float32(self, name: str, stmt: ast.stmt) -> bool:
        if (name, stmt) in self._busy:
            return True
        self._busy.add((name, stmt))
        try:
            found = list(values(stmt, name))
            return bool(found) and all(self._float32(v, stmt, result_index(stmt, name)) for v in found)
        finally:
            self._busy.discard((name, stmt))

    def _under_autocast(self, node: ast.Call) -> bool:
        roles = self._roles
        tree = roles.tree
        helper = self._tensors.helper_at(tree.statement(node))
        around = [*tree.ancestors(node), *(tree.ancestors(helper.call) if helper else ())]
        return any(map(roles.is_autocast, around))

    def _call_is_float32(self, node: ast.Call, stmt: ast.stmt, place: ResultIndex) -> bool:
        roles = self._roles
        tree = roles.tree
        if self._tensors.produced(node):
            floating = Results(roles, node).is_floating(*place)
            return floating and self._networks_are_float32 and not self._under_autocast(node)
        dtype = next((ast.unparse(k.value) for k in node.keywords if k.arg == "dtype"), None)
        if tree.calls(node, *SINGLE):
            return True
        if tree.calls(node, *NEW, *GIVEN):
            default = not tree.calls(node, *GIVEN) or (tree.calls(node, "torch.full") and _is_filled_with_float(node))
            return dtype in FLOAT32 or (dtype is None and default and self._networks_are_float32)
        if tree.calls(node, "torch.zeros_like", "torch.ones_like"):
            return dtype in FLOAT32 or (dtype is None and self._float32(node.args[0], stmt))
        if not isinstance(node.func, ast.Attribute):
            return False
        if node.func.attr == "float":
            return True
        if node.func.attr == "to":
            given = [ast.unparse(a) for a in (*node.args, *(k.value for k in node.keywords))]
            if any(g in FLOAT32 for g in given):
                return True
            return not any(g.startswith("torch.") for g in given) and self._float32(node.func.value, stmt)
        if node.func.attr not in SAME_DTYPE:
            return False
        named = [dtype] if dtype else [ast.unparse(a) for a in node.args if (tree.qualified(a) or "")[:6] == "torch."]
        return named[0] in FLOAT32 if named else self._float32(node.func.value, stmt)


def _is_filled_with_float(call: ast.Call) -> bool:
    """Whether `torch.full(size, 0.5)` fills with a float; filled with an integer, the result has integers."""
    fill = call.args[1:2] or [k.value for k in call.keywords if k.arg == "fill_value"]
    number = fill[0].operand if fill and isinstance(fill[0], ast.UnaryOp) else fill[0] if fill else None
    return isinstance(number, ast.Constant) and isinstance(number.value, float)
