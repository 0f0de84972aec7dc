"""Take what is made before and in the first iteration out of the garbage collector's view."""

from __future__ import annotations

import ast

from transformer.state import State
from transformer.syntax.imports import add_imports
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.transforms.base import NotNeeded, Rewrite, Skip, Transform, TransformInfo

INFO = TransformInfo(
    name="collect-once",
    brief="no garbage collection of old objects",
    option="tune",
    summary="take what exists after the first iteration out of the garbage collector's view",
    applies=(
        "where the script leaves the garbage collector alone and an iteration ends with the end of the loop's body"
    ),
    safety=(
        "Which objects the collector looks through changes no value. Garbage of the first iteration is collected "
        "before, and that of later ones as ever. The rows of a rollout are objects that are counted: every few "
        "iterations they would make the collector look through all of torch and of the compiled code, for a quarter "
        "of a second."
    ),
    costs="A pause of a quarter of a second every few iterations.",
    needs=("storage",),
    before="for iteration in range(1, args.num_iterations + 1):\n    ...",
    after=(
        "collected = False\nfor iteration in range(1, args.num_iterations + 1):\n    ...\n    if not collected:\n"
        "        gc.collect()\n        gc.freeze()\n        collected = True"
    ),
)


def apply(state: State) -> Rewrite:
    """Add the call at the end of the training loop.

    Raises:
        Skip: the script uses the collector itself, or no turn of the loop comes to its end.
    """
    tree = state.tree
    loop, last = state.roles.phases.loop, state.roles.phases.loop.body[-1]
    if "gc" in tree.imports:
        raise NotNeeded("the script uses the garbage collector itself")
    if tree.names.taken("gc"):
        raise Skip("the name gc is taken")
    if isinstance(last, (ast.Break, ast.Continue, ast.Return, ast.Raise)):
        raise Skip(f"the training loop ends with line {last.lineno}")
    edits, collected = Edits(state.source), tree.names.fresh("collected")
    edits.before(loop, f"{collected} = False")
    edits.after(last, render("collect_once", collected=collected))
    add_imports(tree.root, edits, "import gc")
    return Rewrite(edits)


TRANSFORM = Transform(INFO, apply)
