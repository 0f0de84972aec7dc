"""Queries about the objects of a script: who may hold an object, keep it across iterations, or change it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from transformer.dataflow.liveness import exposed
from transformer.dataflow.variables import COMPREHENSIONS, Owner
from transformer.facts import python
from transformer.facts.torch_api import NEW, may_be_given, names
from transformer.recognition.refusals import Unconvertible
from transformer.recognition.roles import Roles
from transformer.syntax.query import calls_method, last_written, parameters, unparse, walk
from transformer.syntax.tree import Scope
from transformer.values.effects.interpreter import GRADIENTS, MEMORY, VALUES, Effect, Frame, Interpreter
from transformer.values.effects.objects import (
    EVERY,
    GIVEN,
    INSIDE,
    ITEMS,
    UNKNOWN,
    Context,
    Heap,
    Place,
    Thing,
    Things,
    Variable,
    in_order,
)
from transformer.values.tensors import Tensors

COMPUTES = names("tensor", memory=("new", "shared", "number"))
"""Methods of tensors that change nothing."""
RETURNS_NUMBERS = names("tensor", memory="number", waits="value")
"""Methods of tensors that return the values as Python numbers."""


@dataclass(frozen=True)
class Held:
    """Why something is not allowed: the code that prevents it, and what that code does."""

    node: ast.AST | None
    what: str

    @property
    def lineno(self) -> int:
        """The line of the code; 0 if it has none."""
        return getattr(self.node, "lineno", 0)


class World:
    """The objects of a script and what its code does with them. `roles.get(World)` makes it once.

    The code is interpreted at the first query.
    """

    def __init__(self, roles: Roles) -> None:
        self._roles = roles

    @cached_property
    def _code(self) -> Interpreter:
        return Interpreter(self._roles)

    @property
    def _heap(self) -> Heap:
        return self._code.heap

    def of(self, node: ast.expr) -> Things:
        """What an expression may be, in any context; for a target, what it is bound to."""
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            return self.named(node.id)
        return frozenset([UNKNOWN]) if self.gave_up else self._values.get(node, frozenset())

    @cached_property
    def _values(self) -> Mapping[ast.AST, Things]:
        found: dict[ast.AST, set[Thing]] = {}
        for (node, _), things in self._code.values.items():
            found.setdefault(node, set()).update(things)
        return {node: frozenset(things) for node, things in found.items()}

    def meant(self, node: ast.expr) -> Things:
        """What an expression may be, including everything that UNKNOWN stands for."""
        found = self.of(node)
        return found | self._escaped if UNKNOWN in found else found

    def named(self, name: str) -> Things:
        """What a variable of the training scope may be."""
        return frozenset([UNKNOWN]) if self.gave_up else self._named.get(name, frozenset())

    @cached_property
    def _named(self) -> Mapping[str, Things]:
        found: dict[str, Things] = {}
        try:
            scopes: Collection[Owner] = [self._roles.scope]
        except Unconvertible:  # no training loop is known
            scopes = {place.owner for place in self._heap.held if isinstance(place, Variable)}
        for place, held in self._heap.held.items():
            if isinstance(place, Variable) and place.owner in scopes:
                found[place.name] = found.get(place.name, frozenset()) | held
        return found

    def may_be(self, node: ast.expr, function: ast.FunctionDef) -> bool:
        """Whether an expression may be a function of this file, or a method of an object."""
        if self._code.gave_up:
            return True
        found = self.meant(node)
        cls = self._roles.tree.parents[function]
        return any(
            function in (thing.node, *(of.node for of in thing.of if thing.kind == "bound"))
            or (UNKNOWN in found and thing.kind in ("class", "instance") and cls in self._code.lineage(thing))
            for thing in found
        )

    def may_have(self, node: ast.expr, function: ast.FunctionDef) -> bool:
        """Whether an expression may be an object, or its class, that has a function of this file as a method."""
        cls = self._roles.tree.parents[function]
        return not isinstance(cls, ast.ClassDef) or self.may_be_of(node, cls)

    def may_be_of(self, node: ast.expr, cls: ast.ClassDef) -> bool:
        """Whether an expression may be a class of this file or a subclass, or an instance of one."""
        found = self.meant(node)
        if self._code.gave_up or not found:
            return True
        kinds = ("instance", *MEMORY, *python.CONTAINERS)
        own = [t for t in found if t is not UNKNOWN]
        return any(t.kind not in kinds or (t.kind == "instance" and cls in self._code.lineage(t)) for t in own)

    def only_runs(self, node: ast.expr, function: ast.FunctionDef) -> bool:
        """Whether an expression can only be one method of this file, for any object and after any code."""
        found = self.of(node)
        same = all(t.kind == "bound" and t.of[0].node is function for t in found)
        return not self._code.gave_up and bool(found) and same

    def is_tensor(self, name: str) -> bool:
        """Whether a variable of the training scope is a tensor, unless it is None, a number or a string."""
        return self.are_tensors(self.named(name))

    def are_tensors(self, things: Collection[Thing]) -> bool:
        """Whether objects are tensors, and there is at least one. None, numbers and strings are no objects here."""
        return not self._code.gave_up and bool(things) and all(t.kind == "tensor" for t in things)

    def are_numbers(self, node: ast.expr) -> bool:
        """Whether an expression is always a number, a string or None."""
        return not self._code.gave_up and node in self._values and not self._values[node]

    def never_runs(self, node: ast.expr) -> bool:
        """Whether an expression is never evaluated."""
        return not self._code.gave_up and node not in self._values

    def classes(self, node: ast.expr) -> list[ast.ClassDef]:
        """The classes of this file that an expression may be an instance of; none if it may be anything else."""
        found = [t.of[0].node if t.kind == "instance" else None for t in sorted(self.of(node), key=in_order)]
        known = [cls for cls in found if isinstance(cls, ast.ClassDef)]
        return [] if self._code.gave_up or len(known) < len(found) else list(dict.fromkeys(known))

    def is_module(self, node: ast.expr) -> bool:
        """Whether an expression is a module of torch, or of a class of this file derived from one."""
        found = self.of(node)
        return not self._code.gave_up and bool(found) and all(map(self.is_module_object, found))

    @property
    def gave_up(self) -> bool:
        """Whether the script is too large to analyse; then anything may be anything."""
        return self._code.gave_up

    def may_be_tensor(self, node: ast.expr) -> bool:
        """Whether an expression may be a tensor."""
        found = self.of(node)
        own = all(t.kind in ("instance", *python.CONTAINERS) and not self.is_module_object(t) for t in found)
        return self._code.gave_up or not found or not own

    def is_module_object(self, thing: Thing) -> bool:
        """Whether an object is a module of torch, or of a class of this file derived from one."""
        return self._code.is_module_object(thing)

    def is_single(self, thing: Thing) -> bool:
        """Whether a thing is a single module, made once in a training, rather than all modules made at one place."""
        tree, scope = self._roles.tree, self._roles.scope
        places = [n for n in (*thing.context, thing.node) if n is not None]
        begun = next((i for i, n in enumerate(places) if tree.scope_of(n) is scope), None)
        if self._code.gave_up or begun is None or not self.is_module_object(thing):
            return False
        if begun and thing in self._held_by_file:  # perhaps another training of the same run made it
            return False
        for outer in (n for at in places[begun:] for n in takewhile(lambda n: n is not scope, tree.ancestors(at))):
            if isinstance(outer, (*COMPREHENSIONS, ast.For, ast.While)):
                return False
            if isinstance(outer, (ast.FunctionDef, ast.ClassDef)) and outer.name != "__init__":
                if any(last_written(n) == outer.name for n in walk(outer)):  # it may call itself
                    return False
        return True

    @cached_property
    def _held_by_file(self) -> Things:
        """What is reachable from module-level variables."""
        root, held = self._roles.tree.root, self._heap.held.items()
        return self.reach({t for p, found in held if isinstance(p, Variable) and p.owner is root for t in found})

    def contents(self, thing: Thing) -> Things:
        """What a container may hold."""
        return self._heap.get((thing, ITEMS)) if thing.kind in (*python.CONTAINERS, "iterator") else frozenset()

    def parts(self, thing: Thing) -> Things:
        """What any object directly holds or was made from."""
        return frozenset(self._heap.below(thing))

    def changed(self) -> Iterator[tuple[ast.AST, Context, Thing]]:
        """The nodes that change something in place, with the calls that lead to each and what it may change."""
        for frame, effects in self._code.effects.items():
            for node, found in effects.items():
                for effect in found:
                    if effect.thing is not None and effect.kind.startswith("changes"):
                        reached = self._reachable(effect.thing) if effect.kind == "changes all" else [effect.thing]
                        if effect.what == VALUES:  # not the lists that hold the parameters
                            reached = [thing for thing in reached if thing.kind not in python.CONTAINERS]
                        yield from ((node, frame.context, thing) for thing in reached)

    def may_be_made_by(self, node: ast.expr, library: str) -> bool:
        """Whether an expression may be an object of a library's class, or a tuple of these; UNKNOWN does not count."""
        found = self.of(node)
        parts = {t for thing in found for t in (self._heap.get((thing, ITEMS)) if thing.kind == "tuple" else [thing])}
        return self._code.gave_up or any(t.kind == "made" and t.name.startswith(library) for t in parts)

    # --- what happens ----------------------------------------------------------------------------------------

    def happens(
        self, body: Sequence[ast.stmt], besides: Collection[ast.stmt] = (), of: Scope | None = None
    ) -> Iterator[tuple[ast.AST, Effect]]:
        """The effects of running statements of the training scope, including those of the functions they call.

        Each comes with the node in the statements where it occurs. `besides` are statements to leave out. The
        statements may also be those `of` another function.
        """
        left_out = {n for stmt in besides for n in walk(stmt)}
        inside = [n for stmt in body for n in walk(stmt) if n not in left_out]
        calling: ast.AST | None = None
        for frame in [f for f in self._code.frames if f.owner is (of or self._roles.scope)]:
            effects, calls = self._code.effects.get(frame, {}), self._code.calls.get(frame, {})
            advanced = self._code.advanced.get(frame, {})
            for node in inside:
                yield from ((node, effect) for effect in self._with_unknown(effects.get(node, ())))
                for called in calls.get(node, ()):
                    yield from ((node, effect) for effect in self._all_in(called))
                for iterator in sorted(advanced.get(node, ()), key=in_order):
                    yield from ((node, effect) for effect in sorted(self._done_lazily(iterator), key=in_order))
                if calling is None and (isinstance(node, ast.Call) or node in calls or node in effects):
                    calling = node
        if calling is not None:
            stmt = self._roles.tree.statement(calling)
            yield from ((stmt, effect) for effect in sorted(self._done_at_any_call, key=in_order))

    def _all_in(self, frame: Frame) -> Sequence[Effect]:
        """The effects of a call of a body, including all calls it makes."""
        if frame not in self._done_by:
            frames = self._frames_in(frame)
            found = self._effects_of(frames)
            self._done_by[frame] = ()  # for a generator that advances itself
            things = {t for f in frames for advanced in self._code.advanced.get(f, {}).values() for t in advanced}
            self._done_by[frame] = self._with_unknown(found.union(*map(self._done_lazily, things)))
        return self._done_by[frame]

    def _with_unknown(self, effects: Collection[Effect]) -> Sequence[Effect]:
        """Effects in order; if unknown code runs, including those of the functions that it may call."""
        unknown = any(effect.kind == "unknown" for effect in effects)
        return sorted(self._done_by_unknown.union(effects) if unknown else effects, key=in_order)

    def _done_lazily(self, iterator: Thing) -> frozenset[Effect]:
        """The effects of advancing an iterator: of a generator's body, or of the calls where it was made."""
        if iterator not in self._lazily:
            self._lazily[iterator] = frozenset()  # for one that advances itself
            found = set[Effect]()
            if isinstance(iterator.node, ast.FunctionDef):
                found.update(self._all_in(Frame(iterator.node, iterator.context)))
            elif iterator.node is not None:
                nodes = {*walk(iterator.node)}
                for frame in [f for f in self._code.frames if f.context == iterator.context]:
                    found.update(e for n, es in self._code.effects.get(frame, {}).items() if n in nodes for e in es)
                    run = {f for n, fs in self._code.calls.get(frame, {}).items() if n in nodes for f in fs}
                    inner = {t for n, ts in self._code.advanced.get(frame, {}).items() if n in nodes for t in ts}
                    found = found.union(*map(self._all_in, run), *map(self._done_lazily, inner))
            self._lazily[iterator] = frozenset(found)
        return self._lazily[iterator]

    @cached_property
    def _lazily(self) -> dict[Thing, frozenset[Effect]]:
        return {}

    @cached_property
    def _done_by_unknown(self) -> frozenset[Effect]:
        """The effects of functions of this file that unknown code may call."""
        return self._done_in(f for f in self._code.frames if f.context[:1] == (self._roles.tree.root,))

    @cached_property
    def _done_at_any_call(self) -> frozenset[Effect]:
        """The effects of functions of this file that other code holds and may call whenever it runs.

        Left out: changes to what they are given or make themselves, and the unknown code that they run.
        """
        lent = [
            run
            for frame, node, definition in self._code.lent
            for run in self._code.calls.get(frame, {}).get(node, ())
            if run.owner is definition
        ]
        iterators = [t for t in self._escaped if t.kind == "iterator"]
        done = self._done_in((*lent, *self._code.run_by_others())).union(*map(self._done_lazily, iterators))
        return frozenset(e for e in done if e.variable is not None or e.thing not in (None, UNKNOWN))

    def _done_in(self, frames: Iterable[Frame]) -> frozenset[Effect]:
        """The effects of bodies and all that they run, except on objects that only calls by unknown code use."""
        done = self._effects_of({f for frame in frames for f in self._frames_in(frame)})
        return frozenset(e for e in done if self._is_ours(e.variable or e.thing))

    def _effects_of(self, frames: Iterable[Frame]) -> set[Effect]:
        """The effects of bodies, without those of the functions they call."""
        return {e for f in frames for effects in self._code.effects.get(f, {}).values() for e in effects}

    def _is_ours(self, what: Variable | Thing | None) -> bool:
        """Whether the training makes or holds a variable or object itself, rather than only a call by unknown code."""
        others = (self._roles.tree.root,)
        if what is None or what.context[:1] != others:
            return True
        places = self._holders.get(what, ()) if isinstance(what, Thing) else ()
        holders = (p if isinstance(p, Variable) else p[0] for p in places)
        return any(holder is not UNKNOWN and holder.context[:1] != others for holder in holders)

    def _frames_in(self, frame: Frame) -> set[Frame]:
        """A body and all bodies that a call of it may run."""
        frames, stack = {frame}, [frame]
        while stack:
            more = {f for called in self._code.calls.get(stack.pop(), {}).values() for f in called} - frames
            frames |= more
            stack += more
        return frames

    def run_at(self, function: ast.FunctionDef, nodes: Collection[ast.AST]) -> tuple[list[ast.AST], ast.AST | None]:
        """The functions that nodes of a function may run, and the first of the nodes that may run unknown code.

        Raising an error does not count as unknown code.
        """
        run, unknown, known = set[ast.AST](), set[ast.AST](), False
        for frame in self._code.effects.keys() | self._code.calls.keys():
            if frame.owner is not function:
                continue
            effects, calls, known = self._code.effects.get(frame, {}), self._code.calls.get(frame, {}), True
            for node in nodes:
                frames = {f for called in calls.get(node, ()) for f in self._frames_in(called)}
                done = [(node, effects.get(node, ())), *(pair for f in frames for pair in self._done(f))]
                run |= {f.owner for f in frames}
                if any(e.kind == "unknown" for at, found in done if not isinstance(at, ast.Raise) for e in found):
                    unknown.add(node)
        if self._code.gave_up or not known:
            unknown |= {*nodes}
        ordered, places = (sorted(found, key=lambda n: getattr(n, "lineno", 0)) for found in (run, unknown))
        return ordered, next((n for n in places if hasattr(n, "lineno")), None)

    def _done(self, frame: Frame) -> Collection[tuple[ast.AST, Collection[Effect]]]:
        """The nodes of a body that have effects, each with its effects."""
        return self._code.effects.get(frame, {}).items()

    def may_run(self, scope: Scope, nodes: Collection[ast.AST]) -> list[ast.AST] | None:
        """The functions that nodes of a scope may run, also through code of others; None if that may be any.

        Nodes of code that never runs may run nothing.
        """
        if self._code.gave_up:
            return None
        began = [frame for frame in self._code.frames if frame.owner is scope]
        found = {f for frame in began for f in self._run_at(frame, nodes)}
        here = (e for f in began for n in nodes for e in self._code.effects.get(f, {}).get(n, ()))
        if any(effect.kind == "unknown" for effect in (*here, *self._effects_of(found))):
            found |= {f for f in self._code.frames if f.context[:1] == (self._roles.tree.root,)}
        return sorted({f.owner for f in found}, key=lambda n: getattr(n, "lineno", 0))

    def _run_at(self, frame: Frame, nodes: Collection[ast.AST]) -> set[Frame]:
        """The bodies that nodes of a body may run, as far as their calls are known."""
        found, stack, seen = set[Frame](), [(frame, nodes)], set[Thing]()
        while stack:
            frame, nodes = stack.pop()
            calls, advanced = self._code.calls.get(frame, {}), self._code.advanced.get(frame, {})
            run = {f for node in nodes for f in calls.get(node, ())} - found
            iterators = {t for node in nodes for t in advanced.get(node, ())} - seen
            seen |= iterators
            for iterator in iterators:
                if isinstance(iterator.node, ast.FunctionDef):
                    run.add(Frame(iterator.node, iterator.context))
                elif iterator.node is not None:
                    made = (f for f in self._code.frames if f.context == iterator.context)
                    stack += [(f, list(walk(iterator.node))) for f in made]
            found |= run
            stack += [(f, [*self._code.calls.get(f, {}), *self._code.advanced.get(f, {})]) for f in run]
        return found

    def functions_run(self, function: ast.FunctionDef) -> frozenset[ast.AST] | None:
        """The functions that a call of a function may run, itself included; None if it may run anything."""
        frames = {f for f in self._code.effects.keys() | self._code.calls.keys() if f.owner is function}
        stack = [*frames]
        while stack:
            more = {f for called in self._code.calls.get(stack.pop(), {}).values() for f in called} - frames
            frames |= more
            stack += more
        unknown = any(effect.kind == "unknown" for effect in self._effects_of(frames))
        if self._code.gave_up or not frames or unknown:
            return None
        return frozenset(f.owner for f in frames)

    def nodes_run(self, functions: Collection[ast.FunctionDef]) -> list[ast.AST] | None:
        """The nodes of everything that some functions may run, in file order; None if that may be anything."""
        run = [self.functions_run(function) for function in functions]
        known = {owner for owners in run if owners is not None for owner in owners}
        ordered = sorted(known, key=lambda owner: getattr(owner, "lineno", 0))
        return None if None in run else [node for owner in ordered for node in walk(owner)]

    @cached_property
    def _done_by(self) -> dict[Frame, Sequence[Effect]]:
        return {}

    @cached_property
    def _escaped(self) -> frozenset[Thing]:
        """Everything that may have escaped to unknown code."""
        return frozenset(self._heap.reach([UNKNOWN]))

    def changes(
        self,
        things: Collection[Thing],
        body: Sequence[ast.stmt],
        besides: Collection[ast.stmt] = (),
        *,
        gradients: bool = True,
        environments: bool = False,
    ) -> Held | None:
        """Where statements, except `besides`, may change things in place; None if they do not.

        Without `environments`, changes by an environment's own step do not count: it may always overwrite what it
        returned. Without `gradients`, changes by `loss.backward()` do not count: it leaves the values as they are. If
        no thing is given, the memory in question is unknown.
        """
        wanted = self._memory(things) | (self._escaped if UNKNOWN in things else frozenset())
        if self._code.gave_up or not things:
            return Held(next(iter(body), None), "may do anything")
        for node, effect in self.happens(body, besides):
            if effect.kind == "unknown":
                if not wanted.isdisjoint(self._escaped) and not self._computes_with_tensor(node):
                    return Held(node, "runs unknown code")
            elif (node in self._roles.env_steps and not environments) or (effect.what == GRADIENTS and not gradients):
                continue
            elif effect.thing is not None and effect.kind in ("changes", "changes all", "stores"):
                changed = {effect.thing} if effect.kind != "changes all" else self._reachable(effect.thing, effect.what)
                changes = not wanted.isdisjoint(changed) or (
                    UNKNOWN in changed and not wanted.isdisjoint(self._escaped)
                )
                if changes and not self._computes_with_tensor(node):
                    return Held(node, "may change it in place")
        return None

    def _computes_with_tensor(self, node: ast.AST) -> bool:
        """Whether a node calls a tensor method that changes nothing, even if the analysis sees other objects there."""
        if not calls_method(node) or node.func.attr not in COMPUTES or may_be_given(node):
            return False
        if node.func.attr in RETURNS_NUMBERS and not (
            node.args or node.keywords or self._roles.tree.methods(node.func.attr)
        ):
            return True  # `x.item()`: only tensors and arrays have it, unless a class of this file defines it
        return self._roles.get(Tensors).tensor(node.func.value)

    def _memory(self, things: Collection[Thing]) -> set[Thing]:
        """Things, and the tensors and arrays over the same memory."""
        found, stack = {*things}, [*things]
        while stack:
            more = self._code.shared.get(stack.pop(), set()) - found
            found |= more
            stack += more
        return found

    def reach(self, things: Collection[Thing]) -> Things:
        """Things and everything reachable from them."""
        return frozenset(t for thing in things for t in self._reachable(thing))

    def held_by(self, node: ast.expr) -> Things | None:
        """An object and everything that it holds, directly or not; None if that is not known."""
        found = self.of(node)
        held = self.reach(found)
        if self._code.gave_up or not found:
            return None
        return held | self._escaped if UNKNOWN in held else held

    def _reachable(self, thing: Thing, what: str = "") -> frozenset[Thing]:
        """A thing and everything reachable from it; for VALUES without buffers, which no optimizer trains."""
        if (thing, what) not in self._reaches:
            buffers = self._code.buffers if what == VALUES else {}
            self._reaches[thing, what] = frozenset(self._heap.reach([thing], GIVEN, buffers))
        return self._reaches[thing, what]

    @cached_property
    def _reaches(self) -> dict[tuple[Thing, str], frozenset[Thing]]:
        return {}

    def resets(self, node: ast.expr, body: Sequence[ast.stmt], of: Scope | None = None) -> Held | None:
        """Where statements may give an expression of names, attributes and items another value; None if they do not.

        The statements are of the training scope, or `of` another function.
        """
        names = {n.id for n in walk(node) if isinstance(n, ast.Name)}
        attributes = {n.attr: self.of(n.value) for n in walk(node) if isinstance(n, ast.Attribute)}
        holders = {t for things in attributes.values() for t in things}
        if self._code.gave_up:
            return Held(body[0], "may do anything")
        for at, effect in self.happens(body, of=of):
            variable = effect.variable
            if variable is not None and variable.name in names:
                if variable.owner in (self._roles.scope, self._roles.tree.root, of):
                    return Held(at, f"binds {variable.name}")
            elif effect.kind == "stores" and effect.thing is not None:
                same = [name for name in attributes if effect.what in (name, EVERY)]
                if any(effect.thing in attributes[name] or UNKNOWN in attributes[name] for name in same):
                    return Held(at, f"sets .{same[0]}")
                if same and effect.thing is UNKNOWN and not holders.isdisjoint(self._escaped):
                    return Held(at, f"may set .{same[0]}")
            elif effect.kind.startswith("changes") and effect.thing is not None and effect.what != VALUES:
                changed = {effect.thing} if effect.kind == "changes" else self._reachable(effect.thing)
                if not holders.isdisjoint(changed):
                    return Held(at, f"may set .{next(iter(attributes))}")
            elif effect.kind == "unknown" and not holders.isdisjoint(self._escaped - {UNKNOWN}):
                return Held(at, f"runs unknown code, which may set .{next(iter(attributes))}")
        return None

    # --- who holds it ----------------------------------------------------------------------------------------

    @cached_property
    def _holders(self) -> Mapping[Thing, list[Place]]:
        """The places that may hold each thing."""
        found: dict[Thing, list[Place]] = {}
        for place, held in self._heap.held.items():
            for thing in held:
                found.setdefault(thing, []).append(place)
        return found

    @cached_property
    def _methods(self) -> Mapping[Thing, list[Thing]]:
        """The methods of each thing that some place may hold; a stored method holds its thing (`read = x.sum`)."""
        found: dict[Thing, list[Thing]] = {}
        for holder in self._holders:
            if holder.kind in ("method", "bound"):
                for thing in holder.of:
                    found.setdefault(thing, []).append(holder)
        return found

    @cached_property
    def _read_elsewhere(self) -> frozenset[Variable]:
        """Variables that a nested function reads, whenever it is called."""
        found = set()
        for variable, scope in self._code.reads:
            while isinstance(scope, COMPREHENSIONS) and scope is not variable.owner:
                scope = self._code.variables.parent(scope) or scope
            if scope is not variable.owner:
                found.add(variable)
        return frozenset(found)

    def is_known(self, things: Collection[Thing]) -> bool:
        """Whether all holders of the things are known: they have not escaped to unknown code."""
        return not self._code.gave_up and bool(things) and self._escaped.isdisjoint(self._memory(things))

    def with_library_objects(self, things: Collection[Thing]) -> Things:
        """Things, and objects that libraries made from them, such as the scheduler of an optimizer."""
        found, stack = {*things}, [*things]
        while stack:
            places = (place for place in self._holders.get(stack.pop(), ()) if not isinstance(place, Variable))
            more = {holder for holder, _ in places if holder.kind == "made"} - found
            found |= more
            stack += more
        return frozenset(found)

    def is_left_alone(self, node: ast.expr, body: Sequence[ast.stmt]) -> bool:
        """Whether an expression is memory that neither statements nor the environments they step write into."""
        if calls_method(node) and node.func.attr in NEW and not may_be_given(node):
            if self._roles.get(Tensors).tensor(node.func.value):
                return True  # new memory that nothing else holds, whatever network made the tensor
        return self._are_left_alone(self.of(node), body)

    def parts_are_left_alone(self, node: ast.expr, body: Sequence[ast.stmt]) -> bool:
        """Whether the parts that an expression is unpacked into are left alone in the same way."""
        found = self.of(node)
        parts = frozenset(part for whole in found for part in self.contents(whole))
        return all(whole.kind == "tuple" for whole in found) and self._are_left_alone(parts, body)

    def _are_left_alone(self, found: Collection[Thing], body: Sequence[ast.stmt]) -> bool:
        things = self._memory(found)
        places = (place for t in things for place in self._holders.get(t, ()))
        given = any(not isinstance(place, Variable) and place[1] == GIVEN for place in places)  # to an environment
        known = self.is_known(things) and all(t.kind in MEMORY for t in things)
        return known and not given and self.changes(things, body, gradients=False, environments=True) is None

    def other_names(self, things: Collection[Thing], name: str) -> Held | None:
        """What else holds things, besides one variable of the training scope; function parameters do not count."""
        if UNKNOWN in things:
            return Held(None, "something unknown may be the same object")
        for thing in sorted(things, key=in_order):
            if thing in self._code.stored_by_unknown:
                return Held(
                    self._heap.since.get(((UNKNOWN, ITEMS), thing)), "something unknown may hold the same object"
                )
            for place in self._holders.get(thing, ()):
                if isinstance(place, Variable):
                    parameter = isinstance(place.owner, (ast.FunctionDef, ast.Lambda)) and place.name in parameters(
                        place.owner
                    )
                    if parameter or (place.owner is self._roles.scope and place.name == name):
                        continue
                if not isinstance(place, Variable) and (place[0] is UNKNOWN or place[1] == INSIDE):
                    continue  # the argument of a call, which the caller can replace
                return Held(self._heap.since[place, thing], f"{_worded(place)} is the same object")
        return None

    def outlives(
        self,
        things: Collection[Thing],
        names: Collection[str],
        region: Sequence[ast.stmt],
        live: Collection[str] | None = None,
    ) -> Held | None:
        """What may hold objects beyond a region, other than variables of these names; None if nothing.

        Args:
            things: the objects.
            names: the training scope's variables that are known to hold them.
            region: the body of a loop, or other statements.
            live: names whose value may be read after the region: then only what the region itself puts somewhere
                counts. If None, the question is what holds the objects from one iteration to the next.
        """
        if self._code.gave_up or UNKNOWN in things:
            return Held(None, "the objects of this script hold each other in too many ways to tell what keeps it")
        inside = {n for stmt in region for n in walk(stmt)}
        carried = exposed(region, self._roles.counted) if live is None else live
        when = " from one iteration to the next" if live is None else ""
        puts = None if live is None else {*self._roles.reached(region)}
        things = self._memory(things)
        holding, stack = {*things}, sorted(things, key=in_order)
        while stack:
            thing = stack.pop()
            stack += self._methods.get(thing, ())
            for place in self._holders.get(thing, ()):
                since = self._heap.since[place, thing]
                if puts is not None and since not in puts:
                    continue
                if isinstance(place, Variable):
                    ours = place.owner is self._roles.scope
                    if ours and place.name in names and thing in things:
                        continue
                    if (ours and place.name in carried) or self._lives_on(place, inside):
                        return Held(since, f"{place.name} may hold it{when}")
                    continue
                holder, name = place
                if holder is UNKNOWN:
                    return Held(since, "it is passed to code that may keep it")
                if holder in holding or (live is None and self._is_replaced(since, thing)):
                    continue
                holding.add(holder)
                if holder.node not in inside and inside.isdisjoint(holder.context):
                    return Held(since, f"it is kept{_in(name)}{when}")
                stack.append(holder)
        return None

    def _is_replaced(self, since: ast.AST | None, thing: Thing) -> bool:
        """Whether an attribute holds a thing only between the first and the second call of its method.

        Discounting rewards forwards does this: `self.sums = x if self.sums is None else self.sums * gamma + x`, written
        with `if` and `else`. Only these two branches set the attribute, and the second sets it to a new value.
        """
        if not isinstance(since, ast.Attribute):
            return False
        tree = self._roles.tree
        first, text = tree.parents[tree.statement(since)], unparse(since)
        if not isinstance(first, ast.If) or _none_test(first.test) != text or tree.statement(since) not in first.body:
            return False
        stored = [n for n in tree.of(ast.Attribute) if n.attr == since.attr and not isinstance(n.ctx, ast.Load)]
        later = [n for n in stored if tree.statement(n) in first.orelse]
        others = [n for n in stored if n not in (since, *later)]
        made = [s.value for n in later if isinstance(s := tree.statement(n), ast.Assign)]
        given = [tree.assigned[n] for n in others if n in tree.assigned]
        empty = len(given) == len(others) and all(isinstance(v, ast.Constant) for v in given)
        return empty and len(made) == len(later) > 0 and not any(thing in self.of(value) for value in made)

    def _lives_on(self, place: Variable, inside: Collection[ast.AST]) -> bool:
        """Whether a variable may be read in a later iteration than it is bound in, apart from reads in its own scope.

        A function's variables end with its call, except those that nested functions read.
        """
        if place.owner is self._roles.tree.root and self._roles.scope is not place.owner:
            return True
        if not any(n in inside for n in place.context) or place.owner is self._roles.scope:
            return place in self._read_elsewhere
        return False


def _worded(place: Place) -> str:
    return place.name if isinstance(place, Variable) else f"what line {getattr(place[0].node, 'lineno', 0)} makes"


def _in(name: str) -> str:
    return f" as .{name}" if name.isidentifier() else ""


def _none_test(test: ast.expr) -> str | None:
    """`self.x` in `self.x is None`."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Is):
        compared = test.comparators[0]
        if isinstance(compared, ast.Constant) and compared.value is None:
            return unparse(test.left)
    return None
