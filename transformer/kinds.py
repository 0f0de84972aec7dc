"""Which names and expressions of the training scope are torch tensors.

Flow-insensitive: a name is a tensor where everything that is assigned to it is one. What cannot be told is
not a tensor, so a transform that needs one leaves it alone.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from transformer.dataflow import statements

if TYPE_CHECKING:
    from transformer.script import Script

HOST_METHODS = frozenset("item tolist numpy size dim numel ndimension element_size data_ptr is_contiguous type".split())
NOT_TENSORS = frozenset(
    "device manual_seed Size no_grad inference_mode enable_grad set_default_dtype set_num_threads load save "
    "is_tensor numel get_rng_state Generator compile jit".split()
)
FRESH = frozenset("tensor zeros ones empty full randn rand stack cat where max min clamp exp mean sum".split())


class Kinds:
    """Tensor or not, for the names of the training scope."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._bindings: dict[str, list[ast.expr | None]] = {}
        self._known: dict[str, bool] = {}
        self.policy_results: set[str] = set()
        """Names bound by calling a network or an alias of its methods: new tensors at every call."""
        self._producers = set(script.modules) | set(script.facts.inference.values()) | set(script.facts.aliases.values())
        functions = {f.name: f for f in script.facts.functions.values()}
        for stmt in statements(script.scope.body):
            if isinstance(stmt, ast.Assign):
                for target in stmt.targets:
                    self._bind(target, stmt.value, functions.keys())
            elif isinstance(stmt, ast.AnnAssign) and stmt.value is not None:
                self._bind(stmt.target, stmt.value, functions.keys())
            elif isinstance(stmt, (ast.For, ast.AsyncFor)):
                self._bind_loop(stmt.target, stmt.iter)
            elif isinstance(stmt, (ast.FunctionDef, ast.ClassDef)):
                self._bindings.setdefault(stmt.name, []).append(None)
            elif isinstance(stmt, (ast.With, ast.AsyncWith)):
                for item in stmt.items:
                    if item.optional_vars is not None:
                        self._bind(item.optional_vars, None, ())
        args = getattr(script.scope, "args", None)
        for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs) if args else ():
            self._bindings.setdefault(arg.arg, []).append(None)

    def _bind(self, target: ast.expr, value: ast.expr | None, functions: object) -> None:
        if isinstance(target, ast.Name):
            self._bindings.setdefault(target.id, []).append(value)
            if value is not None and self.produced(value):
                self.policy_results.add(target.id)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, None, functions)
        elif isinstance(target, (ast.Tuple, ast.List)):
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
                for t, v in zip(target.elts, value.elts):
                    self._bind(t, v, functions)
            else:
                # A network's results are tensors; what else is unpacked is not known.
                for t in target.elts:
                    self._bind(t, value if value is not None and self._yields_tensors(value) else None, functions)

    def _bind_loop(self, target: ast.expr, iterable: ast.expr) -> None:
        chunks = isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Attribute)
        split = chunks and iterable.func.attr in ("split", "chunk", "unbind")  # type: ignore[attr-defined]
        self._bind(target, iterable.func.value if split else None, ())  # type: ignore[attr-defined]

    def _yields_tensors(self, value: ast.expr) -> bool:
        if self.produced(value):
            return True
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            return any(f.name == value.func.id and f.tensors for f in self._script.facts.functions.values())
        return isinstance(value, ast.Call) and self._torch_function(value) in ("max", "min", "sort", "topk")

    def produced(self, value: ast.expr) -> bool:
        """Whether `value` is a call of a network, of its method, or of an alias of it."""
        if not isinstance(value, ast.Call):
            return False
        func = value.func
        if isinstance(func, ast.Attribute):
            if func.attr in ("parameters", "named_parameters", "state_dict", "train", "eval", "to", "modules"):
                return False
            func = func.value
        return isinstance(func, ast.Name) and func.id in self._producers

    def _torch_function(self, call: ast.Call) -> str | None:
        qualified = self._script.qualified(call.func) or ""
        for prefix in ("torch.nn.functional.", "torch."):
            if qualified.startswith(prefix) and "." not in qualified[len(prefix) :]:
                return qualified[len(prefix) :]
        return None

    def tensor(self, node: ast.expr | None) -> bool:
        """Whether an expression is a tensor."""
        if isinstance(node, ast.Name):
            return self.tensor_name(node.id)
        if isinstance(node, ast.Call):
            if self.produced(node):
                return True
            if isinstance(node.func, ast.Attribute):
                function = self._torch_function(node)
                if function is not None:
                    return function not in NOT_TENSORS and not function[:1].isupper() or function == "Tensor"
                return node.func.attr not in HOST_METHODS and self.tensor(node.func.value)
            return False
        if isinstance(node, ast.Subscript):
            storage = self._script.facts.storage
            if isinstance(node.value, ast.Name) and node.value.id == storage:
                return isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
            return self.tensor(node.value)
        if isinstance(node, ast.Attribute):
            return node.attr in ("T", "data", "grad", "mT") and self.tensor(node.value)
        if isinstance(node, ast.BinOp):
            return self.tensor(node.left) or self.tensor(node.right)
        if isinstance(node, ast.UnaryOp):
            return not isinstance(node.op, ast.Not) and self.tensor(node.operand)
        if isinstance(node, ast.Compare):
            return self.tensor(node.left) or any(self.tensor(c) for c in node.comparators)
        if isinstance(node, ast.IfExp):
            return self.tensor(node.body) and self.tensor(node.orelse)
        return False

    def tensor_name(self, name: str) -> bool:
        """Whether everything assigned to a name is a tensor, numbers that start a recurrence aside."""
        if name not in self._known:
            self._known[name] = True  # a cycle (x = x + 1) does not speak against it
            values = self._bindings.get(name, [])
            self._known[name] = bool(values) and all(self.tensor(v) for v in values)
        return self._known[name]
