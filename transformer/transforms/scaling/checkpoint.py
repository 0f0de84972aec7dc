"""Add checkpoints from which a killed run continues."""

from __future__ import annotations

import ast
from dataclasses import replace

from transformer.facts.libraries import module_methods
from transformer.facts.torch_api import attributes
from transformer.state import State
from transformer.syntax.imports import add_imports
from transformer.syntax.query import walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.syntax.tree import Tree
from transformer.transforms.base import BOTH, NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.compiling.flags import add_flag
from transformer.values.checkpoints.lasting import Lasting

INFO = TransformInfo(
    name="checkpoint",
    brief="--checkpoint-every N: killed runs continue",
    option="checkpoint",
    summary="add --checkpoint-every, with which a killed run continues when it is started again",
    applies=(
        "when the training loop runs over a range, the script loads no checkpoint of its own, and everything that "
        "persists across iterations is of a kind that can be saved and restored completely (networks, optimizers, "
        "schedulers, numbers, lists of numbers, tensors, arrays), is only reported, or belongs to environments and "
        "their episodes"
    ),
    safety=(
        "Off by default. Saving changes and draws nothing: the run computes the same bits with it. Networks, "
        "optimizers, counters, learning rates, lists of numbers, tensors, arrays and random states continue as they "
        "were. Environments are reset and begin new episodes, and their state and lists of past episodes start again, "
        "so from there on a killed run differs from one that was not. A checkpoint is read back once before it "
        "replaces the previous one, which is kept next to it. Its file is readable by its user only and belongs to "
        "one command line, which can run only once at a time; reading it executes nothing."
    ),
    costs="A killed run starts from the beginning: save and load by hand what the reason names.",
    needs=("flags",),
    before="for iteration in range(1, args.num_iterations + 1):\n    ...",
    after=(
        "first_iteration = 1\nif args.checkpoint_every and os.path.exists(checkpoint):\n"
        '    state = load_checkpoint(checkpoint)\n    first_iteration = state["iteration"]\n    ...\n'
        "for iteration in range(first_iteration, args.num_iterations + 1):\n"
        "    if args.checkpoint_every and ...:\n        save_checkpoint(checkpoint, {...})\n    ..."
    ),
)


NORMALIZING = ("NormalizeObservation", "NormalizeReward", "VecNormalize")
"""Wrappers of environments with statistics that training uses; the statistics restart with the environments."""

_OF_ENVIRONMENTS = {
    "kinds": "KNOWN_ENVIRONMENTS",
    "made": "SAME_IN_EACH_RUN",
    "known": "is_known",
    "only": "keeps_nothing",
    "attributes": "attributes_of",
    "frozen": "frozen",
    "thawed": "thawed",
    "keep": "keep_environments",
    "put_back": "put_back_environments",
    "if_known": "frozen_if_known",
    "began": "anew",
    "episodes_kept": "episodes",
}
"""Names in the emitted functions that save environments and what is only reported, by the templates' names."""

MODES = module_methods(sets=("mode", "learning")) | attributes(tells=True, memory="number")


def apply(state: State) -> Rewrite:
    """Save at the start of iterations; load above the loop.

    Raises:
        Skip: the loop is not over a range of its own, or something of unknown kind lives across its iterations.
    """
    tree, roles = state.tree, state.roles
    loop = roles.phases.loop
    if roles.kind == "off-policy":
        raise Skip(f"{roles.phases.replay} keeps steps, which no checkpoint saves")
    before = [n for stmt in (*roles.setup, roles.outermost) for n in walk(stmt)]
    own = next((n for n in before if isinstance(n, ast.Call) and tree.calls(n, "torch.load")), None)
    if own is not None:
        raise NotNeeded(f"line {own.lineno} loads a checkpoint of the script's own")
    counting = _range(tree, loop)
    if loop is not roles.outermost:
        raise Skip(f"the loop on line {roles.outermost.lineno} contains the training loop")
    lasting = roles.get(Lasting)
    if lasting.obstacles:
        raise Skip("; ".join(dict.fromkeys(f"line {n.lineno}: {why}" for n, why in lasting.obstacles)))  # type: ignore[attr-defined]
    assert isinstance(loop, ast.For)
    distributed = any((tree.qualified(n) or "").startswith("torch.distributed.") for n in tree.of(ast.Attribute))
    of_ranks = [*lasting.tensors, *lasting.arrays, *lasting.lists]
    if distributed and of_ranks:
        raise Skip(f"each process has its own {', '.join(of_ranks)}, and one of them writes checkpoints")
    numpy = _module(tree, "numpy")
    environments = [name for name in lasting.anew if name in lasting.environments]
    if not (numpy and lasting.may_be_known):
        environments = []
    reported = [] if distributed or not numpy else list(lasting.reported)
    lost = () if environments else NORMALIZING
    anew = [
        *lasting.anew,
        *(name for name in lasting.reported if name not in reported),
        *(f"{name}'s statistics" for name in lost if name in tree.mentioned),
    ]
    edits, names = Edits(state.source), tree.names
    every = add_flag(state, edits, "checkpoint_every")
    if every is None:
        raise Skip("the script defines no arguments that --checkpoint-every could join")
    first, start = names.fresh("first_iteration"), tree.text(counting.args[0]) if len(counting.args) == 2 else "0"
    values = {
        "save": names.fresh("save_checkpoint"),
        "lock": names.fresh("lock_checkpoint"),
        "plain": names.fresh("plain_numbers"),
        "stop": names.fresh("stop"),
        "held": names.fresh("lock"),
        "ending": names.fresh("ending"),
        "part": names.fresh("part"),
        "mode": names.fresh("mode"),
        "load": names.fresh("load_checkpoint"),
        "path": names.fresh("checkpoint"),
        "state": names.fresh("state"),
        "every": every,
        "iteration": tree.text(loop.target),
        "first": first,
        "start": start,
        "numbers": list(lasting.numbers),
        "holders": list(lasting.holders),
        "modes": list(lasting.networks) if _sets_modes(tree) else [],
        "tensors": list(lasting.tensors),
        "arrays": list(lasting.arrays),
        "lists": list(lasting.lists),
        "anew": ", ".join(anew),
        "anew_names": ", ".join(f'"{name}"' for name in anew),
        "reported": reported,
        "dicts": [name for name, is_dict in lasting.reported.items() if is_dict],
        "clocks": {name: tree.text(clock) for name, clock in lasting.clocks.items()},
        "device": roles.device or "",
        "distributed": distributed,
        "found": names.fresh("found"),
        "environments": "{" + ", ".join(f'"{name}": {name}' for name in environments) + "}" if environments else "",
        "episodes": [name for name in lasting.anew if name not in lasting.environments],
        **{name: names.fresh(fresh) for name, fresh in _OF_ENVIRONMENTS.items()},
        "script": names.fresh("script"),
        "numpy": numpy or "numpy",
        "imports_numpy": bool(numpy),
        "random": _module(tree, "random") or "random",
        "imports_random": bool(_module(tree, "random")),
    }
    functions = {
        "checkpoint_values": environments or reported,
        "checkpoint_environments": environments,
        "checkpoint_functions": True,
    }
    text = "\n\n".join(render(name, **values) for name, needed in functions.items() if needed)
    edits.before(_statement_that_trains(state), text, gap=2)
    edits.before(loop, render("checkpoint_load", **values), gap=1)
    edits.before(loop.body[0], render("checkpoint_save", **values), gap=1)
    block = tree.block(loop)
    done = render("checkpoint_done", **values)
    if isinstance(block[-1], ast.Return):
        edits.before(block[-1], done)
    else:
        edits.after(block[-1], done)
    edits.substitute(counting, f"range({', '.join([first, tree.text(counting.args[-1])])})")
    add_imports(tree.root, edits, "import hashlib", "import os", "import sys")
    if environments or reported:
        add_imports(tree.root, edits, "import collections")
    unless = ", unless the environments are known" if environments else ""
    notes = [f"{', '.join(anew)} begin anew when a run goes on{unless}."] if anew else []
    return Rewrite(
        edits, replace(state.history, flags={**state.history.flags, "checkpoint_every": every}), tuple(notes)
    )


def _range(tree: Tree, loop: ast.stmt) -> ast.Call:
    """The range of a loop.

    Raises:
        Skip: there is none, or it does not count by one.
    """
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
        raise Skip(f"the training loop on line {loop.lineno} is not a for loop over iterations")
    found = [n for n in walk(loop.iter) if isinstance(n, ast.Call) and tree.names.builtin(n.func) == "range"]
    if len(found) != 1 or len(found[0].args) not in (1, 2) or found[0].keywords:
        raise Skip(f"the training loop on line {loop.lineno} does not run over one range of iterations")
    if found[0] is not loop.iter and not (tree.qualified(getattr(loop.iter, "func", loop)) or "").startswith("tqdm."):
        raise Skip(f"the training loop on line {loop.lineno} does something else with its range")
    return found[0]


def _sets_modes(tree: Tree) -> bool:
    """Whether the script mentions state of a network outside its state_dict(): training mode, or `requires_grad`."""
    return any(node.attr in MODES for node in tree.of(ast.Attribute))


def _module(tree: Tree, module: str) -> str:
    """The name that a module is imported by; "" if it is not."""
    return next((name for name, imported in tree.imports.items() if imported == module), "")


def _statement_that_trains(state: State) -> ast.stmt:
    """The statement of the module that contains the training."""
    around = [state.roles.outermost, *state.tree.ancestors(state.roles.outermost)]
    return next(n for n in around if isinstance(n, ast.stmt) and n in state.tree.root.body)


TRANSFORM = Transform(INFO, apply, BOTH)
