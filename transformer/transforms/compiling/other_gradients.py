"""Gradients that training computes outside the updates, and whether they may mix with those of the updates."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from transformer.dataflow.access import access
from transformer.facts.libraries import module_methods
from transformer.facts.python import TAKES_VALUES
from transformer.facts.torch_api import NO_GRAPH, names, of_parameters
from transformer.recognition.optimizers import Optimizer
from transformer.recognition.roles import Roles
from transformer.syntax.options import holds_options
from transformer.syntax.query import calls_method, children, first_parameter, names_in, pairwise, statements, walk
from transformer.syntax.tree import Tree

NORMS = frozenset(name.rpartition(".")[2] for name in of_parameters(of="gradients"))
"""Functions of torch that read or change gradients."""
CHANGING = names("tensor", memory="in place", draws=False) - module_methods(sets="learning")
"""Methods that change a gradient's values."""


def clipping(update: ast.AST) -> Iterator[tuple[ast.Call | ast.For, ast.expr | None]]:
    """Where an update changes gradients, and of which parameters: by a function of torch, or in a loop over parameters.

    Such a loop is `for p in net.parameters(): p.grad.data.clamp_(-1, 1)`, as in PyTorch's first DQN tutorial.
    """
    for node in walk(update):
        if isinstance(node, ast.Call) and "clip_grad" in ast.unparse(node.func):
            given = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "parameters")]
            yield node, given[0] if given else None
        elif isinstance(node, ast.For) and _changes_each(node):
            yield node, node.iter


def _changes_each(loop: ast.For) -> bool:
    """Whether a loop over a network's parameters only changes each existing gradient in place, by constant numbers."""
    body, name, iterated = loop.body, loop.target, loop.iter
    plain = calls_method(iterated, "parameters") and not (iterated.args or iterated.keywords)
    if not plain or not isinstance(name, ast.Name) or loop.orelse or len(body) != 1:
        return False
    grad = f"{name.id}.grad"
    stmt = body[0]
    if isinstance(stmt, ast.If) and ast.unparse(stmt.test) == f"{grad} is not None" and len(stmt.body) == 1:
        stmt = stmt.body[0] if not stmt.orelse else stmt
    call = stmt.value if isinstance(stmt, ast.Expr) else None
    if not calls_method(call, *CHANGING) or ast.unparse(call.func.value) not in (grad, f"{grad}.data"):
        return False
    given = [*call.args, *(k.value for k in call.keywords)]
    return all(isinstance(a.operand if isinstance(a, ast.UnaryOp) else a, ast.Constant) for a in given)


def outside(roles: Roles, updates: Collection[ast.FunctionDef], optimizer: Optimizer) -> ast.Attribute | None:
    """Where code outside the updates may use gradients of an optimizer.

    Code of the training scope above or below the loop does not run during it. But code below it may read a gradient
    that no optimizer holds, which only the original computes. Another loss is allowed if it has an optimizer of its
    own, which clears its gradients before and steps after it. In addition, the updates must clear the gradients that
    this loss leaves, or the loss must not depend on the optimizer's parameters, like that of a Lagrange multiplier.
    Norms of gradients, and steps of optimizers without a loss of their own, may use gradients that others have left.
    """
    tree, stepped = roles.tree, {step.func for step in roles.optimizer_steps}
    passes = [n for n in tree.of(ast.Attribute) if n.attr == "backward" and _is_apart(roles, n, optimizer, updates)]
    owners = {_stepped(roles, _below(tree, n)) for n in passes}
    within = set(walk(roles.outermost))
    apart = {n for update in updates for n in walk(update)}
    for node in tree.nodes:
        if node in apart or not isinstance(node, ast.Attribute):
            continue
        scope = tree.scope_of(node)
        reads = node.attr == "grad" and tree.qualified(node) is None
        above = node.lineno < roles.outermost.lineno
        if node not in within and (scope is roles.scope or isinstance(scope, ast.Module)) and (above or not reads):
            continue
        if reads:
            return node
        if node.attr == "backward" and node not in passes:
            return node
        if node.attr in NORMS or (node in stepped and ast.unparse(node.value) not in owners):
            return node
    return None


def _is_apart(
    roles: Roles, backward: ast.Attribute, optimizer: Optimizer, updates: Collection[ast.FunctionDef]
) -> bool:
    """Whether a pass has its own optimizer, which clears and steps, and exchanges no gradients with this one."""
    block, below = roles.tree.block(roles.tree.statement(backward)), _below(roles.tree, backward)
    owner = _stepped(roles, below)
    above = block[: len(block) - len(below)]
    cleared = [i for i, s in enumerate(above) if owner is not None and _is_plain_call(s, owner, "zero_grad")]
    own = [o for o in roles.optimizers if o.name == owner]
    if not cleared or len(own) != 1 or owner == optimizer.name:
        return False
    step = next(s for s in below if roles.is_step(getattr(s, "value", None)))
    between = roles.reached(block[cleared[-1] : block.index(step)])
    mixed = any(isinstance(n, ast.Name) and n.id in {u.name for u in updates} for n in between)
    if not mixed and all(_clears_first(roles, u, optimizer) and _clips_its_own(roles, u) for u in updates):
        return True
    if not own[0].params or not optimizer.params:
        return False
    reached = _names_with_gradients(roles, (backward.value, *own[0].params))
    return reached is not None and not reached & (set(roles.modules) | names_in(optimizer.params))


def _below(tree: Tree, node: ast.AST) -> list[ast.stmt]:
    """The statement that contains a node, and those below it in its block."""
    stmt = tree.statement(node)
    block = tree.block(stmt)
    return block[block.index(stmt) :]


def _clears_first(roles: Roles, update: ast.FunctionDef, optimizer: Optimizer) -> bool:
    """Whether a function clears an optimizer's gradients before its step, if it uses the optimizer at all."""
    calls = [n for n in walk(update) if isinstance(n, ast.Call)]
    named = [c for c in calls if isinstance(c.func, ast.Attribute) and ast.unparse(c.func.value) == optimizer.name]
    cleared = [c.lineno for c in named if calls_method(c, "zero_grad")]
    stepped = [c.lineno for c in named if roles.is_step(c)]
    return not named or (bool(cleared and stepped) and min(cleared) < min(stepped))


def _clips_its_own(roles: Roles, update: ast.FunctionDef) -> bool:
    """Whether a function clips only gradients of the optimizers that it steps."""
    calls = [n for n in walk(update) if isinstance(n, ast.Call)]
    stepped = {ast.unparse(c.func.value) for c in calls if roles.is_step(c)}
    own = [o for o in roles.optimizers if o.name in stepped]
    clipping = [c for c in calls if roles.tree.last_name(c.func) in NORMS]
    return all(c.args and held_by(roles, c.args[0], own) for c in clipping)


def _stepped(roles: Roles, block: list[ast.stmt]) -> str | None:
    """The optimizer of the first statement that is a step()."""
    for stmt in block:
        call = stmt.value if isinstance(stmt, ast.Expr) else None
        if roles.is_step(call):
            return ast.unparse(call.func.value)
    return None


def _is_plain_call(stmt: ast.stmt, owner: str, method: str) -> bool:
    return isinstance(stmt, ast.Expr) and ast.unparse(stmt.value) == f"{owner}.{method}()"


def _names_with_gradients(roles: Roles, values: Collection[ast.expr]) -> set[str] | None:
    """All names to which gradients of these values may flow, by any binding in the script; None if not known."""
    found: set[str] = set()
    waiting = list(values)
    while waiting:
        for node in _carriers(roles, waiting.pop()):
            if isinstance(node, ast.Call):
                return None
            if node.id in found:
                continue
            found.add(node.id)
            bound = _all_values(roles, node.id)
            if not bound:
                return None
            if node.id not in roles.modules:
                waiting += bound
    return found


def _all_values(roles: Roles, name: str) -> list[ast.expr]:
    """All values of a name, in the training scope and in extracted functions; empty if one is unknown."""
    extracted = [roles.tree.definition(f.name) for f in roles.history.functions.values()]
    found = []
    for body in (roles.scope.body, *(d.body for d in extracted)):
        for stmt in statements(body):
            if name not in access(stmt).binds:
                continue
            if not isinstance(stmt, ast.Assign):
                return []
            for target, value in pairwise(stmt):
                names = [n.id for n in walk(target) if isinstance(n, ast.Name)]
                if name in names and not (
                    isinstance(value, ast.Call) and roles.tree.function_called(value) in extracted
                ):
                    found.append(value)
    return found


def _carriers(roles: Roles, value: ast.AST) -> Iterator[ast.Name | ast.Call]:
    """The names in a value through which gradients may flow, and the calls whose result is not known."""
    if isinstance(value, ast.Call):
        qualified = roles.tree.qualified(value.func) or ""
        if qualified.startswith("numpy.") or roles.tree.names.builtin(value.func) in TAKES_VALUES:
            return
        if isinstance(value.func, ast.Attribute) and not qualified:
            if value.func.attr in NO_GRAPH:
                return
            yield from _carriers(roles, value.func.value)
        elif not qualified.startswith("torch."):
            yield value
        for argument in (*value.args, *(k.value for k in value.keywords)):
            yield from _carriers(roles, argument)
    elif isinstance(value, ast.Attribute) and holds_options(roles.tree, value.value, roles.scope):
        return
    elif isinstance(value, ast.Name):
        yield value
    else:
        for child in children(value):
            yield from _carriers(roles, child)


def held_by(roles: Roles, clipped: ast.expr, optimizers: Collection[Optimizer]) -> bool:
    """Whether clipped parameters are known to be held by these optimizers."""
    if any(f"{o.name}.param_groups" in ast.unparse(clipped) for o in optimizers):
        return True
    held: set[str] = set()
    for optimizer in optimizers:
        for value in optimizer.params:
            if (seen := _in_training(roles, optimizer, value)) is not None:
                held.update(_terms(roles, seen, whole=True))
    owners = tuple(t.removesuffix("parameters()") for t in held if t.endswith(".parameters()"))
    terms = list(_terms(roles, clipped, whole=False))
    return bool(terms) and all(t in held or (t.endswith("parameters()") and t.startswith(owners)) for t in terms)


def _in_training(roles: Roles, optimizer: Optimizer, value: ast.expr) -> ast.expr | None:
    """An optimizer's argument in terms of the training scope: `agent.actor.parameters()` for `self.actor...`."""
    tree, scope = roles.tree, roles.tree.scope_of(optimizer.stmt)
    if scope is roles.scope:
        return value
    own = first_parameter(scope) if isinstance(scope, ast.FunctionDef) else None
    if not names_in([value]) <= {own, *tree.imports, "list", "tuple", "set"}:
        return None
    written = ast.parse(ast.unparse(value), mode="eval").body
    for node in walk(written):
        if isinstance(node, ast.Name) and node.id == own:
            node.id = optimizer.name.rpartition(".")[0]
    return written


def _terms(roles: Roles, value: ast.expr, *, whole: bool) -> Iterator[str]:
    """The sources of parameters, as written, through sums and lists; with `whole`, only those used completely."""
    if isinstance(value, ast.Name):
        made = roles.only_value(value.id)
        if made is not None:
            yield from _terms(roles, made, whole=whole)
        else:
            yield value.id
        return
    parts: list[ast.expr] = []
    if isinstance(value, (ast.ListComp, ast.GeneratorExp)):
        chosen = any("requires_grad" not in ast.unparse(test) for g in value.generators for test in g.ifs)
        parts = [] if whole and chosen else [value.generators[0].iter]
    elif isinstance(value, (ast.List, ast.Tuple)):
        parts = value.elts
    elif isinstance(value, ast.Starred):
        parts = [value.value]
    elif isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        parts = [value.left, value.right]
    elif isinstance(value, ast.Dict):
        parts = [v for k, v in zip(value.keys, value.values, strict=True) if k and ast.unparse(k) == "'params'"]
    elif isinstance(value, ast.Call) and ast.unparse(value.func) in ("list", "tuple", "set"):
        parts = value.args
    elif roles.tree.calls(value, "itertools.chain"):
        assert isinstance(value, ast.Call)
        parts = value.args
    elif isinstance(value, ast.Call) and ast.unparse(value.func) == "filter" and len(value.args) == 2:
        parts = [value.args[1]] if not whole or "requires_grad" in ast.unparse(value.args[0]) else []
    elif isinstance(value, ast.Call) and ast.unparse(value.func).endswith(".named_parameters"):
        yield ast.unparse(value).replace(".named_parameters()", ".parameters()")
    else:
        yield ast.unparse(value)
    for part in parts:
        yield from _terms(roles, part, whole=whole)
