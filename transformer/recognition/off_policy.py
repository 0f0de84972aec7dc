"""The second kind of training: one loop over environment steps that stores each step and learns from stored ones.

It is recognised by what the code does. The results of the environment's step are stored in an object that the loop does
not rebind, and what is read from that object leads to a loss. Gates (`if step > learning_starts`, `% train_frequency`)
are simply the conditions around a region.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from transformer.dataflow.access import access, scope_access
from transformer.facts.libraries import library_does, role
from transformer.facts.torch_api import OF_HOST, draws, functions
from transformer.syntax.query import calls_method, names_in, parameters, statements, unparse, walk
from transformer.syntax.tree import Loop, Tree

DRAWING = functions("torch", draws=True, dtype="integer")
"""Functions that draw indices below a number known on the host."""
DRAWING_LISTS = draws(makes="choice")
"""Functions of Python's `random` that draw from a list or a deque."""


@dataclass(frozen=True)
class Region:
    """Consecutive statements of one block that compute losses and step optimizers on them."""

    block: list[ast.stmt]
    first: int
    last: int
    steps: tuple[ast.Call, ...]
    """The optimizers' steps, or the call of the function that replaced the region."""

    @property
    def statements(self) -> list[ast.stmt]:
        """The statements of one update."""
        return self.block[self.first : self.last + 1]


def regions(
    tree: Tree, loop: Loop, env_step: ast.Call, steps: Sequence[ast.Call], replay: str | None
) -> tuple[Region, ...]:
    """The update regions of a training loop, one per block that steps optimizers, in source order."""
    kept = _kept_in(tree, loop, env_step, replay, steps)
    by_block: dict[ast.stmt, tuple[list[ast.stmt], list[ast.Call]]] = {}
    for step in steps:
        if loop in tree.ancestors(step):
            block = tree.block(tree.statement(step))
            by_block.setdefault(block[0], (block, []))[1].append(step)
    stepped = {tree.statement(step) for step in steps}
    found = []
    for block, own in by_block.values():
        left = own
        while left:  # a step of another region separates them
            region = _region(tree, block, left, stepped, kept, env_step if replay is None else None)
            found.append(region)
            left = [step for step in left if block.index(tree.statement(step)) < region.first]
    return tuple(sorted(found, key=lambda r: r.block[r.first].lineno))


def _region(
    tree: Tree,
    block: list[ast.stmt],
    steps: Sequence[ast.Call],
    stepped: Set[ast.stmt],
    kept: Set[str],
    collecting: ast.Call | None,
) -> Region:
    """The statements up to a block's last step that lead to its losses, except sampling and host work.

    Other statements in between, such as logging, belong to the region; other regions do not. If a rollout (which
    contains the call `collecting`) comes first, statements that make tensors from its steps or iterate over them are
    left out.
    """
    own = {tree.statement(step) for step in steps}
    lists = {name for stmt in block if makes_lists(tree, stmt) for name in access(stmt).binds}
    if collecting is not None:
        lists |= {
            name for stmt in block if collecting in walk(stmt) for s in statements([stmt]) for name in collects(s)
        }
    first = last = max(block.index(stmt) for stmt in own)
    while last + 1 < len(block) and _calls_method(block[last + 1], "zero_grad"):
        last += 1
    needed = set[str]()
    for place in range(last, -1, -1):
        stmt = block[place]
        reads = scope_access([stmt])
        if any(s in stepped and s not in own for s in statements([stmt])):
            break
        leads = bool(reads.binds & needed) or any(_calls_method(s, "backward", "zero_grad") for s in statements([stmt]))
        if not (leads or stmt in own or _clips(stmt)):
            continue
        if stmt not in own and place < first and (_is_host_work(tree, stmt, kept) or _collates(tree, stmt, lists)):
            break
        if stmt not in own and collecting is not None and _goes_through_steps(tree, stmt, collecting):
            break
        first = min(first, place)
        needed |= reads.reads
    return Region(block, first, last, tuple(s for s in steps if block.index(tree.statement(s)) >= first))


def _goes_through_steps(tree: Tree, stmt: ast.stmt, collecting: ast.Call) -> bool:
    """Whether a statement, or a function of the file that it calls, iterates over or collects a rollout's steps."""
    inside = [*walk(stmt)]
    named = [n.func for n in inside if isinstance(n, ast.Call)]
    called = [m for f in named if isinstance(f, ast.Attribute) for m in tree.methods(f.attr)]
    called += [f for n in named if isinstance(n, ast.Name) for f in tree.functions(n.id)]
    loops = any(isinstance(n, (ast.For, ast.While)) for part in (stmt, *called) for n in walk(part))
    return collecting in inside or (loops and not any(calls_method(n, "backward") for n in inside))


def makes_lists(tree: Tree, stmt: ast.stmt) -> bool:
    """Whether a statement draws a list of stored steps, or transposes one: `Step(*zip(*sampled))`.

    A method that it calls may do this: `memory.sample(32)`.
    """
    made = stmt.value if isinstance(stmt, ast.Assign) else None
    named = made.func.attr if isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) else ""
    methods = tree.methods(named)
    returned = [[v for s in statements(m.body) if isinstance(s, ast.Return) for v in _returned(m, s)] for m in methods]
    return _is_list_of_steps(tree, made) or (
        bool(methods) and all(v and all(_is_list_of_steps(tree, value) for value in v) for v in returned)
    )


def _returned(method: ast.FunctionDef, stmt: ast.Return) -> Sequence[ast.expr | None]:
    """The values that a method may return at a statement; for a returned variable, those that are assigned to it."""
    if not isinstance(stmt.value, ast.Name):
        return [stmt.value]
    bound = [s for s in statements(method.body) if stmt.value.id in access(s).binds]
    return [s.value if isinstance(s, ast.Assign) else None for s in bound] or [None]


def _is_list_of_steps(tree: Tree, made: ast.expr | None) -> bool:
    if not isinstance(made, ast.Call):
        return False
    module, _, name = (tree.qualified(made.func) or "").rpartition(".")
    return _is_transposed(made) or (module == "random" and name in DRAWING_LISTS)


def _is_transposed(made: ast.expr | None) -> bool:
    if not isinstance(made, ast.Call) or not made.args or not isinstance(made.args[0], ast.Starred):
        return False
    return (isinstance(made.func, ast.Name) and made.func.id == "zip") or _is_transposed(made.args[0].value)


def _collates(tree: Tree, stmt: ast.stmt, lists: Set[str]) -> bool:
    """Whether a statement makes tensors from lists of steps or of their parts, and calls no network."""
    if makes_lists(tree, stmt):
        return True
    if not isinstance(stmt, ast.Assign) or not names_in([stmt.value]) & lists:
        return False
    steps = lists | {n for c in walk(stmt.value) if isinstance(c, ast.comprehension) for n in names_in([c.target])}
    calls = [n for n in walk(stmt.value) if isinstance(n, ast.Call)]
    return all(
        library_does(tree.qualified(call.func) or "") in ("computes", "draws")
        or tree.names.builtin(call.func) is not None
        or (
            isinstance(call.func, ast.Attribute)
            and (isinstance(call.func.value, ast.Call) or names_in([call.func.value]) <= steps)
        )
        for call in calls
    )


def makes_of_arrays(tree: Tree, stmt: ast.stmt) -> bool:
    """Whether a statement makes a tensor from host values, and calls nothing that may compute gradients."""
    calls = [n for n in walk(stmt) if isinstance(n, ast.Call)]
    made = [n for n in calls if (tree.qualified(n.func) or "") in OF_HOST]
    others = [n.func for n in calls if n not in made]
    moved = all(isinstance(f, ast.Attribute) and f.attr in ("to", "cuda", "float") for f in others)
    return isinstance(stmt, ast.Assign) and bool(made) and moved


def _calls_method(stmt: ast.stmt, *methods: str) -> bool:
    """Whether a statement without a block calls one of these methods: `loss.backward()`, `print(loss.backward())`."""
    return not hasattr(stmt, "body") and any(calls_method(n, *methods) for n in walk(stmt))


def _clips(stmt: ast.stmt) -> bool:
    return isinstance(stmt, (ast.Expr, ast.Assign)) and any(
        isinstance(n, ast.Call) and "clip_grad" in ast.unparse(n.func) for n in walk(stmt)
    )


def _is_host_work(tree: Tree, stmt: ast.stmt, kept: Set[str]) -> bool:
    """Whether a statement samples the replay buffer, draws indices, or makes tensors from host values.

    Args:
        tree: the script.
        stmt: the statement.
        kept: the names, or attributes of names, that hold steps.
    """
    for node in walk(stmt):
        if isinstance(node, (ast.Name, ast.Attribute)) and unparse(node) in kept:
            outer = tree.parents[node]
            if not (isinstance(outer, ast.Subscript) and outer.value is node):  # rows of a tensor, which it may be
                return True
        if isinstance(node, ast.Call):
            name = tree.qualified(node.func) or ""
            arrays = role(name) != "plain" and not name.startswith("torch.")
            if (arrays and library_does(name) in ("computes", "draws")) or name in OF_HOST | DRAWING:
                return True
    return False


def replay_buffer(tree: Tree, loop: Loop, env_step: ast.Call, steps: Sequence[ast.Call]) -> str | None:
    """The name of the replay buffer, which stores the environment's steps and is read for the losses; None if none."""
    inside = list(statements(loop.body))
    observed = _from_step(tree, loop, env_step)
    bound = {n for s in inside for n in access(s).binds}
    lead = leading(inside, [tree.statement(step) for step in steps])
    written = {unparse(n) for s in inside for n in walk(s) if isinstance(n, ast.Subscript) and _is_stored(n)}
    at_once = dict.fromkeys(name for stmt in inside for name in _stores(stmt, observed))
    for kept in (at_once, _handed_on(tree, inside, observed)):
        for name in (n for n in kept if n not in bound):
            for stmt in inside:
                if isinstance(stmt, (ast.Assign, ast.For)) and access(stmt).binds & lead:
                    value = stmt.value if isinstance(stmt, ast.Assign) else stmt.iter
                    reads = (n for n in walk(value) if isinstance(n, ast.Name) and n.id == name)
                    # A read directly after a write returns the same step, so it is no replay
                    if any(unparse(tree.parents[n]) not in written for n in reads):
                        return name
    return None


def is_learned_from(tree: Tree, loop: Loop, env_step: ast.Call, steps: Sequence[ast.Call]) -> bool:
    """Whether the results of an environment's step, or the objects that store them, lead to the losses of a loop."""
    inside, observed = list(statements(loop.body)), _from_step(tree, loop, env_step)
    lead = leading(inside, [tree.statement(step) for step in steps])
    return not lead.isdisjoint(observed | _handed_on(tree, inside, observed).keys())


def _kept_in(tree: Tree, loop: Loop, env_step: ast.Call, replay: str | None, steps: Sequence[ast.Call]) -> set[str]:
    """Where the steps are kept: in `agent.memory` for an agent that also learns, or in the object itself."""
    observed = _from_step(tree, loop, env_step)
    stores = [(stmt, place) for stmt in statements(loop.body) for place in _stored_in(stmt, observed)]
    parts = (ast.Name, ast.Attribute, ast.expr_context)
    plain = [(stmt, place) for stmt, place in stores if all(isinstance(n, parts) for n in walk(place))]
    learning = {unparse(step.func) for step in steps}
    paths = [path.split(".") for stmt, place in plain for path in _keepers(tree, stmt, place, learning)]
    apart = {unparse(step.func.value) for step in steps if isinstance(step.func, ast.Attribute)}
    return {_beside(path, apart) for path in paths if path[0] == replay} or {*filter(None, [replay])}


def _beside(path: Sequence[str], optimizers: Set[str]) -> str:
    """The part of a path that holds steps but no optimizers: `self.agent.memory` beside `self.agent.optimizer`."""
    prefixes = [".".join(path[: n + 1]) for n in range(1, len(path))]
    alone = (p for p in prefixes if not any(name.startswith(f"{p}.") for name in optimizers))
    return next(alone, ".".join(path))


def _keepers(tree: Tree, stored: ast.stmt, place: ast.expr, learning: Set[str]) -> list[str]:
    """Where `agent.remember(step)` keeps a step, if methods of the agent also learn: `agent.memory`."""
    call, found = stored.value if isinstance(stored, ast.Expr) else None, list[str]()
    if any(step.startswith(f"{unparse(place)}.") for step in learning) and isinstance(call, ast.Call):
        named = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        for method in tree.methods(named):
            own, *given = parameters(method) or [""]
            told = {*given}
            for stmt in statements(method.body):  # `step = np.hstack((state, action))`, stored below
                told |= access(stmt).binds if isinstance(stmt, ast.Assign) and names_in([stmt.value]) & told else set()
            inside = (unparse(p) for s in statements(method.body) for p in _stored_in(s, told))
            found += [f"{unparse(place)}{path.removeprefix(own)}" for path in inside if path.startswith(f"{own}.")]
    return found or [unparse(place)]


def _handed_on(tree: Tree, inside: Sequence[ast.stmt], observed: Set[str]) -> dict[str, None]:
    """As `_stores`, including what functions of this file store, and what comes from an earlier store.

    For example, steps wait in a queue until there are enough for an n-step return.
    """
    called = {n.func.id for s in inside for n in walk(s) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    functions = sorted((f for name in called for f in tree.functions(name)), key=lambda f: f.lineno)
    code = [*inside, *(s for f in functions for s in statements(f.body))]
    found: dict[str, None] = {}
    seen, before = set(observed), 0
    while len(seen) > before:
        before = len(seen)
        for stmt in code:
            if isinstance(stmt, ast.Assign) and names_in([stmt.value]) & seen:
                seen |= access(stmt).binds
            stored = dict.fromkeys(_stores(stmt, seen))
            found |= stored
            seen |= stored.keys()
    return found


def _is_stored(node: ast.Subscript) -> bool:
    return isinstance(node.ctx, ast.Store)


def _from_step(tree: Tree, loop: Loop, env_step: ast.Call) -> set[str]:
    """Names of the results of the environment's step, and of values computed from them in the loop."""
    found = set(access(tree.statement(env_step)).binds)
    for stmt in statements(loop.body):
        if isinstance(stmt, ast.Assign) and names_in([stmt.value]) & found:
            found |= access(stmt).binds
    return found


def _stores(stmt: ast.stmt, observed: Set[str]) -> Iterator[str]:
    """The names of objects in which a statement stores something of `observed`."""
    for target in _stored_in(stmt, observed):
        while isinstance(target, (ast.Attribute, ast.Subscript)):
            target = target.value
        if isinstance(target, ast.Name):
            yield target.id


def _stored_in(stmt: ast.stmt, observed: Set[str]) -> list[ast.expr]:
    """The expressions in which a statement stores something of `observed`, by a method or as an item."""
    if isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Call) and isinstance(stmt.value.func, ast.Attribute):
        given = [*stmt.value.args, *(k.value for k in stmt.value.keywords)]
        return [stmt.value.func.value] if names_in(given) & observed else []
    if isinstance(stmt, ast.Assign) and names_in([stmt.value]) & observed:
        parts = [e for t in stmt.targets for e in (t.elts if isinstance(t, ast.Tuple) else [t])]
        return [t.value for t in parts if isinstance(t, ast.Subscript)]
    return []


def leading(inside: Sequence[ast.stmt], steps: Sequence[ast.stmt]) -> set[str]:
    """Names of the training loop that lead to the losses of the optimizers' steps."""
    found, bound = set[str](), {n for s in inside for n in access(s).binds}
    for stmt in inside:
        if stmt in steps or _calls_method(stmt, "backward"):
            found |= access(stmt).reads
    while True:
        new = {n for s in inside if (access(s).binds | (collects(s) & bound)) & found for n in access(s).reads} - found
        if not new:
            return found
        found |= new


def collects(stmt: ast.stmt) -> set[str]:
    """The lists that a statement appends to: `states.append(state)`."""
    call = stmt.value if isinstance(stmt, ast.Expr) and calls_method(stmt.value, "append") else None
    receiver = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    return {receiver.id} if isinstance(receiver, ast.Name) else set()
