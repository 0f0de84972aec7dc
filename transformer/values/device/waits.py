"""What a call of torch, of numpy or of a builtin does on the host: nothing that a CUDA graph could hold.

A capture fails on a copy between host and device and on whatever waits for the device.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from transformer.facts.torch_api import OF_HOST, names
from transformer.syntax.query import calls_method, children, walk
from transformer.syntax.tree import Tree

READS = names("tensor", "torch", waits=("value", "size"))
"""Methods, and functions of torch, that wait for a tensor's values: they return them, or as many as these say."""
VALUES = names("torch", waits="value")
"""Functions of torch that are true or false by a tensor's values."""
TENSOR_TYPES = frozenset(f"torch.{name}" for name in names("torch", made="of host", dtype="cast"))
FACTORIES = frozenset(f"torch.{name}" for name in names("torch", made="on host", waits=""))
"""Functions that make a tensor on the host, unless they are given a device."""
CHECKED = frozenset(f"torch.{name}" for name in names("torch", waits="check"))
"""Functions that read a tensor on the host to check it."""
HOST_PARTS = ("torch.distributed.", "torch.utils.", "torch.multiprocessing.", "torch.profiler.", "torch.cuda.")
HOST_FUNCTIONS = frozenset(
    f"torch.{name}"
    for name in (
        "save load seed manual_seed set_rng_state get_rng_state set_default_dtype set_grad_enabled compile "
        "autograd.set_detect_anomaly autograd.detect_anomaly"
    ).split()
)
FUNCTIONS = ("torch", "torch.nn.functional", "torch.distributions", "torch.distributions.kl")
"""Modules with functions that compute: those are `KNOWN` that work on the device alone."""
KNOWN = names("torch", "functional") | frozenset("autocast device enable_grad inference_mode no_grad".split())
ASKS = (
    names("tensor", reduces=True) | names("tensor", dtype="bool", rows="element") | {"abs", "equal", "allclose", "item"}
)
"""Methods whose result is a tensor, so that a condition that uses it reads it on the host."""
PLAIN = frozenset("math numpy functools itertools typing collections contextlib".split())
"""Modules whose functions do nothing but compute."""


def of_torch_function(tree: Tree, call: ast.Call) -> bool:
    """Whether a call is one of torch's own functions, not of its modules: `torch.zeros()`, say."""
    module, _, name = (tree.qualified(call.func) or "").rpartition(".")
    return module == "torch" and name.islower()


def of_torch(tree: Tree, call: ast.Call, name: str) -> str | None:
    """What a call of a function of torch does on the host; None where it runs on the device alone."""
    text, last = ast.unparse(call.func), name.rpartition(".")[2]
    places = [k.value for k in call.keywords if k.arg == "device"]
    if name in OF_HOST:
        return f"makes a tensor on the host: {ast.unparse(call)}"
    if name in FACTORIES and (not places or is_host(tree, places[0])):
        return f"makes a tensor on the host: {ast.unparse(call)}"
    for given in call.keywords:
        if given.arg in ("generator", "error_if_nonfinite"):
            return f"calls {text}() with {given.arg}, which is read on the host"
    if name.startswith("torch.distributed."):
        return "talks to other processes"
    if (name.startswith(HOST_PARTS) and not name.startswith("torch.cuda.amp.")) or name in HOST_FUNCTIONS:
        return f"calls {text}(), which works on the host"
    checks = name in CHECKED or (name.startswith("torch.linalg.") and not last.endswith("norm"))
    if checks or last == "MultivariateNormal":
        return f"calls {text}(), which reads what it is given on the host, to check it"
    if last in VALUES:
        return f"calls {text}(), whose result is read on the host"
    if last in READS or (name == "torch.where" and len(call.args) == 1):
        return f"calls {text}(), whose result is as large as a tensor's values say"
    if last.islower() and name.removesuffix(f".{last}") in FUNCTIONS and last not in KNOWN:
        return f"calls {text}(), which is not known to run on the device alone"
    return None


def makes_on_host(tree: Tree, value: ast.expr) -> bool:
    """Whether an expression makes a tensor of the host's numbers, as indices are made, and leaves it on the host."""
    if not isinstance(value, ast.Call) or not tree.calls(value, *OF_HOST, "torch.arange"):
        return False
    return not any(k.arg == "device" for k in value.keywords)


def is_host(tree: Tree, node: ast.expr) -> bool:
    """Whether a dtype or a device says that a tensor is on the host: "cpu", torch.device("cpu"), torch.FloatTensor."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.startswith("cpu") or node.value in TENSOR_TYPES
    if isinstance(node, ast.Call) and tree.calls(node, "torch.device"):
        return any(is_host(tree, a) for a in node.args)
    return tree.qualified(node) in TENSOR_TYPES


def is_host_number(tree: Tree, node: ast.expr) -> bool:
    """Whether an expression is known to be made of constants, of a tensor's shape or of the script's arguments."""
    if isinstance(node, (ast.Constant, ast.JoinedStr)):
        return True
    if isinstance(node, ast.Subscript):
        return is_host_number(tree, node.value)
    if isinstance(node, ast.Attribute):
        return node.attr in ("shape", "ndim", "n") or tree.qualified(node) is not None or _is_arguments(node.value)
    if isinstance(node, ast.Call):
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = tree.qualified(node.func) or ast.unparse(node.func)
        if method in ("size", "dim", "numel") or name == "len":
            return True
        computes = name.partition(".")[0] in PLAIN or name in ("int", "float", "min", "max", "sum", "abs", "tuple")
        return computes and all(is_host_number(tree, a) for a in node.args)
    if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List, ast.Compare)):
        return all(is_host_number(tree, n) for n in children(node) if isinstance(n, ast.expr))
    return False


def _is_arguments(node: ast.expr) -> bool:
    """Whether a node is `args` or the like: a name whose attributes are numbers."""
    return isinstance(node, ast.Name) and node.id != "self"


def asks_tensor(tree: Tree, test: ast.expr) -> bool:
    """Whether a condition seems to hang on a tensor's value."""
    for node in walk(test):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = tree.qualified(node.func)
            last = node.func.attr
            if last in ASKS and (name is None or name.startswith("torch.")):
                return True
    return False


def parts_of(index: ast.expr) -> list[ast.expr]:
    """What an index gives for each dimension: two parts in `x[:, 0]`."""
    return index.elts if isinstance(index, ast.Tuple) else [index]


def is_mask(index: ast.expr, masks: Collection[str]) -> bool:
    """Whether an index picks the elements that a condition holds for; `masks` are names of such conditions."""
    for part in parts_of(index):
        if isinstance(part, ast.Compare) or (isinstance(part, ast.Name) and part.id in masks):
            return True
        if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Invert):
            return True
        if calls_method(part, "bool"):
            return True
    return False


def arguments(call: ast.Call) -> Iterator[ast.expr]:
    """What a call is given, by position or by name."""
    yield from call.args
    yield from (k.value for k in call.keywords)
