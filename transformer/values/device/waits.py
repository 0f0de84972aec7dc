"""What calls of torch, numpy or builtins do on the host, which a CUDA graph cannot contain.

A capture fails on any copy between host and device and on any synchronization.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from transformer.facts.libraries import library_does
from transformer.facts.torch_api import OF_HOST, TYPES, functions, names, of_parameters, others, works_on_host
from transformer.syntax.query import calls_method, children, walk
from transformer.syntax.tree import Tree

SYNCHRONIZES = names("tensor", "torch", waits=("value", "size"))
"""Methods and torch functions that synchronize: their results, or the sizes of the results, depend on values."""
VALUES = names("torch", waits="value")
"""Functions of torch that return True or False depending on a tensor's values."""
FACTORIES = functions("torch", made="on host", waits="")
"""Functions that make a tensor on the host unless given a device."""
CHECKED = functions("torch", waits="check")
"""Functions that read a tensor on the host to check it."""
KNOWN = names("torch", "functional", "linalg") | others("asks", "gradients", "autocast")
ASKS = (
    names("tensor", reduces=True)
    | names("tensor", dtype="bool", rows="element")
    | names("tensor", memory="number", waits="value")
    | names("tensor", memory="new", rows="element")
)
"""Methods that return a tensor; a condition on the result reads it on the host."""


def of_torch_function(tree: Tree, call: ast.Call) -> bool:
    """Whether a call is of one of torch's own functions, such as `torch.zeros()`, rather than a module's."""
    module, _, name = (tree.qualified(call.func) or "").rpartition(".")
    return module == "torch" and name.islower()


def of_torch(tree: Tree, call: ast.Call, name: str) -> str | None:
    """What a call of a torch function does on the host; None if it runs only on the device."""
    text, last = ast.unparse(call.func), name.rpartition(".")[2]
    places = [k.value for k in call.keywords if k.arg == "device"]
    if name in OF_HOST:
        return f"makes a tensor on the host: {ast.unparse(call)}"
    if name in FACTORIES and (not places or is_host(tree, places[0])):
        return f"makes a tensor on the host: {ast.unparse(call)}"
    for given in call.keywords:
        if given.arg in ("generator", "error_if_nonfinite"):
            return f"calls {text}() with {given.arg}, which the host reads"
    if library_does(name) == "processes":
        return "talks to other processes"
    if works_on_host(name):
        return f"calls {text}(), which works on the host"
    checks = name in CHECKED or (name.startswith("torch.linalg.") and not last.endswith("norm"))
    if checks or last == "MultivariateNormal":
        return f"calls {text}(), which reads its arguments on the host to check them"
    if last in VALUES:
        return f"calls {text}(), whose result the host reads"
    if last in SYNCHRONIZES or (name == "torch.where" and len(call.args) == 1):
        return f"calls {text}(), whose result's size depends on a tensor's values"
    if last.islower() and library_does(name) == "computes" and name not in of_parameters() and last not in KNOWN:
        return f"calls {text}(), which is not known to run only on the device"
    return None


def makes_on_host(tree: Tree, value: ast.expr, functions: Collection[str] = (*OF_HOST, "torch.arange")) -> bool:
    """Whether an expression makes a tensor by one of these functions, and leaves it on the host."""
    if not isinstance(value, ast.Call) or not tree.calls(value, *functions):
        return False
    return not any(k.arg == "device" for k in value.keywords)


def is_host(tree: Tree, node: ast.expr) -> bool:
    """Whether a dtype or a device puts a tensor on the host: "cpu", torch.device("cpu"), torch.FloatTensor."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.startswith("cpu") or node.value in TYPES
    if isinstance(node, ast.Call) and tree.calls(node, "torch.device"):
        return any(is_host(tree, a) for a in node.args)
    return tree.qualified(node) in TYPES


def is_host_number(tree: Tree, node: ast.expr) -> bool:
    """Whether an expression is known to be made of constants, tensor shapes or the script's arguments."""
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
        computes = computes_on_host(name) or name in ("int", "float", "min", "max", "sum", "abs", "tuple")
        return computes and all(is_host_number(tree, a) for a in node.args)
    if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List, ast.Compare)):
        return all(is_host_number(tree, n) for n in children(node) if isinstance(n, ast.expr))
    return False


def computes_on_host(name: str) -> bool:
    """Whether a function of a library computes with host numbers, without drawing random ones."""
    return library_does(name) == "computes" and not name.startswith("torch.")


def _is_arguments(node: ast.expr) -> bool:
    """Whether a node is `args` or a similar name, whose attributes are numbers."""
    return isinstance(node, ast.Name) and node.id != "self"


def asks_tensor(tree: Tree, test: ast.expr) -> bool:
    """Whether a condition appears to depend on a tensor's value."""
    for node in walk(test):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = tree.qualified(node.func)
            last = node.func.attr
            if last in ASKS and (name is None or name.startswith("torch.")):
                return True
    return False


def parts_of(index: ast.expr) -> list[ast.expr]:
    """The parts of an index, one per dimension: two in `x[:, 0]`."""
    return index.elts if isinstance(index, ast.Tuple) else [index]


def is_mask(index: ast.expr, masks: Collection[str]) -> bool:
    """Whether an index selects elements by a condition; `masks` are the names of such conditions."""
    for part in parts_of(index):
        if isinstance(part, ast.Compare) or (isinstance(part, ast.Name) and part.id in masks):
            return True
        if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Invert):
            return True
        if calls_method(part, "bool"):
            return True
    return False


def arguments(call: ast.Call) -> Iterator[ast.expr]:
    """The arguments of a call, positional and keyword."""
    yield from call.args
    yield from (k.value for k in call.keywords)
