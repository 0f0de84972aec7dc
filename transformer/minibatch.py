"""Which statements of the minibatch loop belong to the computation of a minibatch."""

from __future__ import annotations

import ast

from transformer.kinds import Kinds
from transformer.script import Script


def first_computation(script: Script) -> int | None:
    """The place, in the loop's body, of the first statement that computes with tensors; None where none does."""
    kinds = Kinds(script)
    body = script.minibatch_loop.body
    return next((i for i, s in enumerate(body) if _computes(kinds, s) or _calls_network(script, s)), None)


def last_step(script: Script) -> int | None:
    """The place of the last statement that steps an optimizer; None where none does."""
    body = script.minibatch_loop.body
    steps = [i for i, s in enumerate(body) if any(n in script.optimizer_steps for n in ast.walk(s))]
    return steps[-1] if steps else None


def _computes(kinds: Kinds, stmt: ast.stmt) -> bool:
    return any(
        kinds.tensor(n) or kinds.produced(n)
        for n in ast.walk(stmt)
        if isinstance(n, (ast.Call, ast.Subscript, ast.BinOp))
    )


def _calls_network(script: Script, stmt: ast.stmt) -> bool:
    """Whether a statement calls `self.agent`, say: what that returns must not enter update() with its graph."""
    calls = [ast.unparse(n.func) for n in ast.walk(stmt) if isinstance(n, ast.Call)]
    return any(call == path or call.startswith(f"{path}.") for call in calls for path in script.networks)
