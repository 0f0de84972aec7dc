"""Compile policy and update with torch.compile, behind --compile."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from transformer.dataflow.access import access, scope_access
from transformer.facts.libraries import library_does, role
from transformer.recognition.attribute_setting import attribute_set, sets_by_text
from transformer.recognition.changes import Changes
from transformer.recognition.learning_rate import changed_options
from transformer.recognition.off_policy import makes_lists
from transformer.recognition.optimizers import Optimizer
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.imports import add_imports
from transformer.syntax.options import holds_options
from transformer.syntax.query import (
    calls_method,
    last_written,
    names_in,
    pairwise,
    parameters,
    receiver,
    root,
    statements,
    unparse,
    walk,
)
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.syntax.tree import Tree
from transformer.transforms.base import ALL, Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.compiling.capturable import sets_up_rates
from transformer.transforms.compiling.flags import reword
from transformer.transforms.gathering.only_calls import trains_once
from transformer.values.device.graph_capture import Capture
from transformer.values.device.python_counters import counted
from transformer.values.device.read_numbers import looks_up, reads_numbers
from transformer.values.device.unusual_parameters import without_shapes
from transformer.values.effects.kept_methods import reclassed, replaced_in_torch
from transformer.values.effects.objects import UNKNOWN
from transformer.values.effects.world import World
from transformer.values.minibatch import makes_sampler
from transformer.values.networks.distributions import goes_on_checking, may_make, never_check
from transformer.values.networks.reached import computed_back, unreached
from transformer.values.reports import is_report
from transformer.values.tensors import Tensors

INFO = TransformInfo(
    name="compile",
    brief="--compile: torch.compile of policy and update",
    summary="compile policy and update with torch.compile, behind --compile",
    applies=(
        "to the policy and to update(), unless they are known to fail under torch.compile; to update() only if its "
        "loss reaches, in every minibatch, every parameter that it computes with. All guards of torch.compile are "
        "kept, unless the policy is a network of known modules, training is known to change only the values of its "
        "parameters, and a process trains once"
    ),
    safety=(
        "Without --compile nothing changes. With it the same operations run fused, so results agree within rounding, "
        "with the random numbers that the eager run draws. The advantages stay eager: one call per rollout saves less "
        "than it takes to compile, and unrolled over the rollout, their recurrence would compile for minutes. A "
        "policy that reads nothing that may change, except the parameters' values, guards only its input. "
        "Distributions, which raise an error for NaN in eager code, check nothing then; if the policy is known and its "
        "parameters are not finite when a rollout begins, the script goes on without compiled code, with these checks."
    ),
    costs="Nothing is compiled: change what the reason names.",
    headline="nothing is compiled",
    needs=("flags",),
    before="for iteration in range(1, args.num_iterations + 1):\n    ...",
    after=(
        'if args.compile:\n    options = {"fallback_random": True, "size_asserts": False}\n'
        "    policy = torch.compile(policy, options=options)\n"
        "    update = torch.compile(update, options=options)\n\n"
        "for iteration in range(1, args.num_iterations + 1):\n    ..."
    ),
)

HELP = {
    "compile policy and update with torch.compile": "compile {} with torch.compile",
    "if toggled, the policy and the update are compiled with": "if toggled, {} is compiled with",
}
"""Parts of the flag's help, and their replacements if only one of the two is compiled."""


def apply(state: State) -> Rewrite:
    """Add the block above the training loop.

    Raises:
        Skip: there is no function to compile, or a function that compiled code calls may be replaced.
    """
    tree, roles = state.tree, state.roles
    facts, edits = state.history, Edits(state.source)
    hook = roles.hook(r"\w*forward_\w*")
    if hook is not None and (hook in roles.run_by_training or roles.kind == "update"):
        raise Skip(f"line {hook.lineno} registers a hook during training, which compiled code would not run")
    replaced = _replaced(roles)
    if replaced is not None:
        raise Skip(replaced)
    if (unshaped := without_shapes(roles)) is not None:
        raise Skip(unshaped)
    updates = facts.all_updates
    functions: list[str] = []
    eager: list[str] = []
    for name, passes in {**updates, **facts.auxiliary}.items():
        passes = passes if not (name in updates and facts.traced) else 1
        if (why := stays_eager(roles, tree.definition(name), passes)) is not None:
            eager.append(f"{name}() is not compiled: {why}")
        else:
            functions.append(name)
    pieces = [f"{name}()" for name in functions if updates.get(name) and not facts.traced]
    if eager and pieces:  # otherwise one-graph says why
        are = "is" if len(pieces) == 1 else "are"
        eager.append(f"{' and '.join(pieces)} {are} compiled in pieces, at half the gain: one-graph takes all or none")
    functions += (*facts.target_updates, *facts.step_networks)
    if not functions and not facts.policy and not facts.act:
        raise Skip("; ".join(eager) or "neither policy nor update() could be made a function", headlines=eager)
    notes = [*eager]
    untraced = [n for n in functions if n not in facts.target_updates and not (n in updates and facts.traced)]
    kept = tree.names.fresh("aot_config") if any(_keeps_graph(tree.definition(n)) for n in untraced) else None
    if kept is not None:
        add_imports(tree.root, edits, f"from torch._functorch import config as {kept}")
    options, flag = tree.names.fresh("options"), facts.flags["compile"]
    rates = next((s for s in roles.setup if isinstance(s, ast.If) and sets_up_rates(tree, s, flag)), None)
    computing, any_checks = goes_on_checking(roles), may_make(roles) and not never_check(roles)
    checks = any_checks and may_make(roles, list(_compiled_nodes(roles, functions)))
    if computing is not None and any_checks:
        notes.append(f"{computing}, which breaks graphs")
    elif rates is not None and checks:
        edits.after(rates.body[-1], render("unchecked"))
    network = (facts.policy_target or "").partition(".")[0]
    # Several processes would have to agree to stop; a loop whose turns are steps would check in each step
    per_rollout = roles.kind == "on-policy" and not facts.in_turns and "distribute" not in facts.asked.transforms
    if computing is None and checks and per_rollout and network in roles.modules:
        acts = _first_acting(roles)
        apart = "" if acts is roles.outermost.body[0] else "\n"
        edits.before(acts, apart + render("finite", flag=flag, network=network))
        notes.append(
            f"with a flag on, distributions do not check their arguments; if {network} is not finite when a rollout "
            "begins, the script goes on as the original does, with these checks and without compiled code"
        )
    elif computing is None and checks:
        notes.append("with a flag on, distributions raise no error for NaN: if a network becomes NaN, training goes on")
    for name, numbers in _changing_numbers(roles, functions):
        notes.append(f"{name}() is compiled a second time when its argument {' or '.join(numbers)} first changes")
    floating = [tree.definition(name) for name in functions if name in facts.present_rates]
    present = tree.names.fresh("at_present_rate")
    if floating:
        first = min(floating, key=lambda d: d.lineno)
        edits.before(first, render("present_rates", present_rates=present), gap=1 if first.col_offset else 2)
    acting = facts.act or facts.policy
    once = bool(acting) and trains_once(roles)
    known = once and _policy_is_known(roles)  # a second training would have another network
    again = acting is not None and "." in acting and not once
    if again:
        add_imports(tree.root, edits, "import inspect")
    code = render(
        "compile",
        policy=acting,  # called in each step; `facts.policy` may be called only once per rollout
        steady=known and _policy_is_steady(roles),
        functions=functions,
        kept=kept,
        options=options,
        checked=rates is None and computing is None and checks,
        gpu=facts.asked.target != "cpu",
        known=known,
        again=again,
        present_rates=present,
        floating=facts.present_rates,
        draws=_may_draw(roles, functions),
        reads=reads_numbers(roles, map(tree.definition, functions)),
    )
    block = tree.block(roles.outermost)
    above = block[block.index(roles.outermost) - 1]
    if isinstance(above, ast.If) and tree.text(above.test) == flag:  # set up by one-graph under the flag
        edits.after(above.body[-1], code)
    else:
        edits.before(roles.outermost, f"if {flag}:\n{textwrap.indent(code, '    ')}", gap=1)
    unchecked = not any_checks or (rates is not None and computing is None)
    compiled = [n for n, passes in {**updates, **facts.auxiliary}.items() if passes and n in functions]
    trained = any(name not in facts.small_updates for name in compiled)
    alone = None if compiled and acting else "the policy" if acting else "the update" if compiled else None
    if alone is not None:  # the flag's help was written before this was known
        reword(tree, edits, {said: better.format(alone) for said, better in HELP.items()})
    return Rewrite(
        edits,
        replace(facts, options=options, unchecked=unchecked),
        tuple(notes),
        brief=""
        if alone is None
        else f"--compile: torch.compile of {alone} alone{'' if trained else ', seldom faster'}",
        recommended=trained,
        headlines=tuple(eager),
    )


def _changing_numbers(roles: Roles, functions: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    """Compiled functions to which the training loop passes numbers that it sets itself, with the names of these."""
    world = roles.get(World)
    for function in roles.history.functions.values():
        calls = (n for n in walk(roles.outermost) if isinstance(n, ast.Call) and unparse(n.func) == function.name)
        given = (a for call in calls for a in call.args if isinstance(a, ast.Name) and a.id in function.others)
        numbers = [a.id for a in given if a.id in roles.variant and world.are_numbers(a)]
        if numbers and function.name in functions:
            yield function.name, list(dict.fromkeys(numbers))


def _first_acting(roles: Roles) -> ast.stmt:
    """The first statement of the training loop that chooses actions; statements above it may repair a network."""
    facts, body = roles.history, roles.outermost.body
    names = {name for name in (facts.act, facts.policy, facts.policy_target) if name}
    acting = (s for s in body if any(isinstance(n, ast.Call) and unparse(n.func) in names for n in roles.reached([s])))
    return next(acting, body[0])


def stays_eager(roles: Roles, update: ast.FunctionDef, passes: int) -> str | None:
    """Why an update is not compiled, and what to write instead; None if it is.

    Args:
        roles: the script.
        update: the function.
        passes: how often it runs backward(); 1 if one graph contains all of its passes.
    """
    anew = "would cause a recompilation"
    if (number := counted(roles, update)) is not None:
        line, what = number
        return f"line {line} counts in {what}, and each number {anew}; let it be a tensor"
    if (rate := _carried_rate(roles, update.name)) is not None:
        return f"{rate}, a number, is the learning rate, and each {anew}; set the rate above the epochs"
    if (made := _made_anew(roles, update)) is not None:
        line, name = made
        return f"line {line} makes {name} during training, and each optimizer {anew}; make it above the training loop"
    if (option := _set_option(roles, update)) is not None:
        return f"line {option.lineno} may set an option of its optimizer, and each value {anew}; use one of torch.optim"
    steps = any(calls_method(n, "backward") or roles.is_step(n) for n in walk(update)) or roles.history.traced
    if steps and (moved := changed_option(roles, update)) is not None:
        return f"line {moved.lineno} changes options of the optimizer, and each value {anew}; let only its rate change"
    if (grown := _grown(update)) is not None:
        line, what = grown
        return f"line {line} makes {what} longer, and each length {anew}; move it below {_step(roles)}"
    if (chosen := looks_up(roles, update)) is not None:
        return f"line {chosen.lineno} needs the value of a number of a tensor: {unparse(chosen)}; go on with the tensor"
    if (given := _given_list(roles, update)) is not None:
        return f"it is given {given}, a list, and each {anew}; make it a tensor above the minibatches"
    if (listed := _listed(roles, update)) is not None:
        return f"line {listed.lineno} reads a list of numbers, and each {anew}; go on with the tensor"
    if (loop := _by_rows(roles, update)) is not None:
        name = root(_iterated(loop.iter)) or _turns_of(loop.iter)
        return f"line {loop.lineno} goes through {name} row by row, and each length {anew}; compute on the whole tensor"
    if (scalar := _trained_in_float64(roles, update)) is not None:
        return f"line {scalar.lineno} trains a number in float64, of which compiled code has no gradient; use float32"
    if (tying := roles.history.tied) is not None:
        return f"{tying} may give a network a part that it has, and no guard notices; do so before training"
    if (missed := unreached(roles, update, computed_back)) is not None:  # one-graph has checked what it has traced
        return f"{missed.why}, and compiled code makes zeros of a missing gradient; {missed.advice}"
    if passes > 1:
        several = len({unparse(receiver(n)) for n in walk(update) if roles.is_step(n)}) > 1
        apart = "let zero_grad(), backward() and step() of each follow one another, once"
        advice = apart if several else "call it once, on the losses' sum"
        if why := roles.history.untraced:
            return f"{why}; an update that calls backward() {passes} times is compiled as one graph or not at all"
        return f"it calls backward() {passes} times, and a compiled graph runs only once; {advice}"
    return None


def _step(roles: Roles) -> str:
    """The optimizer's step, as written if the script has only one optimizer."""
    names = {optimizer.name for optimizer in roles.optimizers}
    return f"{names.pop()}.step()" if len(names) == 1 else "the optimizer's step"


def _replaced(roles: Roles) -> str | None:
    """Why compiled code may miss that training replaces a function; None if training replaces none."""
    changes, tree = roles.get(Changes), roles.tree
    defined = {f.name for f in tree.of(ast.FunctionDef)} - {"__init__"}
    for name in sorted({*changes.stored, *changes.bound} & defined):
        if name not in changes.bound and _is_of_others(roles, name):
            continue
        line = changes.stored.get(name) or changes.bound[name]
        return f"line {line} replaces {name}(), which compiled code would not notice"
    if (other := reclassed(roles)) is not None:
        return f"line {other.lineno} replaces the class of an object, which compiled code would not notice"
    if (torchs := replaced_in_torch(roles, roles.run_by_training)) is not None:
        return f"line {torchs.lineno} may replace a method of torch's, which compiled code would not notice"
    for node in roles.run_by_training:
        unknown = attribute_set(tree, node) == "" or sets_by_text(node)
        if isinstance(node, ast.expr) and unknown and not _sets_no_function(roles, node, defined):
            return (
                f"line {node.lineno} sets a name known only at run time, perhaps of a function that compiled code calls"
            )
    return None


def _is_of_others(roles: Roles, name: str) -> bool:
    """Whether every object on which training sets this attribute has no method of that name."""
    stored = (n for n in roles.run_by_training if isinstance(n, ast.Attribute) and n.attr == name)
    sets = [n for n in stored if not isinstance(n.ctx, ast.Load)]
    functions = [f for f in roles.tree.of(ast.FunctionDef) if f.name == name]
    by_text = any(str(node.value).rpartition(".")[2] == name for node in roles.tree.of(ast.Constant))
    return not by_text and not any(roles.get(World).may_have(n.value, f) for n in sets for f in functions)


def _sets_no_function(roles: Roles, node: ast.expr, defined: set[str]) -> bool:
    """Whether the set name is an option of the script, or a name that no function has."""
    if isinstance(node, ast.Subscript):
        space: ast.expr = node.value
        if isinstance(node.slice, ast.Constant) and node.slice.value not in defined:
            return True
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        space = node.func.value
    elif isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Name) and node.func.id != "exec":
        return holds_options(roles.tree, node.args[0], roles.scope)
    else:
        return False
    owner = space.value if isinstance(space, ast.Attribute) else next(iter(getattr(space, "args", ())), None)
    return owner is not None and holds_options(roles.tree, owner, roles.scope)


def _keeps_graph(function: ast.FunctionDef) -> bool:
    """Whether a function computes gradients and keeps their graph, for another pass or for second derivatives."""
    return any(
        calls_method(node, "backward", "grad")
        and any(k.arg in ("retain_graph", "create_graph", None) for k in node.keywords)
        for node in walk(function)
    )


def _grown(function: ast.FunctionDef) -> tuple[int, str] | None:
    """A list that a function lengthens but does not make, perhaps in a dictionary, with the line."""
    made = {n for s in statements(function.body) if isinstance(s, ast.Assign) for n in access(s).binds}
    for node in walk(function):
        if isinstance(node, ast.AugAssign) and isinstance(node.value, (ast.List, ast.ListComp)):
            longer: ast.expr = node.target
        elif isinstance(node, ast.Attribute) and node.attr in ("append", "extend", "insert"):
            longer = node.value
        else:
            continue
        holder = longer
        while isinstance(holder, (ast.Subscript, ast.Attribute)):
            holder = holder.value
        if isinstance(holder, ast.Name) and holder.id not in made:
            return node.lineno, ast.unparse(longer)
    return None


def _given_list(roles: Roles, function: ast.FunctionDef) -> str | None:
    """A list that is an argument of a function: of numbers, or with a length that depends on the environment."""
    tree, tensors = roles.tree, roles.get(Tensors)
    local = {n for s in statements(function.body) for n in access(s).binds}
    calls = [n for n in tree.of(ast.Call) if isinstance(n.func, ast.Name) and n.func.id == function.name]
    for name in sorted(names_in(function.body) - local):
        bindings = {b for call in calls for b in tensors.bindings(name, tree.statement(call))}
        bound = [pair for b in bindings if isinstance(b, ast.Assign) for pair in pairwise(b)]
        values = [v for t, v in bound if isinstance(t, ast.Name) and t.id == name]
        if any(calls_method(v, "tolist") for v in values):  # compiled code guards on each number
            return name
        if any(isinstance(b, ast.For) and makes_sampler(tree, b.iter, "BatchSampler") for b in bindings):
            return name
        if any(b is not None and makes_lists(tree, b) for b in bindings):  # two of its elements may be one tensor
            return name
        if not any(isinstance(v, ast.List) for v in values):
            continue
        for node in tree.of(ast.Attribute):
            if node.attr == "append" and isinstance(node.value, ast.Name) and node.value.id == name:
                if not _is_repeated_steadily(tree, tree.statement(node)):
                    return name
    return None


def _is_repeated_steadily(tree: Tree, stmt: ast.stmt) -> bool:
    """Whether a statement always runs, as often as the `range` of the loop around it says."""
    loop = tree.parents[stmt]
    while isinstance(loop, ast.With):
        loop = tree.parents[loop]
    counted = isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) and ast.unparse(loop.iter.func) == "range"
    return counted and not any(
        isinstance(s, (ast.Break, ast.Continue, ast.Return))
        for s in statements(loop.body)  # type: ignore[attr-defined]
    )


def _listed(roles: Roles, function: ast.FunctionDef) -> ast.expr | None:
    """Where a function converts a tensor to a list of numbers and uses it for more than reports."""
    for node in walk(function):
        if calls_method(node, "tolist") and not any(is_report(roles.tree, n) for n in roles.tree.ancestors(node)):
            return node
    return None


def _trained_in_float64(roles: Roles, update: ast.FunctionDef) -> ast.Call | None:
    """The call that makes a zero-dimensional tensor, perhaps float64, that an optimizer trains and an update uses.

    torch.compile treats such a tensor as a Python number: observed with torch 2.13.
    """
    used = {last_written(n) for n in roles.reached([update]) if isinstance(n, (ast.Name, ast.Attribute))}
    given = [v for o in roles.optimizers for v in (*o.call.args[:1], *(k.value for k in o.call.keywords))]
    trained = {last_written(n) for v in given for n in walk(v) if isinstance(n, (ast.Name, ast.Attribute))} & used
    for stmt in roles.tree.of(ast.Assign):
        for target, value in pairwise(stmt):
            if isinstance(target, (ast.Name, ast.Attribute)) and last_written(target) in trained:
                for call in (n for n in walk(value) if isinstance(n, ast.Call)):
                    if roles.tree.calls(call, "torch.tensor", "torch.as_tensor") and not _is_float32(roles.tree, call):
                        return call
    return None


def _is_float32(tree: Tree, call: ast.Call) -> bool:
    """Whether a call names the dtype float32 or, naming none, makes its tensor from a literal, list or tuple."""
    dtype = next((tree.qualified(k.value) for k in call.keywords if k.arg == "dtype"), "")
    if dtype:
        return dtype in ("torch.float32", "torch.float")
    value = call.args[0] if call.args else None
    said = any(k.arg == "dtype" for k in call.keywords)
    return not said and isinstance(value, (ast.List, ast.Tuple, ast.Constant, ast.UnaryOp))


WRITTEN_OUT = (ast.List, ast.Tuple, ast.Dict, ast.ListComp)


def _by_rows(roles: Roles, function: ast.FunctionDef) -> ast.For | None:
    """A loop of a function over the rows of a tensor or an array, which compilation unrolls."""
    made = [s for s in statements(function.body) if isinstance(s, ast.Assign)]
    local = scope_access(function.body).binds
    written = {n for s in made if isinstance(s.value, WRITTEN_OUT) for n in access(s).binds}
    calls = [n for n in roles.tree.of(ast.Call) if isinstance(n.func, ast.Name) and n.func.id == function.name]
    tensors = roles.get(Tensors)
    for loop in (s for s in statements(function.body) if isinstance(s, ast.For)):
        name = root(_iterated(loop.iter))
        if name in local - written or _turns_of(loop.iter) in set(parameters(function)) - local:
            return loop
        if name and name not in local and any(tensors.tensor_before(name, roles.tree.statement(c)) for c in calls):
            return loop
    return None


def _turns_of(iterated: ast.expr) -> str:
    """The name whose length is a loop's number of turns: `x` in `range(len(x))`, also reversed; "" for others."""
    inner = _iterated(iterated)
    for name in ("range", "len"):
        called = isinstance(inner, ast.Call) and unparse(inner.func) == name and len(inner.args) == 1
        inner = inner.args[0] if called and isinstance(inner, ast.Call) else ast.Constant(None)
    return root(inner)


def _iterated(iterated: ast.expr) -> ast.expr:
    """The sequence of a loop: `x` for `reversed(x)`, `enumerate(x)` and `zip(x, y)`."""
    while (
        isinstance(iterated, ast.Call) and iterated.args and unparse(iterated.func) in ("enumerate", "reversed", "zip")
    ):
        iterated = iterated.args[0]
    return iterated


def _carried_rate(roles: Roles, name: str) -> str | None:
    """The learning rate that an update takes as a number, sets, and returns: torch.compile specializes on each value.

    After a few values it reaches its recompilation limit and runs the update eagerly.
    """
    function = next((f for f in roles.history.functions.values() if f.name == name), None)
    if function is None:
        return None
    carried = {r for r in function.results if r in function.params} - function.tensor_results
    for node in walk(roles.tree.definition(name)):
        if calls_method(node, "fill_") and len(node.args) == 1 and _is_rate(node.func.value):
            found = names_in(node.args) & carried
        elif isinstance(node, ast.Assign) and any(map(_is_rate, node.targets)):
            found = names_in([node.value]) & carried
        else:
            continue
        if found:
            return min(found)
    return None


def _is_rate(node: ast.expr) -> bool:
    """Whether an expression is the learning rate of a parameter group."""
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == "lr"


def changed_option(roles: Roles, update: ast.FunctionDef) -> ast.expr | None:
    """Where training may change an option of an optimizer that an update steps."""
    changes = [*changed_options(roles)]
    if not changes:
        return None
    world = roles.get(World)
    stepped = {t for n in walk(update) if roles.is_step(n) for t in world.of(receiver(n))}
    own = world.reach(stepped) if world.is_known(stepped) else None
    for node, groups in changes:
        found = world.of(groups)
        others = found and UNKNOWN not in found and own is not None and own.isdisjoint(world.reach(found))
        if not (others or world.never_runs(groups)):
            return node
    return None


def _made_anew(roles: Roles, update: ast.FunctionDef) -> tuple[int, str] | None:
    """Where the training loop may make another optimizer that an update steps, with its name.

    Compiled code guards on the optimizer itself. These count as made once: an optimizer that a constructor makes, one
    that is made only if there is none yet, and one that is made outside the training loop, once for each training.
    """
    training = {*roles.reached([roles.phases.loop])}
    made = [o for o in roles.optimizers if o.call in training and not _made_once(roles.tree, o)]
    steps = [receiver(n) for n in walk(update) if roles.is_step(n)]
    for one in made:
        held = roles.get(World).of(one.call)
        if any(unparse(stepped) == one.name or held & roles.get(World).of(stepped) for stepped in steps):
            return one.stmt.lineno, one.name
    return None


def _made_once(tree: Tree, optimizer: Optimizer) -> bool:
    """Whether an optimizer is made by a constructor, or under a test of its name: `if self.optimizer is None`."""
    if getattr(tree.scope_of(optimizer.stmt), "name", "") == "__init__":
        return True
    word = last_written(optimizer.stmt.targets[0])
    tests = [n.test for n in tree.ancestors(optimizer.stmt) if isinstance(n, ast.If)]
    asked = [n for test in tests for n in walk(test)]
    return any(word in (getattr(n, "id", None), getattr(n, "attr", None), getattr(n, "value", None)) for n in asked)


def _set_option(roles: Roles, function: ast.FunctionDef) -> ast.expr | None:
    """Where a function may set options of a parameter group, except a rate that is not a tensor.

    Dynamo traces optimizers as capturable. When it writes back a group that traced code has changed, it writes that
    flag too. On a CPU, such an optimizer cannot step in eager code: after the recompilation limit, or in another phase.
    """
    tree = roles.tree
    asking = [f for f in tree.of(ast.FunctionDef) if _asks_groups(f)]
    if _option_set_in(tree, asking) is None:
        return None
    run = roles.get(World).functions_run(function)
    may_run = {*roles.reached([function])} if run is None else run
    return _option_set_in(tree, [f for f in asking if f in may_run])


def _option_set_in(tree: Tree, functions: Sequence[ast.FunctionDef]) -> ast.expr | None:
    """Where these functions, or functions that they call, may set an option of a group."""
    functions = [*functions]
    for asks in functions:  # the list grows
        called = (tree.function_called(n) for n in walk(asks) if isinstance(n, ast.Call))
        functions += [f for f in called if f is not None and f not in functions]
    reached = [n for f in functions for n in walk(f)]
    never = {
        n
        for node in reached
        if isinstance(node, ast.If) and tree.calls(node.test, "torch.is_tensor")
        for s in node.orelse
        for n in walk(s)
    }
    for node in reached:
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and node not in never:
            # the code of one-graph restores RAdam's `capturable`
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            if isinstance(key, str) and key != "capturable":
                return node
        elif calls_method(node, "update", "setdefault") and "group" in ast.unparse(node.func):
            return node
    return None


def _asks_groups(function: ast.FunctionDef) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "param_groups" for n in walk(function))


def _compiled_nodes(roles: Roles, functions: Sequence[str]) -> Iterator[ast.AST]:
    """The nodes of all compiled code: these functions, the code that chooses the actions, and their callees."""
    history = roles.history
    acting = [n for n in roles.tree.of(ast.FunctionDef) if n.name in (history.act, history.policy)]
    target = [ast.parse(f"{history.policy_target}()")] if history.policy_target else []  # a network's forward()
    yield from roles.reached([*map(roles.tree.definition, functions), *acting, *target])


def _may_draw(roles: Roles, functions: Sequence[str]) -> bool:
    """Whether compiled code may draw arrays from numpy's generator; Dynamo would draw them from torch's instead.

    Code may draw if it names the generator or calls code of another file.
    """
    tree = roles.tree
    for path in roles.networks:
        made = [value for _, value in roles.assignments(path.partition(".")[0])]
        made += [s.value for s in tree.of(ast.Assign) if path in map(ast.unparse, s.targets)]
        calls = [n for value in made for n in walk(value) if isinstance(n, ast.Call)]
        ours = any(tree.constructor(c) or (tree.qualified(c.func) or "").startswith("torch.nn.") for c in calls)
        if not ours and path != "self":
            return True
    for node in _compiled_nodes(roles, functions):
        name = tree.qualified(node.func if isinstance(node, ast.Call) else node) or ""
        draws, whose = library_does(name) == "draws", role(name)
        known = draws or whose in ("plain", "tensors") or not isinstance(node, ast.Call)
        if name and (not known or (draws and whose == "tensors")):  # Dynamo leaves Python's generator to Python
            return True
    return False


def _policy_is_known(roles: Roles) -> bool:
    """Whether training is known to change nothing of the policy's network but the values of its parameters."""
    target = roles.history.policy_target
    return target is not None and target.partition(".")[0] not in roles.history.unsteady


def _policy_is_steady(roles: Roles) -> bool:
    """Whether the policy reads only its tensor arguments, parameters, and what never changes.

    There must be one call: without guards, nothing would detect a call with other arguments.
    """
    calls, capture = roles.policy_calls, Capture(roles)
    once = len(calls) == 1
    tensors = once and not roles.history.policy_others
    return tensors and all(capture.obstacle_of_call(call) is None for call in calls)


TRANSFORM = Transform(INFO, apply, ALL)
