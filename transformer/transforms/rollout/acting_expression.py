"""Which expression of a method that chooses the actions runs a network, and can be compiled separately."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from transformer.dataflow.access import scope_access
from transformer.dataflow.grad_mode import without_gradients
from transformer.facts.python import TAKES_VALUES
from transformer.facts.torch_api import DISTRIBUTIONS, NO_GRAD, NO_GRAPH, ON_HOST
from transformer.recognition.roles import Roles
from transformer.syntax.query import first_parameter, statements, unparse, walk
from transformer.transforms.rollout.policy import deciding_values, is_tensor
from transformer.values.effects.world import World
from transformer.values.networks.computing import Computing
from transformer.values.networks.sealed import FUNCTIONS, is_plain_class
from transformer.values.tensors import Tensors

TO_HOST = ON_HOST | NO_GRAPH
"""Methods that turn a tensor into numbers; they stay in place."""
SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)


@dataclass(frozen=True)
class Expression:
    """An expression that runs a network to choose the actions, at all its places."""

    function: ast.FunctionDef
    cls: ast.ClassDef | None
    places: tuple[ast.expr, ...]
    """The places: expressions with the same text, in which the names mean the same."""
    params: tuple[str, ...]
    given: tuple[str, ...]
    """The arguments at each place."""
    text: str
    """The text of the expression, in terms of the parameters."""
    unused: bool
    """Whether gradients are recorded but not used, and the network is known to compute the same without them."""


def hooks(roles: Roles) -> bool:
    """Whether the script registers hooks, which may do anything when a network is called."""
    return roles.hook(r"\w*") is not None


def find_expression(roles: Roles) -> Expression | None:
    """The expression, in a function that chooses the actions; None if gradients may be used, or there is none."""
    for function, cls in () if hooks(roles) else _acting_functions(roles):
        found: dict[tuple[str, tuple[str, ...]], list[ast.expr]] = {}
        computing = Computing(roles, function, cls, stays=True)
        for stmt in statements(function.body):
            if isinstance(stmt, SIMPLE) and stmt.value is not None:
                for node in _computed(roles, computing, stmt, stmt.value):
                    quiet = not computing.records or without_gradients(roles.tree, stmt)
                    if not quiet and not (
                        _leads_to_numbers(roles, function, node, set()) and _keeps_nothing(roles, node)
                    ):
                        return None
                    key = unparse(node), tuple(computing.inputs)
                    found.setdefault(key, []).append(node)
        if found:
            (_, params), places = next(iter(found.items()))
            unused = not all(without_gradients(roles.tree, roles.tree.statement(n)) for n in places)
            unused = unused and all(_same_without(roles, function, cls, n) for n in places)
            given = (", ".join(params),) * len(places)
            return Expression(function, cls, tuple(places), params, given, roles.tree.text(places[0]), unused)
    return None if hooks(roles) else _own_network(roles)


def _own_network(roles: Roles) -> Expression | None:
    """The calls of one network of the object that trains, on tensors, by which its training method chooses the actions.

    The calls themselves stay where they are. None if gradients may be used, or the network may do more than compute.
    """
    tree, function, world = roles.tree, roles.scope, roles.get(World)
    cls = tree.parents[function] if isinstance(function, ast.FunctionDef) else None
    own = first_parameter(function) if isinstance(function, ast.FunctionDef) else None
    if not isinstance(cls, ast.ClassDef) or not isinstance(function, ast.FunctionDef) or not is_plain_class(tree, cls):
        return None
    if own is None or own in scope_access(function.body).binds or function.decorator_list:
        return None
    calls = [
        c
        for c in dict.fromkeys(deciding_values(roles))
        if isinstance(c, ast.Call)
        and isinstance(c.func, ast.Attribute)
        and unparse(c.func.value) == own
        and not tree.methods(c.func.attr)
        and world.is_module(c.func)
    ]
    alike = [c for c in calls if unparse(c.func) == unparse(calls[0].func) and len(c.args) == len(calls[0].args)]
    for call in alike:
        tensors = all(is_tensor(tree, roles.get(Tensors), a) for a in call.args)
        if not call.args or call.keywords or not tensors or world.may_be_made_by(call, DISTRIBUTIONS):
            return None
        run = _run_by(roles, call)
        if run is None or not _keeps_nothing(roles, call, run):
            return None
        if not without_gradients(tree, call) and not _leads_to_numbers(roles, function, call, set()):
            return None
    if not alike:
        return None
    names = [a.id if isinstance(a, ast.Name) else tree.names.fresh("observation") for a in alike[0].args]
    if len({*names, own}) <= len(names):
        return None
    given = tuple(", ".join(map(tree.text, c.args)) for c in alike)
    text = tree.splice(alike[0], list(zip(alike[0].args, names, strict=True)))
    return Expression(function, cls, tuple(alike), tuple(names), given, text, unused=False)


def _acting_functions(roles: Roles) -> Iterator[tuple[ast.FunctionDef, ast.ClassDef | None]]:
    """Functions and methods, with their classes, that choose the actions and are not part of the learning."""
    tree = roles.tree
    deciding = [n for v in deciding_values(roles) for n in roles.reached([v]) if isinstance(n, ast.FunctionDef)]
    left_out = {*roles.reached(roles.phases.updates[:1]), roles.scope}
    for function in dict.fromkeys(f for f in deciding if f not in left_out and f.name != "forward"):
        owner = tree.parents[function]
        own, plain = first_parameter(function), all(tree.calls(d, *NO_GRAD) for d in function.decorator_list)
        if not plain or any(isinstance(n, (ast.Yield, ast.YieldFrom, ast.Await)) for n in walk(function)):
            continue
        if isinstance(owner, ast.ClassDef):
            kept = own is not None and own not in scope_access(function.body).binds
            if kept and is_plain_class(tree, owner):
                yield function, owner
        elif owner is tree.root and isinstance(roles.scope, ast.Module) and function.name not in tree.rebound:
            yield function, None  # --compile rebinds a name of the training scope


def _computed(roles: Roles, computing: Computing, stmt: ast.stmt, node: ast.AST) -> Iterator[ast.expr]:
    """The largest parts of an expression that run a network, only compute, and make no distribution."""
    if isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        return
    to_host = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TO_HOST
    if isinstance(node, (ast.Call, ast.Subscript, ast.BinOp)) and not to_host:
        computing.begin(stmt)
        computes = computing.expression(node) and computing.calls_network
        if computes and not roles.get(World).may_be_made_by(node, DISTRIBUTIONS):
            yield node
            return
    for child in ast.iter_child_nodes(node):
        yield from _computed(roles, computing, stmt, child)


def _leads_to_numbers(roles: Roles, function: ast.FunctionDef, node: ast.expr, seen: set[ast.stmt]) -> bool:
    """Whether an expression of a function is only turned into numbers, possibly through the function's variables."""
    tree, below = roles.tree, node
    for outer in tree.ancestors(node):
        if isinstance(outer, ast.Attribute):
            if outer.attr in NO_GRAPH:
                return True
        elif isinstance(outer, (ast.Assign, ast.AnnAssign)):
            return outer.value is below and _names_lead_to_numbers(roles, function, outer, seen)
        elif isinstance(outer, ast.Call):
            name = tree.qualified(outer.func) or ""
            if tree.names.builtin(outer.func) in TAKES_VALUES:
                return True
            computes = name.startswith("torch.") and name.rpartition(".")[2] in FUNCTIONS and not outer.keywords
            if outer.func is not below and not computes:
                return False
        elif not isinstance(outer, (ast.Subscript, ast.BinOp, ast.UnaryOp)):
            return False
        below = outer
    return False


def _names_lead_to_numbers(
    roles: Roles, function: ast.FunctionDef, stmt: ast.Assign | ast.AnnAssign | ast.AugAssign, seen: set[ast.stmt]
) -> bool:
    targets = stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target]
    bound = [n for t in targets for n in (t.elts if isinstance(t, ast.Tuple) else [t])]
    names = {n.id for n in bound if isinstance(n, ast.Name)}
    if not all(isinstance(n, ast.Name) for n in bound) or names & roles.tree.declared:
        return False
    tree, reached = roles.tree, roles.reaching(function)
    used = [n for n in walk(function) if isinstance(n, ast.Name) and n.id in names]
    used = [n for n in used if isinstance(n.ctx, ast.Load) or isinstance(tree.parents[n], ast.AugAssign)]
    if stmt in seen or any(tree.scope_of(n) is not function for n in used):
        return stmt in seen
    seen.add(stmt)
    for name in (n for n in used if stmt in reached.before(n.id, tree.statement(n))):
        around = tree.parents[name]
        if isinstance(around, ast.AugAssign) and around.target is name:
            found = _names_lead_to_numbers(roles, function, around, seen)
        else:
            found = _leads_to_numbers(roles, function, name, seen)
        if not found:
            return False
    return True


def _keeps_nothing(roles: Roles, node: ast.expr, run: Sequence[ast.AST] | None = None) -> bool:
    """Whether an expression only runs known networks and stores nothing, perhaps with a graph, in attributes or items.

    Args:
        roles: the script.
        node: the expression.
        run: the nodes that it may run, if these are known.
    """
    nodes = roles.reached([node]) if run is None else run
    kept = (n for n in nodes if isinstance(n, (ast.Attribute, ast.Subscript)))
    called = {n for c in walk(node) if isinstance(c, ast.Call) for n in (c.func, getattr(c.func, "value", c.func))}
    networks = [n for n in called if unparse(n) in roles.networks]
    known = all(roles.get(World).is_module(n) for n in networks)
    return known and all(isinstance(n.ctx, ast.Load) for n in kept)


def _run_by(roles: Roles, call: ast.Call) -> Sequence[ast.AST] | None:
    """The nodes that calling a network of this file runs; None if not known, or if they call another library."""
    tree, world = roles.tree, roles.get(World)
    lineages = [tree.lineage(cls) for cls in world.classes(call.func)] if world.is_module(call.func) else []
    methods = [
        next((s for c in classes for s in c.body if isinstance(s, ast.FunctionDef) and s.name == "forward"), None)
        for classes in lineages
    ]
    known = [method for method in methods if method is not None]
    run = world.nodes_run(known) if known and len(known) == len(methods) else None
    names = {tree.qualified(n.func) or "torch." for n in run or () if isinstance(n, ast.Call)}
    return run if all(name.startswith("torch.") for name in names) else None


def _same_without(roles: Roles, function: ast.FunctionDef, cls: ast.ClassDef | None, node: ast.expr) -> bool:
    """Whether an expression is known to compute the same bits without gradients, judged by its networks."""
    sealed = Computing(roles, function, cls)
    sealed.begin(roles.tree.statement(node))
    return sealed.expression(node)
