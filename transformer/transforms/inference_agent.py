"""Act with a copy of the networks that shares their parameters and needs no gradients."""

from __future__ import annotations

import ast
import re

from transformer.conversion import TransformInfo
from transformer.copying import obstacle
from transformer.dataflow import statements
from transformer.edits import Edits
from transformer.host_work import arguments
from transformer.imports import add_imports
from transformer.kinds import Kinds
from transformer.rendering import render
from transformer.script import Script, names_in
from transformer.transforms.base import Skip, Transform

INFO = TransformInfo(
    name="inference-agent",
    summary="act with a copy of the agent that shares its parameters and needs no gradients",
    safety=(
        "The copy's parameters are the trained ones' storage, which the optimizer changes in place, so it is never "
        "stale. It is made by deepcopy, not by constructing a second agent, so no random number is drawn."
    ),
    needs=(),
    before="with torch.no_grad():\n    action, logprob, _, value = agent.get_action_and_value(next_obs)",
    after=(
        "agent_inference = deepcopy(agent).requires_grad_(False)\nfrom_module(agent).data.to_module(agent_inference)\n"
        "policy = agent_inference.get_action_and_value\n\nwith torch.no_grad():\n"
        "    action, logprob, _, value = policy(next_obs)"
    ),
)

PARAMETRIZED = ("spectral_norm", "weight_norm", "parametrize", "BatchNorm1d", "BatchNorm2d")

MODES = ("ropout", "BatchNorm", "InstanceNorm", "RReLU", "MultiheadAttention", "Transformer", "spectral_norm")
"""Parts of the names of torch's modules, and of their options, that act differently in training and evaluation."""


def apply(script: Script) -> str:
    """Make the copy after the last statement that sets the networks up, and call it where no gradient is needed.

    Raises:
        Skip: no such call, or a copy could differ from the trained network.
    """
    calls = _acting_calls(script)
    if not calls:
        raise Skip("no call of a trained network under torch.no_grad() was found in the rollout or the advantages")
    roots = list(dict.fromkeys(_root(c) for c in calls))
    for name in roots:
        _check_copyable(script, name)
    edits = Edits(script.source)
    copies = {name: script.names.fresh(f"{name}_inference") for name in roots}
    aliases: dict[str, str] = {}
    acting = _action_callee(script)
    for call in calls:
        callee = ast.unparse(call.func)
        wanted = "policy" if callee == acting else _method(call)
        if callee not in aliases and wanted:
            aliases[callee] = script.names.fresh(wanted)
        edits.substitute(call.func, aliases.get(callee) or copies[_root(call)])
    targets = {c: copies[c.split(".")[0]] + c[len(c.split(".")[0]) :] for c in aliases}
    anchor = _last_setup(script, roots)
    edits.after(anchor, render("inference_agent", copies=copies, aliases=[(aliases[c], targets[c]) for c in aliases]))
    add_imports(script.tree, edits, "from copy import deepcopy", "from tensordict import from_module")
    script.facts.inference = copies
    script.facts.aliases = {targets[c]: name for c, name in aliases.items()}
    script.facts.policy = aliases.get(acting) if acting else None
    kinds = Kinds(script)
    script.facts.policy_others = tuple(
        ast.unparse(value)
        for call in calls
        if ast.unparse(call.func) == acting
        for value in arguments(call)
        if not _is_tensor(script, kinds, value)
    )
    return script.finish(edits)


def _acting_calls(script: Script) -> list[ast.Call]:
    """Calls of networks, or of their methods, before the update and without gradients."""
    p = script.phases
    found = []
    for stmt in p.block[: p.block.index(p.learn)]:
        for node in ast.walk(stmt):
            if isinstance(node, ast.Call) and _root(node) in script.modules and _without_gradients(script, node):
                if _method(node) not in (
                    "parameters",
                    "train",
                    "eval",
                    "state_dict",
                    "to",
                    "load_state_dict",
                    "modules",
                ):
                    found.append(node)
    return sorted(found, key=lambda c: (c.lineno, c.col_offset))


def _root(call: ast.Call) -> str:
    """The network's name in `agent(x)` or `agent.method(x)`; '' for anything else."""
    func = call.func
    if isinstance(func, ast.Attribute):
        func = func.value
    return func.id if isinstance(func, ast.Name) else ""


def _method(call: ast.Call) -> str | None:
    return call.func.attr if isinstance(call.func, ast.Attribute) else None


def _without_gradients(script: Script, node: ast.AST) -> bool:
    for outer in script.source.ancestors(node):
        if isinstance(outer, ast.With):
            for item in outer.items:
                if script.calls(item.context_expr, "torch.no_grad", "torch.inference_mode"):
                    return True
    return False


def _action_callee(script: Script) -> str | None:
    """The callee whose result reaches the environment's step."""
    step = script.phases.env_step
    wanted = names_in([*step.args, *(k.value for k in step.keywords)])
    scope = list(statements(script.phases.block))
    for _ in range(4):  # action -> clipped action -> numpy action: a short chain of assignments
        for stmt in scope:
            if isinstance(stmt, ast.Assign) and names_in(stmt.targets) & wanted:
                if isinstance(stmt.value, ast.Call) and _root(stmt.value) in script.modules:
                    return ast.unparse(stmt.value.func)
                wanted |= names_in([stmt.value])
    return None


def _is_tensor(script: Script, kinds: Kinds, value: ast.expr) -> bool:
    """Whether an argument is known to be a tensor, a tuple of tensors, or a constant."""
    named = isinstance(value, ast.Name) and kinds.tensors_before(value.id, script.source.statement(value))
    return named or isinstance(value, ast.Constant) or kinds.tensor(value)


def _last_setup(script: Script, roots: list[str]) -> ast.stmt:
    """The last statement above the training loop, in its block, that mentions a network or its optimizer."""
    names = set(roots) | {o.name for o in script.optimizers}
    anchors = [s for s in script.setup if names_in([s]) & names]
    if not anchors:
        raise Skip("the networks are not made in the block of the training loop")
    return anchors[-1]


def _check_copyable(script: Script, name: str) -> None:
    """A copy acts as the original as long as both hold the same tensors.

    Raises:
        Skip: something else than the parameters may change.
    """
    inside = {id(n) for n in ast.walk(script.outermost)}
    for node in ast.walk(script.scope):
        if isinstance(node, ast.Call) and _root(node) == name and _method(node) in ("train", "eval"):
            if id(node) in inside and _has_modes(script):
                raise Skip(f"line {node.lineno} switches {name} between training and evaluation")
        if isinstance(node, ast.Call) and id(node) in inside:
            moved = _root(node) == name and _method(node) in ("cpu", "cuda", "half", "float", "double", "bfloat16")
            if moved or ast.unparse(node.func).endswith("vector_to_parameters"):
                raise Skip(f"line {node.lineno} gives the parameters other memory")
            if _method(node) == "add_module" or (
                ast.unparse(node.func) == "setattr" and name in names_in(node.args[:1])
            ):
                raise Skip(f"line {node.lineno} writes an attribute of {name}")
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            if isinstance(node, ast.Attribute) and node.attr == "data" and id(node) in inside:
                raise Skip(f"line {node.lineno} gives a parameter other memory")
            if re.match(rf"{name}\b", ast.unparse(node.value)) and id(node) in inside:
                raise Skip(f"line {node.lineno} writes an attribute of {name}")
    step = script.phases.env_step
    env = names_in([step.func] if isinstance(step.func, ast.Attribute) else step.args)
    for stmt, value in script.assignments(name):
        if id(stmt) in inside:
            raise Skip(f"line {stmt.lineno} makes {name} anew in the training loop")
        if names_in([value]) >= {name} and isinstance(value, ast.Call) and _method(value) == "to":
            continue
        constructor = script.constructor(value)
        if constructor is None:
            raise Skip(f"line {stmt.lineno} makes {name} of a class that is not in this file")
        kept = {i for i, a in enumerate(constructor.args) if names_in([a]) & env}
        cls = script.classes[ast.unparse(constructor.func)]
        _check_classes(script, cls, kept, _handed_over(script, name, cls))
        why = obstacle(script, constructor, script.used_classes(cls))
        if why is not None:
            raise Skip(why)


def _has_modes(script: Script) -> bool:
    """Whether a module of the file may act differently in training and evaluation."""
    names = {n.attr for n in script.nodes if isinstance(n, ast.Attribute)} | names_in([script.tree])
    names |= {n.arg for n in script.nodes if isinstance(n, ast.keyword) and n.arg is not None}
    return "training" in names or any(part in name for name in names for part in MODES)


def _handed_over(script: Script, name: str, cls: ast.ClassDef) -> set[str]:
    """Attributes that one method of a network sets for another one, which is called after it in the update alone.

    The copy sets its own in the rollout, which nobody reads; the trained network's is then the update's as before.
    """
    acting = {id(c) for c in _acting_calls(script)}
    methods = [m for m in cls.body if isinstance(m, ast.FunctionDef)]
    found: set[str] = set()
    for attribute in sorted({n.attr for n in ast.walk(cls) if isinstance(n, ast.Attribute)}):
        writes = {m.name for m in methods for s in m.body if _sets(s, m, attribute) and m.name != "__init__"}
        uses = [n for n in script.nodes if isinstance(n, ast.Attribute) and n.attr == attribute]
        owner = {id(n): m.name for m in methods for n in ast.walk(m) if isinstance(n, ast.Attribute)}
        stores = sum(not isinstance(n.ctx, ast.Load) for n in uses)
        readers = {owner.get(id(n), "") for n in uses if isinstance(n.ctx, ast.Load)}
        if (
            not writes
            or stores != sum(_sets(s, m, attribute) for m in methods for s in m.body)
            or readers & {"", *writes}
        ):
            continue
        calls = [n for n in script.nodes if isinstance(n, ast.Call) and _method(n) in readers | writes]
        if any(_root(c) != name or any(c in ast.walk(s) for s in script.setup) for c in calls):
            continue
        reading = [c for c in calls if _method(c) in readers]
        writing = [c for c in calls if _method(c) in writes and id(c) not in acting]
        if all(id(r) not in acting and any(_precedes(script, w, r) for w in writing) for r in reading):
            found.add(attribute)
    return found


def _sets(stmt: ast.stmt, method: ast.FunctionDef, attribute: str) -> bool:
    """Whether a statement is `self.attribute = value`."""
    own = method.args.args[0].arg if method.args.args else "self"
    return isinstance(stmt, ast.Assign) and [ast.unparse(t) for t in stmt.targets] == [f"{own}.{attribute}"]


def _precedes(script: Script, first: ast.Call, second: ast.Call) -> bool:
    """Whether one call is made before another one in each turn of the innermost loop around the second."""
    statement = script.source.statement(first)
    if not isinstance(statement, (ast.Assign, ast.Expr)):
        return False
    block = script.source.block(statement)
    if script.loops_around(first)[:1] != script.loops_around(second)[:1] or not script.loops_around(first):
        return False
    around = [script.source.statement(second), *script.source.ancestors(second)]
    return any(s in around for s in block[block.index(statement) + 1 :])


def _check_classes(script: Script, cls: ast.ClassDef, env_arguments: set[int], handed_over: set[str]) -> None:
    """A network's class, and the classes that it uses, must keep no state but parameters.

    Raises:
        Skip: one does.
    """
    for inner in script.used_classes(cls):
        for method in (n for n in inner.body if isinstance(n, ast.FunctionDef)):
            _check_method(method, inner is cls, env_arguments, handed_over if inner is cls else set())
        for node in ast.walk(inner):
            if isinstance(node, (ast.Name, ast.Attribute)):
                used = node.id if isinstance(node, ast.Name) else node.attr
                if used in PARAMETRIZED:
                    raise Skip(f"{inner.name} uses {used} (line {node.lineno}), whose state changes when called")


def _parts(target: ast.expr) -> list[ast.expr]:
    """The targets in `a, (b, c)`."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return [part for element in target.elts for part in _parts(element)]
    return [target.value] if isinstance(target, ast.Starred) else [target]


def _check_method(method: ast.FunctionDef, outer: bool, env_arguments: set[int], handed_over: set[str]) -> None:
    own = method.args.args[0].arg if method.args.args else "self"
    params = [a.arg for a in method.args.args[1:]]
    envs = {params[i] for i in env_arguments if i < len(params)} if outer else set()
    for node in ast.walk(method):
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = [part for target in targets for part in _parts(target)]
            written = [t for t in parts if ast.unparse(t).startswith(f"{own}.")]
            if written and method.name != "__init__" and not any(_sets(node, method, a) for a in handed_over):
                raise Skip(f"{method.name} (line {node.lineno}) changes the network's own state when called")
            if written and isinstance(node.value, ast.Name) and node.value.id in envs:
                raise Skip(f"the network keeps the environment (line {node.lineno}), which must not be copied")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and method.name != "__init__":
            receiver = ast.unparse(node.func.value)
            if receiver.startswith(f"{own}.") and node.func.attr in (
                "append",
                "extend",
                "update",
                "pop",
                "clear",
                "add",
            ):
                raise Skip(f"{method.name} (line {node.lineno}) keeps a history on the network")


TRANSFORM = Transform(INFO, apply)
