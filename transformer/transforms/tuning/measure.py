"""Show the speed after burn-in in a progress bar."""

from __future__ import annotations

import ast

from transformer.state import State
from transformer.syntax.imports import add_imports
from transformer.syntax.query import is_number
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.syntax.tree import Tree
from transformer.transforms.base import NotNeeded, Rewrite, Skip, Transform, TransformInfo

INFO = TransformInfo(
    name="measure",
    brief="steps per second in a progress bar",
    option="measure",
    summary="show steps per second after burn-in in a progress bar",
    applies=(
        "when the training loop runs over a range, the rollout has a step counter that begins at 0, and the script "
        "shows no progress bar of its own"
    ),
    safety="It reads the step counter and the clock and writes to standard error; the script's own logging stays.",
    costs="No speed is shown: let the training loop be `for iteration in range(...)`, or ask `lean-convert bench`.",
    needs=("flags",),
    before="for iteration in range(1, args.num_iterations + 1):\n    ...",
    after=(
        "pbar = tqdm.tqdm(range(1, args.num_iterations + 1))\nfor iteration in pbar:\n"
        "    if iteration == args.measure_burnin + 1:\n"
        "        burnin_step, burnin_time = global_step, time.perf_counter()\n"
        "    elif iteration > args.measure_burnin + 1:\n        speed = ...\n"
        '        pbar.set_description(f"{speed:.0f} steps/s")\n    ...'
    ),
)


def apply(state: State) -> Rewrite:
    """Wrap the training loop's range.

    Raises:
        Skip: the loop is not over a range, or the script has a progress bar.
    """
    tree = state.tree
    loop = state.roles.phases.loop
    if any(q.split(".")[0] in ("tqdm", "progressbar", "alive_progress") for q in tree.imports.values()):
        raise NotNeeded("the script has a progress bar of its own")
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
        raise Skip("the training loop is not a for loop over iterations")
    if not isinstance(loop.iter, ast.Call) or ast.unparse(loop.iter.func) != "range" or len(loop.iter.args) > 2:
        raise Skip("the training loop does not run over a range of iterations")
    counter = state.roles.step_counter
    if counter is None:
        raise Skip("no counter of environment steps that begins at 0 was found in the rollout")
    for module in ("time", "tqdm"):
        if tree.names.taken(module) and not _is_only_module(tree, module):
            raise Skip("the name time or tqdm has another meaning")
    start = loop.iter.args[0] if len(loop.iter.args) == 2 else ast.Constant(0)
    burnin = state.history.flags["measure_burnin"]
    first = burnin if is_number(start, 0) else f"{burnin} + {tree.text(start)}"
    names = tree.names
    edits = Edits(state.source)
    pbar = names.fresh("pbar")
    hidden = f", disable={state.history.rank} > 0" if state.history.rank else ""  # one process shows it for all
    edits.before(loop, f"{pbar} = tqdm.tqdm({tree.text(loop.iter)}{hidden})")
    edits.substitute(loop.iter, pbar)
    edits.before(
        loop.body[0],
        render(
            "measure", iteration=loop.target.id, first=first, counter=counter, pbar=pbar, speed=names.fresh("speed"),
            step=names.fresh("burnin_step"), time=names.fresh("burnin_time"),
        ),
    )  # fmt: skip
    add_imports(tree.root, edits, "import time", "import tqdm")
    return Rewrite(edits)


def _is_only_module(tree: Tree, name: str) -> bool:
    """Whether a name is an imported module and nothing else in the file."""
    rebound = any(isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load) for n in tree.nodes)
    return tree.imports.get(name) == name and not rebound


TRANSFORM = Transform(INFO, apply)
