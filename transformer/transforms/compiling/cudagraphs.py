"""Replay policy, advantages and update as CUDA graphs, behind --cudagraphs."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace

from transformer.dataflow.grad_mode import without_gradients
from transformer.facts.torch_api import MADE, optimizers
from transformer.recognition.history import Function
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.imports import add_imports
from transformer.syntax.query import backwards, calls_method, last_written, statements, unparse, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.syntax.tree import Tree
from transformer.transforms.base import BOTH, ON_CPU, NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.compiling.capturable import make_capturable
from transformer.transforms.compiling.flags import add_flag
from transformer.values.arrays import computes_with_arrays
from transformer.values.device.graph_capture import Capture
from transformer.values.device.waits import is_host, makes_on_host
from transformer.values.effects.objects import UNKNOWN
from transformer.values.effects.world import World
from transformer.values.minibatch_sizes import Unshown, evenness
from transformer.values.networks.distributions import goes_on_checking
from transformer.values.replay import is_steady
from transformer.values.tensors import Tensors, values

INFO = TransformInfo(
    name="cudagraphs",
    brief="--cudagraphs: replay of CUDA graphs",
    summary="replay policy, gae and update as CUDA graphs, behind --cudagraphs",
    applies=(
        "to functions whose calls are all known to work on the device only and to read nothing that the training loop "
        "changes; networks that they call must be made of known modules of which only the parameters' values change. "
        "Off-policy, it applies to updates that clear, compute and use their gradients, if the number of samples is "
        "constant"
    ),
    safety=(
        "Without --cudagraphs nothing changes; with it, optimizers are `capturable` where a graph holds their steps. "
        "CudaGraphModule copies the inputs into the graph and clones its "
        "outputs, so no call sees another's values. A replay runs no Python, so a function is captured only if all "
        "its calls are known to work on the device only and to read nothing that the training loop changes. Inputs "
        "that are not tensors, conditions on a tensor's value, copies from the host, prints, random numbers from the "
        "host, attribute assignments, code of other files, and minibatches of different sizes rule this out. A network "
        "that is not finite when a rollout begins stops the script, because a graph checks nothing."
    ),
    costs=(
        "On CUDA, each kernel is launched from Python: pass only tensors to policy and update, and keep prints, reads "
        "of numbers and attribute changes out of them."
    ),
    needs=("flags", "compile"),
    before="for iteration in range(1, args.num_iterations + 1):\n    ...",
    after=(
        "if args.cudagraphs:\n    policy = CudaGraphModule(policy, warmup=20)\n"
        "    gae = CudaGraphModule(gae, warmup=20)\n    update = CudaGraphModule(update, warmup=20)\n\n"
        "for iteration in range(1, args.num_iterations + 1):\n    ..."
    ),
    regroups=(
        "capturable optimizers count their steps in float32 on the device; their first steps are compared with "
        "ordinary ones within rounding"
    ),
)


IN_THE_ROLLOUT = (
    "a graph holds only a call of a network in the rollout itself: `with torch.no_grad(): action = agent.act(obs)`"
)
"""Why a function is not captured if it was made from a method, or from statements, that choose the actions."""
CAPTURABLE = optimizers(capturable=True) | optimizers(counts=False)


def apply(state: State) -> Rewrite:
    """Add the block above the training loop.

    Raises:
        Skip: there is nothing that a graph could hold, or no device to check.
    """
    roles = state.roles
    facts, edits = state.history, Edits(state.source)
    if facts.asked.target == "cpu":
        raise NotNeeded("the target is a CPU")
    if _names_only_the_cpu(roles.tree):
        raise NotNeeded(ON_CPU)
    named = _named_device(roles.tree)
    if roles.device is None and named is None:
        raise NotNeeded(ON_CPU)
    even = _evenness(roles)
    reasons = _obstacles(roles, even)
    notes = tuple(f"{name}() is not captured: {why}" for name, why in reasons.items() if why)
    if roles.device is None and named is not None:
        unmoved = f"only a class, or another function than the training loop's, uses the device of line {named.lineno}"
        raise Skip("; ".join((unmoved, *(notes if all(reasons.values()) else ()))))
    if all(reasons.values()):
        raise Skip("; ".join(notes) or "no function")
    update = facts.functions.get("update")
    captured = [name for name, why in reasons.items() if why is None]
    roles_of = {facts.policy: "policy", getattr(facts.functions.get("gae"), "name", None): "advantages"}
    beside = "policy" if facts.policy in captured else "networks of a step"  # such as one for the values
    parts = {*(roles_of.get(name, beside if name in facts.step_networks else "update") for name in captured)}
    held = [part for part in ("policy", "networks of a step", "advantages", "update") if part in parts]
    flag = add_flag(state, edits, "cudagraphs", **_help(held))
    if flag is None:
        raise Skip("the script has no arguments to which its flag could be added")
    make_capturable(state, edits, flag, steps=any(name in facts.all_updates for name in captured))
    for stmt in statements(roles.outermost.body):
        if isinstance(stmt, ast.If) and (compiled := _flag_of_check(roles.tree, stmt, facts.flags["compile"])):
            both = roles.tree.splice(stmt.test, [(compiled, f"({facts.flags['compile']} or {flag})")])
            edits.substitute(stmt.test, both)
            edits.before(stmt.body[0], render("finite_graphs", flag=flag))
    act = facts.act if facts.policy in captured else None  # under --compile, steps call `act` instead of the policy
    apart = {update and update.name, act and facts.policy}
    device = roles.device if facts.asked.target == "any" else None
    check = render("needs_cuda", flag=flag, device=device, device_type=roles.device_type) if device is not None else ""
    made = _made_above(roles, flag) if check else None
    if made is not None:  # before the script opens files
        edits.after(made, check)
    edits.before(
        roles.outermost,
        ("" if made is not None else check)
        + render(
            "cudagraphs",
            flag=flag,
            checked=not facts.unchecked,
            act=act,
            policy=facts.policy,
            compile=facts.flags["compile"],
            functions=[name for name in captured if name not in apart],
            update=update.name if update and update.name in captured else None,
            even=even,
        ),
        gap=1,
    )
    add_imports(state.tree.root, edits, "from tensordict.nn import CudaGraphModule")
    brief = f"--cudagraphs: graphs of {' and '.join(held)} only" if notes else ""
    return Rewrite(edits, replace(facts, flags={**facts.flags, "cudagraphs": flag}), left=notes, brief=brief)


def _help(parts: Sequence[str]) -> dict[str, str]:
    """The words in the help of the flag for these captured parts: as a list, and as "the policy ... are replayed"."""
    the, *others = [f"the {part}" for part in parts]
    listed = [" and ".join(filter(None, (", ".join(p[:-1]), p[-1]))) for p in (parts, [the, *others])]
    return {"replayed": listed[0], "are_replayed": f"{listed[1]} {'are' if others else 'is'} replayed"}


def _flag_of_check(tree: Tree, stmt: ast.If, flag: str) -> ast.expr | None:
    """The flag in the condition of the statement by which `compile` checks that a network is finite."""
    both = stmt.test.values if isinstance(stmt.test, ast.BoolOp) else []
    finite = len(both) == 2 and any(calls_method(n, "isfinite") for n in walk(both[1]))
    return both[0] if finite and tree.text(both[0]) == flag else None


def _named_device(tree: Tree) -> ast.Call | None:
    """Where a script sets the device that it uses; None if it does not, and runs on the CPU."""
    for node in tree.of(ast.Call):
        given = [k.value for k in node.keywords if k.arg == "device"]
        if calls_method(node, "to"):
            given += node.args[:1]
        own = (isinstance(n, ast.Name) or _is_own_attribute(tree, n) for n in given)
        if any(own) or calls_method(node, "cuda") or tree.calls(node, "torch.device", "torch.set_default_device"):
            return node
    return None


def _names_only_the_cpu(tree: Tree) -> bool:
    """Whether every device that a script makes is the CPU, and nothing in it names another kind."""
    given = [*(n.value for n in tree.of(ast.Assign)), *(n.value for n in tree.of(ast.keyword))]
    named = [n for n in given if isinstance(n, ast.Constant) and n.value == "cpu"]
    made = [*named, *tree.called.get("torch.device", ())]
    written = (n.value if isinstance(n, ast.Constant) else last_written(n) for n in tree.nodes)
    others = (w for w in written if isinstance(w, str) and re.search("cuda|mps|xpu", w, re.IGNORECASE))
    return bool(made) and all(is_host(tree, device) for device in made) and not any(others)


def _is_own_attribute(tree: Tree, node: ast.expr) -> bool:
    """Whether this is an attribute of a method's own object, `self.device`, and not of a tensor."""
    own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    return own and tree.class_of_self(node.value, tree.scope_of(node)) is not None  # type: ignore[attr-defined]


def _obstacles(roles: Roles, even: str | None) -> dict[str, str | None]:
    """The functions that might be captured, each with the reason against it; `even` is as by :func:`_evenness`."""
    facts, capture = roles.history, Capture(roles)
    checks = goes_on_checking(roles)
    found: dict[str, str | None] = {}
    if facts.policy:
        found[facts.policy] = checks or _against_policy(roles, capture)
    elif facts.act:
        why = capture.obstacle(roles.tree.definition(facts.act))
        found[facts.act] = checks or why or IN_THE_ROLLOUT
    for name in facts.step_networks:
        found[name] = checks or _with_gradients(roles, name) or capture.obstacle(roles.tree.definition(name))
    for role in ("gae", "update"):
        if role in facts.functions:
            function = facts.functions[role]
            definition = roles.tree.definition(function.name)
            backwards_in_time = [s for s in statements(definition.body) if isinstance(s, ast.For) and backwards(s.iter)]
            if role == "gae" and backwards_in_time and all(computes_with_arrays(roles, s) for s in backwards_in_time):
                continue  # it launches nothing on a device
            why = _not_tensors(function.others)
            if role == "update" and checks:
                why = why or checks
            if role == "update" and not facts.capturable:
                why = why or _not_capturable(roles)
            if role == "update" and not facts.static_update:
                why = why or "it branches on a tensor's value"
            why = why or _given_from_the_host(roles, function) or capture.obstacle(definition)
            if role == "update" and even is None:
                why = why or "whether its last minibatch is smaller cannot be told above the training loop"
            found[function.name] = why
    for name in facts.updates:
        captured = [other for other in facts.updates if other in found and found[other] is None]
        why = checks or _against_region(roles, facts.functions[name], captured)
        found[name] = why or capture.obstacle(roles.tree.definition(name))
    return found


def _made_above(roles: Roles, flag: str) -> ast.stmt | None:
    """The statement that makes the device, if it is the only one, above the training loop, and may read the flag."""
    made = [stmt for stmt, _ in roles.assignments(roles.device or "")]
    read = [stmt for stmt, _ in roles.assignments(flag.partition(".")[0])]
    if len(made) != 1 or made[0] not in roles.setup or not all(s in roles.setup for s in read):
        return None
    return made[0] if all(roles.setup.index(s) < roles.setup.index(made[0]) for s in read) else None


def _with_gradients(roles: Roles, name: str) -> str | None:
    """Where a network of a step that is trained is called with gradients, which no result of a graph may have."""
    tree, world = roles.tree, roles.get(World)
    calls = [n for n in tree.of(ast.Call) if unparse(n.func) == name and not without_gradients(tree, n)]
    trained = world.reach({thing for o in roles.optimizers for thing in world.of(o.call)})
    ran = {t for n in walk(tree.definition(name)) if isinstance(n, ast.Call) for t in world.of(n.func)}
    known = bool(ran) and all(t.kind == "made" for t in ran) and UNKNOWN not in trained
    if not calls or (known and trained.isdisjoint(world.reach(ran))):
        return None
    return f"line {calls[0].lineno} calls it with gradients: put it under torch.no_grad()"


def _against_region(roles: Roles, function: Function, captured: Sequence[str]) -> str | None:
    """Why an update of an off-policy loop cannot be captured, whatever it computes.

    Each call must clear, compute and use its gradients in this order. Then no graph reads gradients that another graph
    has left in its own memory.
    """
    facts = roles.history
    if not facts.traced:
        return f"one-graph does not apply: {facts.untraced}" if facts.untraced else "one-graph does not apply"
    if not facts.capturable:
        return _not_capturable(roles)
    call = next(n for n in walk(roles.outermost) if isinstance(n, ast.Call) and ast.unparse(n.func) == function.name)
    at = roles.tree.statement(call)
    varies = next((name for name in function.params if not is_steady(roles, name, at, captured)), None)
    return f"its argument {varies} may have another size in another call" if varies else None


def _not_capturable(roles: Roles) -> str:
    """Why no optimizer's step can be captured as it is."""
    for optimizer in roles.optimizers:
        line = f"line {optimizer.stmt.lineno} makes {optimizer.name}"
        if optimizer.kind not in CAPTURABLE:
            return f"{line}, of a kind that cannot be captured: Adam can"
        if optimizer.name in roles.history.reloaded:
            return f"the training loop loads a checkpoint into {optimizer.name}"
        if roles.tree.scope_of(optimizer.stmt) is not roles.scope:
            return f"{line} in another function than the training loop's"
    return "its optimizer cannot be captured"


def _against_policy(roles: Roles, capture: Capture) -> str | None:
    """Why the policy cannot be captured: a graph holds one call, with tensors."""
    calls = roles.policy_calls
    if len(calls) > 1:
        return f"line {calls[0].lineno} and line {calls[1].lineno} call it, perhaps with tensors of different sizes"
    return _not_tensors(roles.history.policy_others) or capture.obstacle_of_call(calls[0])


def _evenness(roles: Roles) -> str | None:
    """The condition under which all minibatches of update() have one size; "" if they always do, None if not known."""
    update = roles.history.functions.get("update")
    if update is None or roles.kind == "off-policy":
        return ""
    try:
        return evenness(roles, update)
    except Unshown:
        return None


def _given_from_the_host(roles: Roles, function: Function) -> str | None:
    """Why a graph cannot be given what a function is given: a tensor that is made on the host, and stays there."""
    if roles.tree.called.get("torch.set_default_device"):
        return None
    for call in (n for n in walk(roles.outermost) if isinstance(n, ast.Call) and unparse(n.func) == function.name):
        for given in call.args:
            made = _on_host(roles, given, roles.tree.statement(call))
            if made is not None:
                where = f"give {unparse(made.func)}() on line {made.lineno} a device"
                return f"its argument {unparse(given)} is made on the host: {where}"
    return None


def _on_host(roles: Roles, value: ast.expr, stmt: ast.stmt, depth: int = 8) -> ast.Call | None:
    """The call that makes a value on the host, if the value is not moved since."""
    while isinstance(value, (ast.Subscript, ast.Attribute)):
        value = value.value
    if isinstance(value, ast.Name) and depth:
        for bound in (b for b in roles.get(Tensors).bindings(value.id, stmt) if b is not None):
            for made in values(bound, value.id):
                if (found := _on_host(roles, made, bound, depth - 1)) is not None:
                    return found
    if not isinstance(value, ast.Call):
        return None
    if roles.tree.qualified(value.func) is not None:
        return value if makes_on_host(roles.tree, value, MADE) else None
    moved = not calls_method(value) or value.func.attr in ("to", "cuda")
    return None if moved else _on_host(roles, value.func.value, stmt, depth)  # type: ignore[attr-defined]


def _not_tensors(inputs: tuple[str, ...]) -> str | None:
    return f"its argument {inputs[0]} is not known to be a tensor" if inputs else None


TRANSFORM = Transform(INFO, apply, BOTH)
