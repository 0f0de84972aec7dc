"""Bind the callee that chooses the actions to a name, under which it can be compiled and captured."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from transformer.dataflow.access import access
from transformer.dataflow.closures import runs_elsewhere
from transformer.dataflow.grad_mode import without_gradients
from transformer.recognition.attribute_setting import attribute_set
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import calls_method, first_parameter, names_in, statements, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.tree import Tree
from transformer.transforms.base import BOTH, NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.rollout.computation import Computation
from transformer.values.device.waits import arguments
from transformer.values.networks.results import Results
from transformer.values.tensors import Tensors

INFO = TransformInfo(
    name="policy",
    brief="the call that chooses the actions has a name",
    summary="give the network call that chooses the actions a name, which --compile and --cudagraphs rebind",
    applies=(
        "when the calls that choose the actions run under torch.no_grad(), or call a method that enters it itself and "
        "only computes tensors from tensors. The network's name must be bound once, above the training loop, and a "
        "method that is called must be defined in this file, by the network's class. If the call returns a "
        "distribution in a method that a step calls, `acting-statements` moves the draw along with it"
    ),
    safety=(
        "The name refers to the method of the trained network itself, or to the network: it is the same call, under "
        "the same torch.no_grad()."
    ),
    costs=(
        "The code that chooses the actions is not compiled: call a network, or its method, on a tensor in the rollout, "
        "under torch.no_grad()."
    ),
    needs=("flags",),
    before="with torch.no_grad():\n    action, logprob, _, value = agent.get_action_and_value(next_obs)",
    after=(
        "policy = agent.get_action_and_value\n\nwith torch.no_grad():\n    action, logprob, _, value = policy(next_obs)"
    ),
    prepares=True,
)

FOLLOWED = 4
"""The maximum number of assignments to follow, as from action to clipped action to numpy action."""


def apply(state: State) -> Rewrite:
    """Bind the name below the last statement that sets up the network, and call it in the rollout.

    Raises:
        Skip: there is no such call, or its callee may change.
    """
    tree, roles = state.tree, state.roles
    callee = acting_callee(roles)
    if callee is None:
        raise Skip("no call of a trained network in the training loop itself chooses the actions")
    if is_own_method(roles, callee):
        raise NotNeeded(OWN_METHOD)
    calls = [c for c in calls_before_update(roles) if ast.unparse(c.func) == ast.unparse(callee)]
    if not calls:
        raise Skip("a network's result determines the actions of a later step")
    bare = next((c for c in calls if not records_nothing(roles, c)), None)
    if bare is not None:
        raise Skip(f"line {bare.lineno} calls {ast.unparse(callee)}() outside of torch.no_grad()")
    if not all(without_gradients(tree, call) or _only_computes(roles, call) for call in calls):
        raise Skip(f"{ast.unparse(callee)}() may do more than to compute tensors of tensors")
    drawn = next((call for call in calls if _is_distribution(roles, call)), None)
    if drawn is not None:
        returns = f"line {drawn.lineno} calls {ast.unparse(callee)}(), which returns a distribution"
        raise Skip(
            f"{returns}: draw in a method of the network with a parameter `action=None`, and return the action, too"
        )
    _check_constant(roles, callee)
    edits, policy = Edits(state.source), tree.names.fresh("policy")
    for call in calls:
        edits.substitute(call.func, policy)
    edits.after(_last_setup(roles, network_name(callee)), f"{policy} = {ast.unparse(callee)}")
    tensors = roles.get(Tensors)
    others = tuple(
        ast.unparse(value) for call in calls for value in arguments(call) if not is_tensor(tree, tensors, value)
    )
    target = ast.unparse(callee)
    return Rewrite(edits, replace(state.history, policy=policy, policy_target=target, policy_others=others))


def _is_distribution(roles: Roles, call: ast.Call) -> bool:
    """Whether a call's result, or a part of it that is bound to a name, is a distribution."""
    results, stmt = Results(roles, call), roles.tree.parents[call]
    targets = stmt.targets if isinstance(stmt, ast.Assign) else []
    count = max((len(t.elts) for t in targets if isinstance(t, ast.Tuple)), default=0)
    return results.is_distribution(None) or any(results.is_distribution(place, count) for place in range(count))


def records_nothing(roles: Roles, call: ast.Call) -> bool:
    """Whether gradients are off where a network is called, or in its method wherever that reads `self`."""
    if without_gradients(roles.tree, call):
        return True
    method = Results(roles, call).called[1]
    if method is None:
        return False
    own = first_parameter(method)
    reads = [n for stmt in method.body for n in walk(stmt) if isinstance(n, ast.Name) and n.id == own]
    return bool(reads) and all(without_gradients(roles.tree, n) for n in reads)


def _only_computes(roles: Roles, call: ast.Call) -> bool:
    """Whether a call passes tensors to a method that only computes with them and reads nothing on the host."""
    cls, method = Results(roles, call).called
    if method is None or any(calls_method(n, "numpy", "item", "tolist") for n in walk(method)):
        return False
    tensors = all(is_tensor(roles.tree, roles.get(Tensors), value) for value in arguments(call))
    return tensors and Computation(roles, cls).other(method) is None


OWN_METHOD = "the object that trains chooses the actions in a method of its own, not by a call of a network"


def is_own_method(roles: Roles, callee: ast.expr) -> bool:
    """Whether a callee is a method of the object that trains, as in `self.act(obs)`."""
    return isinstance(callee, ast.Attribute) and roles.tree.class_of_self(callee.value, roles.scope) is not None


def calls_before_update(roles: Roles) -> list[ast.Call]:
    """Calls of trained networks or their methods in the rollout and the advantages."""
    p = roles.phases
    nodes = (n for stmt in p.acting for n in walk(stmt))
    found = [n for n in nodes if isinstance(n, ast.Call) and network_name(n.func) in roles.modules]
    return sorted(found, key=lambda c: (c.lineno, c.col_offset))


def network_name(callee: ast.expr) -> str:
    """The network's name in `agent` and in `agent.method`; "" for anything else."""
    value = callee.value if isinstance(callee, ast.Attribute) else callee
    return value.id if isinstance(value, ast.Name) else ""


def acting_callee(roles: Roles) -> ast.expr | None:
    """The callee whose result reaches the environment's step."""
    for value in deciding_values(roles):
        for call in walk(value) if roles.kind == "off-policy" else (value,):
            if isinstance(call, ast.Call) and network_name(call.func) in roles.modules:
                return call.func
    return None


def deciding_values(roles: Roles) -> Iterator[ast.expr]:
    """The values assigned on the way to the environment's step, followed backwards from there."""
    step = roles.phases.env_step
    actions = [*step.args, *(k.value for k in step.keywords)]
    wanted = {name: [roles.tree.statement(step)] for name in names_in(actions)}
    for _ in range(FOLLOWED):
        for stmt in statements(roles.phases.block):
            if not isinstance(stmt, (ast.Assign, ast.AugAssign)):
                continue
            given = names_in(stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target])
            if not any(_reaches(roles, stmt, name, wanted) for name in given):
                continue
            if isinstance(stmt, ast.Assign):
                yield from _either(stmt.value)
            for name in names_in([stmt.value]) | (given if isinstance(stmt, ast.AugAssign) else set()):
                wanted.setdefault(name, []).append(stmt)


def _either(value: ast.expr) -> Iterator[ast.expr]:
    """The values that an expression may have: x or y for `x if c else y`."""
    parts = (value.body, value.orelse) if isinstance(value, ast.IfExp) else ()
    yield from (e for part in parts for e in _either(part)) if parts else (value,)


def _reaches(roles: Roles, stmt: ast.stmt, name: str, wanted: Mapping[str, Sequence[ast.stmt]]) -> bool:
    """Whether a statement may bind a name to the value that a later statement reads, or write into it."""
    scope = roles.scope
    writes = name not in access(stmt).binds
    return any(
        writes or runs_elsewhere(roles.tree, use, scope) or stmt in roles.reaching(scope).before(name, use)
        for use in wanted.get(name, ())
    )


def _check_constant(roles: Roles, callee: ast.expr) -> None:
    """Check that the callee is the same object, or a method of the same object, in each call.

    Raises:
        Skip: this is not known.
    """
    tree = roles.tree
    network = network_name(callee)
    if network in roles.variant:
        raise Skip(f"the training loop binds {network}")
    bound = [n for n in tree.of(ast.Name) if n.id == network and not isinstance(n.ctx, ast.Load)]
    inner = next((n for n in bound if roles.is_ours(n) and tree.scope_of(n) is not roles.scope), None)
    if inner is not None:
        raise Skip(f"line {inner.lineno} binds {network} in a function")
    if not isinstance(callee, ast.Attribute):
        return
    method = callee.attr
    for stmt, value in roles.assignments(network):
        moved = calls_method(value, "to")
        call = tree.constructor(value)
        if call is None and not (moved and network in names_in([value])):
            raise Skip(
                f"line {stmt.lineno} makes {network} from a class that is not in this file (--with adds another)"
            )
        cls = tree.classes[ast.unparse(call.func)] if call is not None else None
        for kind in tree.used_classes(cls) if cls is not None else ():
            special = [s for s in kind.body if isinstance(s, ast.FunctionDef) and s.name.startswith("__getattr")]
            if special:
                raise Skip(f"{kind.name} overrides attribute lookup (line {special[0].lineno})")
        if cls is not None and not any(isinstance(s, ast.FunctionDef) and s.name == method for s in cls.body):
            raise Skip(f"{cls.name} does not define {method}() itself")
    for node in tree.nodes:
        if (name := attribute_set(tree, node)) in (method, "__class__"):
            raise Skip(f"line {getattr(node, 'lineno', 1)} may set {name} of {network}")
        if isinstance(node, ast.Name) and node.id in ("setattr", "delattr", "exec", "eval"):
            raise Skip(f"line {node.lineno} may set {method} by its name")
    for node in roles.run_by_training:
        if attribute_set(tree, node) == "":
            raise Skip(f"line {getattr(node, 'lineno', 1)} may set {method} by its name")


def is_tensor(tree: Tree, tensors: Tensors, value: ast.expr) -> bool:
    """Whether an argument is known to be a tensor, a tuple of tensors, or a constant."""
    named = isinstance(value, ast.Name) and tensors.tensors_before(value.id, tree.statement(value))
    return named or isinstance(value, ast.Constant) or tensors.tensor(value)


def _last_setup(roles: Roles, network: str) -> ast.stmt:
    """The last statement above the training loop, in its block, that mentions the network or an optimizer."""
    names = {network, *(o.name for o in roles.optimizers)}
    anchors = [s for s in roles.setup if names_in([s]) & names]
    if not anchors:
        raise Skip("the networks are not made in the block of the training loop")
    return anchors[-1]


TRANSFORM = Transform(INFO, apply, BOTH)
