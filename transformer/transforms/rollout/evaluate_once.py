"""Let compiled steps only draw actions, and compute values and log-probabilities once for the whole rollout."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from transformer.dataflow.access import NONE, access
from transformer.dataflow.closures import runs_elsewhere
from transformer.dataflow.liveness import Liveness
from transformer.facts.torch_api import DISTRIBUTIONS, NO_GRAD, names, others, sets_computing
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.options import holds_options
from transformer.syntax.query import calls_method, is_read, names_in, root, statements, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.syntax.tree import Tree
from transformer.transforms.base import NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.extraction import top_level
from transformer.values.device.graph_capture import Capture
from transformer.values.device.on_host import names_entry, recorded
from transformer.values.effects.world import World
from transformer.values.networks.results import Results
from transformer.values.networks.rows import Rowwise

INFO = TransformInfo(
    name="evaluate-once",
    brief="--compile: values of all steps in one call",
    summary="under --compile, compute the rollout's values and log-probabilities in one call after it",
    applies=(
        "when a step uses only the actions. The policy must be a network of known modules that treats each row "
        "independently and draws only the actions, and training must be known to change only the values of its "
        "parameters. It also applies to further calls of such networks on the observations, such as "
        "`agent.get_value(next_obs)`"
    ),
    safety=(
        "Without --compile nothing changes. The steps use only the actions; the rest is only recorded. The networks "
        "compute each row of a batch independently, draw only the action, and do not change during the rollout. So one "
        "call for all recorded observations and actions returns what the steps would have, up to the rounding of "
        "matrix products of another size. It is used only for networks of linear layers, for which a second pass over "
        "the rollout costs less than the steps save."
    ),
    costs=(
        "Each step computes values and log-probabilities along with the action: give the method a parameter "
        "`action=None`, draw `if action is None`, and return the action too."
    ),
    needs=("flags", "policy", "storage", "sampling"),
    before=(
        "for step in range(args.num_steps):\n    action, logprob, _, value = policy(next_obs)\n"
        '    transition["values"] = value.flatten()\n    transition["logprobs"] = logprob'
    ),
    after=(
        "for step in range(args.num_steps):\n    if args.compile:\n        action = act(next_obs)\n    else:\n"
        '        action, logprob, _, value = policy(next_obs)\n        transition["values"] = value.flatten()\n'
        '        transition["logprobs"] = logprob\n\nif args.compile:\n    with torch.no_grad():\n'
        '        _, logprob, _, value = policy(\n            torch.cat([t["obs"] for t in transitions]),\n'
        '            action=torch.cat([t["actions"] for t in transitions]),\n        )\n    ...'
    ),
    regroups=(
        "values and log-probabilities of all steps are computed in one call; its rows are compared with calls of "
        "single steps within rounding"
    ),
)


@dataclass(frozen=True)
class Step:
    """The call that chooses the actions in a step of the rollout."""

    stmt: ast.Assign
    """`action, logprob, _, value = policy(next_obs)`"""
    targets: tuple[str, ...]
    observation: str
    parameter: str
    """The parameter of the method that takes actions already drawn."""
    place: int
    """The index of the actions among the results."""
    flat: bool
    """Whether the actions have one number per environment."""


def apply(state: State) -> Rewrite:
    """Split a step's computation: the steps draw actions, one call after the rollout computes the rest.

    Raises:
        Skip: the steps use more than actions, or one call for all steps may return something else.
    """
    roles = state.roles
    rollout = roles.rollout
    if not isinstance(rollout, ast.For) or state.history.policy is None:
        raise Skip("no network is called for the actions in a loop over the steps")
    if state.tree.imports.get("torch") != "torch":
        raise Skip("torch is not imported by its name")
    _check_modes(roles)
    step = _find_step(roles, rollout)
    records = {key: (stmt, value) for stmt, key, value in recorded(roles, rollout)}
    same = [".to(torch.float32)"] if state.history.other_precision is None else []  # linear layers accept only float32
    observations = _whole(records, step.observation, same)
    actions = _whole(records, step.targets[step.place], [".flatten()"] if step.flat else [])
    late = _late(roles, rollout, step, records)
    values = _postponable(roles, rollout, step, records)
    if not late and not values:
        raise NotNeeded("the steps record only the actions of the policy's results")
    _check_sizes(roles, [observations, actions], [*late, *(key for value in values for key in value.keys)])
    _check_untouched(roles, rollout, step, [records[observations][0], *(value.stmt for value in values)])
    return _rewrite(state, rollout, step, records, observations, actions, late, values)


@dataclass(frozen=True)
class Value:
    """Another call for the observations whose result is only recorded: `value = agent.get_value(next_obs)`."""

    stmt: ast.Assign
    name: str
    call: ast.Call
    keys: tuple[str, ...]
    """The keys of the entries that record its result."""


def _check_modes(roles: Roles) -> None:
    """Check that torch computes after the rollout as it did in its steps.

    Raises:
        Skip: something may switch the precision or the algorithms in between.
    """
    tree = roles.tree
    modes = others("autocast", "precision")
    switches = (n for n in tree.nodes if tree.last_name(n) in modes and n not in roles.autocast_headers)
    found = next(switches, None) or next(
        (n for n in roles.run_by_training if sets_computing(tree.qualified(n) or "")), None
    )
    if found is not None:
        raise Skip(f"line {getattr(found, 'lineno', 0)} sets how torch computes, perhaps only for some of the steps")


def _find_step(roles: Roles, rollout: ast.For) -> Step:
    """The one call of the policy, if it has the expected form.

    Raises:
        Skip: there are several, or it has another form.
    """
    tree = roles.tree
    calls = roles.policy_calls
    stmt = tree.statement(calls[0])
    if len(calls) > 1 or rollout not in tree.loops_around(calls[0]):
        raise Skip(f"line {calls[-1].lineno} calls the policy outside the steps, or a second time")
    for entered in _entered(tree, stmt, rollout):
        if not isinstance(entered, ast.Call) or not tree.calls(entered, *NO_GRAD):
            raise Skip(
                f"line {entered.lineno} enters {tree.text(entered)}, but one call for all steps would be outside it"
            )
    target = stmt.targets[0] if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 else None
    names = tuple(e.id for e in target.elts if isinstance(e, ast.Name)) if isinstance(target, ast.Tuple) else ()
    call = calls[0]
    if not isinstance(target, ast.Tuple) or len(names) != len(target.elts) or call is not getattr(stmt, "value", None):
        raise Skip(f"line {stmt.lineno} does not unpack what the policy returns into names")
    cls, method = Results(roles, call).called
    if cls is not None and (why := _convolves(tree, cls)):
        raise NotNeeded(why)
    if len(call.args) != 1 or call.keywords or not isinstance(call.args[0], ast.Name):
        raise Skip(f"line {stmt.lineno} passes the policy more than the observations")
    if cls is None or method is None:
        raise Skip(f"the function that {ast.unparse(call.func)}() runs is not known")
    parameter, place = _given_action(roles, method, len(names))
    why = Rowwise(roles, cls).obstacle(method.name) or Capture(roles).obstacle_of_call(call)
    if why is not None:
        raise Skip(why)
    assert isinstance(stmt, ast.Assign)
    return Step(stmt, names, call.args[0].id, parameter, place, _draws_numbers(roles, method, parameter))


def _entered(tree: Tree, stmt: ast.stmt, rollout: ast.For) -> list[ast.expr]:
    """The context expressions of the `with` blocks in a step that contain a statement."""
    around = [n for n in tree.ancestors(stmt) if isinstance(n, ast.With) and rollout in tree.ancestors(n)]
    return [item.context_expr for block in around for item in block.items]


def _postponable(roles: Roles, rollout: ast.For, step: Step, records: Records) -> list[Value]:
    """Calls of known networks on the observations whose results are not needed before the end of the rollout."""
    tree, found = roles.tree, list[Value]()
    live = Liveness.of(roles.scope.body, NONE, roles.counted).after[rollout]
    recording: dict[ast.stmt, str] = {stmt: key for key, (stmt, _) in records.items()}
    for stmt in statements(rollout.body):
        call = stmt.value if isinstance(stmt, ast.Assign) else None
        target = stmt.targets[0] if isinstance(stmt, ast.Assign) else None
        if not isinstance(stmt, ast.Assign) or not isinstance(call, ast.Call) or not isinstance(target, ast.Name):
            continue
        if len(stmt.targets) > 1 or [ast.unparse(a) for a in (*call.args, *call.keywords)] != [step.observation]:
            continue
        name, entered = target.id, _entered(tree, stmt, rollout)
        if _is_bound_or_read_elsewhere(roles, rollout, name) or root(call.func) not in roles.modules:
            continue
        if name in live or not entered or not all(tree.calls(e, *NO_GRAD) for e in entered):
            continue
        uses = [n for n in walk(rollout) if isinstance(n, ast.Name) and n.id == name and n is not target]
        keys = {key for n in uses if is_read(n) and (key := recording.get(tree.statement(n)))}
        if len(keys) != len(uses) or not keys or any(_needs_more(roles, rollout, records, k, name) for k in keys):
            continue
        leaving = {stmt, *(records[key][0] for key in keys)}
        if any(set(tree.block(s)) <= leaving for s in leaving) or rollout not in tree.loops_around(stmt)[:1]:
            continue
        if any(isinstance(n, ast.If) for n in tree.ancestors(stmt) if rollout in tree.ancestors(n)):
            continue
        if _evaluates(roles, call):
            found.append(Value(stmt, name, call, tuple(sorted(keys))))
    return found


def _evaluates(roles: Roles, call: ast.Call) -> bool:
    """Whether a call computes each row of a batch independently and cheaply, and draws nothing."""
    cls, method = Results(roles, call).called
    if cls is None or method is None or _convolves(roles.tree, cls):
        return False
    draws = any(_is_draw(roles, n) for n in walk(method))
    return not draws and not Rowwise(roles, cls).obstacle(method.name) and Capture(roles).obstacle_of_call(call) is None


def _is_bound_or_read_elsewhere(roles: Roles, rollout: ast.For, name: str) -> bool:
    """Whether a name of the training scope is bound more than once in a step, or read in a function or a closure."""
    tree = roles.tree
    same = [n for n in tree.of(ast.Name) if n.id == name and roles.is_ours(n)]
    bound = [n for n in same if not isinstance(n.ctx, ast.Load) and rollout in tree.ancestors(n)]
    inner = (n for n in same if runs_elsewhere(tree, n, roles.scope))
    return len(bound) > 1 or any(inner)


def _needs_more(roles: Roles, rollout: ast.For, records: Records, key: str, name: str) -> bool:
    """Whether an entry depends on more than a name and values that stay the same, or is read in the step."""
    value = records[key][1]
    names = [n for n in walk(value) if isinstance(n, ast.Name) and n.id != name]
    called = any(isinstance(n, ast.Call) and isinstance(n.func, ast.Name) for n in walk(value))
    read = sum(names_entry(roles, n, key) for n in walk(rollout))
    return called or read > 1 or not all(_stays(roles, n) for n in names)


def _stays(roles: Roles, name: ast.Name) -> bool:
    """Whether a name in a record is a module, the device, an argument of the script, or a size."""
    tree, parent = roles.tree, roles.tree.parents[name]
    if name.id in tree.imports or name.id == roles.device:
        return True
    part: ast.expr = parent if isinstance(parent, ast.Attribute) else name
    if name.id in roles.variant or roles.changed_by_training(part) is not None:
        return False
    if isinstance(parent, ast.Attribute) and holds_options(tree, name, roles.scope):
        return True
    call = tree.parents[part]
    return isinstance(call, ast.Call) and calls_method(call, *names("tensor", sizes=True)) and part in call.args


def _convolves(tree: Tree, cls: ast.ClassDef) -> str | None:
    """Where a network convolves: a second pass over the rollout would cost more than it saves in the steps."""
    nodes = (n for part in tree.used_classes(cls) for n in walk(part))
    made = next((n for n in nodes if (tree.qualified(n) or "").startswith("torch.nn.Conv")), None)
    return (
        None
        if made is None
        else f"line {getattr(made, 'lineno', 0)} convolves, and the convolutions would be computed again"
    )


def _given_action(roles: Roles, method: ast.FunctionDef, count: int) -> tuple[str, int]:
    """The parameter of a method that takes actions already drawn, and the index of the actions among its results.

    Raises:
        Skip: the method does not draw actions if they are omitted, and return the given ones otherwise.
    """
    own = method.args.args[1:]
    for parameter in own[len(own) - len(method.args.defaults) :]:
        name = parameter.arg
        asked = [n for n in method.body if isinstance(n, ast.If) and ast.unparse(n.test) == f"{name} is None"]
        if len(asked) != 1 or asked[0].orelse or len(asked[0].body) != 1:
            continue
        draw = asked[0].body[0]
        drawn = isinstance(draw, ast.Assign) and [ast.unparse(t) for t in draw.targets] == [name]
        bound = [n for n in walk(method) if isinstance(n, ast.Name) and n.id == name and not is_read(n)]
        last = method.body[-1]
        returns = [n for n in walk(method) if isinstance(n, ast.Return)]
        if not drawn or len(bound) != 1 or returns != [last]:
            continue
        assert isinstance(last, ast.Return)
        results = [ast.unparse(e) for e in last.value.elts] if isinstance(last.value, ast.Tuple) else []
        draws = [n for n in walk(method) if _is_draw(roles, n)]
        if results.count(name) == 1 and len(results) == count and all(n in walk(draw) for n in draws):
            return name, results.index(name)
    raise Skip(f"line {method.lineno}: {method.name}() cannot take the actions and return their log-probabilities")


def _draws_numbers(roles: Roles, method: ast.FunctionDef, parameter: str) -> bool:
    """Whether a method draws its actions, unchanged, from one categorical distribution: one number per row."""
    assigned = [s for s in statements(method.body) if isinstance(s, ast.Assign) and len(s.targets) == 1]
    targets = [ast.unparse(s.targets[0]) for s in assigned]
    values = {t: s.value for t, s in zip(targets, assigned, strict=True) if targets.count(t) == 1}
    draw = values.get(parameter)
    if draw is None or not _is_draw(roles, draw):
        return False
    made = [values[n.id] for n in walk(draw) if isinstance(n, ast.Name) and n.id in values]
    names = {roles.tree.qualified(m.func) or "" for m in made if isinstance(m, ast.Call)}
    return any(n.startswith(DISTRIBUTIONS) and n.endswith(".Categorical") for n in names)


def _is_draw(roles: Roles, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    return "sample" in ast.unparse(node.func).rpartition(".")[2] or ast.unparse(node) in roles.history.drawn


Records = dict[str, tuple[ast.Assign, ast.expr]]
"""By key: the statement `transition["key"] = value`, and the value."""


def _whole(records: Records, name: str, changing_nothing: list[str]) -> str:
    """The key under which a step records a name's tensor as it is.

    Args:
        records: what a step records.
        name: the name.
        changing_nothing: method calls that leave this tensor as it is.

    Raises:
        Skip: there is none.
    """
    for key, (_, value) in records.items():
        text = ast.unparse(value)
        for call in (".clone()", *changing_nothing):
            text = text.removesuffix(call)
        if text == name:
            return key
    raise Skip(f"{name} is not recorded as it is")


def _late(roles: Roles, rollout: ast.For, step: Step, records: Records) -> dict[str, str]:
    """The keys of the entries that can be computed after the rollout, each with the result that it is computed from.

    Raises:
        Skip: a step uses more than the actions.
    """
    found: dict[str, str] = {}
    live = Liveness.of(roles.scope.body, NONE, roles.counted).after[rollout]
    for place, name in enumerate(step.targets):
        if place == step.place:
            if step.targets.count(name) > 1:
                raise Skip(f"line {step.stmt.lineno} binds {name} twice")
            continue
        uses = [n for n in walk(rollout) if isinstance(n, ast.Name) and n.id == name and is_read(n)]
        if uses and _is_bound_or_read_elsewhere(roles, rollout, name):
            raise Skip(f"{name} (line {step.stmt.lineno}) is bound twice in a step, or read in a function")
        keys = [key for key, (_, value) in records.items() if name in names_in([value])]
        inside = {n for key in keys for n in walk(records[key][1])}
        other = next((n for n in uses if n not in inside), None)
        if other is not None or (name in live and uses):
            line = other.lineno if other is not None else step.stmt.lineno
            raise Skip(f"{name} (line {line}) is used for more than recording")
        for key in keys:
            stmt, _ = records[key]
            if _needs_more(roles, rollout, records, key, name) or step.targets.count(name) > 1:
                raise Skip(
                    f"the value recorded on line {stmt.lineno} is used in the step, or depends on more than {name}"
                )
            if len(roles.tree.block(stmt)) == 1:
                raise Skip(f"line {stmt.lineno} is the only statement in its block")
            found[key] = name
    return found


def _check_sizes(roles: Roles, whole: list[str], late: list[str]) -> None:
    """Check that all recorded values have a row per environment, so that the rows of steps can be concatenated.

    Raises:
        Skip: this is not known.
    """
    sizes = roles.history.storage_sizes
    rows = {tuple(sizes[key][0][:2]) for key in (*whole, *late)}
    if len(rows) != 1 or len(rows.pop()) != 2 or any(len(sizes[key][0]) != 2 or not sizes[key][1] for key in late):
        raise Skip("the recorded values are not known to have a row per environment")


def _check_untouched(roles: Roles, rollout: ast.For, step: Step, evaluated: list[ast.Assign]) -> None:
    """Check that what is recorded equals the inputs of the policy and of the other calls.

    Args:
        roles: the script.
        rollout: the loop over the steps.
        step: the policy's call.
        evaluated: the record of the observations, and the other calls.

    Raises:
        Skip: something may change the observations, the actions or a network in between.
    """
    lines = [stmt.lineno for stmt in (step.stmt, *evaluated)]
    action = step.targets[step.place]
    for stmt in statements(rollout.body):
        binds = access(stmt).binds
        if step.observation in binds and min(lines) <= stmt.lineno <= max(lines):
            raise Skip(f"line {stmt.lineno} changes {step.observation} between its record and the policy")
        if action in binds and stmt is not step.stmt:
            raise Skip(f"line {stmt.lineno} changes {action}")
    world = roles.get(World)
    held = world.changes(world.named(step.observation) | world.named(action), rollout.body, [step.stmt])
    if held is not None:
        raise Skip(f"line {held.lineno} {held.what}: the observations or the actions of a step")
    networks = world.reach({thing for name in roles.modules for thing in world.named(name)})
    held = world.changes(networks, rollout.body, [step.stmt, *evaluated])
    if held is not None:
        raise Skip(f"line {held.lineno} {held.what}: a network that is called once for all steps")


def _rewrite(
    state: State,
    rollout: ast.For,
    step: Step,
    records: Records,
    observations: str,
    actions: str,
    late: dict[str, str],
    values: list[Value],
) -> Rewrite:
    tree = state.tree
    facts, names, text, edits = state.history, tree.names, tree.text, Edits(state.source)
    assert facts.policy is not None
    act, flag = names.fresh("act"), facts.flags["compile"]
    nested = not isinstance(state.roles.scope, ast.Module)
    edits.before(
        state.roles.outermost if nested else top_level(tree, state.roles.outermost),
        render(
            "act",
            act=act,
            observation=names.fresh("observation"),
            method=facts.policy_target,
            place=step.place,
        ),
        gap=1 if nested else 2,
    )
    recorded_late = [*late, *(key for value in values for key in value.keys)]
    eager = [text(stmt) for stmt in (step.stmt, *(v.stmt for v in values), *(records[key][0] for key in recorded_late))]
    drawn = f"{step.targets[step.place]} = {act}({step.observation})"
    indented = "\n".join(f"    {line}" for line in eager)
    edits.replace(step.stmt, f"if {flag}:\n    {drawn}\nelse:\n{indented}")
    for stmt in (*(value.stmt for value in values), *(records[key][0] for key in recorded_late)):
        edits.remove(stmt)
    kept = set(late.values())
    edits.after(
        rollout,
        render(
            "evaluate_once",
            flag=flag,
            policy=bool(late),
            values=[(value.name, text(value.call.func)) for value in values],
            targets=", ".join(name if name in kept else "_" for name in step.targets),
            method=facts.policy_target,
            transitions=facts.transitions,
            transition=facts.transition,
            observations=observations,
            actions=actions,
            parameter=step.parameter,
            rows=names.fresh("rows"),
            results=[*dict.fromkeys(late.values()), *(value.name for value in values)],
            records=[text(records[key][0]) for key in recorded_late],
        ),
    )
    return Rewrite(edits, replace(facts, act=act))


TRANSFORM = Transform(INFO, apply)
