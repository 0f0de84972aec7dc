"""Environments on the device, which return torch tensors."""

from __future__ import annotations

import ast

from transformer.recognition.buffers import find_buffers
from transformer.recognition.roles import Roles
from transformer.syntax.query import walk
from transformer.values.tensors import Tensors


def find_tensor_env(roles: Roles) -> str | None:
    """The environment, as written, if its steps take and return tensors; None if that is not certain.

    It is certain if it is stepped with a network's unmodified tensor, and its unmodified observations go into a network
    and into a torch buffer, which does not accept arrays.
    """
    step = roles.phases.env_step
    if roles.kind == "update":
        return None
    stmt = roles.tree.statement(step)
    if not isinstance(stmt, ast.Assign) or stmt.value is not step or not isinstance(step.func, ast.Attribute):
        return None
    tensors, target = roles.get(Tensors), stmt.targets[0]
    if not step.args or not tensors.tensor(step.args[0]) or not isinstance(target, ast.Tuple) or len(target.elts) < 4:
        return None
    observed = target.elts[0]
    if not isinstance(observed, ast.Name):
        return None

    def is_it(node: ast.expr) -> bool:
        same = isinstance(node, ast.Name) and node.id == observed.id
        return same and stmt in tensors.bindings(observed.id, roles.tree.statement(node))

    stored = any(is_it(store.value) for buffer in roles.get(find_buffers) for store in buffer.stores)
    calls = [n for n in walk(roles.phases.collect) if isinstance(n, ast.Call) and tensors.produced(n)]
    given = any(is_it(argument) for call in calls for argument in call.args)
    return ast.unparse(step.func.value) if stored and given else None
