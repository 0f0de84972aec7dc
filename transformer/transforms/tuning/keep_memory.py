"""Keep the memory of a minibatch of images for the next one; free the rollout's rows before the first."""

from __future__ import annotations

import ast

from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.imports import add_imports
from transformer.syntax.query import walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.transforms.base import NotNeeded, Rewrite, Skip, Transform, TransformInfo

INFO = TransformInfo(
    name="keep-memory",
    brief="freed memory stays for the next minibatch",
    option="tune",
    summary="keep the memory of a minibatch of images for the next one",
    applies=("where networks with convolutions are trained, and the script leaves the C library's memory alone"),
    safety=(
        "Where freed memory waits for its next use changes no value: results are the same bits. It waits in the "
        "process instead of the system, which would take its pages in and zero them anew in each minibatch. At most "
        "256 MiB lie free at the heap's end, and blocks of 64 MiB and more go back at once. Other C libraries than "
        "glibc have no such call and are left alone. The rows that steps recorded are not read again once they are "
        "stacked."
    ),
    costs="The system zeroes the memory of each minibatch anew.",
    needs=(),
    before="for iteration in range(1, args.num_iterations + 1):\n    ...",
    after=(
        'libc = ctypes.CDLL(None) if sys.platform == "linux" else None\nif hasattr(libc, "mallopt"):\n'
        "    libc.mallopt(-3, 32 << 20)\n    libc.mallopt(-3, 64 << 20)\n    libc.mallopt(-1, 256 << 20)\n"
        "for iteration in range(1, args.num_iterations + 1):\n    ..."
    ),
)

ADDED = ("ctypes", "sys")
"""The modules that the emitted lines use."""


def apply(state: State) -> Rewrite:
    """Set the thresholds above the training loop.

    Raises:
        Skip: no large blocks come and go, or the script's own names or settings are in the way.
    """
    tree, roles = state.tree, state.roles
    nodes = (n for c in roles.network_classes for n in walk(c))
    if not any((tree.qualified(n) or "").startswith("torch.nn.Conv") for n in nodes):
        raise NotNeeded("no network that is trained, of a class of this file, has convolutions")
    for name in ADDED:
        if tree.names.taken(name) and tree.imports.get(name) != name:
            raise Skip(f"the name {name} is taken")
    for node in tree.of(ast.Attribute):
        if node.attr in ("mallopt", "malloc_trim"):
            raise NotNeeded(f"line {node.lineno} steers the C library's memory itself")
    edits = Edits(state.source)
    _free_rows(roles, edits)
    edits.before(roles.outermost, render("keep_memory", libc=tree.names.fresh("libc")), gap=1)
    add_imports(tree.root, edits, *(f"import {name}" for name in ADDED))
    return Rewrite(edits)


def _free_rows(roles: Roles, edits: Edits) -> None:
    """Empty the list of the rollout's rows below its last use, unless it goes with the function that has it."""
    tree = roles.tree
    name = roles.history.transitions
    uses = [n for n in walk(roles.outermost) if isinstance(n, ast.Name) and n.id == name]
    if not uses:
        return
    uses.sort(key=lambda n: n.lineno)
    first, last = tree.statement(uses[0]), tree.statement(uses[-1])
    if last in tree.block(first):
        edits.after(last, f"{name}.clear()  # the storage has copies; minibatches can use the memory")


TRANSFORM = Transform(INFO, apply)
