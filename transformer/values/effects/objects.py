"""The objects that a file's code may make, named by the place that makes them, and what each may hold."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Literal, NamedTuple, TypeAlias, cast

from transformer.dataflow.variables import Owner

Context: TypeAlias = "tuple[ast.AST, ...]"
"""The last calls on the way to a function's body; empty for module-level code."""
Kind: TypeAlias = Literal[
    "tensor", "array", "list", "dict", "set", "deque", "tuple", "iterator", "instance", "class", "function", "bound",
    "method", "library", "made", "options", "unknown",
]  # fmt: skip
"""tensor and array: memory; a view is the same object as its base. instance: of a class of this file. bound: a method
of such a class, with its object. method: a method of another object, by name. library: a module, function or class of a
library, by dotted name. made: an object that a library made. unknown: everything that unknown code may hold."""

EVERY = "*"
"""The attribute that represents any attribute of an object."""
INSIDE = "<inside>"
"""What a library's object was made from: it may change that, and return memory of it."""
GIVEN = "<given>"
"""What a library's object may return memory of, and never changes."""
BASES = "<bases>"
"""The bases of a class."""
ITEMS = "[]"
"""What a container holds, at any index."""
KEYS = "<keys>"
"""The items of a dictionary that may be its keys."""
SPREAD = "**"
"""The source of a dict of keyword arguments: `**vars(options)`."""
NAMED = "="
"""The prefix of a keyword argument's name in a dict."""
NAMESPACE = "__dict__"
"""The name of a dict that is the namespace of its object: `x.__dict__`, `vars(x)`."""


class Thing:
    """An object, or all objects that one place makes in one context. Compared by identity, and immutable.

    Attributes:
        kind: what it is.
        node: where it is made; None if not in this file.
        context: the calls that lead there.
        name: the dotted name of a library's function, class or module; for `made`, of its class; a method's name.
        of: the class of an instance; function and object of a bound method; the object of a method, or of a namespace.
    """

    def __init__(
        self,
        kind: Kind,
        node: ast.AST | None = None,
        context: Context = (),
        name: str = "",
        of: tuple[Thing, ...] = (),
    ) -> None:
        self.kind = kind
        self.node = node
        self.context = context
        self.name = name
        self.of = of

    @cached_property
    def order(self) -> tuple[object, ...]:
        """A sort key that is the same in each process."""
        at = tuple((getattr(n, "lineno", 0), getattr(n, "col_offset", 0)) for n in (self.node, *self.context))
        return (at[0], self.kind, self.name, at[1:], tuple(t.order for t in self.of))

    def __repr__(self) -> str:
        return f"{self.kind}({self.name}@{getattr(self.node, 'lineno', '')})"


in_order = attrgetter("order")
"""Sorts things and effects."""
Things: TypeAlias = "frozenset[Thing]"
NOTHING: Things = frozenset()
UNKNOWN = Thing("unknown")


class Variable(NamedTuple):
    """A variable of a scope, in one context of the scope's function."""

    owner: Owner
    context: Context
    name: str


Place: TypeAlias = "Variable | tuple[Thing, str]"
"""What can hold an object: a variable, or an attribute of another object (ITEMS of a container)."""


class LastRun:
    """The last run of one statement in one context."""

    done = False
    """Whether nothing that it read has changed since, so that another run would find nothing new."""


@dataclass
class Heap:
    """What each place may hold. Places only gain contents."""

    held: dict[Place, Things] = field(default_factory=dict)
    since: dict[tuple[Place, Thing], ast.AST | None] = field(default_factory=dict)
    """The code that puts a thing into a place; only the first that was found."""
    attributes: dict[Thing, set[str]] = field(default_factory=dict)
    version: int = 0
    """Changes whenever something new is found."""
    running: LastRun | None = None
    """The running statement: it is marked to run again when something that it reads changes."""
    _readers: dict[Hashable, set[LastRun]] = field(default_factory=dict)
    _made: dict[tuple[object, ...], Thing] = field(default_factory=dict)

    def thing(
        self, kind: str, node: ast.AST | None = None, context: Context = (), name: str = "", of: tuple[Thing, ...] = ()
    ) -> Thing:
        """The thing with these properties; always the same object."""
        key = (kind, node, context, name, of)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = Thing(cast(Kind, kind), node, context, name, of)
            self.version += 1
        return made

    def made_at(self, node: ast.AST, context: Context) -> Things:
        """All things made at a node in one context."""
        return frozenset(t for t in self._made.values() if t.node is node and t.context == context)

    def of_node(self, node: ast.AST) -> list[Thing]:
        """All things made at a node, in any context."""
        return [t for t in self._made.values() if t.node is node]

    def read(self, what: Hashable) -> None:
        """Note that the running statement reads a place, all attributes of a thing, or something outside the heap."""
        if self.running is not None:
            readers = self._readers.get(what)
            if readers is None:
                self._readers[what] = {self.running}
            else:
                readers.add(self.running)

    def changed(self, what: Hashable) -> None:
        """Mark the statements that read this to be run again."""
        for last_run in self._readers.pop(what, ()):
            last_run.done = False

    def put(
        self, place: Place, things: Iterable[Thing], node: ast.AST | None = None, keys: Iterable[Thing] | None = None
    ) -> None:
        """Add things to what a place may hold. Any item of a dictionary may be a key, unless `keys` are given."""
        if not isinstance(place, Variable) and place[0].name == NAMESPACE:
            place = (place[0].of[0], EVERY)
        held = self.held.get(place)
        if held is None:
            held = self.held[place] = NOTHING
            if not isinstance(place, Variable):
                self.attributes.setdefault(place[0], set()).add(place[1])
            self.changed(Variable if isinstance(place, Variable) else place[0])
        new = (things if isinstance(things, frozenset) else frozenset(things)) - held
        if new:
            self.held[place] = held | new  # a new set, so that readers need no copy
            self.since.update(((place, thing), node) for thing in new)
            self.version += len(new)
            self.changed(place)
            if not isinstance(place, Variable):
                self.changed(place[0])
        if not isinstance(place, Variable) and place[1] == ITEMS and place[0].kind == "dict":
            self.put((place[0], KEYS), things if keys is None else keys, node)

    def get(self, place: Place) -> Things:
        """What a place may hold."""
        if not isinstance(place, Variable) and place[0].name == NAMESPACE:
            return self.attribute(place[0].of[0], EVERY) if place[1] == ITEMS else NOTHING
        if self.running is not None:
            self.read(place)
        return self.held.get(place, NOTHING)

    def holds(self, thing: Thing) -> dict[str, Things]:
        """What each attribute of a thing may be."""
        self.read(thing)
        return {name: self.held[thing, name] for name in self.attributes.get(thing, ())}

    def attribute(self, thing: Thing, name: str) -> Things:
        """What an attribute of a thing may be."""
        if thing.name == NAMESPACE:
            return NOTHING  # the attributes of the object are its items
        if name == EVERY:
            return frozenset(t for held in self.holds(thing).values() for t in held)
        any_of_them = self.get((thing, EVERY))
        return self.get((thing, name)) | any_of_them if any_of_them else self.get((thing, name))

    def below(self, thing: Thing, but: str = "", besides: Mapping[Place, set[Thing]] = {}) -> Iterator[Thing]:
        """What a thing directly holds or was made from.

        Args:
            thing: the thing.
            but: an attribute to leave out.
            besides: things to leave out, by the place that holds them.
        """
        self.read(thing)
        for name in self.attributes.get(thing, ()):
            if name != but:
                yield from self.held[thing, name].difference(besides.get((thing, name), ()))
        if thing.kind in ("bound", "method") or thing.name == NAMESPACE:
            yield from thing.of
        if thing.kind == "instance":
            yield from self._of_classes(thing.of[0])

    def _of_classes(self, cls: Thing) -> Iterator[Thing]:
        """What a class and its bases hold besides their methods."""
        seen, stack = {cls}, [cls]
        while stack:
            for name, held in self.holds(stack.pop()).items():
                if name == BASES:
                    bases = {t for t in held if t.kind == "class"} - seen
                    seen |= bases
                    stack += bases
                else:
                    yield from (t for t in held if t.kind != "function")

    def reach(self, things: Iterable[Thing], but: str = "", besides: Mapping[Place, set[Thing]] = {}) -> set[Thing]:
        """The things and everything reachable from them; `but` and `besides` are left out, as in `below`."""
        found, stack = set(things), [*things]
        while stack:
            for below in self.below(stack.pop(), but, besides):
                if below not in found:
                    found.add(below)
                    stack.append(below)
        return found
