"""Append a minibatch's results to lists below the optimizer's step, not in its computation."""

from __future__ import annotations

import ast

from transformer.dataflow.closures import runs_elsewhere
from transformer.dataflow.grad_mode import without_gradients
from transformer.facts.torch_api import NO_GRAPH, REDUCES
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import TRY, calls_method, names_in, pairwise, statements, walk
from transformer.syntax.rewrite import Edits
from transformer.transforms.base import ALL, NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.values.effects.graphs import Graphs
from transformer.values.effects.objects import UNKNOWN
from transformer.values.effects.world import World
from transformer.values.minibatch import first_computation, last_step
from transformer.values.tensors import Tensors

INFO = TransformInfo(
    name="late-append",
    brief="lists grow below the optimizer's step",
    summary="append a minibatch's results to lists below the optimizer's step",
    applies=(
        "to lists that the training empties above the epochs and reads below them or between minibatches, and to which "
        "a minibatch appends numbers or tensors, always or under a condition. Of tensors with gradients, only the "
        "values may be used afterwards. Nothing may leave the minibatch above the optimizer's step"
    ),
    safety=(
        "The same elements go, in the same order, into a list of the minibatch's own, and after the step into the "
        "original list; nothing reads that list in between. A tensor whose graph is not used is detached, "
        "because the backward pass has freed that graph."
    ),
    costs="update() is not compiled, because the list is longer at each call: append to it below the optimizer's step.",
    needs=(),
    before="if args.norm_adv:\n    clipfracs += [clipped.mean().item()]\n...\noptimizer.step()",
    after=(
        "new_clipfracs = []\nif args.norm_adv:\n    new_clipfracs += [clipped.mean().item()]\n...\noptimizer.step()\n"
        "clipfracs += new_clipfracs"
    ),
)

IDENTITY = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
CLIPPING = "torch.nn.utils.clip_grad_norm_"
"""A function that returns the norm of gradients, without a graph."""


def apply(state: State) -> Rewrite:
    """Give each list that grows in the computation of a minibatch a new list per minibatch.

    Raises:
        Skip: no list grows there, or one may be read before the step.
    """
    roles, edits, reasons = state.roles, Edits(state.source), list[str]()
    for region in _regions(roles):
        grown: dict[str, list[ast.Name]] = {}
        for stmt in statements(region):
            if (name := _grown(stmt)) is not None and not _made_in(region, name.id):
                grown.setdefault(name.id, []).append(name)
        around = state.tree.ancestors(region[0])
        leaving = (
            n for n in (*statements(region), *around) if isinstance(n, (ast.Break, ast.Continue, ast.Return, *TRY))
        )
        if grown and (node := next(leaving, None)) is not None:
            assert isinstance(node, ast.stmt)
            reasons.append(f"line {node.lineno} may leave a minibatch before the optimizer's step")
            continue
        for filled, places in grown.items():
            if filled in roles.liveness.raised.get(region[0], ()):
                reasons.append(f"{filled}: it may be read after an error in the minibatch")
                continue
            if (why := _obstacle(roles, region, filled, places)) is not None:
                reasons.append(f"{filled}: {why}")
                continue
            for element in (e for place in places for e in _elements(state.tree.statement(place))):
                if not _has_no_graph(roles, element, state.tree.statement(element)):
                    text = state.tree.text(element)
                    plain = isinstance(element, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
                    edits.substitute(element, f"{text if plain else f'({text})'}.detach()")
            own = state.tree.names.fresh(f"new_{filled}")
            stmt = next(s for s in region if any(n in places for n in walk(s)))
            edits.before(stmt, f"{own} = []")
            for place in places:
                edits.substitute(place, own)
            edits.after(region[-1], f"{filled} += {own}")
    if edits:
        return Rewrite(edits, left=tuple(reasons))
    if reasons:
        raise Skip("; ".join(reasons))
    raise NotNeeded("no list is left that grows above the optimizer's step")


def _regions(roles: Roles) -> list[list[ast.stmt]]:
    """The statements that compute on a minibatch, up to the optimizer's step; one list per update region off-policy.

    Raises:
        Skip: there are none.
    """
    if roles.kind == "off-policy":
        return [region.statements for region in roles.phases.regions]
    first, last = first_computation(roles), last_step(roles)
    if first is None or last is None or first > last:
        raise Skip("no tensor computation was found above the optimizer's step")
    return [roles.minibatch_loop.body[first : last + 1]]


def _grown(stmt: ast.stmt) -> ast.Name | None:
    """The list to which a statement appends one element, without doing anything else."""
    if isinstance(stmt, ast.AugAssign) and isinstance(stmt.op, ast.Add) and isinstance(stmt.value, ast.List):
        return stmt.target if isinstance(stmt.target, ast.Name) else None
    call = stmt.value if isinstance(stmt, ast.Expr) else None
    if calls_method(call, "append") and len(call.args) == 1 and not call.keywords:
        return call.func.value if isinstance(call.func.value, ast.Name) else None
    return None


def _made_in(region: list[ast.stmt], name: str) -> bool:
    """Whether the statements themselves bind the list that they fill."""
    targets = [t for s in statements(region) if isinstance(s, ast.Assign) for t in s.targets]
    return any(isinstance(n, ast.Name) and n.id == name for t in targets for n in walk(t))


def _obstacle(roles: Roles, region: list[ast.stmt], name: str, places: list[ast.Name]) -> str | None:
    """Why a list must grow in place; None if nothing may see it, by any name, before the step.

    The list is empty when the epochs begin. If nothing else mentions it until they end, it has no other name. If it is
    read between the minibatches, `World` must know no other name for it.
    """
    tree, epochs = roles.tree, _filling(roles, region, name)
    if epochs is None:
        return "it is not emptied right above the epochs"
    if name in tree.declared:
        return "it is a variable of several functions"
    block = tree.block(epochs)
    emptied = max(i for i, s in enumerate(block[: block.index(epochs)]) if _empties(s, name))
    filled = {n for s in block[emptied + 1 : block.index(epochs) + 1] for n in walk(s)}
    computing = {n for s in region for n in walk(s)}
    world = roles.get(World)
    lists = [world.of(value) for _, value in roles.assignments(name)]
    only = all(world.is_known(one) and world.other_names(one, name) is None for one in lists)
    grows = f"line {places[0].lineno} adds to it above the optimizer's step"
    for node in tree.of(ast.Name):
        if node.id != name or node in places or not roles.is_ours(node):
            continue
        if runs_elsewhere(tree, node, roles.scope):
            return f"line {node.lineno} uses it in a function"
        if node in computing:
            return f"{grows}, and line {node.lineno} uses it there"
        if node in filled and not isinstance(node.ctx, ast.Load):
            return f"{grows}, and line {node.lineno} rebinds it"
        if node in filled and not only:
            return f"{grows}, and line {node.lineno} uses it before the epochs have ended, perhaps through another name"
    for place in places:
        stmt = tree.statement(place)
        around = [n for n in tree.ancestors(stmt) if any(n in walk(s) for s in region)]
        if not all(isinstance(n, (ast.If, ast.With)) for n in around):
            return f"line {stmt.lineno} is repeated, or in a function"
        graphs = [element for element in _elements(stmt) if not _has_no_graph(roles, element, stmt)]
        if graphs and (why := _needs_graph(roles, region, name, graphs)) is not None:
            return f"line {stmt.lineno} appends what may have a graph, and {why}"
        if stmt is region[0] or region[0] in around:
            return f"line {stmt.lineno} is in the first statement that computes"
    return None


def holds_no_graph(roles: Roles, body: list[ast.stmt], name: str) -> bool:
    """Whether statements make a list, append only numbers and tensors without graphs, and use it only to return it."""
    named = [n for stmt in body for n in walk(stmt) if isinstance(n, ast.Name) and n.id == name]
    stmts = dict.fromkeys(map(roles.tree.statement, named))
    for stmt in stmts:
        added = _elements(stmt) if _grown(stmt) in named else []
        plain = isinstance(stmt, ast.Return) or _empties(stmt, name) or added
        if not plain or not all(_has_no_graph(roles, element, stmt) for element in added) or names_in(added) & {name}:
            return False
    return any(_empties(stmt, name) for stmt in stmts)


def _needs_graph(roles: Roles, region: list[ast.stmt], name: str, elements: list[ast.expr]) -> str | None:
    """Why elements of a list must keep their graphs, or stay the same objects; None if they need not."""
    tree, world = roles.tree, roles.get(World)
    things = frozenset(t for element in elements for t in world.of(element))
    if not all(map(roles.get(Tensors).tensor, elements)):
        return "is not known to be a tensor"
    if (held := roles.get(Graphs).seen({name}, region)) is not None:
        return f"line {held.lineno} {held.what}"
    for node in (n for n in tree.of(ast.Compare) if any(isinstance(o, IDENTITY) for o in n.ops)):
        sides = frozenset(t for side in (node.left, *node.comparators) for t in world.of(side))
        if things & sides or (UNKNOWN in sides and not world.is_known(things)):
            return f"line {node.lineno} asks whether it is an object, which a detached tensor is not"
    return None


def _filling(roles: Roles, region: list[ast.stmt], name: str) -> ast.stmt | None:
    """The loop that fills a list, over the minibatches or around that, below a statement of its block that empties
    the list."""
    loop = roles.tree.loops_around(region[0])[0]
    outer = roles.tree.ancestors(loop)
    for stmt in (loop, *(n for n in outer if isinstance(n, ast.stmt))):
        if stmt is roles.scope:
            return None
        block = roles.tree.block(stmt)
        if any(_empties(s, name) for s in block[: block.index(stmt)]):
            return stmt
    return None


def _empties(stmt: ast.stmt, name: str) -> bool:
    """Whether a statement binds a name to a new empty list."""
    if not isinstance(stmt, ast.Assign) or len(stmt.targets) != 1:
        return False
    named = (value for target, value in pairwise(stmt) if isinstance(target, ast.Name) and target.id == name)
    return any(isinstance(value, ast.List) and not value.elts for value in named)


def _elements(stmt: ast.stmt) -> list[ast.expr]:
    if isinstance(stmt, ast.AugAssign):
        assert isinstance(stmt.value, ast.List)
        return stmt.value.elts
    assert isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Call)
    return stmt.value.args


def _has_no_graph(roles: Roles, element: ast.expr, stmt: ast.stmt, depth: int = 3) -> bool:
    """Whether an element is a number or a tensor without a graph, judged by how it is made."""
    if isinstance(element, ast.UnaryOp):
        return _has_no_graph(roles, element.operand, stmt, depth)
    if isinstance(element, ast.Name):
        made = [
            (b, b.value) if isinstance(b, ast.Assign) and [type(t) for t in b.targets] == [ast.Name] else None
            for b in roles.get(Tensors).bindings(element.id, stmt)
        ]
        if bool(made and depth) and all(m and _has_no_graph(roles, m[1], m[0], depth - 1) for m in made):
            return True
    if isinstance(element, ast.Constant) or calls_method(element, *(NO_GRAPH - {"numpy"})):
        return True
    if roles.tree.calls(element, "torch.tensor", CLIPPING):
        return True
    reduced = calls_method(element, *REDUCES) and without_gradients(roles.tree, element)
    return reduced or roles.get(World).are_numbers(element)


TRANSFORM = Transform(INFO, apply, ALL)
