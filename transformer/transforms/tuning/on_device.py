"""Make constants and casts directly on the device, if the script makes them on the host and then moves them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.facts.torch_api import OF_TYPE, functions
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import calls_method, children, parameters, statements, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.tree import Tree
from transformer.transforms.base import BOTH, NotNeeded, Rewrite, Transform, TransformInfo
from transformer.values.device.waits import of_torch_function, parts_of

INFO = TransformInfo(
    name="on-device",
    brief="constants are made on the device",
    summary="make constants and casts on the device instead of on the host",
    applies=(
        "to numbers and filled tensors that are made and moved in one expression; to `.type()` with a CPU tensor type "
        "whose result is moved; to lists of consecutive numbers in an index that is written to; and to torch.arange() "
        "in an index of what torch has just computed. It applies outside the rollout, and in the networks' methods"
    ),
    safety=(
        "A constant has the same value and dtype wherever it is made, and a cast rounds to nearest on both sides. An "
        "index that lists consecutive numbers selects the same elements as a slice. The removed copies between host "
        "and device waited for the device, and kept CUDA graphs from being captured. Random numbers stay where they "
        "are drawn."
    ),
    costs=(
        "Constants made on the host are copied each time: make them on the device, as by `torch.tensor(x, "
        "device=device)`."
    ),
    needs=(),
    before=(
        "mask = (mask < args.update_proportion).type(torch.FloatTensor).to(device)\n"
        "loss = (loss * mask).sum() / torch.max(mask.sum(), torch.tensor([1.0], device=device))"
    ),
    after=(
        "mask = (mask < args.update_proportion).to(device, torch.float32)\n"
        "loss = (loss * mask).sum() / torch.max(mask.sum(), torch.full((1,), 1.0, device=device))"
    ),
)

FILLED = functions("torch", fills="sizes")
"""Functions that fill a tensor with one number."""
MADE = functions("torch", made=("of host", "on host"))


def apply(state: State) -> Rewrite:
    """Rewrite the advantages, the update, and the networks' methods.

    Raises:
        Skip: nothing there is made on the host.
    """
    edits = Edits(state.source)
    for stmt in _computing(state.roles):
        changes = [c for n in _own_nodes(stmt) if (c := _made_on_device(state.roles, n)) is not None]
        for node, text in changes:
            if not any(node is not other and node in walk(other) for other, _ in changes):
                edits.substitute(node, text)
    if not edits:
        nodes = (n for stmt in _computing(state.roles) for n in _own_nodes(stmt))
        left = next((n.lineno for n in nodes if isinstance(n, ast.Call) and _is_moved(state.roles, n)), None)
        if left is not None:
            raise NotNeeded(f"line {left} makes a tensor on the host that is not one constant number, and moves it")
        raise NotNeeded("advantages, update and networks make nothing on the host and move it")
    return Rewrite(edits)


def _computing(roles: Roles) -> Iterator[ast.stmt]:
    """The statements of networks' methods, and of the training loop outside the rollout, or off-policy its updates."""
    phases = roles.phases
    for region in phases.regions:
        yield from statements(region.statements)
    for stmt in () if phases.regions else phases.block:
        if stmt is not phases.collect:
            yield from statements([stmt])
    for cls in roles.network_classes:
        for method in cls.body:
            once = isinstance(method, ast.FunctionDef) and method.name == "__init__" and not roles.is_distribution(cls)
            if isinstance(method, ast.FunctionDef) and not once:
                yield from statements(method.body)


def _own_nodes(stmt: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement, without those of statements inside it."""
    stack: list[ast.AST] = [stmt]
    while stack:
        node = stack.pop()
        yield node
        stack += [n for n in children(node) if not isinstance(n, (ast.stmt, ast.excepthandler))]


def _is_moved(roles: Roles, node: ast.AST) -> bool:
    """Whether an expression moves to the device a tensor that a function of torch makes on the host."""
    if not calls_method(node, "to"):
        return False
    return roles.tree.calls(node.func.value, *MADE) and any(_is_device(roles, place) for place in node.args)


def _made_on_device(roles: Roles, node: ast.AST) -> tuple[ast.expr, str] | None:
    """An expression that makes a tensor on the host and moves it, and the text that makes it on the device."""
    tree = roles.tree
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        return _written_slice(node)
    if not isinstance(node, ast.Call):
        return None
    if tree.calls(node, "torch.arange"):
        return _arange_of_index(tree, node)
    if tree.calls(node, "torch.tensor") and (place := _keyword(node, "device")) is not None:
        filled = _filled(tree, node, tree.text(place))
        return (node, filled) if filled else None
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "to" or node.keywords or len(node.args) != 1:
        return None
    place, made, text = node.args[0], node.func.value, tree.text
    if not isinstance(made, ast.Call) or not _is_device(roles, place):
        return None
    if tree.calls(made, "torch.tensor") and _keyword(made, "device") is None:
        filled = _filled(tree, made, text(place))
        return (node, filled) if filled else None
    if tree.calls(made, *FILLED) and _keyword(made, "device") is None and not _starred(made):
        return node, f"{text(made)[:-1].rstrip().rstrip(',')}, device={text(place)})"
    if isinstance(made.func, ast.Attribute) and made.func.attr == "type" and len(made.args) == 1 and not made.keywords:
        kind = tree.qualified(made.args[0]) or ""
        if kind in OF_TYPE:
            module = text(made.args[0]).rpartition(".")[0]
            cast = made.func.value
            bare = isinstance(cast, (ast.Name, ast.Attribute, ast.Subscript, ast.Call))
            return node, f"{text(cast) if bare else f'({text(cast)})'}.to({text(place)}, {module}.{OF_TYPE[kind]})"
    return None


def _written_slice(stmt: ast.Assign | ast.AugAssign) -> tuple[ast.expr, str] | None:
    """A list of consecutive indices that a statement writes to, and the equivalent slice.

    Reading by a list returns a copy, by a slice a view; writing by either changes the same memory.
    """
    targets = stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target]
    if len(targets) > 1 or not isinstance(targets[0], ast.Subscript):
        return None
    index = targets[0].slice
    lists = [p for p in parts_of(index) if not isinstance(p, ast.Slice)]
    if len(lists) != 1 or not isinstance(lists[0], ast.List):
        return None
    numbers = [e.value for e in lists[0].elts if isinstance(e, ast.Constant) and type(e.value) is int]
    if not numbers or numbers != list(range(numbers[0], numbers[0] + len(lists[0].elts))):
        return None
    return lists[0], f"{numbers[0]}:{numbers[-1] + 1}"


def _arange_of_index(tree: Tree, call: ast.Call) -> tuple[ast.expr, str] | None:
    """`torch.arange(n)` as an index of a tensor, and its text with the tensor's device; the tensor must be a name that
    is bound once, to the result of a torch function."""
    outer = tree.parents[call]
    subscript = tree.parents[outer] if isinstance(outer, ast.Tuple) else outer
    if not isinstance(subscript, ast.Subscript) or call not in parts_of(subscript.slice):
        return None
    name, scope = subscript.value, tree.scope_of(call)
    if len(call.args) != 1 or call.keywords or not isinstance(name, ast.Name) or not isinstance(scope, ast.FunctionDef):
        return None
    stored = [n for n in walk(scope) if isinstance(n, ast.Name) and n.id == name.id and not isinstance(n.ctx, ast.Load)]
    made = [s.value for s in statements(scope.body) if isinstance(s, ast.Assign) and stored and s.targets == stored[:1]]
    once = len(stored) == len(made) == 1 and name.id not in parameters(scope)
    if not once or not isinstance(made[0], ast.Call) or not of_torch_function(tree, made[0]):
        return None
    return call, f"{tree.text(call)[:-1].rstrip().rstrip(',')}, device={name.id}.device)"


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == name), None)


def _starred(call: ast.Call) -> bool:
    return any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)


def _is_device(roles: Roles, node: ast.expr) -> bool:
    """Whether an argument of `.to()` is a device: the script's, or that of another tensor."""
    return ast.unparse(node) == roles.device or (isinstance(node, ast.Attribute) and node.attr == "device")


def _filled(tree: Tree, call: ast.Call, place: str) -> str | None:
    """`torch.full()` for `torch.tensor()` of one number, perhaps in lists of one element."""
    if len(call.args) != 1 or any(k.arg not in ("device", "dtype") for k in call.keywords):
        return None
    value, sizes = call.args[0], ""
    while isinstance(value, ast.List) and len(value.elts) == 1:
        value, sizes = value.elts[0], sizes + "1, "
    number = value.operand if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub) else value
    if not isinstance(number, ast.Constant) or not isinstance(number.value, (int, float)):
        return None
    if isinstance(number.value, bool) and number is not value:
        return None
    shape = f"({sizes.strip() if sizes.count(',') == 1 else sizes.strip(', ')})"
    module = ast.unparse(call.func).rpartition(".")[0]
    dtype = _keyword(call, "dtype")
    given = f", dtype={tree.text(dtype)}" if dtype is not None else ""
    return f"{module}.full({shape}, {tree.text(value)}{given}, device={place})"


TRANSFORM = Transform(INFO, apply, BOTH)
