"""Train in several processes started by torchrun: gradients are averaged, decisions are made together."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.imports import add_below_imports, add_imports
from transformer.syntax.query import method, statements, unparse, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.transforms.base import NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.scaling.agreement import Agreement
from transformer.transforms.scaling.rank_zero import RankZero
from transformer.transforms.scaling.shares import Shares

INFO = TransformInfo(
    name="distribute",
    brief="trains in several processes under torchrun",
    option="distribute",
    summary="train in the processes that torchrun starts: environments are divided, gradients averaged",
    applies=(
        "when every use of the number of environments, and of sizes derived from it, is known to mean either all "
        "processes or one; one backward pass precedes the optimizers' steps; every decision in the training loop "
        "follows from options and counters, or compares numbers with limits; and the script learns from data only "
        "through gradients"
    ),
    safety=(
        "A single process, under torchrun or not, runs the statements of the original. Of several, each steps its "
        "share of the environments and trains on its share of each minibatch. All start with rank 0's parameters, use "
        "the mean of all gradients at each step, and compare the mean of their numbers with limits, so they take the "
        "same steps and keep the same parameters. Rank 0 logs, prints, records and saves."
    ),
    costs="Only one process trains: average gradients by hand, or rewrite what is named in a known form.",
    needs=(),
    before="loss.backward()\noptimizer.step()",
    after="loss.backward()\naverage_gradients(optimizer)\noptimizer.step()",
)

TALKING = frozenset("torch.distributed accelerate deepspeed horovod mpi4py lightning pytorch_lightning ray".split())
"""Modules for communication between processes."""


def apply(state: State) -> Rewrite:
    """Make the script train in several processes.

    Raises:
        Skip: it is not known to train alike in all of them.
        NotNeeded: it already communicates with other processes.
    """
    tree, roles, history = state.tree, state.roles, state.history
    known = [*tree.imports.values(), *(tree.qualified(node) or "" for node in tree.of(ast.Attribute))]
    if talks := next((q for q in known for t in TALKING if f"{q}.".startswith(f"{t}.")), None):
        raise NotNeeded(f"the script talks to other processes itself, with {talks}")
    for name in ("os", "sys"):
        if tree.names.taken(name) and tree.imports.get(name) != name:
            raise Skip(f"the name {name} is not the standard module")
    edits, names = Edits(state.source), tree.names
    rank, world = names.fresh("rank"), names.fresh("world_size")
    average, mean, silent = names.fresh("average_gradients"), names.fresh("rank_mean"), names.fresh("Silent")
    if history.auxiliary or len(history.all_updates) > 1:
        raise Skip("several functions update networks, each with its own gradients")
    alone = RankZero(roles, edits, rank, silent)
    alone.unshared()
    alone.leave()
    shares = Shares(roles, edits, rank, world)
    shares.divide()
    agreement = Agreement(roles, edits, mean)
    agreement.decide_together()
    agreement.log_of_all()
    optimizers = _average(roles, edits, average)
    _join(roles, edits, shares, rank, world, names.fresh("tensor"))
    _leave(roles, edits, rank, world)
    _capture_alone(roles, edits, world)
    code = render(
        "over_ranks",
        world=world,
        silent=silent if alone.silenced else None,
        mean=mean if agreement.used else None,
        average=average,
        several=len(optimizers) > 1,
    )
    add_imports(tree.root, edits, "import os", "import sys")
    add_below_imports(tree.root, edits, f"{render('ranks', rank=rank, world=world)}\n\n{code}")
    notes = ["advantages are normalised by each process, over its share of a minibatch"]
    if wrappers := alone.wrappers():
        notes.append(f"{' and '.join(wrappers)} normalise by what the environments of one process have seen")
    return Rewrite(edits, replace(history, rank=rank), notes=tuple(notes))


def _average(roles: Roles, edits: Edits, average: str) -> Sequence[str]:
    """Average the gradients after they are computed; returns the optimizers that use them.

    Raises:
        Skip: they are not all computed side by side, by statements of the update that always run.
    """
    tree, function = roles.tree, roles.history.functions.get("update")
    place: ast.AST = tree.definition(function.name) if function else roles.minibatch_loop
    block = place.body if isinstance(place, (ast.FunctionDef, ast.For, ast.While)) else []
    traced = {n for n in roles.history.on_device if n.startswith("backward")}
    passes = [
        stmt
        for stmt in statements(block)
        if isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Call)
        if method(stmt.value) == "backward" or unparse(stmt.value.func) in traced
    ]
    found = sum(method(n) == "backward" or (isinstance(n, ast.Name) and n.id in traced) for n in walk(place))
    if not passes or len(passes) != found or any(stmt not in block for stmt in passes):
        raise Skip("the gradients are not computed by separate statements of the minibatch that always run")
    first, last = block.index(passes[0]), block.index(passes[-1])
    if last - first != len(passes) - 1:
        raise Skip(
            f"between the backward passes on line {passes[0].lineno} and line {passes[-1].lineno} is something else"
        )
    whole = walk(ast.parse(roles.history.original))
    if found != sum(method(n) == "backward" for n in whole) or any(getattr(n, "attr", "") == "autograd" for n in whole):
        raise Skip("gradients are also computed elsewhere, or by torch.autograd")
    optimizers = list(dict.fromkeys(o.name for o in roles.optimizers))
    edits.after(passes[-1], f"{average}({', '.join(optimizers)})")
    return optimizers


def _join(roles: Roles, edits: Edits, shares: Shares, rank: str, world: str, tensor: str) -> None:
    """Check the sizes, connect the processes, and give all of them the first one's parameters.

    Raises:
        Skip: the networks are not made above the training loop.
    """
    sources = shares.sources()
    sized = [
        s
        for s in roles.setup
        if isinstance(s, (ast.Assign, ast.AnnAssign)) and _sets_size(s, {n.partition(".")[0] for n in sources}, sources)
    ]
    devices = [s for s in roles.setup if isinstance(s, ast.Assign) and unparse(s.targets[0]) == roles.device]
    made = [s for s in roles.setup if any(o.stmt in walk(s) for o in roles.optimizers)]
    if not made:
        raise Skip("the optimizers are not made above the training loop")
    if roles.device is not None and len(devices) != 1:
        raise Skip(f"{roles.device}, the networks' device, is not set exactly once above the training loop")
    test = " or ".join(f"{source} % {world}" for source in sources)
    told = " and ".join(f"{source} ({{{source}}})" for source in sources)
    check = render("share_evenly", test=test, told=told, world=world)
    place = max(sized, key=roles.setup.index, default=None)
    if place is None:
        edits.before(made[0], check, gap=1)
    else:
        edits.after(place, check)
    device = roles.device if devices else None
    join = render("join_ranks", world=world, device=device)
    if devices:
        edits.after(devices[0], join)
    else:
        edits.before(made[0], join)
    for network in roles.modules:
        if not any(s in roles.setup for s, _ in roles.assignments(network)):
            raise Skip(f"{network} is not made above the training loop")
    held = {path.partition(".")[0] for path in roles.networks}
    for optimizer in roles.optimizers:
        if not any(unparse(n) in held for n in walk(optimizer.call)) and not _held_by_name(roles, optimizer.call, held):
            raise Skip(f"which parameters {optimizer.name} holds is not known")
    states = [f"*{network}.state_dict().values()" for network in roles.modules]
    tensors = f"({', '.join(states)})" if len(states) > 1 else states[0].lstrip("*")
    seeds = list(dict.fromkeys([*shares.seeds()]))
    if not any(call.endswith("manual_seed") for call, _ in seeds):
        seeds.append(("torch.manual_seed", "torch.initial_seed()"))
    code = render("same_start", world=world, rank=rank, tensor=tensor, tensors=tensors, seeds=seeds)
    edits.after(made[-1], code)


def _held_by_name(roles: Roles, call: ast.Call, held: set[str]) -> bool:
    """Whether an optimizer's arguments include a name that is bound to parameters of known networks."""
    names = {n.id for a in (*call.args, *(k.value for k in call.keywords)) for n in walk(a) if isinstance(n, ast.Name)}
    values = [value for name in names for _, value in roles.assignments(name)]
    return any(unparse(n) in held for value in values for n in walk(value))


def _sets_size(stmt: ast.stmt, owners: set[str], sources: Sequence[str]) -> bool:
    """Whether a statement sets a size, or the object that has it as an attribute."""
    targets = stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target] if isinstance(stmt, ast.AnnAssign) else []
    parts = [p for t in targets for p in (t.elts if isinstance(t, (ast.Tuple, ast.List)) else [t])]
    return any(unparse(p) in owners or unparse(p) in sources for p in parts)


def _leave(roles: Roles, edits: Edits, rank: str, world: str) -> None:
    """Disconnect the processes below the training loop; only the first one continues.

    Raises:
        Skip: the training may run more than once.
    """
    block = roles.tree.block(roles.outermost)
    rest = block[block.index(roles.outermost) + 1 :]
    if isinstance(roles.scope, ast.FunctionDef):
        name = roles.scope.name
        calls = [c for c in roles.tree.of(ast.Call) if isinstance(c.func, ast.Name) and c.func.id == name]
        if len(calls) != 1 or roles.tree.loops_around(calls[0]):
            raise Skip(f"{name}() is not known to be called once")
    edits.after(roles.outermost, "\n" + render("leave_ranks", world=world, rank=rank, rest=bool(rest)))


def _capture_alone(roles: Roles, edits: Edits, world: str) -> None:
    """Keep the update of several processes out of CUDA graphs: communication inside them is untested."""
    update = roles.history.functions.get("update")
    for stmt in roles.tree.of(ast.Assign):
        captured = isinstance(stmt.value, ast.Call) and unparse(stmt.value.func).rpartition(".")[2] == "CudaGraphModule"
        if update is None or not captured or unparse(stmt.targets[0]) != update.name:
            continue
        edits.substitute(stmt.value, f"{roles.tree.text(stmt.value)} if {world} == 1 else {update.name}")


TRANSFORM = Transform(INFO, apply)
