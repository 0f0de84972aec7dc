"""Make optimizers' steps capturable in a CUDA graph, under its flag."""

from __future__ import annotations

import ast

from transformer.recognition.history import Capturable
from transformer.recognition.learning_rate import RateUses
from transformer.recognition.optimizers import Optimizer
from transformer.state import State
from transformer.syntax.query import walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.syntax.tree import Tree
from transformer.transforms.base import Skip


def sets_up_rates(tree: Tree, stmt: ast.stmt, flag: str, optimizer: str | None = None) -> bool:
    """Whether a statement is the block that `tensor-lr` puts under a flag, for this optimizer or any."""
    if not isinstance(stmt, ast.If) or tree.text(stmt.test) != flag:
        return False
    loops = [s for s in stmt.body if isinstance(s, ast.For)]
    groups = [loop.iter for loop in loops if isinstance(loop.iter, ast.Attribute) and loop.iter.attr == "param_groups"]
    return any(optimizer in (None, tree.text(group.value)) for group in groups)


NOTHING = Capturable(argument=False, rate=False, loads=0)


def make_capturable(state: State, edits: Edits, flag: str, *, steps: bool) -> None:
    """Under --cudagraphs, keep rates in tensors; if graphs contain `steps`, keep rates and step counts on the device.

    Raises:
        Skip: it is not known where a checkpoint's state is loaded.
    """
    tree, roles, compiled = state.tree, state.roles, state.history.flags["compile"]
    for optimizer in roles.optimizers:
        needs = state.history.to_capture.get(optimizer.name, NOTHING) if steps else NOTHING
        if needs.argument:
            _add_argument(tree, edits, optimizer, f"capturable={flag}")
        for block in (stmt for stmt in tree.of(ast.If) if sets_up_rates(tree, stmt, compiled, optimizer.name)):
            moved = f', device={roles.device} if {flag} else "cpu")'
            rates = [n for n in walk(block) if tree.calls(n, "torch.tensor", "torch.as_tensor")] if needs.rate else []
            changes = [(n, tree.text(n)[:-1] + moved) for n in rates if isinstance(n, ast.Call)]
            edits.replace(block, tree.splice(block, [(block.test, f"{compiled} or {flag}"), *changes]))
        if not needs.argument or not needs.loads:
            continue
        loads = RateUses(roles, optimizer.name).loads
        if len(loads) != needs.loads:
            raise Skip(f"where {optimizer.name} is given a checkpoint's state is not known")
        for load in loads:
            fresh = {"group": tree.names.fresh("group"), "state": tree.names.fresh("state")}
            loaded = render("capturable_loaded", optimizer=optimizer.name, flag=flag, device=roles.device, **fresh)
            around = tree.block(load)
            below = around[around.index(load) + 1 :][:1]
            follows = below and sets_up_rates(tree, below[0], compiled, optimizer.name)
            edits.after(below[0] if follows else load, loaded)


def _add_argument(tree: Tree, edits: Edits, optimizer: Optimizer, argument: str) -> None:
    call, stmt = optimizer.call, optimizer.stmt
    arguments = [tree.text(a) for a in call.args]
    arguments += [f"{k.arg}={tree.text(k.value)}" for k in call.keywords]
    called = f"{tree.text(call.func)}({', '.join([*arguments, argument])})"
    edits.replace(stmt, f"{tree.text(stmt.targets[0])} = {called}")
