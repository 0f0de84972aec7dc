"""Keep the learning rate in a tensor that annealing fills in place."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from transformer.dataflow.bindings import bound_to, is_same_variable
from transformer.facts.libraries import LOGS_VALUES
from transformer.facts.python import does
from transformer.facts.torch_api import optimizers
from transformer.recognition.arguments import plain_option
from transformer.recognition.history import Capturable, History
from transformer.recognition.learning_rate import RateUses
from transformer.recognition.optimizers import Optimizer
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import calls_method, children, receiver, root, unparse, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.syntax.tree import Tree
from transformer.transforms.base import BOTH, NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.whole_numbers import may_be_whole, methods_called, variable_key
from transformer.values.effects import kept_optimizers

INFO = TransformInfo(
    name="tensor-lr",
    brief="the annealed learning rate is a tensor",
    summary="keep an annealed learning rate in a tensor under the flags",
    applies=(
        "to an optimizer of torch that accepts a tensor as its rate and is made once, above the training loop or by "
        "the constructor of an object that keeps it. All its uses must be known, so that every read and write of its "
        "rate is seen"
    ),
    safety=(
        "Without a flag the rate stays a float. Under --compile or --cudagraphs it is a float64 tensor, which has the "
        "float's precision, and annealing fills it in place: a compiled update reads its current value instead of "
        "being recompiled for every rate. If the minibatch loop sets it, it is a parameter that is not trained, which "
        "compiled code can write to. Reads go through `float()`, so what is logged or printed stays a float. An "
        "optimizer whose rate may change unseen is left alone, and its step is in no graph. RAdam, which computes "
        "step lengths from the step count, counts in float64, as Python does."
    ),
    costs=(
        "The optimizer's step may stay out of the compiled graph, update() is in no CUDA graph, and each new rate "
        "recompiles it: make the optimizer once, of a class of torch.optim, and set its rate only by "
        '`optimizer.param_groups[0]["lr"] = ...`, to a float.'
    ),
    needs=("flags",),
    before='optimizer.param_groups[0]["lr"] = lrnow',
    after=(
        'lr = optimizer.param_groups[0]["lr"]\n'
        'optimizer.param_groups[0]["lr"] = lr.fill_(lrnow) if torch.is_tensor(lr) else lrnow'
    ),
    prepares=True,
)

CONSTANT = "the learning rate never changes and stays a float"
SHOWN = 40
"""The maximum number of characters of an expression shown in a reason."""
CAPTURABLE, COUNTING, TENSOR_LR = optimizers(capturable=True), optimizers(counting=True), optimizers()


def apply(state: State) -> Rewrite:
    """Edit every optimizer that torch.optim made.

    Raises:
        Skip: no optimizer needs it, or none supports it.
    """
    edits = Edits(state.source)
    notes: list[str] = []
    reasons = list[str]()
    steady, shared = set[str](), set[ast.AST]()
    constant: list[str] = []
    history = replace(state.history, capturable=bool(state.roles.optimizers))
    names = dict.fromkeys(o.name for o in state.roles.optimizers)
    for name in names:
        try:
            history = _edit(state, edits, history, kept_optimizers.making(state.roles, name), shared, notes, constant)
            steady.add(name)
        except Skip as skip:
            history = replace(history, capturable=False)
            reasons.append(f"{name}: {skip}")
    history = replace(history, steady_rates=frozenset(steady))
    told = [*([f"{', '.join(constant)}: {CONSTANT}"] if constant else []), *notes]
    if not edits:
        kind = NotNeeded if told and not reasons else Skip
        raise kind("; ".join(reasons or told) or "no optimizer made by torch.optim was found", history)
    if constant and len(constant) + len(reasons) == len(names):  # no learning rate becomes a tensor
        return Rewrite(edits, history, tuple(notes), tuple(reasons), brief="--compile: optimizers count in float64")
    return Rewrite(edits, history, tuple(told), tuple(reasons))


def _edit(
    state: State,
    edits: Edits,
    history: History,
    made_as: Sequence[Optimizer],
    shared: set[ast.AST],
    notes: list[str],
    constant: list[str],
) -> History:
    """Edit one optimizer, and the code that several share only once; returns what later transforms need to know.

    `made_as` has all optimizers made under its name; a run makes one of them. Notes for the reader are added to
    `notes`, and the optimizer's name is added to `constant` if its rate never changes.

    Raises:
        Skip: its learning rate stays a float.
    """
    tree, roles = state.tree, state.roles
    optimizer, inside = made_as[0], set(walk(roles.outermost))
    elsewhere = all(tree.scope_of(one.stmt) is not roles.scope for one in made_as)
    counting = optimizer.kind in COUNTING
    if len(made_as) > 1 and not (elsewhere and kept_optimizers.made_once(roles, optimizer.name)):
        wrapped = optimizer.name in map(tree.text, made_as[1].call.args)
        raise Skip(f"line {made_as[1].stmt.lineno} {'wraps it' if wrapped else 'makes it again'}")
    if optimizer.kind not in TENSOR_LR:
        kind = optimizer.kind or tree.text(optimizer.call.func)
        raise Skip(f"{kind} is not known to accept a tensor learning rate")
    if any(one.stmt in inside for one in made_as):
        raise Skip(
            f"the loop on line {roles.outermost.lineno} makes it: if each round is a training of its own, put a round "
            "into a function"
        )
    if elsewhere:
        if counting:
            raise Skip(f"it is made in a function, and {optimizer.kind}'s step count must be kept in float64")
        if _is_left_alone(roles, optimizer):
            constant.append(optimizer.name)
            return replace(history, capturable=False)
        for one in made_as:
            why = kept_optimizers.obstacle(roles, one, (roles.outermost,), exact=False)
            if why is not None:
                raise Skip(f"it is made in a function, and {why}")
    given = {k.arg for one in made_as for k in one.call.keywords}
    if None in given:
        raise Skip("its arguments are passed as **keywords")
    uses = RateUses(roles, optimizer.name)
    if uses.obstacle:
        raise Skip(uses.obstacle)
    changing = bool(uses.writes or uses.others or uses.scheduled)
    if uses.kept_state and (changing or counting):
        raise Skip(uses.kept_state)
    if elsewhere and (uses.loads or uses.shown):
        raise Skip(f"line {(*uses.loads, *uses.shown)[0].lineno} loads or prints it")
    made = max([optimizer.stmt, *uses.shown], key=lambda stmt: stmt.lineno)
    # A statement that loads a state, but stands above the one that makes the optimizer, is in a function and runs later
    if uses.shown and any(stmt.lineno < made.lineno for stmt in uses.loads):
        raise Skip(f"line {made.lineno} prints the optimizer")
    if counting and uses.loads:
        raise Skip(f"line {uses.loads[0].lineno} loads its step count, which {optimizer.kind} needs in float64")
    replaced = any(stmt in inside for stmt in uses.loads)  # loading replaces the tensors that a graph would use
    device = roles.device if not elsewhere else None
    # On a CPU, step() rejects capturable optimizers; a script without a device runs there
    own = replaced or uses.kept_state or given & {"capturable", "fused"}
    capturable = bool(device) and optimizer.kind in CAPTURABLE and not own
    group = tree.names.fresh("group")
    loaded: dict[str, str | bool | None] = {"optimizer": optimizer.name, "group": group}
    if replaced:
        history = replace(history, reloaded=history.reloaded | {optimizer.name})
    rate_moves = changing and bool(device) and (capturable or not uses.loads)
    if capturable or rate_moves:
        needs = Capturable(capturable, rate_moves, len(uses.loads))
        history = replace(history, to_capture={**history.to_capture, optimizer.name: needs})
    counts_nothing = optimizer.kind == "SGD" and not replaced and not changing
    history = replace(history, capturable=history.capturable and (capturable or counts_nothing))
    loaded |= {"flag": state.history.flags["compile"], "counting": counting, "p": tree.names.fresh("p")}
    if not changing:
        if counting:
            edits.after(made, render("tensor_lr", **loaded, changing=False))
        constant.append(optimizer.name)
        return history
    calls = [one.call for one in made_as]
    given_rates = [a for c in calls for a in (*c.args[1:2], *(k.value for k in c.keywords if k.arg == "lr"))]
    for value in (*given_rates, *(stmt.value for stmt, _ in (*uses.writes, *uses.others))):
        if _may_be_tensor(roles, value, uses.reads):
            spelled = tree.text(value)
            told = spelled if len(spelled) <= SHOWN and "\n" not in spelled else "..."
            raise Skip(f"the rate on line {value.lineno} may already be a tensor, or numpy's: write float({told})")
        shown = [*(read for read in uses.reads if not _is_logged(tree, read)), *uses.formatted]
        if shown and may_be_whole(tree, value):
            raise Skip(f"the rate on line {value.lineno} may be a whole number, and line {shown[0].lineno} reads it")
    for _, target in (*uses.writes, *uses.others):
        if any(isinstance(n, (ast.Call, ast.NamedExpr, ast.Await)) for n in walk(target)):
            raise Skip(f"line {target.lineno} computes the target of the rate, which must not be evaluated twice")
    if "foreach" in given:
        raise Skip("foreach=True accepts a tensor learning rate only if the optimizer is capturable")
    # The tensor is made below all statements that print the optimizer: they print a float
    in_update = _in_update(roles)
    written = any(stmt in in_update for stmt, _ in (*uses.writes, *uses.others))
    if written and uses.in_text:  # a tensor in an f-string shows its number, a parameter does not
        raise Skip(f"line {uses.in_text[0].lineno} formats the rate, which the update sets: write it as float(...)")
    loaded |= {"written": written, "again": elsewhere}  # training may start several times
    tensor = render("tensor_lr", **loaded, changing=True)
    if elsewhere:
        edits.before(roles.outermost, tensor, gap=1)
    else:
        edits.after(made, tensor)
    for stmt in uses.loads:
        edits.after(stmt, render("tensor_lr_loaded", **loaded))
    if uses.loads:
        notes.append(f"{optimizer.name}: a checkpoint's rates become tensors")
    for saved in tree.of(ast.Call):
        if calls_method(saved, "state_dict") and unparse(receiver(saved)) == optimizer.name:
            notes.append(f"with a flag on, the rates that line {saved.lineno} saves are tensors, not floats")
            break
    for stmt, target in (*uses.writes, *uses.others):
        if stmt not in shared:
            plain = root(stmt.value) or isinstance(stmt.value, ast.Constant)
            now = None if plain else tree.names.fresh("lrnow")  # the emitted code uses the value twice
            rate = None if isinstance(target.value, ast.Name) else tree.names.fresh("lr")
            write = {"target": tree.text(target), "value": tree.text(stmt.value), "now": now, "rate": rate}
            # Compiled code must not set the group: Dynamo would also store the `capturable` that it traces with
            edits.replace(stmt, render("tensor_lr_fill", **write, compiled=stmt in in_update))
    for read in uses.reads:
        if read not in shared:
            edits.substitute(read, f"float({tree.text(read)})")
    shared.update(uses.reads, (stmt for stmt, _ in uses.others))
    return history


def _may_be_tensor(roles: Roles, value: ast.AST, reads: Sequence[ast.expr]) -> bool:
    """Whether a function of torch or numpy computes a rate, or a value it depends on, anywhere in the file.

    Filling a tensor in place would round such a rate differently, and change the value for all others who hold it.
    numpy's numbers print differently.
    """
    tree = roles.tree
    optimizers_made = {optimizer.name for optimizer in roles.optimizers}
    seen = set[object]()
    open_ = [value]
    while open_:
        node = open_.pop()
        if node in reads or _returns_number(tree, node):
            continue
        name = tree.qualified(node) or ""
        if name.startswith(("torch.", "numpy.")) and not name.startswith("torch.optim."):
            return True
        if isinstance(node, (ast.Name, ast.Attribute)):
            key = variable_key(tree, node)
            made = [one for one in bound_to(tree, node, own=True) if one is not None]
            made += [n.iter for n in tree.of(ast.For) for t in walk(n.target) if _is_same(tree, t, node)]
            open_ += made if key not in seen and ast.unparse(node) not in optimizers_made else []
            seen.add(key)
            if made:
                continue
        if isinstance(node, ast.Attribute) and (defaults := plain_option(tree, node)) is not None:
            open_ += defaults
            continue
        for function in methods_called(tree, node) if isinstance(node, ast.Call) else ():
            if f"{function.name}()" not in seen:
                seen.add(f"{function.name}()")
                open_ += [n.value for n in walk(function) if isinstance(n, ast.Return) and n.value is not None]
        open_ += [node.body, node.orelse] if isinstance(node, ast.IfExp) else children(node)
    return False


def _is_logged(tree: Tree, read: ast.expr) -> bool:
    """Whether a logger uses only a number's value: 1 and 1.0 give the same curve."""
    call = tree.parents[read]
    return isinstance(call, ast.Call) and tree.last_name(call.func) in LOGS_VALUES


def _returns_number(tree: Tree, node: ast.AST) -> bool:
    """Whether a call always returns a Python number."""
    if not isinstance(node, ast.Call):
        return False
    row = does("builtin", tree.names.builtin(node.func) or "")
    return calls_method(node, "item") or (row is not None and row.gives == "nothing")


def _is_same(tree: Tree, one: ast.AST, other: ast.AST) -> bool:
    return isinstance(one, ast.Name) and isinstance(other, ast.Name) and is_same_variable(tree, one, other)


def _in_update(roles: Roles) -> set[ast.AST]:
    """The nodes of the minibatch loop, of other loops around steps, and of their callees: code that may be compiled.

    torch's pass for scalars (`_tensorify_python_scalars`, observed in 2.11 and 2.13) drops a graph's write to a plain
    zero-dimensional float64 tensor on the host; it keeps a write to a parameter.
    """
    loops = [loop for step in roles.optimizer_steps for loop in roles.tree.loops_around(step)[:1]]
    return set(roles.reached([roles.phases.learn, *(loop for loop in loops if loop is not roles.outermost)]))


def _is_left_alone(roles: Roles, optimizer: Optimizer) -> bool:
    """Whether an object's optimizer is only stepped, cleared and saved, and only in the training scope."""
    attribute, inside = optimizer.name.rpartition(".")[2], set(walk(roles.scope))
    made = {n for one in roles.optimizers for n in walk(one.stmt)}
    for node in roles.tree.nodes:
        if isinstance(node, ast.Attribute) and node.attr == attribute and node not in made:
            user = roles.tree.parents[node]
            if node not in inside or getattr(user, "attr", None) not in ("zero_grad", "step", "state_dict"):
                return False
        elif isinstance(node, ast.Constant) and node.value == attribute:
            return False
    return "." in optimizer.name


TRANSFORM = Transform(INFO, apply, BOTH)
