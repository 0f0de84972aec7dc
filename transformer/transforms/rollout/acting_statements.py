"""Move the statements of a method that choose the actions into a method of their own, which can be compiled."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import libcst as cst

from transformer.dataflow.access import access, scope_access
from transformer.dataflow.closures import runs_elsewhere
from transformer.dataflow.grad_mode import without_gradients
from transformer.dataflow.name_lookups import fresh_member
from transformer.facts.torch_api import DRAWN, NO_GRAD, NO_GRAPH, OF, OF_HOST, ON_HOST
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.names import singular
from transformer.syntax.query import (
    blocks,
    calls_method,
    first_parameter,
    names_in,
    pairwise,
    statements,
    unparse,
    walk,
)
from transformer.syntax.rewrite import Edits, Line, without_blank_lines
from transformer.syntax.tree import Scope, Tree
from transformer.transforms.base import ALL, NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.extraction import define, top_level
from transformer.transforms.rollout.acting_expression import Expression, find_expression, hooks
from transformer.values.effects.world import World
from transformer.values.networks.attributes import own_nodes
from transformer.values.networks.computing import Computing
from transformer.values.networks.sealed import is_plain_class, overlooked

INFO = TransformInfo(
    name="acting-statements",
    brief="the statements that choose the actions",
    summary="move the statements that choose the actions into a method of their own, which --compile rebinds",
    applies=(
        "when neither `policy` nor `acting-method` found a call that it could name, to consecutive statements that run "
        "a network and draw, in a method of this file that a step calls. They must only compute with tensors made "
        "above them, by layers of torch and modules of this file that do not change anything, themselves included. "
        "Statements in between may append to lists, write into buffers that the others do not read, and turn results "
        "into numbers. Gradients must not be recorded, or not be used: only drawn actions, numbers, and list elements "
        "that are detached later may leave the statements. If nothing stays in between and no gradients are recorded, "
        "any network will do, because the same calls are made in the same place. It also applies to a single network "
        "call in a method that computes more than the actions, if only numbers are made of its result. It also applies "
        "to a single network call in the object's training method, if the network is of a class of this file, only "
        "computes with torch, and is given tensors"
    ),
    safety=(
        "The same operations run in the same order on the same tensors; appending to a list, writing to a buffer, or "
        "converting a result to a number in between changes none of them. Gradients that were recorded but never used "
        "are no longer recorded: these layers compute the same bits without them. They are still recorded for a "
        "network of which this is not known."
    ),
    costs="The code that chooses the actions is not compiled: compute them by calls of networks under torch.no_grad().",
    instead_of="policy",
    needs=("flags",),
    before=(
        "def act(self, state, memory):\n    state = torch.from_numpy(state).float()\n"
        "    dist = Categorical(self.actor(state))\n    action = dist.sample()\n"
        "    memory.logprobs.append(dist.log_prob(action))\n    return action.item()"
    ),
    after=(
        "@torch.no_grad()\ndef decide(self, state):\n    dist = Categorical(self.actor(state))\n"
        "    action = dist.sample()\n    logprob = dist.log_prob(action)\n    return action, logprob\n\n"
        "def act(self, state, memory):\n    state = torch.from_numpy(state).float()\n"
        "    action, logprob = self.decide(state)\n    memory.logprobs.append(logprob)\n    return action.item()"
    ),
    prepares=True,
)

KEEPING = ("tensor", "array", "dict", "list")
"""Kinds of objects into which a step's values are written."""
AFTER = OF["tensor"].keys() | OF["array"].keys()
"""Methods through which a value passes on the way into them."""


def apply(state: State) -> Rewrite:
    """Move the statements, and call the method instead.

    Raises:
        Skip: there are none, or they do more than compute.
    """
    tree, roles = state.tree, state.roles
    if state.history.policy is not None or state.history.act is not None:
        raise NotNeeded("the code that chooses the actions already has a name")
    parts = [part for place in _bodies(roles) for part in _parts(roles, place)]
    expression = None if parts else find_expression(roles)
    if not parts and expression is None:
        raise Skip("the rollout does not choose the actions only by calls of a known network")
    what = overlooked(roles, [p.place.scope for p in parts] if expression is None else [expression.function])
    if expression is not None and (what is None or not expression.unused):
        return _with_method(state, expression)
    # If gradients are recorded, compiled code is one node of the graph: it saves other tensors, for one backward pass
    same = [p for p in parts if _is_quiet(roles, p) and p.in_order]  # the same statements, in the same place
    if not same and what is not None:
        raise Skip(f"{what}, so it is not known what a network computes, or what observes the order")
    found = next((p for p in same or parts if _is_quiet(roles, p) or _without_use(roles, p)), None)
    if found is None:
        raise Skip(f"line {parts[0].first.lineno} computes values that may need gradients")
    unused = not _is_quiet(roles, found)
    name = fresh_member(tree, "decide")
    edits, (scope, cls) = Edits(state.source), (found.place.scope, found.place.cls)
    own = [] if cls is None or not isinstance(scope, ast.FunctionDef) else [first_parameter(scope) or ""]
    call = f"{', '.join(found.results)} = {'.'.join([*own, name])}({', '.join(found.params)})"
    lines: list[Line] = []
    for item in found.items:
        if isinstance(item, Hoisted):
            edits.substitute(item.value, item.name)
            lines += cst.parse_module(f"{item.name} = {tree.text(item.value)}").body
        else:
            lines.append(edits.move(item, call if item is found.first else ()))
    lines[0] = without_blank_lines(lines[0])
    nested = not isinstance(roles.scope, ast.Module)
    above = roles.outermost if nested else top_level(tree, roles.outermost)
    anchor = scope if isinstance(scope, ast.FunctionDef) and scope is not roles.scope else above
    params = (*own, *found.params)
    made = define(state, name, params, "Choose the actions.", lines, found.results, anchor.col_offset)
    edits.before(anchor, [_quiet(made, unused=unused)], gap=1 if anchor.col_offset else 2)
    return Rewrite(edits, replace(state.history, act=name if cls is None else f"{cls.name}.{name}"))


def _quiet(made: cst.FunctionDef, *, unused: bool) -> cst.FunctionDef:
    """A function, decorated with torch.no_grad() if the gradients of its results are unused."""
    no_grad = cst.Decorator(cst.parse_expression("torch.no_grad()"))
    return made.with_changes(decorators=[no_grad]) if unused else made


def _with_method(state: State, found: Expression) -> Rewrite:
    """The rewrite that moves an expression into a function or method of its own."""
    edits, name = Edits(state.source), fresh_member(state.tree, "decide")
    own = [] if found.cls is None else [first_parameter(found.function) or ""]
    for node, given in zip(found.places, found.given, strict=True):
        edits.substitute(node, f"{'.'.join([*own, name])}({given})")
    params, column = (*own, *found.params), found.function.col_offset
    made = define(state, name, params, "Choose the actions.", [], [found.text], column)
    edits.before(found.function, [_quiet(made, unused=found.unused)], gap=1 if column else 2)
    act = name if found.cls is None else f"{found.cls.name}.{name}"
    return Rewrite(edits, replace(state.history, act=act))


@dataclass(frozen=True)
class _Place:
    """A place for statements that choose the actions."""

    scope: Scope
    cls: ast.ClassDef | None
    """The class of a method."""
    body: Sequence[ast.stmt]
    """The statements to examine."""


def _bodies(roles: Roles) -> Iterator[_Place]:
    """Methods and functions that training runs outside the minibatches, and the training loop itself."""
    tree = roles.tree
    run, learning = {*roles.run_by_training}, {*roles.reached(roles.phases.updates[:1])}
    left_out = {*roles.called_unseen} | learning
    if hooks(roles):
        return
    for cls in tree.classes.values():
        if not is_plain_class(tree, cls):
            continue
        methods = [s for s in cls.body if isinstance(s, ast.FunctionDef)]
        yield from (
            _Place(m, cls, m.body)
            for m in methods
            if m in run and m not in left_out and _keeps_its_object(m) and _is_flat(tree, m)
        )
    if isinstance(roles.scope, ast.Module):  # --compile rebinds a name of the training scope
        functions = (s for s in tree.root.body if isinstance(s, ast.FunctionDef) and s.name not in tree.rebound)
        yield from (_Place(f, None, f.body) for f in functions if f in run and f not in left_out and _is_flat(tree, f))
    block = roles.phases.block
    if not _nests(block):
        yield _Place(roles.scope, None, block[: block.index(roles.phases.learn)])


def _keeps_its_object(method: ast.FunctionDef) -> bool:
    """Whether a method never rebinds its first parameter, the object."""
    own = first_parameter(method)
    return own is not None and own not in scope_access(method.body).binds


def _is_flat(tree: Tree, function: ast.FunctionDef) -> bool:
    """Whether only torch.no_grad() decorates a function, and only names read its variables."""
    return all(tree.calls(d, *NO_GRAD) for d in function.decorator_list) and not _nests(function.body)


def _nests(body: Sequence[ast.stmt]) -> bool:
    """Whether code contains something that may bind or see its variables other than by reading their names."""
    scopes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.NamedExpr)
    others = (ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.Delete)
    return any(
        isinstance(n, (*scopes, *others)) or (isinstance(n, ast.Name) and n.id in ("locals", "eval", "exec", "vars"))
        for s in body
        for n in walk(s)
    )


@dataclass(frozen=True)
class Hoisted:
    """A value to compute together with the moved statements; a name replaces it in the statement that remains."""

    value: ast.expr
    name: str
    kept_by: ast.expr | None
    """The list to which the value is appended."""
    whole: bool
    """Whether the value is used with its graph, if it has one: returned, or written into memory."""


@dataclass
class _Part:
    """Statements of a method that only compute, and values computed with them."""

    place: _Place
    first: ast.stmt
    items: list[ast.stmt | Hoisted]
    params: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    moved: set[ast.AST] = field(default_factory=set)
    """The nodes that move."""
    in_order: bool = True
    """Whether no statement that stays is between them."""
    records: bool = False
    """Whether they compute with networks, or with values that may have a graph, outside torch.no_grad()."""


def _parts(roles: Roles, place: _Place) -> Iterator[_Part]:
    """The largest parts of a scope that run a network and draw actions."""
    computing = Computing(roles, place.scope, place.cls)
    for block in [place.body, *(block for s in statements(place.body) for block in blocks(s))]:
        taken: set[ast.stmt] = set()
        for at, stmt in enumerate(block):
            if stmt in taken:
                continue
            computing.begin(stmt)
            part = _from(roles, computing, block[at:], place)
            taken.update(s for s in part.items if isinstance(s, ast.stmt))
            if part.items and computing.calls_network and computing.draws and _signed(roles, part, computing):
                yield part


def _from(roles: Roles, computing: Computing, block: Sequence[ast.stmt], place: _Place) -> _Part:
    """The statements at the start of a block that only compute, skipping appends and conversions to numbers."""
    part, between = _Part(place, block[0], []), _Between(roles, computing, place.scope)
    read, bound, passed = set[str](), set[str](), False
    for stmt in block:
        own = scope_access([stmt])
        free = not (own.binds & (read | bound) or own.reads & bound) and between.leaves_alone(stmt)
        if free and computing.statement(stmt):
            part.items.append(stmt)
            part.in_order &= not passed
            continue
        computing.in_order = False
        if not part.items or not (hoisted := between.look(stmt, bound)):
            break
        part.items += hoisted.values
        part.in_order &= not (passed and hoisted.values)
        if hoisted.ends:
            break
        passed = True
        read |= own.reads
        bound |= own.binds
    return part


@dataclass
class _Found:
    """The values of a remaining statement to compute with the moved ones, and whether it is the last statement."""

    values: list[Hoisted]
    ends: bool = False

    def __bool__(self) -> bool:
        return True


class _Between:
    """Examines the statements between statements that only compute."""

    def __init__(self, roles: Roles, computing: Computing, scope: Scope) -> None:
        self._roles, self._tree, self._computing, self._scope = roles, roles.tree, computing, scope
        self._writes: list[ast.stmt] = []
        """The statements that write a step's values into tensors, dicts and lists."""

    def leaves_alone(self, node: ast.AST) -> bool:
        """Whether a node reads nothing that the writes so far have written, so that it may be moved above them."""
        if not self._writes:
            return True
        world = self._roles.get(World)
        read = {t for n in walk(node) if isinstance(n, ast.Name) for t in world.of(n)}
        return not read or world.changes(world.reach(read), self._writes) is None

    def look(self, stmt: ast.stmt, bound: set[str]) -> _Found | None:
        """The values that can be computed before a statement; None if it may do more than store or convert them."""
        if isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant):
            return _Found([])
        if isinstance(stmt, ast.Expr) and calls_method(stmt.value, "append") and len(stmt.value.args) == 1:
            grown, value = stmt.value.func.value, stmt.value.args[0]
            if not self._is_list(grown) or stmt.value.keywords:
                return None
            if isinstance(value, (ast.Name, ast.Constant)):
                return _Found([])
            return self._of(value, singular(_last(grown)), bound, grown)
        if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 and isinstance(stmt.targets[0], ast.Subscript):
            return self._of_write(stmt, stmt.targets[0], bound)
        if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 and isinstance(stmt.targets[0], ast.Name):
            inner = _received(stmt.value)
            return self._of(inner, f"{stmt.targets[0].id}_tensor", bound) if inner is not stmt.value else None
        if isinstance(stmt, ast.Return) and stmt.value is not None:
            values = stmt.value.elts if isinstance(stmt.value, (ast.Tuple, ast.List)) else [stmt.value]
            found = _Found([], ends=True)
            for value in values:  # up to the first value that may do more than compute
                inner = _received(value)
                if isinstance(inner, (ast.Name, ast.Constant)):
                    continue
                name = inner.func.attr if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) else ""
                if not name or (one := self._of(inner, name, bound, whole=inner is value)) is None:
                    break
                found.values += one.values
            return found
        return None

    def _of_write(self, stmt: ast.stmt, target: ast.Subscript, bound: set[str]) -> _Found | None:
        """The value of `buffer[step] = value`, if the statement is known to change only a buffer, a dict or a list."""
        if self._scope is not self._roles.scope or not isinstance(target.value, (ast.Name, ast.Attribute)):
            return None
        world, value = self._roles.get(World), stmt.value if isinstance(stmt, ast.Assign) else target
        effects = [effect for _, effect in world.happens([stmt])]
        if not effects or not all(e.kind == "changes" and e.thing and e.thing.kind in KEEPING for e in effects):
            return None
        key = target.slice.value if isinstance(target.slice, ast.Constant) else None
        name = key if isinstance(key, str) and key.isidentifier() else singular(_last(target.value))
        found: _Found | None = None
        if isinstance(value, (ast.Name, ast.Constant)):
            found = _Found([])
        elif self.leaves_alone(value):
            found = self._of(value, name, bound, anew=True, whole=True)
        if found is not None:
            self._writes.append(stmt)
        return found

    def _of(
        self,
        value: ast.expr,
        name: str,
        bound: set[str],
        kept_by: ast.expr | None = None,
        *,
        anew: bool = False,
        whole: bool = False,
    ) -> _Found | None:
        """A value to compute with the moved statements; empty if the value is one of their names.

        It is computed from their results or, if `anew`, perhaps only from their inputs.
        """
        if isinstance(value, ast.Name):
            return _Found([]) if value.id in self._computing.known else None
        if names_in([value]) & bound or not (anew or names_in([value]) & self._computing.known):
            return None
        if not self._computing.expression(value):
            return None
        made = self._tree.names.fresh(name)
        self._computing.known.add(made)
        return _Found([Hoisted(value, made, kept_by, whole)])

    def _is_list(self, grown: ast.expr) -> bool:
        """Whether all assignments to a name or attribute in the file bind a new empty list."""
        path = grown.value if isinstance(grown, ast.Attribute) else grown
        while isinstance(path, ast.Attribute) and not self._tree.methods(path.attr):
            path = path.value
        if self._tree.methods("append") or not isinstance(path, ast.Name):
            return False
        setting, name = [s for s in self._tree.nodes if isinstance(s, ast.stmt) and _sets(s, grown)], _last(grown)
        given = isinstance(grown, ast.Name) and name in {a.arg for a in self._tree.of(ast.arg)}
        otherwise = {k.arg for k in self._tree.of(ast.keyword)} | {f.name for f in self._tree.of(ast.FunctionDef)}
        otherwise |= {
            n.id for c in self._tree.of(ast.ClassDef) for s in c.body for n in own_nodes(s) if isinstance(n, ast.Name)
        }
        plain = not given and not (isinstance(grown, ast.Attribute) and name in otherwise)
        return bool(setting) and plain and all(_sets_empty(s) for s in setting)


def _sets(stmt: ast.stmt, name: ast.expr) -> bool:
    """Whether a statement itself sets a name, or an attribute of that name."""
    stored = (n for n in own_nodes(stmt) if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Store))
    return any(_last(n) == _last(name) for n in stored if type(n) is type(name))


def _last(name: ast.expr) -> str:
    return name.attr if isinstance(name, ast.Attribute) else unparse(name)


def _sets_empty(stmt: ast.stmt) -> bool:
    """Whether a statement sets names or attributes, each to a new empty list."""
    if not isinstance(stmt, (ast.Assign, ast.AnnAssign)):
        return False
    if isinstance(stmt, ast.Assign) and len(stmt.targets) > 1:
        return False  # two names for one list
    pairs = pairwise(stmt) if isinstance(stmt, ast.Assign) else [(stmt.target, stmt.value)]
    return all(v is not None and unparse(v) in ("[]", "list()") for _, v in pairs)


def _received(value: ast.expr) -> ast.expr:
    """The tensor that is turned into numbers: `x` in `x.squeeze().numpy()[0]`; otherwise the value itself."""
    inner, made = value, value
    while True:
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and not inner.keywords:
            if inner.func.attr not in AFTER or not all(isinstance(a, ast.Constant) for a in inner.args):
                return made
            to_host, inner = inner.func.attr in ON_HOST, inner.func.value
            made = inner if to_host else made
        else:
            return made


def _signed(roles: Roles, part: _Part, computing: Computing) -> bool:
    """Determine the parameters and results of a part; False if one may be unset or is a distribution."""
    own = part.items
    hoisted = {n for i in own if isinstance(i, Hoisted) for n in walk(i.value)}
    part.moved = {n for i in own if isinstance(i, ast.stmt) for n in walk(i)} | hoisted
    set_for_sure = {i.name for i in own if isinstance(i, Hoisted)}
    bound = set(set_for_sure)
    for item in own:
        if isinstance(item, ast.stmt):
            bound |= scope_access([item]).binds
            set_for_sure |= _always_binds(item)
    scope = part.place.scope
    outside = [n for s in scope.body for n in walk(s) if n not in part.moved]
    read = {n.id for n in outside if isinstance(n, ast.Name) and _is_reached(roles, part, n)}
    part.params, part.records = tuple(computing.inputs), computing.records
    carried = bound & set(part.params)
    results = (read & bound) | carried | {i.name for i in own if isinstance(i, Hoisted)}
    order = list(dict.fromkeys(n for i in own for n in _names_bound(i)))
    part.results = tuple(n for n in order if n in results)
    asked = {unparse(n.func.value) for n in outside if calls_method(n, *OF["distribution"])}
    unset = results - set_for_sure - set(part.params)
    return bool(part.results) and not unset and not results & (computing.distributions | asked)


def _is_reached(roles: Roles, part: _Part, name: ast.Name) -> bool:
    """Whether a read of a name, perhaps in an inner function, may get the value bound by the moved statements."""
    scope = part.place.scope
    if not isinstance(name.ctx, ast.Load) or not roles.is_ours(name, scope):
        return False
    if runs_elsewhere(roles.tree, name, scope):
        return True
    bindings = roles.reaching(scope).before(name.id, roles.tree.statement(name))
    return any(stmt in part.moved for stmt in bindings)


def _always_binds(stmt: ast.stmt) -> set[str]:
    if isinstance(stmt, ast.If):
        sides = [set().union(*(_always_binds(s) for s in side)) for side in (stmt.body, stmt.orelse)]
        return sides[0] & sides[1]
    if isinstance(stmt, ast.With):
        return set().union(*(_always_binds(s) for s in stmt.body))
    return set(access(stmt).binds)


def _names_bound(item: ast.stmt | Hoisted) -> list[str]:
    if isinstance(item, Hoisted):
        return [item.name]
    return [n.id for n in walk(item) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def _is_quiet(roles: Roles, part: _Part) -> bool:
    """Whether gradients are disabled for all that the moved statements compute."""
    return not part.records or without_gradients(roles.tree, part.first)


def _without_use(roles: Roles, part: _Part) -> bool:
    """Whether gradients of the results are never used: the results are drawn, become numbers, or are detached later."""
    tree = roles.tree
    if tree.imports.get("torch") != "torch":
        return False
    hoisted = [i for i in part.items if isinstance(i, Hoisted)]
    if any(i.whole and not calls_method(i.value, *DRAWN) for i in hoisted):
        return False
    kept = {i.name: i.kept_by for i in hoisted if i.kept_by is not None}
    for name in part.results:
        if _is_drawn(roles, part, name):
            continue
        lists = [kept[name]] if name in kept else []
        for node in (n for s in part.place.scope.body for n in walk(s)):
            if not isinstance(node, ast.Name) or node.id != name or node in part.moved:
                continue
            if isinstance(node.ctx, ast.Load):
                outer = tree.parents[node]
                if calls_method(outer, "append") and node in outer.args:
                    lists.append(outer.func.value)
                elif not (isinstance(outer, ast.Attribute) and outer.attr in NO_GRAPH):
                    return False
        if not all(_only_detached(tree, grown) for grown in lists):
            return False
    return True


def _is_drawn(roles: Roles, part: _Part, name: str) -> bool:
    """Whether the moved statements bind a name only to drawn values, which have no gradient."""
    stmts = [s for i in part.items if isinstance(i, ast.stmt) for s in statements([i])]
    binding = [s for s in stmts if name in access(s).binds and not hasattr(s, "body")]
    return bool(binding) and all(
        isinstance(s, ast.Assign)
        and isinstance(s.targets[0], ast.Name)
        and (
            calls_method(s.value, *DRAWN)
            or unparse(s.value) in roles.history.drawn
            or (isinstance(s.value, ast.Call) and unparse(s.value.func) == roles.history.sampler)
        )
        for s in binding
    )


def _only_detached(tree: Tree, grown: ast.expr) -> bool:
    """Whether code anywhere in the file reads the elements of a list only to detach them."""
    if not isinstance(grown, ast.Attribute):
        return False
    uses = (n for n in tree.of(ast.Attribute) if n.attr == grown.attr)
    return all(_is_detached(tree, use) for use in uses)


def _is_detached(tree: Tree, use: ast.Attribute) -> bool:
    """Whether a use of a list sets, fills or empties it, or makes a detached value of its elements."""
    node: ast.expr = use
    outer = tree.parents[use]
    if not isinstance(use.ctx, ast.Load):
        return isinstance(use.ctx, ast.Store) and _sets_empty(tree.statement(use))
    if isinstance(outer, ast.Attribute) and outer.attr in ("append", "clear"):
        return True
    if isinstance(outer, ast.Subscript) and isinstance(outer.ctx, ast.Del):
        return True
    while True:
        if isinstance(outer, ast.Call) and node in outer.args:
            if node is use and (tree.calls(outer, *OF_HOST) or unparse(outer.func) == "len"):
                return True  # a list is copied; for a tensor, the result could be the tensor itself
            if (tree.qualified(outer.func) or "").rpartition(".")[2] not in OF["torch"]:
                return False
        elif isinstance(outer, ast.Attribute):
            if outer.attr in NO_GRAPH:
                return True
            if outer.attr not in OF["tensor"]:
                return False
        elif not (isinstance(outer, ast.Call) and node is outer.func):
            return False
        assert isinstance(outer, ast.expr)
        node, outer = outer, tree.parents[outer]


TRANSFORM = Transform(INFO, apply, ALL)
