"""An abstract interpreter: what each expression may be, and what each statement reads, changes and keeps.

Every function is run in the context of the calls that lead to it. The training function is run even if only other
files call it, with unknown arguments. A body runs at once where a call of it is found. The file is run again until
nothing new is found, so recursion and loops need no bound; a statement runs again only if something that it read has
changed. Five rules keep the answers safe:

- A callee without a row among the facts is *unknown*: its arguments, and everything reachable from them, escape to it.
  Unknown code may change anything that has ever escaped, and may call escaped functions.
- UNKNOWN stands for everything that has escaped; a set with UNKNOWN does not list those objects.
- Functions that other code holds may run at any call: those that have escaped, and those passed to torch or numpy. The
  code of an iterator runs where it is advanced.
- A view is the same memory as its base. The result of an operator is new, but a new container holds the old elements.
- Unpacking, iteration and indexing may return anything that the container holds.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar

from transformer.dataflow.access import access, block_names, scope_access
from transformer.dataflow.bindings import variables
from transformer.dataflow.name_lookups import names_in_locals, texts_of, words_of
from transformer.dataflow.variables import COMPREHENSIONS, FUNCTIONS, Owner
from transformer.facts import libraries, python, torch_api
from transformer.recognition.refusals import Unconvertible
from transformer.recognition.roles import Roles
from transformer.syntax.query import asked_name, has_decorator, last_written, pairwise, walk
from transformer.syntax.tree import Tree
from transformer.values.effects.object_arrays import holds_numbers
from transformer.values.effects.objects import (
    BASES,
    EVERY,
    GIVEN,
    INSIDE,
    ITEMS,
    KEYS,
    NAMED,
    NAMESPACE,
    NOTHING,
    SPREAD,
    UNKNOWN,
    Context,
    Heap,
    LastRun,
    Place,
    Thing,
    Things,
    Variable,
    in_order,
)

K = TypeVar("K", bound=Hashable)

MOST = 60_000
"""The run gives up after finding this many facts, and nothing is known; scripts have a few thousand."""
LONGEST = 2
"""The maximum length of a context; deeper calls are distinguished by the last ones only."""
DEEPEST_RUN = 10
"""The maximum number of bodies run one inside another; deeper ones run later."""
ALL_IS_KNOWN = "all is known"
"""What a statement reads if it depends on whether the first round is over."""
MEMORY = ("tensor", "array")
GRADIENTS = "gradients"
"""What `loss.backward()` changes of a tensor."""
VALUES = "values"
"""What optimizers and gradient clipping change in parameters: values and gradients. No attribute is set."""
NOT_CALLABLE = (*MEMORY, *python.CONTAINERS, "options")
"""Kinds of things that cannot be called."""
HOLD_NUMBERS = (*MEMORY, "made", "instance", "unknown")
"""Kinds of things that may be, or hold, memory that calls write numbers into."""

OBJECTS = ("instance", "class", "function", "bound", *sorted(python.CONTAINERS.difference(python.DIMENSIONS)))
"""Kinds of things of this file of which numpy makes an array of objects."""


class Effect(NamedTuple):
    """An effect of a node."""

    kind: str
    """changes: a thing's own memory, or what a container holds. changes all: also everything that it holds. stores: an
    attribute of a thing. binds: a variable. unknown: everything that has escaped may change."""
    thing: Thing | None = None
    what: str = ""
    variable: Variable | None = None

    @property
    def order(self) -> tuple[object, ...]:
        """A sort key that is the same in each process."""
        name = "" if self.variable is None else self.variable.name
        return (self.kind, () if self.thing is None else self.thing.order, self.what, name)


class Frame(NamedTuple):
    """The body of a function or the module, in one context."""

    owner: Owner
    context: Context


class _TooMuch(Exception):
    """The run has found more than MOST."""


class Interpreter:
    """One run over a script's file. Its results are valid only after the run."""

    def __init__(self, roles: Roles) -> None:
        self._tree = roles.tree
        self._roles = roles
        self.variables = variables(roles.tree)
        self.heap = Heap()
        self.effects: dict[Frame, dict[ast.AST, set[Effect]]] = {}
        """By frame and node, the effects there, without those of called functions."""
        self.calls: dict[Frame, dict[ast.AST, set[Frame]]] = {}
        """By frame and node, the bodies in this file that may run there."""
        self.escaped_to_others: set[Thing] = set()
        """What escaped to unknown code other than environments."""
        self.stored_by_unknown: set[Thing] = set()
        """What was stored in something unknown, other than as an argument of a call."""
        self.lent: set[tuple[Frame, ast.AST, ast.AST]] = set()
        """Where functions of this file are passed to torch or numpy, which may call them at any later call."""
        self.advanced: dict[Frame, dict[ast.AST, set[Thing]]] = {}
        """By frame and node, the iterators whose code runs there, where they are advanced."""
        self.values: dict[tuple[ast.AST, Context], Things] = {}
        """What each expression may be, by context."""
        self._changed: dict[tuple[Frame, ast.AST, bool, str], set[Thing]] = {}
        """What was recorded as changed at a node."""
        self._of_kinds: dict[tuple[Things, tuple[str, ...]], Things] = {}
        self._of_numbers: dict[ast.AST | None, bool] = {}
        self._bound_by: dict[tuple[Variable, ast.stmt | None], Things] = {}
        """What each statement binds a variable to; None stands for code that binds it by its name as a string."""
        self._reaching: dict[ast.Name, Collection[ast.stmt | None]] = {}
        """The statements whose bindings may reach a read of a name; None stands for unknown ones."""
        self.buffers: dict[Place, set[Thing]] = {}
        """The buffers that modules register, by attribute."""
        self._stored: set[tuple[Thing, str]] = set()
        """The attributes that statements store, each with the object."""
        self.shared: dict[Thing, set[Thing]] = {}
        """The arrays whose memory a tensor shares, and the tensors that share an array's."""
        self._returned: dict[Frame, set[Thing]] = {}
        self._made_in: dict[Frame, dict[Owner, tuple[Context, ...]]] = {}
        """For each function, by where it was made: the contexts of the enclosing scopes."""
        self._outer: dict[tuple[Frame, Owner], tuple[Context, ...]] = {}
        """For each frame: the contexts of the scopes enclosing its function."""
        self._all_is_known = False
        self._depth = 0
        self.gave_up = False
        """Whether the run gave up because it found too much; then anything may be anything."""
        self.frames: list[Frame] = []
        """All bodies that run, in the order in which their calls were found."""
        self._known: set[Frame] = set()
        self._last_runs: dict[Frame, dict[ast.AST, LastRun]] = {}
        self.reads: set[tuple[Variable, Owner]] = set()
        """The variables that are read, each with the scope that reads it."""
        self._steps = frozenset(roles.env_steps)
        self._training = _training_function(roles)
        self._generators = _generators(roles.tree)
        self._words = words_of(roles.tree)
        """A class has no method of another name."""
        self._implicit = tuple(sorted(filter(python.is_implicit, _bound_anywhere(roles.tree))))
        """The methods that Python may call without a call in the script, such as `__len__`."""
        self._computed_attributes = {f.name for f in roles.tree.of(ast.FunctionDef) if _is_property(f)}
        self.module = Frame(roles.tree.root, ())
        self._frame = self.module
        self._scope: Owner = roles.tree.root
        self._found(self.module)
        self.gave_up = roles.history.too_large
        if self.gave_up:
            return
        try:
            self._run_until_nothing_is_new()
        except _TooMuch:
            self.gave_up = True

    # --- running ---------------------------------------------------------------------------------------------

    def _run_until_nothing_is_new(self) -> None:
        for all_is_known in (False, True):  # in the first round, an expression without a value may still get one
            self._all_is_known = all_is_known
            self.heap.changed(ALL_IS_KNOWN)
            version = -1
            while version != self.heap.version:
                version = self.heap.version
                for frame in self.frames:  # grows during the loop
                    self._run_frame(frame)
                self._call_back()

    def _may_be_without_value(self) -> bool:
        """Whether an expression without a value may still get one: in the first round. The second reruns the reader."""
        self.heap.read(ALL_IS_KNOWN)
        return not self._all_is_known

    def _call_back(self) -> None:
        """Run what unknown code may call: escaped functions, and the methods of escaped objects."""
        for thing in sorted(self.heap.reach([UNKNOWN]), key=in_order):
            for function in self._functions_of(thing):
                returned = self._apply(function, [], {}, None, everything=True)
                self._escape(returned, None, to_environments=True)
        self._run_training_that_only_other_files_call()

    def _run_training_that_only_other_files_call(self) -> None:
        """Run the training function with unknown arguments if nothing in this file calls it."""
        ran = {frame.owner for frame in self.frames}
        if self._training is None or self._training in ran:
            return
        around = [a for a in self._tree.ancestors(self._training) if isinstance(a, (ast.FunctionDef, ast.ClassDef))]
        outermost = next((a for a in reversed(around) if a not in ran), self._training)
        if isinstance(outermost, ast.ClassDef):
            cls, self._frame, self._scope = self._class(outermost), self.module, self._tree.root
            made = self._instantiate(cls, [], {}, outermost, frozenset([UNKNOWN]))
            self._unknown(made, outermost)  # unknown code calls its methods
        elif isinstance(outermost, ast.FunctionDef):
            for function in self.heap.of_node(outermost):
                self._apply(function, [], {}, None, everything=True)

    def _functions_of(self, thing: Thing) -> Iterator[Thing]:
        """What unknown code may call of an escaped thing: the function itself, or the methods of its class.

        The constructor is left out: it has run.
        """
        if thing.kind in ("function", "bound"):
            yield thing
        elif thing.kind == "instance":
            for cls in self._classes(thing.of[0]):
                for name, held in sorted(self.heap.holds(cls).items()):
                    for member in sorted(held, key=in_order):
                        if member.kind == "function" and name != "__init__":
                            yield self.heap.thing("bound", of=(member, thing))

    def _run_block(self, body: Sequence[ast.stmt]) -> None:
        for stmt in body:
            self._run(stmt)

    def _effect(self, node: ast.AST, effect: Effect) -> None:
        found = self.effects.setdefault(self._frame, {}).setdefault(node, set())
        if effect not in found:
            found.add(effect)
            self.heap.version += 1

    def _changes(self, things: Iterable[Thing], node: ast.AST, *, deep: bool = False, what: str = "") -> None:
        """Record that things change in place; with `deep` (always for `made`), also all reachable from them."""
        known = self._changed.setdefault((self._frame, node, deep, what), set())
        new = set(things) - known
        known |= new
        for thing in new:
            if thing.name == NAMESPACE:
                self._effect(node, Effect("stores", thing.of[0], EVERY))
            if thing.kind not in ("function", "bound", "method", "library"):
                self._effect(node, Effect("changes all" if deep or thing.kind == "made" else "changes", thing, what))

    def _escape(self, things: Iterable[Thing], node: ast.AST | None, *, to_environments: bool = False) -> None:
        """Let things escape to unknown code; with `to_environments`, only to code that runs when these step."""
        things = frozenset(things)
        if not to_environments:
            self.escaped_to_others |= things
        if not isinstance(node, ast.Call):
            self.stored_by_unknown |= things
        new = things - self.heap.held.get((UNKNOWN, ITEMS), NOTHING)
        self.heap.put((UNKNOWN, ITEMS), [t for t in new if t.kind != "library" and t is not UNKNOWN], node)

    def _unknown(self, things: Iterable[Thing], node: ast.AST) -> Things:
        """Let things escape to unknown code, and run it."""
        self._escape(things, node)
        self._effect(node, Effect("unknown"))
        return frozenset([UNKNOWN])

    def _run(self, stmt: ast.stmt) -> None:
        """Run a statement and the blocks inside it."""
        if self.heap.version > MOST:
            raise _TooMuch
        if self._runs_again(stmt):
            self._run_head(stmt)
            self.heap.running = None
        elif self.heap.running is not None:  # in a class
            self._run_head(stmt)
        if not isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for name in ("body", "orelse", "finalbody"):
                self._run_block(getattr(stmt, name, []))
            for part in (*getattr(stmt, "handlers", ()), *getattr(stmt, "cases", ())):
                self._run_block(part.body)

    def _runs_again(self, node: ast.AST) -> bool:
        """Whether to run a statement again: it is not running now, and may find something new."""
        if self.heap.running is not None:
            return False
        last_run = self._last_runs.setdefault(self._frame, {}).setdefault(node, LastRun())
        if not last_run.done:
            last_run.done, self.heap.running = True, last_run
        return self.heap.running is not None

    def _run_head(self, stmt: ast.stmt) -> None:
        """Run a statement without its blocks; a class includes its body."""
        self._run_itself(stmt)
        if self._implicit and not _only_binds(stmt):
            self._uses(stmt)

    def _run_itself(self, stmt: ast.stmt) -> None:
        if isinstance(stmt, ast.Assign):
            for target, value in pairwise(stmt):
                self._bind(target, self._of(value), value)
        elif isinstance(stmt, ast.AnnAssign):
            if stmt.value is not None:
                self._bind(stmt.target, self._of(stmt.value), stmt.value)
        elif isinstance(stmt, ast.AugAssign):
            self._augment(stmt)
        elif isinstance(stmt, ast.Expr):
            self._of(stmt.value)
        elif isinstance(stmt, ast.Return):
            if stmt.value is not None:
                self._give_back(self._of(stmt.value))
        elif isinstance(stmt, (ast.For, ast.AsyncFor)):
            self._bind_each(stmt.target, stmt.iter, self._items(self._of(stmt.iter), stmt.iter))
        elif isinstance(stmt, (ast.While, ast.If)):
            self._of(stmt.test)
        elif isinstance(stmt, (ast.With, ast.AsyncWith)):
            for item in stmt.items:
                entered = self._enter_context(self._of(item.context_expr), item.context_expr)
                if item.optional_vars is not None:
                    self._bind(item.optional_vars, entered, item.context_expr)
        elif isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._define(stmt)
        elif isinstance(stmt, ast.ClassDef):
            self._define_class(stmt)
        elif isinstance(stmt, (ast.Import, ast.ImportFrom)):
            self._import(stmt)
        elif isinstance(stmt, ast.Delete):
            for target in stmt.targets:
                self._delete(target)
        elif isinstance(stmt, ast.Raise):
            self._raise(self._all_of([*filter(None, (stmt.exc, stmt.cause))]), stmt)
        elif isinstance(stmt, ast.Assert):
            self._all_of([*filter(None, (stmt.test, stmt.msg))])
        elif isinstance(stmt, ast.Match):
            subject = frozenset(self.heap.reach(self._of(stmt.subject)))
            for case in stmt.cases:
                self._match(case.pattern, subject)
                if case.guard is not None:
                    self._of(case.guard)
        for handler in getattr(stmt, "handlers", ()):
            if handler.type is not None:
                self._of(handler.type)
            if handler.name:
                self._set(handler.name, frozenset([UNKNOWN]), handler)

    def _raise(self, things: Things, stmt: ast.stmt) -> None:
        """Raise an exception, or an instance of a class: any code may catch it and what it holds."""
        for thing in sorted(things, key=in_order):
            if thing.kind == "class":
                things |= self._instantiate(thing, [], {}, stmt, NOTHING)
            elif not thing.name.startswith("builtins.") and thing.kind != "instance":
                self._unknown([thing], stmt)
        self._escape(things, stmt)

    def _augment(self, stmt: ast.AugAssign) -> None:
        target = stmt.target
        old = self._load_name(target) if isinstance(target, ast.Name) else self._of(target)
        value = self._of(stmt.value)
        self._changes(old, stmt)
        holding = [t for t in old if t.kind in python.CONTAINERS or t.kind in ("made", "instance")]
        added = self._items(value, stmt.value) if holding else NOTHING
        for thing in old:
            if thing in holding:
                self.heap.put((thing, ITEMS), added, stmt)
            elif thing is UNKNOWN and not all(t.kind in MEMORY for t in value):
                self._unknown(self.heap.reach(value), stmt)
        self._put_into_arrays(old, value, stmt)
        called = self._special(old | value, self._implicit, [value | old], stmt)
        new = self._operated([old, value], stmt)
        self._bind(target, old | new | called, stmt.value)

    def _give_back(self, things: Things) -> None:
        held = self._returned.setdefault(self._frame, set())
        if not things <= held:
            held |= things
            self.heap.version += 1
            self.heap.changed(self._frame)

    def _match(self, pattern: ast.pattern, subject: Things) -> None:
        for part in ast.walk(pattern):
            if isinstance(part, (ast.MatchAs, ast.MatchStar)) and part.name:
                self._set(part.name, subject, part)
            elif isinstance(part, ast.MatchMapping) and part.rest:
                self._set(part.rest, subject, part)
            elif isinstance(part, (ast.MatchValue, ast.MatchClass)):
                self._of(part.value if isinstance(part, ast.MatchValue) else part.cls)

    def _enter_context(self, entered: Things, node: ast.expr) -> Things:
        self._special(entered, ("__exit__",), [frozenset([UNKNOWN])], node)
        return entered | self._special(entered, ("__enter__",), [], node)

    # --- names and targets -----------------------------------------------------------------------------------

    def _contexts_of(self, owner: Owner) -> tuple[Context, ...]:
        """The contexts of a scope's variables that the running code sees: all, if its function is made in several."""
        if owner is self._tree.root or isinstance(owner, ast.ClassDef):
            return ((),)
        if isinstance(owner, COMPREHENSIONS) or owner is self._frame.owner:
            return (self._frame.context,)
        self.heap.read((self._frame, owner))
        return self._outer.get((self._frame, owner), ((),))

    def _variables(self, owner: Owner, name: str) -> list[Variable]:
        return [Variable(owner, context, name) for context in self._contexts_of(owner)]

    def _set(self, name: str, things: Things, node: ast.AST) -> None:
        owner = self.variables.owner(name, self._scope)
        assert owner is not None, name
        if isinstance(owner, ast.ClassDef):
            self.heap.put((self._class(owner), name), things, node)
            return
        for variable in self._variables(owner, name):
            self._effect(node, Effect("binds", None, name, variable))
            self._hold(variable, things, node, self._tree.statement(node))

    def _hold(self, variable: Variable, things: Things, node: ast.AST, stmt: ast.stmt | None) -> None:
        """Bind a variable, by a statement or (None) by unknown code."""
        self.heap.put(variable, things, node)
        if not things <= (held := self._bound_by.get((variable, stmt), NOTHING)):
            self._bound_by[variable, stmt] = held | things
            self.heap.version += 1
            self.heap.changed(variable)

    def _load_name(self, node: ast.Name) -> Things:
        owner = self.variables.owner(node.id, self._scope)
        if owner is None:
            if hasattr(builtins, node.id):
                return frozenset([self.heap.thing("library", name=f"builtins.{node.id}")])
            return frozenset([UNKNOWN])
        if isinstance(owner, ast.ClassDef):  # not yet bound there, a name is the module's
            outer = (self.heap.get(v) for v in self._variables(self._tree.root, node.id))
            return self.heap.attribute(self._class(owner), node.id).union(*outer)
        variables = self._variables(owner, node.id)
        held = NOTHING
        for variable in variables:
            self.reads.add((variable, self._scope))
            held |= self.heap.get(variable)
        reaching = self._bindings(node, owner) if owner is self._scope and held else ()
        if not reaching or None in reaching:  # read at another time, or perhaps bound by other code
            return held
        found = NOTHING
        for variable in variables:
            for stmt in (*reaching, None):
                found |= self._bound_by.get((variable, stmt), NOTHING)
        return found

    def _bindings(self, node: ast.Name, owner: Owner) -> Collection[ast.stmt | None]:
        """The statements whose bindings may reach a read of a variable in its own scope."""
        if node not in self._reaching:
            stmt = self._tree.statement(node)
            known = isinstance(owner, (ast.Module, ast.FunctionDef)) and node.id not in self._bound_otherwise
            found = self._roles.reaching(owner).before(node.id, stmt) if known else ()  # type: ignore[arg-type]
            first = getattr(stmt, "value", None) or getattr(stmt, "iter", None)  # evaluated before the statement binds
            if found and node.id in access(stmt).binds and (first is None or node not in walk(first)):
                found = (*found, stmt)
            self._reaching[node] = found
        return self._reaching[node]

    @cached_property
    def _bound_otherwise(self) -> frozenset[str]:
        """Names that are bound other than by whole statements, in order, in their own scope."""
        found = {*self._tree.declared}
        for node in self._tree.nodes:
            if isinstance(node, ast.NamedExpr):
                found.add(node.target.id)
            elif isinstance(node, ast.stmt):
                found |= block_names(node)
            if isinstance(node, (ast.With, ast.AsyncWith)) and not self._tree.lets_errors_pass(node):
                found |= scope_access(node.body).binds
        return frozenset(found)

    def _bind(self, target: ast.expr, things: Things, value: ast.expr) -> None:
        """Bind a target to what its value may be. `value` is the expression of the value."""
        if isinstance(target, ast.Name):
            self._set(target.id, things, target)
        elif isinstance(target, ast.Starred):
            kept = self.heap.thing("list", target, self._frame.context)
            self.heap.put((kept, ITEMS), things, target)
            self._bind(target.value, frozenset([kept]), value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            starred = any(isinstance(t, ast.Starred) for t in target.elts)
            for place, part in enumerate(target.elts):
                self._bind(part, self._unpacked_part(things, place, len(target.elts), starred, value), value)
        elif isinstance(target, ast.Attribute):
            self._store(self._of(target.value), target.attr, things, target)
        elif isinstance(target, ast.Subscript):
            holder = self._of(target.value)
            index = self._of(target.slice)
            elements = self._items(things, target) if isinstance(target.slice, ast.Slice) else NOTHING
            self._put_into(holder, index, things | elements, target)

    def _bind_each(self, target: ast.expr, iterable: ast.expr, things: Things) -> None:
        """Bind the target of a loop to things: what iterating over an expression returns."""
        parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
        args = iterable.args if isinstance(iterable, ast.Call) else []
        if not parts or not isinstance(iterable, ast.Call) or any(isinstance(p, ast.Starred) for p in (*parts, *args)):
            return self._bind(target, things, iterable)
        called, pair = self._tree.names.builtin(iterable.func), len(parts) == 2
        if called == "enumerate" and pair and args:
            self._bind(parts[0], NOTHING, iterable)
            return self._bind_each(parts[1], args[0], self._items(self._last(args[0]), iterable))
        if called == "zip" and len(parts) == len(args):
            for part, argument in zip(parts, args, strict=True):
                self._bind_each(part, argument, self._items(self._last(argument), iterable))
            return None
        if pair and not args and isinstance(iterable.func, ast.Attribute) and iterable.func.attr == "items":
            holders = self._last(iterable.func.value)
            if holders and all(holder.kind == "dict" for holder in holders):
                self._bind(parts[0], NOTHING.union(*(self.heap.get((h, KEYS)) for h in holders)), iterable)
                return self._bind(parts[1], self._unpacked_part(things, 1, 2, False, iterable), iterable)
        return self._bind(target, things, iterable)

    def _last(self, node: ast.expr) -> Things:
        """The last result found for an expression."""
        return self.values.get((node, self._frame.context), NOTHING)

    def _unpacked_part(self, things: Things, place: int, count: int, starred: bool, node: ast.expr) -> Things:
        """One of `count` parts of an unpacked value."""
        found: set[Thing] = set()
        for thing in things:
            exact = self.heap.get((thing, f"#{place}"))
            of_step = thing.kind == "made" and exact and place < count - 1
            of_tuple = thing.kind == "tuple" and thing.node is not None and _size(thing.node) == count
            if (of_step or of_tuple) and not starred:
                found |= exact
            else:
                found |= self._items(frozenset([thing]), node)
        return frozenset(found)

    def _store(self, holders: Things, name: str, things: Things, node: ast.AST) -> None:
        for holder in holders:
            self._effect(node, Effect("stores", holder, name))
            self._stored.add((holder, name))
            if holder is UNKNOWN:
                self._unknown(things, node)
            else:
                self.heap.put((holder, name), things, node)
            if holder.kind == "library":  # `sys.stdout = log`, `nn.Module.__call__ = counted`
                self._escape(things, node)
            if holder.kind == "instance":
                setters = self.found_in_class(holder, name)
                for member in setters:
                    if member.kind == "function" and _is_property(member.node):
                        self._apply(self.heap.thing("bound", of=(member, holder)), [things], {}, node)
                self._special(setters, ("__set__", "__delete__"), [frozenset([holder]), things], node)
                self._special(frozenset([holder]), ("__setattr__",), [NOTHING, things], node)
            elif holder.kind in MEMORY:  # `x.data = y`: an attribute that tensors already have is memory
                self._changes([holder], node)

    def _put_into(self, holders: Things, index: Things, things: Things, node: ast.AST) -> None:
        self._changes(holders, node)
        self._put_into_arrays(holders, things, node, contents=True)
        for holder in holders:
            if holder.kind in MEMORY:
                continue
            if holder is UNKNOWN:
                self._unknown(things | index, node)
            else:
                self.heap.put((holder, ITEMS), things | index, node, index)
                if holder.kind == "instance":
                    self._special(frozenset([holder]), ("__setitem__",), [index, things], node)

    def _put_into_arrays(
        self, arrays: Iterable[Thing], things: Things, node: ast.AST, *, contents: bool = False
    ) -> None:
        """Store what arrays may hold; one of numbers, and a tensor, copies the numbers.

        Args:
            arrays: the arrays; other things are left out.
            things: what the arrays are made from, or with `contents`, what is stored in them.
            node: where.
            contents: whether tensors, arrays, lists and tuples themselves may be stored, not only what they hold.
        """
        holding = [t for t in arrays if t.kind == "array" and not self._holds_numbers(t)]
        if holding and (held := self._objects_in(things, node, contents=contents)):
            for array in holding:
                self.heap.put((array, ITEMS), held - {array}, node)

    def _holds_numbers(self, array: Thing) -> bool:
        known = self._of_numbers.get(array.node)
        if known is None:
            known = self._of_numbers[array.node] = holds_numbers(self._tree, array.node)
        return known

    def _objects_in(self, things: Things, node: ast.AST, *, contents: bool) -> Things:
        """The objects among things, in lists and tuples of them, and in arrays."""
        found, stack, seen = set[Thing](), [*things], set(things)
        while stack:
            thing = stack.pop()
            inside = NOTHING
            if thing.kind in python.DIMENSIONS:
                inside = self._items(frozenset([thing]), node)
            elif thing.kind == "array":
                inside = self.heap.get((thing, ITEMS))
                found |= inside
            if contents or thing.kind in OBJECTS:
                found.add(thing)
            stack += inside - seen
            seen |= inside
        return frozenset(t for t in found if t.kind != "library")

    def _delete(self, target: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                self._delete(part)
        elif isinstance(target, ast.Name):
            self._set(target.id, NOTHING, target)
        elif isinstance(target, ast.Attribute):
            self._special(self._of(target.value), ("__delattr__",), [], target)
            self._store(self._of(target.value), target.attr, NOTHING, target)
        elif isinstance(target, ast.Subscript):
            self._put_into(self._of(target.value), self._of(target.slice), NOTHING, target)

    def _import(self, stmt: ast.Import | ast.ImportFrom) -> None:
        for alias in stmt.names:
            name = (alias.asname or alias.name).split(".")[0]
            if alias.name == "*":
                continue
            if isinstance(stmt, ast.Import):
                whole = alias.name if alias.asname else name
            else:
                whole = f"{'.' * stmt.level}{stmt.module or ''}.{alias.name}"
            self._set(name, frozenset([self.heap.thing("library", name=whole)]), stmt)

    # --- definitions -----------------------------------------------------------------------------------------

    def _define(self, stmt: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        function = self._function(stmt)
        made: Things = frozenset([function])
        for decorator in reversed(stmt.decorator_list):
            if _is_transparent(self._tree.qualified(_callee_or_itself(decorator)) or _text(decorator)):
                self._of(decorator)
                continue
            made = self._call_things(self._of(decorator), [made], {}, decorator) | made
        self._set(stmt.name, made, stmt)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Thing:
        function = self.heap.thing("function", node, self._frame.context)
        args = node.args
        late = [*args.posonlyargs, *args.args][-len(args.defaults) :] if args.defaults else []
        pairs = [*zip(late, args.defaults, strict=False), *zip(args.kwonlyargs, args.kw_defaults, strict=False)]
        for parameter, default in pairs:
            if default is not None:
                self.heap.put((function, f"default {parameter.arg}"), self._of(default), default)
        # The body reads variables of enclosing scopes in the contexts in which the function is made.
        around = self._made_in.setdefault(Frame(node, function.context), {})
        for owner in self._scopes_around():
            self._also(around, owner, self._contexts_of(owner), (function, "around"))
        return function

    def _also(
        self, known: dict[K, tuple[Context, ...]], key: K, contexts: Sequence[Context], read_as: Hashable
    ) -> None:
        """Add contexts to a scope, and rerun what read the old ones."""
        if new := [context for context in contexts if context not in known.get(key, ())]:
            known[key] = (*known.get(key, ()), *new)
            self.heap.version += 1
            self.heap.changed(read_as)

    def _scopes_around(self) -> Iterator[Owner]:
        scope: Owner | None = self._scope
        while scope is not None and scope is not self._tree.root:
            yield scope
            scope = self.variables.parent(scope)

    def _class(self, node: ast.ClassDef) -> Thing:
        return self.heap.thing("class", node)

    def _define_class(self, stmt: ast.ClassDef) -> None:
        cls = self._class(stmt)
        for base in stmt.bases:
            self.heap.put((cls, BASES), self._of(base), base)
            if "__init_subclass__" in self._words:
                self._unknown([cls], base)
        for keyword in stmt.keywords:
            self._unknown(self._of(keyword.value), keyword)
        scope, self._scope = self._scope, stmt
        self._run_block(stmt.body)
        self._scope = scope
        if "__set_name__" in self._words:
            self._special(self.heap.attribute(cls, EVERY), ("__set_name__",), [frozenset([cls])], stmt)
        made: Things = frozenset([cls])
        for decorator in reversed(stmt.decorator_list):
            if libraries.role(self._tree.qualified(_callee_or_itself(decorator)) or "") != "bases":
                made = self._call_things(self._of(decorator), [made], {}, decorator) | made
        self._set(stmt.name, made, stmt)

    def _classes(self, cls: Thing) -> list[Thing]:
        """A class and its bases in this file, nearest first."""
        found = [cls]
        for one in found:  # grows during the loop
            found += sorted(
                (b for b in self.heap.get((one, BASES)) if b.kind == "class" and b not in found), key=in_order
            )
        return found

    def lineage(self, thing: Thing) -> list[ast.AST | None]:
        """The definitions of a class, or of an object's class, and of its bases in this file."""
        return [cls.node for cls in self._classes(thing.of[0] if thing.kind == "instance" else thing)]

    def run_by_others(self) -> Iterator[Frame]:
        """The bodies in this file that code other than environments holds, and may run whenever it runs.

        The methods of an environment's class are left out: they run when it steps.
        """
        found, stack = set(self.escaped_to_others), [*self.escaped_to_others]
        while stack:  # what unknown code itself holds is not followed
            below = {*self.heap.below(one)} - found if (one := stack.pop()) is not UNKNOWN else set()
            found |= below
            stack += below
        functions = {f for thing in found for f in self._functions_of(thing)}
        owners = {(f.of[0] if f.kind == "bound" else f).node for f in functions}
        for frame in self.frames:
            if frame.owner in owners and frame.context == (self._tree.root,):
                cls = self._tree.parents.get(frame.owner)
                if not isinstance(cls, ast.ClassDef) or not self.is_environment(cls):
                    yield frame

    def is_environment(self, definition: ast.ClassDef) -> bool:
        """Whether a class is an environment's: it has step() and reset(), or a base from an environment library."""
        classes = [one for cls in self.heap.of_node(definition) for one in self._classes(cls)]
        bases = (base for one in classes for base in self._foreign_bases(one))
        known = any(libraries.role(base.name) == "environments" for base in bases)
        return known or all(any(self.heap.get((one, name)) for one in classes) for name in ("step", "reset"))

    def _foreign_bases(self, cls: Thing) -> list[Thing]:
        bases = (b for one in self._classes(cls) for b in self.heap.get((one, BASES)))
        return sorted((b for b in bases if b.kind != "class" and b.name != "builtins.object"), key=in_order)

    def found_in_class(self, instance: Thing, name: str) -> Things:
        """What the classes of this file hold under a name, looked up for an instance."""
        return self._nearest(self._classes(instance.of[0]), name)

    def _nearest(self, classes: Sequence[Thing], name: str) -> Things:
        """What the first class with the attribute holds; with multiple bases, what any of them holds."""
        found: set[Thing] = set()
        several = self._branches(classes)
        for cls in classes:
            held = self.heap.get((cls, name))
            found |= held
            if held and not several:
                break
        return frozenset(found)

    def _branches(self, classes: Iterable[Thing]) -> bool:
        """Whether any of the classes has several bases in this file."""
        return any(sum(b.kind == "class" for b in self.heap.get((one, BASES))) > 1 for one in classes)

    # --- expressions -----------------------------------------------------------------------------------------

    def _all_of(self, nodes: Iterable[ast.expr]) -> Things:
        return frozenset(t for node in nodes for t in self._of(node))

    def _of(self, node: ast.expr) -> Things:
        """What an expression may be. Numbers, strings and None are no objects here."""
        found = self._evaluate(node)
        if any(t.kind == "library" for t in found) and not self._leads_on(node):
            found = frozenset(UNKNOWN if _is_without_facts(t) else t for t in found)
        if self._implicit:
            self._uses(node)
        key = node, self._frame.context
        known = self.values.get(key)
        self.values[key] = found if known is None else known | found
        return found

    def _uses(self, node: ast.AST) -> None:
        """Run the methods that Python may call for the objects that an expression or a statement uses.

        A call of a function of this file uses none of its arguments by itself.
        """
        sets = isinstance(node, ast.Assign) and all(isinstance(t, ast.Attribute) for t in node.targets)
        asked = python.OF_ATTRIBUTES if sets or isinstance(node, ast.Attribute) else self._implicit
        methods = [name for name in self._implicit if name in asked]
        own = isinstance(node, ast.Call) and all(
            t.kind in ("function", "bound", "class") for t in self._last(node.func)
        )
        if not methods or own:
            return
        context = self._frame.context
        used = NOTHING.union(*(self.values.get((operand, context), NOTHING) for operand in _operands(node)))
        held = self.heap.reach(t for t in used if t.kind in python.CONTAINERS)
        if objects := [t for t in sorted(used | held, key=in_order) if t.kind == "instance"]:
            self._special(objects, methods, [used], node)

    def _leads_on(self, node: ast.expr) -> bool:
        """Whether an expression is only asked for an attribute, called, a decorator, or the base of a class."""
        user = self._tree.parents.get(node)
        called = isinstance(user, ast.Call) and user.func is node
        return called or isinstance(user, (ast.Attribute, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))

    def _evaluate(self, node: ast.expr) -> Things:
        context = self._frame.context
        if isinstance(node, ast.Constant):
            return NOTHING
        if isinstance(node, ast.Name):
            return self._load_name(node)
        if isinstance(node, ast.Attribute):
            return self._load_attribute(self._of(node.value), node.attr, node)
        if isinstance(node, ast.Call):
            return self._results(node)
        if isinstance(node, ast.Subscript):
            return self._element(self._of(node.value), node)
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            kind = "tuple" if isinstance(node, ast.Tuple) else "list" if isinstance(node, ast.List) else "set"
            made = self.heap.thing(kind, node, context)
            for place, part in enumerate(node.elts):
                if isinstance(part, ast.Starred):
                    self.heap.put((made, ITEMS), self._items(self._of(part.value), part), part)
                    continue
                things = self._of(part)
                self.heap.put((made, ITEMS), things, part)
                if kind == "tuple":
                    self.heap.put((made, f"#{place}"), things, part)
            return frozenset([made])
        if isinstance(node, ast.Dict):
            made = self.heap.thing("dict", node, context)
            for key, value in zip(node.keys, node.values, strict=True):
                things = self._of(value)
                if key is None:
                    self.heap.put((made, ITEMS), self._items(things, value), value)
                else:
                    self.heap.put((made, ITEMS), (keys := self._of(key)) | things, value, keys)
            return frozenset([made])
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            return self._comprehension(node)
        if isinstance(node, ast.BinOp):
            sides = [self._of(node.left), self._of(node.right)]
            called = self._operator(sides, node)
            return self._operated(sides, node) | called
        if isinstance(node, ast.UnaryOp):
            operand = self._of(node.operand)
            if isinstance(node.op, ast.Not):
                return NOTHING
            called = self._special(operand, ("__neg__", "__pos__", "__invert__"), [], node)
            return called | (operand if isinstance(node.op, ast.UAdd) else self._operated([operand], node))
        if asked_name(node) is not None and self._tree.names.builtin(node.comparators[0].func):  # type: ignore[attr-defined]
            return NOTHING  # `"x" in locals()`
        if isinstance(node, ast.Compare):
            sides = [self._of(node.left), *map(self._of, node.comparators)]
            called = self._operator(sides, node)
            if all(isinstance(o, (ast.In, ast.NotIn, ast.Is, ast.IsNot)) for o in node.ops):
                return NOTHING
            return self._operated(sides, node) | called
        if isinstance(node, ast.BoolOp):
            return self._all_of(node.values)
        if isinstance(node, ast.IfExp):
            self._of(node.test)
            body, orelse = self._of(node.body), self._of(node.orelse)
            if self._asks_for_tensor(node.test, node.orelse):  # `x.detach() if torch.is_tensor(x) else x`
                orelse = frozenset(t for t in orelse if t.kind != "tensor")
            elif isinstance(node.test, ast.UnaryOp) and self._asks_for_tensor(node.test.operand, node.body):
                body = frozenset(t for t in body if t.kind != "tensor")
            return body | orelse
        if isinstance(node, ast.NamedExpr):
            things = self._of(node.value)
            self._set(node.target.id, things, node)
            return things
        if isinstance(node, ast.Lambda):
            return frozenset([self._function(node)])
        if isinstance(node, ast.Starred):
            return self._items(self._of(node.value), node.value)
        if isinstance(node, ast.JoinedStr):
            for part in node.values:
                if isinstance(part, ast.FormattedValue):
                    self._special(self._of(part.value), python.SHOWN_BY, [], part)
                    if part.format_spec is not None:
                        self._of(part.format_spec)
            return NOTHING
        if isinstance(node, ast.Slice):
            self._all_of(filter(None, (node.lower, node.upper, node.step)))
            return NOTHING
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            things = self._of(node.value) if node.value is not None else NOTHING
            given = self._items(things, node) if isinstance(node, ast.YieldFrom) else things
            self._give_back(given)
            return frozenset([UNKNOWN]) | (given if isinstance(node, ast.YieldFrom) else NOTHING)
        parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
        return self._unknown(self._all_of(parts), node)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Things:
        kind = {ast.ListComp: "list", ast.SetComp: "set", ast.DictComp: "dict"}.get(type(node), "iterator")
        made = self.heap.thing(kind, node, self._frame.context)
        scope = self._scope
        for place, generator in enumerate(node.generators):
            self._scope = node if place else scope
            things = self._items(self._of(generator.iter), generator.iter)
            self._scope = node
            self._bind_each(generator.target, generator.iter, things)
            for test in generator.ifs:
                self._of(test)
        self._scope = node
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for part in parts:
            self.heap.put((made, ITEMS), self._of(part), part, NOTHING if part is not parts[0] else None)
        self._scope = scope
        return frozenset([made])

    def _operator(self, sides: Sequence[Things], node: ast.AST) -> Things:
        """What the operators defined by this file's classes return."""
        given = frozenset(t for side in sides for t in side)
        if UNKNOWN in given:  # the operator may be defined by its class
            self._escape((t for t in given if t.kind == "instance" or self.is_module_object(t)), node)
        objects = self._chosen(given, ("instance", "unknown"))
        return self._special(objects, python.OPERATOR_METHODS, [given], node) if objects else NOTHING

    def _operated(self, sides: Sequence[Things], node: ast.AST) -> Things:
        """The result of an operator: new memory, or a container of the same elements. Numbers are no objects."""
        given = [t for side in sides for t in side if t.kind not in python.CONTAINERS or _combines(t.kind, node)]
        holds = frozenset(
            held
            for t in given
            if t.kind in (*python.CONTAINERS, "made", "instance")
            for held in self._items(frozenset([t]), node)
        )
        kinds = {t.kind for t in given}
        if not kinds:
            return NOTHING
        surely = any(side and all(t.kind == "tensor" for t in side) for side in sides)
        memory = ["tensor"] if surely else [kind for kind in MEMORY if kind in kinds]
        if not memory and kinds <= {"options", "library"}:
            return NOTHING
        made = memory + sorted(kinds & python.CONTAINERS)[:1]
        found = [self.heap.thing(kind, node, self._frame.context) for kind in made or ["made"]]
        for one in found:
            if one.kind not in MEMORY:
                self.heap.put((one, ITEMS), holds, node)
        self._put_into_arrays(found, frozenset(given), node)
        return frozenset(found)

    def _element(self, things: Things, node: ast.Subscript) -> Things:
        index = self._of(node.slice)
        found: set[Thing] = set()
        for thing in things:
            if thing.kind in MEMORY:
                copies = bool(index) and all(t.kind in (*MEMORY, "list") for t in index)
                part = self.heap.thing(thing.kind, node, self._frame.context) if copies else thing
                found |= {part, *self.heap.get((thing, ITEMS))}
                self._put_into_arrays([part], frozenset([thing]), node)
            elif (
                thing.kind == "tuple"
                and thing.node is not None
                and _size(thing.node) is not None
                and isinstance(node.slice, ast.Constant)
                and isinstance(node.slice.value, int)
                and 0 <= node.slice.value < (_size(thing.node) or 0)
            ):
                found |= self.heap.get((thing, f"#{node.slice.value}"))
            elif isinstance(node.slice, ast.Slice) and (thing.kind in python.CONTAINERS or thing.name in _OF_MODULES):
                found.add(thing)  # a new container of the same elements, treated as the old one
            elif thing.name == _TENSORS_BY_NAME and isinstance(getattr(node.slice, "value", None), str):
                entry = self.heap.thing("tensor", thing.node, thing.context, ast.unparse(node.slice))
                self.heap.put((thing, ITEMS), [entry], node)
                found |= {entry, *(t for t in self.heap.reach(self.heap.get((thing, INSIDE))) if t.kind in MEMORY)}
            elif thing.name.startswith("torch.optim.") and getattr(node.slice, "value", None) == "lr":
                # A number, unless the optimizer was given a tensor
                held = self.heap.get((thing, INSIDE)) | self.heap.get((thing, ITEMS))
                plain = [t for t in held if t.kind in (*MEMORY, *python.CONTAINERS, "unknown")]
                found |= {t for t in self.heap.reach(plain) if t.kind in (*MEMORY, "unknown")}
            else:
                found |= self._items(frozenset([thing]), node)
                found |= self._special([thing], ("__getitem__",), [index], node)
                if thing.kind == "class" and "__class_getitem__" in self._words:
                    found |= self._unknown([thing, *index], node)
        return frozenset(found)

    def _memory_of(self, thing: Thing) -> Things:
        """The memory that a library's object may return: what it was made from, or given."""
        inside, given = (self.heap.get((thing, name)) for name in (INSIDE, GIVEN))
        return self._chosen(inside, MEMORY) | self._chosen(given, MEMORY)

    def _chosen(self, things: Things, kinds: tuple[str, ...]) -> Things:
        """The things of some kinds, cached."""
        known = self._of_kinds.get((things, kinds))
        if known is None:
            known = self._of_kinds[things, kinds] = frozenset(t for t in things if t.kind in kinds)
        return known

    def _asks_for_tensor(self, test: ast.expr, name: ast.expr) -> bool:
        """Whether a condition tests if a name is a tensor."""
        asks = self._tree.calls(test, "torch.is_tensor") and isinstance(name, ast.Name)
        return asks and [ast.unparse(a) for a in test.args] == [ast.unparse(name)]  # type: ignore[attr-defined]

    def _items(self, things: Things, node: ast.AST) -> Things:
        """The result of iterating over, unpacking or indexing things."""
        found: set[Thing] = set()
        for thing in things:
            if (modules := self._modules_in(thing)) is not None:
                found |= modules
            elif thing.kind in MEMORY or thing.kind in ("made", "unknown"):
                found.add(thing)  # a view, or part of it
            if thing.kind == "iterator":
                self.advanced.setdefault(self._frame, {}).setdefault(node, set()).add(thing)
            if thing is not UNKNOWN:  # UNKNOWN stands for everything that has escaped
                found |= self.heap.get((thing, ITEMS)) | self.heap.get((thing, EVERY))
            if thing.kind == "made":
                found |= self._memory_of(thing)
            if thing.kind in ("instance", "unknown"):
                found |= self._special([thing], ("__iter__", "__next__", "__getitem__"), [NOTHING], node)
            if thing.kind == "instance":
                found |= self.heap.attribute(thing, EVERY)
        return frozenset(found)

    def _modules_in(self, thing: Thing) -> Things | None:
        """The modules in an `nn.ModuleList`; None for anything else, and if it may hold other things."""
        call = thing.node if thing.kind == "made" and thing.name in _OF_MODULES else None
        if not isinstance(call, ast.Call) or self._tree.qualified(call.func) is None:  # the result of a method
            return None
        if thing in self.heap.get((UNKNOWN, ITEMS)):  # unknown code may add any module
            return None
        held = self.heap.attribute(thing, EVERY)
        inside = self._chosen(held, (*python.CONTAINERS, "iterator"))
        modules = held.difference(inside).union(*(self.heap.get((one, ITEMS)) for one in inside))
        if not modules and self._may_be_without_value():
            return NOTHING
        known = all(self.is_module_object(t) for t in modules)
        return modules if modules and known else None

    def _load_attribute(self, things: Things, name: str, node: ast.AST) -> Things:
        """What an attribute of things may be."""
        found: set[Thing] = set()
        for thing in things:
            found |= self.heap.attribute(thing, name)
            if name == NAMESPACE:
                plain = thing.kind == "instance" and not self._foreign_bases(thing.of[0])
                if plain or thing.kind == "options":
                    found.add(self.heap.thing("dict", name=NAMESPACE, of=(thing,)))
                else:  # storing into the dict stores into the thing
                    found |= self._unknown([thing], node) | {thing}
            elif thing.kind == "library":
                longer = f"{thing.name}.{name}"  # in a loop, `x = x.parent` would never end
                found.add(UNKNOWN if longer.count(".") > _DEEPEST else self.heap.thing("library", name=longer))
            elif thing.kind == "instance":
                found |= self._member(thing, name, node)
            elif thing.kind == "class":
                for cls in self._classes(thing):
                    found |= self.heap.get((cls, name))
                if self._foreign_bases(thing) or name.startswith("__"):
                    found.add(self.heap.thing("method", name=name, of=(thing,)))
            elif thing.kind in MEMORY:
                if name in torch_api.ATTRIBUTES:
                    continue
                found.add(self.heap.thing("method", name=name, of=(thing,)))
                if torch_api.OF["tensor" if thing.kind == "tensor" else "array"].get(name) is None:
                    found.add(thing)  # `x.T`, `x.data`, `x.grad`: the same memory, or memory made at the same place
            elif thing.kind in ("function", "bound"):
                if name == "__call__":
                    found.add(thing)
                elif name.startswith("__") and name not in python.OF_FUNCTIONS:
                    found |= self._unknown([thing], node)
            elif thing.kind == "options":
                pass  # numbers and strings, apart from what this file stores
            elif is_distribution(thing) and name in torch_api.OF_DISTRIBUTIONS:
                found.add(self.heap.thing("tensor", node, self._frame.context))
                found |= self._memory_of(thing) | self._chosen(self.heap.get((thing, INSIDE)), ("made",))
            elif thing.kind == "made":
                found |= {thing, self.heap.thing("method", name=name, of=(thing,))}
                found |= self._memory_of(thing)
            elif thing is UNKNOWN:
                found |= self._unknown([], node) if name in self._computed_attributes else {thing}
                found |= self._special([thing], ("__getattr__", "__getattribute__"), [], node)
            elif thing.kind in python.CONTAINERS:
                if python.has(thing.kind, name):
                    found.add(self.heap.thing("method", name=name, of=(thing,)))
                elif name == "value":  # of an enumeration's member
                    found.add(thing)
            elif thing.kind == "method" and thing.name != "super":
                found |= {*thing.of}  # `x.step.__self__`
            else:
                found.add(self.heap.thing("method", name=name, of=(thing,)))
        if "__get__" in self._words:
            found |= self._special(found, ("__get__",), [things], node)
        return frozenset(found)

    def _member(self, instance: Thing, name: str, node: ast.AST) -> Things:
        """What an attribute of an instance may be, apart from what is stored in the instance."""
        if name == "__class__":
            return frozenset([instance.of[0]])
        if name == "__dict__":
            return frozenset([instance])
        members, found = self.found_in_class(instance, name), set[Thing]()
        for member in members:
            if member.kind != "function":
                found.add(member)
                if member.kind not in MEMORY and member.kind not in python.CONTAINERS:
                    continue
            elif _is_property(member.node):
                found |= self._apply(self.heap.thing("bound", of=(member, instance)), [], {}, node)
            elif has_decorator(member.node, "staticmethod"):
                found.add(member)
            elif has_decorator(member.node, "classmethod"):
                found.add(self.heap.thing("bound", of=(member, instance.of[0])))
            else:
                found.add(self.heap.thing("bound", of=(member, instance)))
        nowhere = not members and not self.heap.get((instance, name))
        number = (instance, name) in self._stored and self.is_module(instance.of[0])
        if number and libraries.of_modules(name) is None:
            nowhere = False
        if (
            nowhere
            and self._foreign_bases(instance.of[0])
            and (libraries.of_modules(name) or not self._may_be_without_value())
        ):
            found.add(self.heap.thing("method", name=name, of=(instance,)))
        found |= self._special(frozenset([instance]), ("__getattr__", "__getattribute__"), [NOTHING], node)
        return frozenset(found)

    def _special(self, things: Iterable[Thing], names: Iterable[str], given: list[Things], node: ast.AST) -> Things:
        """The results of methods with these names, for objects of this file's classes that define them.

        Something unknown may be such an object that has escaped.
        """
        found: set[Thing] = set()
        own = [name for name in names if name in self._words]
        for thing in things:
            if thing is UNKNOWN and own:
                found |= self._unknown(NOTHING.union(*given), node)
            if thing.kind != "instance":
                continue
            for name in own:
                for member in self.found_in_class(thing, name):
                    if member.kind == "function":
                        found |= self._apply(self.heap.thing("bound", of=(member, thing)), given, {}, node)
        return frozenset(found)

    # --- calls -----------------------------------------------------------------------------------------------

    def _results(self, node: ast.Call) -> Things:
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            if self.variables.owner("super", self._scope) is None:
                return self._super(node)
        callees = self._of(node.func)
        given: list[Things] = []
        spread: set[Thing] = set()
        starred = False  # after `*x`, an argument may go to any parameter
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                spread |= self._items(self._of(argument.value), argument)
                starred = True
            elif starred:
                spread |= self._of(argument)
            else:
                given.append(self._of(argument))
        named: dict[str, Things] = {}
        for keyword in node.keywords:
            things = self._of(keyword.value)
            if keyword.arg is None:
                spread |= self._items(things, keyword.value)
                if all(t.name == NAMESPACE for t in things):
                    named[SPREAD] = things | named.get(SPREAD, NOTHING)
            else:
                named[keyword.arg] = things
        if not callees and isinstance(node.func, ast.Attribute):
            options = frozenset(t for t in self._of(node.func.value) if t.kind == "options")
            if options:  # methods of an argument parser
                return options
        text = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, (ast.Constant, ast.JoinedStr))
        if not callees and text:  # `"{}: {}".format(step, loss)`
            everything = (t for a in (*given, *named.values(), spread) for t in a)
            self._special(everything, python.SHOWN_BY, [], node)
            return NOTHING
        if not _callable(callees):  # a number, an element of an array of objects, or nothing known
            if self._may_be_without_value():
                return NOTHING
            return self._unknown([t for a in (*given, *named.values(), spread) for t in a], node)
        return self._call_things(callees, given, named, node, frozenset(spread))

    def _super(self, node: ast.Call) -> Things:
        """`super()`: the same object, one class up; the method looked up distinguishes the calls."""
        for argument in node.args:
            self._of(argument)
        function = self._frame.owner
        owner = self._tree.parents.get(function)
        if not isinstance(owner, ast.ClassDef) or not isinstance(function, ast.FunctionDef):
            return frozenset([UNKNOWN])
        first = [*function.args.posonlyargs, *function.args.args][:1]
        selves = self.heap.get(Variable(function, self._frame.context, first[0].arg)) if first else NOTHING
        cls = self._class(owner)
        return frozenset(self.heap.thing("method", owner, (), "super", (s, cls)) for s in selves)

    def _call_things(
        self,
        callees: Collection[Thing],
        given: list[Things],
        named: dict[str, Things],
        node: ast.AST,
        spread: Things = NOTHING,
    ) -> Things:
        if len(callees) == 1:
            return self._call_one(next(iter(callees)), given, named, node, spread)
        found: set[Thing] = set()
        receivers: dict[tuple[str, str, str], list[Thing]] = {}
        for callee in sorted(callees, key=in_order):
            if callee.kind == "method" and (one := callee.of[0]).kind in ("made", *MEMORY):
                receivers.setdefault((callee.name, one.kind, one.name), []).append(one)
        known = {one for alike in receivers.values() for one in alike}
        for callee in sorted(callees, key=in_order):
            if callee not in known and not (callee.kind == "method" and callee.of[0] in known):
                found |= self._call_one(callee, given, named, node, spread)
        for (name, kind, _), alike in receivers.items():
            call = self._call_of_made if kind == "made" else self._call_on_memory
            found |= call(alike, name, given, named, node, spread)
        return frozenset(found)

    def _call_one(
        self, callee: Thing, given: list[Things], named: dict[str, Things], node: ast.AST, spread: Things
    ) -> Things:
        if callee.kind in ("function", "bound"):
            return self._apply(callee, given, named, node, spread)
        if callee.kind == "class":
            return self._instantiate(callee, given, named, node, spread)
        if callee.kind == "library":
            return self._call_library(callee.name, given, named, node, spread)
        if callee.kind == "method":
            return self._call_method(callee.of[0], callee, given, named, node, spread)
        arguments = NOTHING.union(*given, *named.values(), spread)
        if callee.kind == "instance":
            called = self._special([callee], ("__call__",), [*given], node)
            if self.found_in_class(callee, "__call__"):
                return self._with_named(callee, "__call__", given, named, node, spread) | called
            if self.is_module(callee.of[0]):
                return self._with_named(callee, "forward", given, named, node, spread)
            return self._unknown([callee, *arguments], node)
        if callee.kind == "made":
            if libraries.role(callee.name) in ("plain", "reports"):
                return NOTHING
            if callee.name.startswith("torch.nn."):
                return self._call_layer(callee, arguments, node)
            if callee.name in python.decorators(calls=True) and (decorated := _callable(arguments)):
                return decorated  # `torch.no_grad()(f)`
            if not callee.name or self._may_call(callee):
                return self._unknown([callee, *arguments], node)
            return self._held_by_result(arguments, node, callee.name, keepers=[callee])
        if callee.kind in NOT_CALLABLE:
            return NOTHING  # not callable: the expression is something else when it is called
        return self._unknown([callee, *arguments], node)

    def _with_named(
        self, instance: Thing, name: str, given: list[Things], named: dict[str, Things], node: ast.AST, spread: Things
    ) -> Things:
        found: set[Thing] = set()
        for member in self.found_in_class(instance, name):
            if member.kind == "function":
                found |= self._apply(self.heap.thing("bound", of=(member, instance)), given, named, node, spread)
            else:
                found |= self._call_one(member, given, named, node, spread)
        return frozenset(found)

    def is_module(self, cls: Thing) -> bool:
        """Whether all bases of a class outside this file are modules of torch."""
        bases = self._foreign_bases(cls)
        return bool(bases) and all(
            b.kind == "library" and libraries.role(b.name) in ("tensors", "bases") for b in bases
        )

    def is_module_object(self, thing: Thing) -> bool:
        """Whether an object is a module of torch, or of a class of this file derived from one."""
        if thing.kind == "made":
            return thing.name.startswith("torch.nn.")
        return thing.kind == "instance" and self.is_module(thing.of[0])

    def _apply(
        self,
        function: Thing,
        given: list[Things],
        named: dict[str, Things],
        node: ast.AST | None,
        spread: Things = NOTHING,
        *,
        everything: bool = False,
    ) -> Things:
        """Run a function of this file. If unknown code calls it back (`everything`), all its parameters are unknown."""
        if function.kind == "bound":
            function, instance = function.of
            given = [frozenset([instance]), *given]
        definition = function.node
        if not isinstance(definition, (ast.FunctionDef, ast.Lambda)):
            things = [t for a in (*given, *named.values(), spread) for t in a]
            return self._unknown([function, *things], node or self._tree.root)
        by_unknown: Context = (
            self._tree.root,
        )  # calls by unknown code start with this marker and never count as the training's own
        if node is None:
            context = by_unknown
        elif definition is self._frame.owner:  # recursion keeps the context
            context = self._frame.context
        elif self._frame.context[:1] == by_unknown:
            context = (*by_unknown, *(*self._frame.context[1:], node)[1 - LONGEST :])
        else:
            context = (*self._frame.context, node)[-LONGEST:]
        frame = Frame(definition, context)
        self.heap.read((function, "around"))
        for owner, outer in self._made_in.get(Frame(definition, function.context), {}).items():
            self._also(self._outer, (frame, owner), outer, (frame, owner))
        self._give_parameters(definition, frame, function, given, named, spread, everything)
        if node is not None:
            calls = self.calls.setdefault(self._frame, {}).setdefault(node, set())
            if frame not in calls:
                calls.add(frame)
                self.heap.version += 1
        if self._found(frame):
            self._run_at_once(frame)
        self.heap.read(frame)
        returned = frozenset(self._returned.get(frame, ()))
        if definition in self._generators:
            made = self.heap.thing("iterator", definition, context)
            self.heap.put((made, ITEMS), returned, definition)
            return frozenset([made])
        return returned

    def _give_parameters(
        self,
        definition: ast.FunctionDef | ast.Lambda,
        frame: Frame,
        function: Thing,
        given: list[Things],
        named: dict[str, Things],
        spread: Things,
        everything: bool,
    ) -> None:
        args, put = definition.args, self.heap.put
        positional = [*args.posonlyargs, *args.args]
        rest: set[Thing] = set(spread)
        for place, things in enumerate(given):
            if place < len(positional):
                put(Variable(definition, frame.context, positional[place].arg), things, definition)
            else:
                rest |= things
        names = {p.arg for p in (*positional, *args.kwonlyargs)}
        others: set[Thing] = set(spread)
        by_name: dict[str, Things] = {}
        for name, things in named.items():
            if name in names:
                put(Variable(definition, frame.context, name), things, definition)
            elif name == SPREAD:
                by_name[SPREAD] = things
            else:
                by_name[f"{NAMED}{name}"] = things
                others |= things
        extra = (frozenset([UNKNOWN]) if everything else NOTHING) | spread
        for parameter in (*positional, *args.kwonlyargs):
            variable = Variable(definition, frame.context, parameter.arg)
            if extra and parameter not in positional[: len(given)]:  # already bound
                put(variable, extra, definition)
            put(variable, self.heap.get((function, f"default {parameter.arg}")), definition)
        for star, kind, more in ((args.vararg, "tuple", rest), (args.kwarg, "dict", others)):
            if star is not None:
                made = self.heap.thing(kind, star, frame.context)
                put((made, ITEMS), more | extra, definition)
                for name, things in by_name.items() if star is args.kwarg else ():
                    put((made, name), things, definition)
                put(Variable(definition, frame.context, star.arg), [made], definition)

    def _found(self, frame: Frame) -> bool:
        """Register a body to be run; return whether it is new."""
        if frame in self._known:
            return False
        self._known.add(frame)
        self.frames.append(frame)
        self.heap.version += 1
        return True

    def _run_at_once(self, frame: Frame) -> None:
        """Run a body inside the statement that calls it, so that the statement need not run again for its result."""
        if self._depth == DEEPEST_RUN:
            return
        calling = self._frame, self._scope, self.heap.running
        self._depth += 1
        self.heap.running = None
        self._run_frame(frame)
        self._depth -= 1
        self._frame, self._scope, self.heap.running = calling

    def _run_frame(self, frame: Frame) -> None:
        """Run a function's body, or the module's."""
        self._frame, self._scope = frame, frame.owner
        last_runs = self._last_runs.get(frame)
        if last_runs is not None and all(last_run.done for last_run in last_runs.values()):
            return  # every statement has run and would find nothing new
        body = frame.owner.body  # type: ignore[union-attr]
        if isinstance(body, list):
            self._run_block(body)
        elif self._runs_again(body):
            self._give_back(self._of(body))
            self.heap.running = None

    def _instantiate(
        self, cls: Thing, given: list[Things], named: dict[str, Things], node: ast.AST, spread: Things
    ) -> Things:
        made = self.heap.thing("instance", node, self._frame.context, of=(cls,))
        by_name = (things for name, things in named.items() if name != SPREAD)  # `**x` passes the items of x alone
        arguments = frozenset(t for a in (*given, *by_name, spread) for t in a)
        constructors = self.found_in_class(made, "__init__")
        for constructor in constructors:
            if constructor.kind == "function":
                self._apply(self.heap.thing("bound", of=(constructor, made)), given, named, node, spread)
            else:
                self._unknown([made, *arguments], node)
        if not constructors:  # the constructor of a base, a dataclass or a named tuple
            self._set_attributes(made, NOTHING, named, node)
            unnamed = frozenset(t for a in (*given, spread) for t in a)
            if unnamed:
                self.heap.put((made, EVERY), unnamed, node)
            self._foreign_constructor(made, arguments, node)
        found = {made}
        for creator in self.found_in_class(made, "__new__"):
            found |= self._unknown([creator, made, *arguments], node)
        self._special([made], ("__post_init__",), [], node)
        for finalizer in self.found_in_class(made, "__del__"):
            self._lend(frozenset([self.heap.thing("bound", of=(finalizer, made))]), NOTHING, node)
        return frozenset(found)

    def _foreign_constructor(self, made: Thing, arguments: Things, node: ast.AST) -> None:
        """Constructors of bases outside this file keep their arguments in the object."""
        self.heap.put((made, EVERY), [t for t in arguments if t is not made], node)
        for base in self._foreign_bases(made.of[0]):
            known = base.kind == "library" and (
                libraries.role(base.name) in ("tensors", "bases", "environments") or base.name.startswith("builtins.")
            )
            if not known:
                self._unknown([made, *arguments], node)

    def _call_method(
        self,
        receiver: Thing,
        method: Thing,
        given: list[Things],
        named: dict[str, Things],
        node: ast.AST,
        spread: Things,
    ) -> Things:
        """Call a method that this file does not define."""
        name = method.name
        if receiver.kind in MEMORY:
            return self._call_on_memory([receiver], name, given, named, node, spread)
        arguments = NOTHING.union(*given, *named.values(), spread)
        if node in self._steps:
            return self._step_environment(receiver, arguments, node)
        if receiver.kind == "method" and receiver.name == "super":
            return self._call_super(receiver, name, given, named, node, spread)
        if receiver.kind in python.CONTAINERS:
            if not python.has(receiver.kind, name):
                return NOTHING  # a list has no such method: the expression is something else when this is called
            row = python.does(receiver.kind, name)
            if row is None:
                return self._unknown([receiver, *arguments], node)
            return self._by_row(row, receiver, given, named, node, spread)
        if receiver.kind == "instance" and self.is_module(receiver.of[0]):
            return self._call_of_module(receiver, name, arguments, node)
        if receiver.kind == "made":
            return self._call_of_made([receiver], name, given, named, node, spread)
        return self._unknown([receiver, *arguments], node)

    def _call_of_made(
        self,
        alike: list[Thing],
        name: str,
        given: list[Things],
        named: dict[str, Things],
        node: ast.AST,
        spread: Things,
    ) -> Things:
        """Call a method on objects of one class of a library."""
        arguments, first = NOTHING.union(*given, *named.values(), spread), alike[0]
        if node in self._steps:
            return NOTHING.union(*(self._step_environment(one, arguments, node) for one in alike))
        if libraries.role(first.name) in ("plain", "reports"):
            return NOTHING
        if first.name.startswith("torch.optim.") and not arguments and name in _STEPPING:
            self._changes(alike, node, deep=True, what=VALUES)
            return NOTHING
        if _is_of_environment(first):
            if name in torch_api.OF["tensor"] or name in torch_api.OF["array"]:
                return self._call_on_memory(alike, name, given, named, node, spread)
            looks = python.does("dict", name)
            if looks is not None and not looks.writes:  # infos are dictionaries
                return self._items(frozenset(alike), node) | arguments
        elif libraries.role(first.name) == "environments":
            for one in alike:
                self.heap.put((one, INSIDE), arguments, node)
            return NOTHING.union(*(self._of_environment(one, arguments, node) for one in alike))
        if is_distribution(first) and name in torch_api.OF["distribution"]:
            return frozenset([self.heap.thing("tensor", node, self._frame.context)])
        row = libraries.of_modules(name) if first.name.startswith("torch.nn.") else None
        if UNKNOWN in arguments and (row is None or row.sets == "anything"):
            return self._unknown([*alike, *arguments], node)
        return self._held_by_result(arguments, node, first.name, keepers=alike)

    def _call_super(
        self, receiver: Thing, name: str, given: list[Things], named: dict[str, Things], node: ast.AST, spread: Things
    ) -> Things:
        instance, cls = receiver.of
        found: set[Thing] = set()
        members = self._nearest(self._classes(cls)[1:], name)
        if instance.kind == "instance" and self._branches(self._classes(instance.of[0])):  # any of them may be next
            others = [c for c in self._classes(instance.of[0]) if c is not cls]
            members |= frozenset(t for c in others for t in self.heap.get((c, name)))
        for member in members:
            if member.kind == "function":
                found |= self._apply(self.heap.thing("bound", of=(member, instance)), given, named, node, spread)
        if members:
            return frozenset(found)
        arguments = NOTHING.union(*given, *named.values(), spread)
        if instance.kind != "instance":
            return self._unknown([instance, *arguments], node)
        if name in ("__init__", "__post_init__", "__init_subclass__"):
            self._foreign_constructor(instance, arguments, node)
            return NOTHING
        if self.is_module(instance.of[0]):
            return self._call_of_module(instance, name, arguments, node)
        if name == "__setattr__" or name == "__getattr__":
            self.heap.put((instance, EVERY), arguments, node)
            return self.heap.attribute(instance, EVERY)
        return self._unknown([instance, *arguments], node)

    def _call_of_module(self, module: Thing, name: str, arguments: Things, node: ast.AST) -> Things:
        """Call a method of nn.Module itself: the module keeps the arguments and may return them."""
        row = libraries.of_modules(name)
        buffer = node.args[0] if name == "register_buffer" and isinstance(node, ast.Call) and node.args else None
        if isinstance(buffer, ast.Constant) and isinstance(buffer.value, str):
            self.heap.put((module, buffer.value), arguments, node)
            self.buffers.setdefault((module, buffer.value), set()).update(arguments)
        elif row is None or row.keeps or (row.keeps_if and _may_say(node, row.keeps_if)):
            self.heap.put((module, EVERY), arguments, node)
        if row is None or row.changes:
            self._changes([module], node, deep=True)
        if (row is None or row.sets == "anything") and UNKNOWN in arguments:  # `module.apply(f)`, a hook
            return self._unknown([module, *arguments], node)
        self._lend(arguments, frozenset([module]), node, keeps=row is None or row.keeps)
        if row is not None and row.gives != "a view":
            return frozenset([module]) if row.gives == "itself" else NOTHING
        made = self.heap.thing("made", node, self._frame.context, "torch")
        self.heap.put((made, INSIDE), [module, *arguments], node)
        return frozenset([made]) if row is not None else frozenset([made, module])

    def _call_on_memory(
        self,
        alike: list[Thing],
        name: str,
        given: list[Things],
        named: dict[str, Things],
        node: ast.AST,
        spread: Things,
    ) -> Things:
        """Call a method on tensors, arrays or results of an environment, which may be arrays."""
        kind = "array" if alike[0].kind == "array" else "tensor"
        arguments = NOTHING.union(*given, *named.values(), spread)
        lacks = name in torch_api.MEMORY_LACKS or (kind == "array" and name in torch_api.ARRAYS_LACK)
        if alike[0].kind in MEMORY and lacks:
            return NOTHING  # the method is called on something else
        kinds: tuple[torch_api.Kind, ...]
        kinds = ("array",) if kind == "array" else ("tensor", "array")  # `x.numpy()` is x's memory
        row = next((r for k in kinds if (r := torch_api.OF[k].get(name)) is not None), None)
        places = given[torch_api.out_place(name, "array") :] if row is not None and kind == "array" else []
        into = self._chosen(named.get("out", NOTHING).union(*places), HOLD_NUMBERS)
        self._changes(into, node)
        new = frozenset([self.heap.thing("array" if name == "numpy" else kind, node, self._frame.context)])
        if name == "numpy":
            self._share(new, alike)
        given_back = self._chosen(arguments, MEMORY).union(alike)
        objects = NOTHING.union(*(self.heap.get((t, ITEMS)) for t in alike)) if kind == "array" else NOTHING
        self._put_into_arrays(new | into, arguments.union(alike), node)
        if row is not None and not _spreads_names(node):
            if row.memory == "number":
                return objects
            if row.memory == "in place":
                self._changes(alike, node)
                return frozenset(alike)
            if row.memory == "shared":
                return new.union(alike, into)
            otherwise = isinstance(node, ast.Call) and torch_api.may_be_given(node)
            return new | into | (given_back if otherwise else NOTHING)
        if name == "backward":
            for one in alike:
                self._effect(node, Effect("changes", one, GRADIENTS))
            return NOTHING
        if UNKNOWN in arguments:  # `tensor.register_hook(f)`
            return self._unknown([*alike, *arguments], node) | new | given_back | arguments | objects
        # unknown: it may change its arguments and return them; only arrays of objects keep them
        self._changes([*alike, *arguments], node)
        self._put_into_arrays(alike, arguments, node, contents=True)
        self._lend(arguments, given_back | new, node)
        for one in alike:
            self.heap.put((one, EVERY), self._chosen(arguments, ("function", "bound")), node)
        return new | given_back | arguments | objects

    def _share(self, made: Things, memory: Iterable[Thing]) -> None:
        """Record that tensors and arrays share memory with others."""
        for one in made:
            for other in (t for t in memory if t.kind in MEMORY and t.kind != one.kind):
                self.shared.setdefault(one, set()).add(other)
                self.shared.setdefault(other, set()).add(one)

    def _step_environment(self, receiver: Thing, arguments: Things, node: ast.AST) -> Things:
        """An environment's step: it reads the actions and returns what it may change at the next step.

        It also keeps the actions, unless a known library made it and no wrapper of this file may receive them.
        """
        known = receiver.kind == "made" and libraries.role(receiver.name) == "environments"
        if not known or self._has_own_environments:
            self._escape(arguments, node, to_environments=True)
        if receiver.kind == "instance":  # a class of this file without its own step(): its base has one
            self._unknown([receiver], node)
        found = self._of_environment(receiver, arguments, node)
        for step in found if _unpacks_step(self._tree.parents[node]) else ():
            self._part_step(step, node)
        return found

    def _part_step(self, step: Thing, node: ast.AST) -> None:
        """Unpack a step: observations, rewards and end flags are separate objects.

        The infos, which come last, may hold any of them.
        """
        parts = [
            self.heap.thing("made", node, step.context, f"{_OF_ENVIRONMENT}.{place}") for place in range(_LONGEST_STEP)
        ]
        for place, part in enumerate(parts):
            self.heap.put((step, f"#{place}"), [part], node)
            self.heap.put((part, GIVEN), self.heap.get((step, GIVEN)), node)

    def _of_environment(self, receiver: Thing, arguments: Things, node: ast.AST) -> Things:
        """The result of an environment, which may change it at the next call; it may be an argument."""
        made = self.heap.thing("made", node, self._frame.context, _OF_ENVIRONMENT)
        self.heap.put((made, GIVEN), arguments, node)
        if receiver.kind == "made":
            self.heap.put((receiver, INSIDE), [made], node)
            self._changes([receiver], node)
        return frozenset([made])

    @property
    def _has_own_environments(self) -> bool:
        """Whether a class of this file has a step() that unknown code may call."""
        return any(t.kind == "instance" and self.found_in_class(t, "step") for t in self.heap.reach([UNKNOWN]))

    def _by_row(
        self,
        row: python.Does,
        receiver: Thing | None,
        given: list[Things],
        named: dict[str, Things],
        node: ast.AST,
        spread: Things,
    ) -> Things:
        everything = frozenset(t for a in (*given, *named.values(), spread) for t in a)
        inside = self._items(everything, node)
        held = self._items(frozenset([receiver]), node) if receiver is not None else inside
        if row.calls and (row.calls != "first of two" or len(given) > 1):
            for argument in everything:
                if argument.kind in ("function", "bound"):
                    self._apply(argument, [held | inside], {}, node)
                elif argument.kind in ("class", "method", "unknown") or self._calls_unknown(argument):
                    self._unknown([argument, *held, *inside], node)
        if receiver is not None and row.writes:
            self._changes([receiver], node)
        if receiver is not None and row.keeps:
            put = everything if row.keeps == "given" else inside | frozenset(t for a in named.values() for t in a)
            if receiver.kind == "dict":  # `d.update([("a", 1)])`
                put |= self._items(frozenset(t for t in inside if t.kind in ("tuple", "list")), node)
            if receiver is UNKNOWN:
                self._unknown(put, node)
            if receiver.name == NAMESPACE:
                self._set_attributes(receiver.of[0], frozenset(t for a in given for t in a), named, node)
                if SPREAD not in named:
                    self.heap.put((receiver, ITEMS), spread, node)
            else:
                self.heap.put((receiver, ITEMS), put, node)
        if row.gives == "nothing":
            return NOTHING
        if row.gives == "new":
            return self._operated([everything], node)
        if row.gives == "given":
            return everything
        if row.gives == "contents":
            return held
        if row.gives == "contents and given":
            return held | everything
        if row.gives == "receiver" and receiver is not None:
            return frozenset([receiver])
        kind = _container_of(node, receiver)
        made = self.heap.thing(kind, node, self._frame.context)
        kept = {"of contents": inside | held, "of given": everything, "copy": held}[row.gives]
        if kind == "dict":  # of pairs
            kept |= self._items(frozenset(t for t in inside if t.kind in ("tuple", "list")), node)
        self.heap.put((made, ITEMS), kept | frozenset(t for a in named.values() for t in a), node)
        return frozenset([made])

    def _calls_unknown(self, thing: Thing) -> bool:
        """Whether a thing is an object of this file that can be called, or may be."""
        if thing.kind != "instance":
            return False
        return bool(self.found_in_class(thing, "__call__") or self._foreign_bases(thing.of[0]))

    def _set_attributes(self, owner: Thing, given: Things, named: dict[str, Things], node: ast.AST) -> None:
        """Set the attributes of `vars(owner).update(given, **named)` or `Owner(**named)`: of known names, or any."""
        for name, things in named.items():
            if name != SPREAD:
                self.heap.put((owner, name), things, node)
        sources = {t for t in given | named.get(SPREAD, NOTHING) for t in (t, *self.heap.get((t, SPREAD)))}
        for source in sorted(sources, key=in_order):
            if source.name == NAMESPACE:
                held = self.heap.holds(source.of[0])
            else:
                named_ones = [(a, t) for a, t in self.heap.holds(source).items() if a.startswith(NAMED)]
                held = {a.removeprefix(NAMED): things for a, things in named_ones}
                spread = [v for s in self.heap.get((source, SPREAD)) for v in self._items(frozenset([s]), node)]
                known = {t for things in held.values() for t in things} | {*spread}
                held[EVERY] = self._items(frozenset([source]), node) - known
                if source.kind != "dict":  # pairs
                    held[EVERY] = frozenset(self.heap.reach(held[EVERY]))
            for name, things in held.items():
                self.heap.put((owner, name), things, node)

    def _call_library(
        self, name: str, given: list[Things], named: dict[str, Things], node: ast.AST, spread: Things
    ) -> Things:
        arguments = NOTHING.union(*given, *named.values(), spread)
        if name.endswith(".__get__") and given and is_class(name.removesuffix(".__get__").rpartition(".")[0]):
            method = name.removesuffix(".__get__").rpartition(".")[2]
            return frozenset(self.heap.thing("method", name=method, of=(t,)) for t in given[0])
        if name.startswith("builtins."):
            return self._call_builtin(name.removeprefix("builtins."), given, named, node, spread)
        role = libraries.role(name)
        if node in self._steps:
            return self._step_environment(UNKNOWN, arguments, node)
        if role in ("plain", "reports"):
            for argument in arguments:  # registered to be called later
                if argument.kind in ("function", "bound"):
                    self._unknown([argument], node)
            made = self.heap.thing("made", node, self._frame.context, name)
            return frozenset([made]) if role == "reports" or is_class(name) else NOTHING
        if role == "progress":
            return arguments
        if role == "options":
            classes = [t for t in arguments if t.kind == "class"]
            instances = [i for c in classes for i in self._instantiate(c, [], {}, node, NOTHING)]
            return frozenset(instances) or frozenset([self.heap.thing("options", node, self._frame.context)])
        if role == "environments":
            called = [t for t in self.heap.reach(arguments) if t.kind in ("function", "bound", "instance")]
            self._escape(called, node, to_environments=True)
            made = self.heap.thing("made", node, self._frame.context, name)
            self.heap.put((made, INSIDE), [t for t in arguments if t.kind != "library"], node)
            return frozenset([made])
        if role == "tensors":
            found = self._call_of_tensors(name, given, named, node, spread)
            return found | self._call_by_class(name, given, named, node, spread)
        if name == "inspect.unwrap":
            return arguments
        if name in ("copy.deepcopy",):
            return self._deep_copy(arguments, node)
        if name == "copy.copy":
            return self._shallow_copy(arguments, node)
        if name in ("random.random", "random.randint", "random.randrange", "random.uniform", "random.seed"):
            return NOTHING
        if name in ("random.choice", "random.sample", "random.choices", "random.shuffle"):
            if name == "random.shuffle":
                self._changes(arguments, node)
            return self._items(arguments, node) | (arguments if name == "random.sample" else NOTHING)
        if name in ("collections.deque", "collections.OrderedDict", "collections.defaultdict", "collections.Counter"):
            return self._collection(name, arguments, node)
        return self._unknown(arguments, node)

    def _call_by_class(
        self, name: str, given: list[Things], named: dict[str, Things], node: ast.AST, spread: Things
    ) -> Things:
        """Call a method through a library's class: `torch.nn.Module.train(network)`."""
        owner, _, method = name.rpartition(".")
        if not is_class(owner) or not given:
            return NOTHING
        found: set[Thing] = set()
        for receiver in sorted(given[0], key=in_order):
            if receiver.kind == "instance" and method == "__init__":
                self._foreign_constructor(receiver, spread.union(*given[1:], *named.values()), node)
            elif receiver.kind in ("instance", "made", *MEMORY):
                called = self.heap.thing("method", name=method, of=(receiver,))
                found |= self._call_method(receiver, called, given[1:], named, node, spread)
        return frozenset(found)

    def _collection(self, name: str, arguments: Things, node: ast.AST) -> Things:
        made = self.heap.thing("deque" if name.endswith("deque") else "dict", node, self._frame.context)
        self.heap.put((made, ITEMS), self._items(arguments, node), node)
        for argument in arguments:
            if argument.kind in ("function", "bound", "class"):  # the factory of a defaultdict
                self.heap.put((made, ITEMS), self._call_one(argument, [], {}, node, NOTHING), node)
            elif argument.kind == "library" and argument.name in _EMPTY:
                kind = argument.name.rpartition(".")[2]
                inner = self.heap.thing(
                    kind if kind in python.CONTAINERS else "made", node, self._frame.context, "inner"
                )
                self.heap.put((made, ITEMS), [inner], node)
            elif argument.kind in ("library", "unknown", "made"):
                self.heap.put((made, ITEMS), [UNKNOWN], node)
        return frozenset([made])

    def _deep_copy(self, things: Things, node: ast.AST) -> Things:
        """Copies of the same kinds that hold copies; one thing stands for all copies of what one place makes."""
        found: set[Thing] = set()
        copies: dict[Thing, Thing] = {}
        originals = self.heap.reach(things)
        for thing in originals:
            if thing.kind in ("library", "class", "function", "unknown", "method", "bound"):
                copies[thing] = thing
            else:
                copies[thing] = self.heap.thing(
                    thing.kind, node, self._frame.context, thing.name or "", (*thing.of[:1],)
                )
        for thing in sorted(originals, key=in_order):
            if copies[thing] is not thing:
                for name, held in self.heap.holds(thing).items():
                    self.heap.put((copies[thing], name), [copies[t] for t in held], node)
        for thing in things:
            found.add(copies[thing])
        return frozenset(found)

    def _shallow_copy(self, things: Things, node: ast.AST) -> Things:
        found: set[Thing] = set()
        for thing in things:
            if thing.kind in ("library", "class", "function", "unknown", "method", "bound"):
                found.add(thing)
                continue
            made = self.heap.thing(thing.kind, node, self._frame.context, thing.name, thing.of)
            for name, held in self.heap.holds(thing).items():
                self.heap.put((made, name), held, node)
            found |= {made} | ({thing} if thing.kind in ("made", *MEMORY) else set())
        return frozenset(found)

    def _call_builtin(
        self, name: str, given: list[Things], named: dict[str, Things], node: ast.AST, spread: Things
    ) -> Things:
        arguments = frozenset(t for a in (*given, *named.values(), spread) for t in a)
        if name in ("getattr", "setattr", "delattr", "hasattr") and isinstance(node, ast.Call) and len(node.args) > 1:
            text = node.args[1]
            told = text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else None
            if name == "hasattr":
                return NOTHING
            if name == "getattr":
                others = frozenset(t for a in given[2:] for t in a)
                return others | (self._load_attribute(given[0], told, node) if told else self._load_any(given[0], node))
            things = given[2] if len(given) > 2 else NOTHING
            self._store(given[0], told or EVERY, things, node)
            return NOTHING
        if name == "vars" and len(given) == 1:
            return self._load_attribute(given[0], NAMESPACE, node)
        if name == "type" and (len(given) != 1 or spread):  # a new class
            return self._unknown(NOTHING.union(*given, *named.values(), spread), node)
        if name == "type" and len(given) == 1:
            classes = (t.name for t in given[0] if t.kind == "made" and is_class(t.name))
            return frozenset(
                [t.of[0] if t.kind == "instance" else t for t in given[0] if t.kind in ("instance", "unknown")]
                + [self.heap.thing("library", name=name) for name in classes]
            )
        if name in ("print", "str", "repr", "format", "len", "bool", "int", "float"):
            self._special(arguments, (*python.SHOWN_BY, "__len__", "__bool__", "__int__", "__float__"), [], node)
        if name == "print":
            files = frozenset(t for t in named.get("file", NOTHING) | spread if t.kind == "instance")
            for method in python.PRINTED_TO:
                self._call_things(self._load_attribute(files, method, node), [NOTHING], {}, node, NOTHING)
        if name in ("locals", "vars") and not arguments and (snapshot := self._snapshot(node)) is not None:
            return snapshot
        if name == "globals" or name == "locals" or (name == "vars" and not given):
            self.heap.read(Variable)
            for variable in [v for v in self.heap.held if isinstance(v, Variable)]:
                if name == "globals" and variable.owner is not self._tree.root:
                    continue
                self._escape(self.heap.get(variable), node)
                self._hold(variable, frozenset([UNKNOWN]), node, None)
            return self._unknown([], node)
        if name == "map" and given:
            items = [self._items(things, node) for things in given[1:]]
            returned = self._call_things(given[0], items, {}, node, self._items(spread, node))
            made = self.heap.thing("iterator", node, self._frame.context)
            self.heap.put((made, ITEMS), returned, node)
            return frozenset([made])
        if python.is_exception(name):  # it keeps its arguments
            made = self.heap.thing("made", node, self._frame.context, f"builtins.{name}")
            self.heap.put((made, ITEMS), arguments, node)
            return frozenset([made])
        row = python.does("builtin", name)
        if row is None:
            return self._unknown(arguments, node)
        return self._by_row(row, None, given, named, node, spread)

    def _snapshot(self, node: ast.AST) -> Things | None:
        """The dict that `locals()` returns in a function; writing to it changes no variable. None for other calls."""
        owner = self._frame.owner
        if not isinstance(node, ast.Call) or not isinstance(owner, ast.FunctionDef):
            return None
        names = names_in_locals(self._tree, self._roles.reaching(owner), node)
        if names is None or self._tree.scope_of(node) is not owner:
            return None
        made = self.heap.thing("dict", node, self._frame.context)
        for name in sorted(names):
            self.heap.put((made, ITEMS), self.heap.get(Variable(owner, self._frame.context, name)), node)
        return frozenset([made])

    def _load_any(self, things: Things, node: ast.AST) -> Things:
        """Any attribute of things, read by a name known only at run time."""
        found: set[Thing] = set()
        for thing in things:
            found |= self.heap.attribute(thing, EVERY)
            if thing.kind == "instance":
                found |= {*self._functions_of(thing)}
            elif thing.kind == "class":
                found |= {t for c in self._classes(thing) for t in self.heap.attribute(c, EVERY)}
            elif thing.kind == "library":
                found |= self._unknown([], node)
            elif thing.kind in MEMORY or thing.kind in ("made", "unknown"):
                found |= self._unknown([thing], node)
        return frozenset(found)

    def _call_of_tensors(
        self, name: str, given: list[Things], named: dict[str, Things], node: ast.AST, spread: Things
    ) -> Things:
        """Call a function or a class of torch or numpy."""
        arguments = NOTHING.union(*given, *named.values(), spread)
        module, _, last = name.rpartition(".")
        kind = _kind_of_function(module)
        self._changes(named.get("out", NOTHING), node)
        if kind is not None and (row := torch_api.OF[kind].get(last)) is not None and not _spreads_names(node):
            if row.memory == "number":
                return NOTHING
            made = frozenset([self.heap.thing("array" if kind == "numpy" else "tensor", node, self._frame.context)])
            viewed = given if row.operands else given[:1]
            shared = frozenset(t for a in (*viewed, *named.values(), spread) for t in a)
            parts = shared
            if row.made != "of host":  # the elements of a container, if the call makes new memory
                parts |= self._items(frozenset(t for t in shared if t.kind in python.CONTAINERS), node)
            memory = self._chosen(parts, HOLD_NUMBERS)
            places = given[torch_api.out_place(last, "numpy") :] if kind == "numpy" else []
            into = self._chosen(NOTHING.union(*places), HOLD_NUMBERS)
            self._changes(into, node)
            self._put_into_arrays(made | into, arguments, node, contents=_gives_dtype(node, row.dtype_at))
            otherwise = isinstance(node, ast.Call) and torch_api.may_be_given(node)
            if isinstance(node, ast.Call) and torch_api.may_work_in_place(node):
                self._changes(memory, node)
            if not otherwise and row.memory != "shared":
                return made | into
            self._share(made, memory)
            return made | into | memory
        if module == "numpy.random" or module == "torch.random":
            if last in ("shuffle",):
                self._changes(arguments, node)
            drawn = frozenset([self.heap.thing("array", node, self._frame.context)])
            self._put_into_arrays(drawn, arguments, node)
            return drawn
        if module == "torch" and last in torch_api.others("asks"):
            return NOTHING
        if module.startswith("torch") and name in python.decorators():
            return _callable(arguments) or frozenset([self.heap.thing("made", node, self._frame.context, name)])
        if name in torch_api.of_parameters(of="gradients"):
            self._changes(arguments, node, deep=True, what=VALUES)
            return self._held_by_result(arguments, node, name, changes=False)
        if name in torch_api.FILL and given and not spread:
            self._changes(given[0], node, deep=True, what=VALUES)
            return given[0]
        if module == "torch.nn" and last in torch_api.layers() and not spread and "_weight" not in named:
            return self._held_by_result(NOTHING, node, name)  # made only of numbers
        if module.startswith(("torch.nn", "torch.distributions", "torch.optim")):
            may_change = "init" in module or "utils" in module or kind == "functional"  # `F.hardtanh(x, 0, 1, True)`
            return self._held_by_result(arguments, node, name, changes=may_change)
        if UNKNOWN in arguments and not is_class(name):
            return self._unknown(arguments, node)
        return self._held_by_result(arguments, node, name)

    def _held_by_result(
        self, arguments: Things, node: ast.AST, name: str, *, keepers: Sequence[Thing] = (), changes: bool = True
    ) -> Things:
        """A call into a tensor library without a row of facts: only the result and the method's object keep the
        arguments.

        The call may change the arguments and run functions among them.

        Args:
            arguments: the arguments of the call.
            node: the call.
            name: the name of the callee, or of the class whose method it is.
            keepers: the objects whose method it is, if it is a method.
            changes: whether the call may change its arguments.
        """
        made = self.heap.thing("made", node, self._frame.context, name)
        given = arguments - self._chosen(arguments, ("library",)) - {made}
        self._put_into_arrays(given, arguments, node, contents=True)
        for keeper in keepers:
            self.heap.put((keeper, INSIDE), given - {keeper}, node)
        held = given.union(keepers) - {made}
        self.heap.put((made, INSIDE), held, node)
        if changes:
            self._changes(held, node, deep=True)
        self._lend(arguments, self._chosen(arguments, MEMORY) | {made}, node)
        if not keepers and is_class(name):
            return frozenset([made])
        return self._chosen(arguments, (*MEMORY, "unknown")) | {made}

    def _may_hold_unknown(self, made: Thing) -> bool:
        """Whether an object of a library may have been given unknown code, which it then calls."""
        return UNKNOWN in self.heap.reach(self.heap.get((made, INSIDE)))

    def _may_call(self, made: Thing) -> bool:
        """Whether an object of a library may have been given functions, which it then calls."""
        held = self.heap.reach(self.heap.get((made, INSIDE)))
        return any(t.kind in ("function", "bound", "unknown") or self._calls_unknown(t) for t in held)

    def _lend(self, arguments: Things, first: Things, node: ast.AST, *, keeps: bool = True) -> None:
        """Run the functions among arguments on `first`; if the callee keeps them, later calls may run them too."""
        for one in self._chosen(arguments, ("instance",)):
            if self._calls_unknown(one) and not self.is_module_object(one):
                self._unknown([one, *first], node)
        for function in self._chosen(arguments, ("function", "bound")):
            self._apply(function, [first], {}, node)
            definition = (function.of[0] if function.kind == "bound" else function).node
            if keeps and definition is not None:
                self.lent.add((self._frame, node, definition))

    def _computes_anew(self, layer: Thing, around: frozenset[Thing] = frozenset()) -> bool:
        """Whether a module of torch.nn never returns its argument; `around`: the modules that contain it."""
        last = layer.name.removeprefix("torch.nn.")
        if last in torch_api.layers(memory="new"):
            return True
        call = layer.node
        if last != "Sequential" or not isinstance(call, ast.Call) or layer in around:
            return False
        around |= {layer}
        self.heap.read((layer, INSIDE))  # read all of them
        inside = [self.values.get((a, layer.context), NOTHING) for a in call.args if not isinstance(a, ast.Starred)]
        if not all(inside) and self._may_be_without_value():
            return True  # a wrong result in the first round would remain
        return any(
            things and all(t.kind == "made" and self._computes_anew(t, around) for t in things) for things in inside
        )

    def _own_modules(self, layer: Thing) -> list[Thing] | None:
        """The modules of this file's classes that run when a module of torch.nn is called.

        None unless the call is known to change nothing else.
        """
        own, seen, stack = list[Thing](), set[Thing](), [layer]
        while stack:
            one = stack.pop()
            last, call = one.name.removeprefix("torch.nn."), one.node
            if one.kind == "made" and torch_api.may_write_itself(last, call):
                return None
            if one in seen or (one.kind == "made" and (last in torch_api.layers(memory="new") or last in _SHAPING)):
                continue
            seen.add(one)
            if one.kind == "made" and last in torch_api.layers(memory="shared"):
                if not isinstance(call, ast.Call) or call.args or call.keywords:  # may work in place
                    return None
            elif one.kind == "instance" and self.is_module(one.of[0]):
                own.append(one)
            elif one.kind != "made" or last != "Sequential":
                return None
            else:  # a copy may hold the layers of its original, and so itself
                stack += (t for t in self.heap.get((one, INSIDE)) if t.kind not in python.CONTAINERS)
        return own

    def _call_layer(self, layer: Thing, arguments: Things, node: ast.AST) -> Things:
        """Call a module of torch.nn: the result is new memory, or the argument (`Identity`, or in place)."""
        own = self._own_modules(layer)
        if own is None:
            self._changes([layer, *arguments], node, deep=True)
            if layer.name.rpartition(".")[2] in torch_api.CALLERS and self._may_hold_unknown(layer):
                return self._unknown([layer, *arguments], node)
        new = self.heap.thing("tensor", node, self._frame.context)
        passed = frozenset([new, *(t for t in arguments if t.kind in (*MEMORY, "made", "unknown"))])
        before = NOTHING
        while own and passed != before:  # in any order
            before = passed
            for module in own:
                passed |= self._call_one(module, [passed], {}, node, NOTHING)
        return frozenset([new]) if self._computes_anew(layer) else passed


_OF_MODULES = torch_api.holders("modules")
_SHAPING = torch_api.layers(memory="shared", inplace=False)
"""Modules that share memory between argument and result, and never change it."""
_LONGEST_STEP = 5
"""The maximum number of values that an environment's step returns: observations, rewards, two end flags, infos."""


def _unpacks_step(stmt: ast.AST) -> bool:
    """Whether a statement unpacks an environment's step, so that nothing holds the tuple."""
    target = stmt.targets[0] if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 else None
    return isinstance(target, ast.Tuple) and _LONGEST_STEP - 1 <= len(target.elts) <= _LONGEST_STEP


def _is_of_environment(thing: Thing) -> bool:
    """Whether an environment has returned it."""
    return thing.name == _OF_ENVIRONMENT or thing.name.startswith(f"{_OF_ENVIRONMENT}.")


_OF_ENVIRONMENT = "gym.spaces"
"""What an environment returns: arrays, tensors, and containers of them."""
_TENSORS_BY_NAME = "tensordict.TensorDict"
"""Holds tensors under string keys: `storage["obs"]`."""
_STEPPING = torch_api.of_optimizers("stepping")
_DEEPEST = 7
"""The maximum number of dots in a library's names."""
_EMPTY = frozenset("builtins.list builtins.dict builtins.set collections.deque builtins.int builtins.float".split())


def _bound_anywhere(tree: Tree) -> set[str]:
    """All names that functions have, or that statements or strings may give to one."""
    stored: list[ast.Name | ast.Attribute] = [*tree.of(ast.Name), *tree.of(ast.Attribute)]
    found = {last_written(n) for n in stored if not isinstance(n.ctx, ast.Load)} | texts_of(tree)
    return found | {n.name for n in tree.nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))}


def _only_binds(stmt: ast.stmt) -> bool:
    """Whether the head of a statement does no more with its values than to bind them to names and attributes."""
    targets = stmt.targets if isinstance(stmt, ast.Assign) else [getattr(stmt, "target", None)]
    plain = isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Return, ast.Expr, ast.Assign, ast.AnnAssign))
    return plain and all(t is None or isinstance(t, ast.Name) for t in targets)


def _operands(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions that an expression or the head of a statement evaluates directly."""
    for child in ast.iter_child_nodes(node):
        stores = not isinstance(getattr(child, "ctx", ast.Load()), ast.Load)
        if isinstance(child, _GROUPING) or (stores and isinstance(child, ast.Subscript)):
            yield from _operands(child)
        elif isinstance(child, ast.expr) and not stores:
            yield child


_GROUPING = (ast.Starred, ast.FormattedValue, ast.keyword, ast.comprehension, ast.withitem)


def _is_without_facts(thing: Thing) -> bool:
    """Whether a thing is from a library without rows of facts: nothing is known of it."""
    if thing.kind != "library" or libraries.role(thing.name) is not None:
        return False
    return thing.name.partition(".")[0] not in python.FOLLOWED


def _callable(things: Things) -> Things:
    """Those that a decorator may have been given."""
    return frozenset(t for t in things if t.kind not in NOT_CALLABLE)


def _is_transparent(name: str) -> bool:
    return name in python.decorators(calls=True) or name.endswith((".setter", ".getter"))


def _callee_or_itself(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _text(node: ast.expr) -> str:
    return ast.unparse(_callee_or_itself(node))


def _is_property(node: ast.AST | None) -> bool:
    return isinstance(node, ast.FunctionDef) and any(
        _text(d).rpartition(".")[2] in ("property", "cached_property", "setter", "getter") for d in node.decorator_list
    )


def is_distribution(thing: Thing) -> bool:
    """Whether an object is of a class of torch's distributions."""
    return thing.kind == "made" and thing.name.startswith(torch_api.DISTRIBUTIONS) and is_class(thing.name)


def is_class(name: str) -> bool:
    """Whether a library's name is spelled like a class; the object that a class makes is not its argument."""
    last = name.rpartition(".")[2]
    return last[:1].isupper() and not last.isupper()


def _may_say(node: ast.AST, option: str) -> bool:
    """Whether a call may pass an option that comes last among the callee's parameters."""
    if not isinstance(node, ast.Call):
        return True
    starred = any(isinstance(a, ast.Starred) for a in node.args)
    return starred or len(node.args) > 2 or any(k.arg in (None, option) for k in node.keywords)


def _spreads_names(node: ast.AST) -> bool:
    """Whether a call passes keywords that are known only at run time."""
    return isinstance(node, ast.Call) and any(k.arg is None for k in node.keywords)


def _size(node: ast.AST) -> int | None:
    """The length of a tuple display; None if it contains `*x`."""
    if isinstance(node, ast.Tuple) and not any(isinstance(e, ast.Starred) for e in node.elts):
        return len(node.elts)
    return None


def _training_function(roles: Roles) -> ast.FunctionDef | None:
    """The function that trains; None if module-level code trains, or if it is not known yet."""
    try:
        return roles.scope if isinstance(roles.scope, ast.FunctionDef) else None
    except Unconvertible:
        return None


def _generators(tree: Tree) -> set[ast.AST]:
    """The functions whose bodies yield."""
    yields: list[ast.AST] = [*tree.of(ast.Yield), *tree.of(ast.YieldFrom)]
    return {next((a for a in tree.ancestors(y) if isinstance(a, FUNCTIONS)), y) for y in yields}


def _kind_of_function(module: str) -> torch_api.Kind | None:
    kinds: dict[str, torch_api.Kind] = {"torch": "torch", "torch.nn.functional": "functional", "numpy": "numpy"}
    return kinds.get(module)


def _combines(kind: str, node: ast.AST) -> bool:
    """Whether an expression with a container of this kind may make another."""
    if isinstance(node, (ast.BinOp, ast.AugAssign)):
        return python.combines(kind, node.op)
    return not isinstance(node, (ast.Compare, ast.UnaryOp))


def _gives_dtype(node: ast.AST, place: int) -> bool:
    """Whether a call gives a dtype, at this position if it is not 0."""
    if not isinstance(node, ast.Call):
        return False
    return 0 < place < len(node.args) or any(k.arg in ("dtype", None) for k in node.keywords)


def _container_of(node: ast.AST, receiver: Thing | None) -> str:
    if receiver is not None:
        return receiver.kind if receiver.kind in python.CONTAINERS else "list"
    called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    return {"list": "list", "sorted": "list", "tuple": "tuple", "set": "set", "dict": "dict"}.get(called, "iterator")
