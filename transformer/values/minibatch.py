"""Which statements of the minibatch loop belong to a minibatch's computation."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence, Set

from transformer.dataflow.access import scope_access
from transformer.recognition.off_policy import makes_of_arrays
from transformer.recognition.roles import Roles
from transformer.syntax.query import calls_method, names_in, walk
from transformer.syntax.tree import Tree
from transformer.values.tensors import Tensors


def makes_sampler(tree: Tree, node: ast.AST, kind: str) -> bool:
    """Whether a node is a call that makes a torch sampler. BatchSampler yields lists of indices."""
    name = (tree.qualified(node.func) or "") if isinstance(node, ast.Call) else ""
    return name.startswith("torch.utils.data.") and name.endswith(f".{kind}")


def first_computation(roles: Roles) -> int | None:
    """The index, in the loop's body, of the first statement that computes with tensors; None if there is none."""
    tensors = roles.get(Tensors)
    body = roles.minibatch_loop.body
    computing = {i for i, s in enumerate(body) if _computes(tensors, s) or _calls_network(roles, s)}
    first = min(computing | _makes_loss(roles.tree, body, computing), default=None)
    while first is not None and roles.made_elsewhere and makes_of_arrays(roles.tree, body[first]):
        first += 1  # the samples of a buffer of arrays, next to optimizers that an object keeps
    return first


def last_step(roles: Roles) -> int | None:
    """The index of the last statement that steps an optimizer, or that clears gradients after it; None if there is
    none."""
    body = roles.minibatch_loop.body
    steps = [i for i, s in enumerate(body) if any(n in roles.optimizer_steps for n in walk(s))]
    if not steps:
        return None
    last = steps[-1]
    while last + 1 < len(body) and _clears(body[last + 1]):
        last += 1
    return last


def _clears(stmt: ast.stmt) -> bool:
    """Whether a statement does nothing but clear gradients."""
    call = stmt.value if isinstance(stmt, ast.Expr) else None
    return calls_method(call, "zero_grad")


def _computes(tensors: Tensors, stmt: ast.stmt) -> bool:
    return any(
        tensors.tensor(n) or tensors.produced(n)
        for n in walk(stmt)
        if isinstance(n, (ast.Call, ast.Subscript, ast.BinOp))
    )


def _makes_loss(tree: Tree, body: Sequence[ast.stmt], computing: Set[int]) -> set[int]:
    """The indices of statements that get the loss from another function: its graph must not enter update()."""
    found: set[int] = set()
    needed: set[str] = set()
    for i in reversed(range(len(body))):
        own = scope_access([body[i]])
        if own.binds & needed and i not in computing:
            if any(isinstance(n, ast.Call) and _may_compute(tree, n) for n in walk(body[i])):
                found.add(i)
            else:
                needed |= own.reads
        for node in walk(body[i]):
            if calls_method(node, "backward"):
                needed |= names_in([node.func.value])
    return found


def _may_compute(tree: Tree, call: ast.Call) -> bool:
    """Whether a call may return tensors with a graph: it is not of a builtin, numpy or `random`."""
    module = (tree.qualified(call.func) or "").partition(".")[0]
    return module not in ("numpy", "random") and not (
        isinstance(call.func, ast.Name) and hasattr(builtins, call.func.id)
    )


def _calls_network(roles: Roles, stmt: ast.stmt) -> bool:
    """Whether a statement calls a network such as `self.agent`, whose result would bring its graph into update().

    The training loop may know an object's `self.agent` as `trainer.agent`; if the optimizer holds `self.policy.actor`,
    a method of `trainer.policy` may call it.
    """
    calls = [ast.unparse(n.func) for n in walk(stmt) if isinstance(n, ast.Call)]
    paths = {*roles.networks, *(roles.with_parameters if roles.made_elsewhere else ())}
    parts = {path.removeprefix("self.") for path in paths if path.startswith("self.")}
    called = ((call, call.partition(".")[2]) for call in calls)
    return any(_is_in(call, paths) or _is_in(part, parts) or _holds_one(part, parts) for call, part in called)


def _holds_one(call: str, paths: Set[str]) -> bool:
    """Whether the method's object contains one of some paths."""
    owner = call.rpartition(".")[0]
    return bool(owner) and any(path.startswith(f"{owner}.") for path in paths)


def _is_in(call: str, paths: Set[str]) -> bool:
    return any(call == path or call.startswith(f"{path}.") for path in paths)
