"""Compile policy, advantages and update with torch.compile, behind --compile."""

from __future__ import annotations

import ast

from transformer.dataflow.access import access
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.imports import add_imports
from transformer.syntax.query import backwards, statements, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.transforms.base import BOTH, Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.extraction import extract_inner
from transformer.values.device.graph_capture import Capture
from transformer.values.device.python_counters import counted

INFO = TransformInfo(
    name="compile",
    summary="compile policy, gae and update with torch.compile, behind --compile",
    applies=(
        "to the policy, gae() and update(), with all of torch.compile's guards, unless they are known to fail under "
        "it; guards are left out where the policy is a network of known modules, of which nothing but parameters' "
        "values is known to change in training"
    ),
    safety=(
        "Without --compile nothing changes. With it the same operations run fused, so results agree within rounding, "
        "with the random numbers that the eager run draws. "
        "The recurrence of the advantages stays eager: unrolled over the rollout it would compile for minutes; on a "
        "CPU all of gae() does, as its one call per rollout saves less than it takes to compile. A policy that reads "
        "nothing that may change, but for the parameters' values, guards nothing but its input. Where torch runs "
        "AVX-512 kernels of its own, Inductor takes it that they work."
    ),
    needs=("flags",),
    before="for iteration in range(1, args.num_iterations + 1):\n    ...",
    after=(
        'if args.compile:\n    options = {"fallback_random": True, "size_asserts": False}\n'
        '    unguarded = {"guard_filter_fn": torch.compiler.keep_tensor_guards_unsafe}\n'
        "    policy = torch.compile(policy, options={**options, **unguarded})\n"
        '    if torch.device(device).type != "cpu":\n        gae = torch.compile(gae, options=options)\n'
        "    update = torch.compile(update, options=options)\n\n"
        "for iteration in range(1, args.num_iterations + 1):\n    ..."
    ),
)


def apply(state: State) -> Rewrite:
    """Add the block above the training loop.

    Raises:
        Skip: there is no function to compile.
    """
    tree, roles = state.tree, state.roles
    facts, edits = state.history, Edits(state.source)
    hook = roles.hook(r"\w*forward_\w*")
    if hook is not None and hook in roles.run_by_training:
        raise Skip(f"line {hook.lineno} registers a hook while training goes on, which compiled code would not see")
    updates = facts.all_updates
    functions: list[str] = []
    notes: list[str] = []
    for name, passes in {**updates, **facts.auxiliary}.items():
        definition = tree.definition(name)
        grown, number = _grown(definition), counted(roles, definition)
        if number:
            notes.append(f"{name}() stays eager: {number} counts in Python, each number would be compiled anew")
        elif grown:
            notes.append(f"{name}() stays eager: {grown} grows, each length would be compiled anew")
        elif passes <= 1 or (name in updates and facts.traced):
            functions.append(name)
        else:
            notes.append(f"{name}() stays eager: it runs backward() {passes} times, a compiled graph only once")
    functions += facts.target_updates
    if not functions and not facts.policy and "gae" not in facts.functions:
        raise Skip("; ".join(notes) or "neither policy nor gae() nor update() could be made a function")
    if "gae" in facts.functions:
        _keep_recurrence_eager(state, edits)
    untraced = [n for n in functions if n not in facts.target_updates and not (n in updates and facts.traced)]
    kept = tree.names.fresh("aot_config") if any(_keeps_graph(tree.definition(n)) for n in untraced) else None
    if kept is not None:
        add_imports(tree.root, edits, f"from torch._functorch import config as {kept}")
    edits.before(
        roles.outermost,
        render(
            "compile",
            flag=facts.flags["compile"],
            policy=facts.act or facts.policy,  # what a step calls; the other is called once per rollout
            steady=_is_steady(roles),
            gae=facts.functions["gae"].name if "gae" in facts.functions else None,
            device=roles.device,
            functions=functions,
            kept=kept,
            options=tree.names.fresh("options"),
            unguarded=tree.names.fresh("unguarded") if facts.policy and _is_known(roles) else None,
        ),
        gap=1,
    )
    return Rewrite(edits, notes=tuple(notes))


def _keeps_graph(function: ast.FunctionDef) -> bool:
    """Whether a function computes gradients and keeps their graph, for another pass or for gradients of these."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("backward", "grad")
        and any(k.arg in ("retain_graph", "create_graph", None) for k in node.keywords)
        for node in walk(function)
    )


def _grown(function: ast.FunctionDef) -> str | None:
    """What a function does not make itself and makes longer: a list, or one in a dictionary."""
    made = {n for s in statements(function.body) if isinstance(s, ast.Assign) for n in access(s).binds}
    for node in walk(function):
        if isinstance(node, ast.AugAssign) and isinstance(node.value, (ast.List, ast.ListComp)):
            longer: ast.expr = node.target
        elif isinstance(node, ast.Attribute) and node.attr in ("append", "extend", "insert"):
            longer = node.value
        else:
            continue
        while isinstance(longer, (ast.Subscript, ast.Attribute)):
            longer = longer.value
        if isinstance(longer, ast.Name) and longer.id not in made:
            return longer.id
    return None


def _is_known(roles: Roles) -> bool:
    """Whether nothing but parameters' values of the policy's network is known to change in training."""
    target = roles.history.policy_target
    return target is not None and target.partition(".")[0] not in roles.history.unsteady


def _is_steady(roles: Roles) -> bool:
    """Whether the policy reads nothing that may change but tensors that it is given, and parameters.

    It must be called in one way: without guards nobody would notice that an argument is left out.
    """
    calls, capture = roles.policy_calls, Capture(roles)
    once = len(calls) == (2 if roles.history.act else 1)  # evaluate-once: one for the eager run, one for the compiled
    tensors = once and not roles.history.policy_others
    return tensors and all(capture.obstacle_of_call(call) is None for call in calls)


def _keep_recurrence_eager(state: State, edits: Edits) -> None:
    """Move each loop over time out of gae(), and out of the functions that it calls, into one that stays eager."""
    tree = state.tree
    name = state.history.functions["gae"].name
    function = tree.definition(name)
    doc = "Accumulate backwards in time; torch.compile would unroll this loop over the whole rollout."
    called = [tree.function_called(n) for n in walk(function) if isinstance(n, ast.Call)]
    for owner in dict.fromkeys([function, *(f for f in called if f is not None)]):
        for loop in (n for n in walk(owner) if isinstance(n, ast.For)):
            if backwards(loop.iter) is not None and not tree.loops_around(loop):
                extract_inner(state, edits, owner, loop, "recurrence", doc, "@torch.compiler.disable")


TRANSFORM = Transform(INFO, apply, BOTH)
