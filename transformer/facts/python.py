"""What calls of Python's builtins, and of methods of its containers, do with their arguments.

A row holds for each of its names. Anything without a row is unknown, and may do anything with whatever it can reach.
`tests/facts/test_python.py` calls what is listed here.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import Literal, TypeAlias

Gives: TypeAlias = Literal[
    "nothing", "new", "given", "contents", "receiver", "of contents", "of given", "contents and given", "copy"
]
"""What a call returns. nothing: a number, a text, None; new: an object that shares nothing; given: its argument;
contents: an element of its receiver, or for functions of an argument; receiver: its receiver; of contents: a new
container of the arguments' elements; of given: a new container of the arguments; copy: a new container of the
receiver's elements."""
Keeps: TypeAlias = Literal["", "given", "contents"]
"""What its receiver holds afterwards: the arguments, or their elements."""


@dataclass(frozen=True)
class Does:
    """Facts about callables, whose names are given as words."""

    names: str
    of: str
    """The owners of the names: builtin functions, or methods of those of these kinds that have them."""
    gives: Gives = "nothing"
    keeps: Keeps = ""
    writes: bool = False
    """Whether it changes its receiver."""
    calls: bool = False
    """Whether it calls functions among its arguments."""


CONTAINERS = frozenset("list dict set deque tuple iterator".split())
"""Kinds of objects that hold others. Generators and iterators over containers are iterators."""

TAKES_VALUES = frozenset("all any bool complex float hash id int isinstance len type".split())
"""Builtin functions that use only the values and types of tensors; their results have no gradient."""
SHOWS = frozenset("ascii format print repr str".split())
"""Builtin functions that turn their argument into a text."""

ROWS = (
    Does("print len float int bool str repr isinstance issubclass id hash format ord chr bin hex oct", "builtin"),
    Does("callable hasattr range ascii bytes complex slice input object open", "builtin"),
    Does("abs divmod pow round", "builtin", "new"),
    Does("all any", "builtin"),
    Does("sum", "builtin", "contents and given"),
    Does("max min", "builtin", "contents and given", calls=True),
    Does("next", "builtin", "contents and given"),
    Does("list tuple set frozenset dict reversed iter enumerate zip", "builtin", "of contents"),
    Does("map filter sorted", "builtin", "of contents", calls=True),
    Does("Exception ValueError RuntimeError NotImplementedError KeyError TypeError SystemExit StopIteration "
         "AssertionError KeyboardInterrupt IndexError ImportError", "builtin", "of given"),
    # containers
    Does("append appendleft add remove discard", "list set deque", keeps="given", writes=True),
    Does("insert", "list deque", keeps="given", writes=True),
    Does("extend extendleft", "list deque", keeps="contents", writes=True),
    Does("update", "set", keeps="contents", writes=True),
    Does("pop popleft", "list deque set", "contents", writes=True),
    Does("clear reverse rotate", "list dict set deque", writes=True),
    Does("sort", "list", writes=True, calls=True),
    Does("index count", "list tuple deque"),
    Does("copy", "list dict set deque", "copy"),
    Does("issubset issuperset isdisjoint", "set"),
    Does("union intersection difference symmetric_difference", "set", "of contents"),
    Does("update", "dict", keeps="contents", writes=True),
    Does("setdefault", "dict", "contents and given", keeps="given", writes=True),
    Does("get", "dict", "contents and given"),
    Does("pop popitem", "dict", "contents and given", writes=True),
    Does("move_to_end", "dict", writes=True),
    Does("items values keys", "dict", "copy"),
    Does("close", "iterator"),
)  # fmt: skip


_TYPES = {"list": list, "dict": dict, "set": set, "deque": deque, "tuple": tuple, "iterator": Generator}


def has(kind: str, name: str) -> bool:
    """Whether a kind of container has an attribute. Subclasses of dict have more, and count as dicts here."""
    return hasattr(_TYPES[kind], name) or (kind == "dict" and (hasattr(OrderedDict, name) or hasattr(Counter, name)))


def _index() -> dict[tuple[str, str], Does]:
    pairs = ((row, kind, name) for row in ROWS for kind in row.of.split() for name in row.names.split())
    return {(kind, name): row for row, kind, name in pairs if kind not in CONTAINERS or has(kind, name)}


_OF = _index()


def does(kind: str, name: str) -> Does | None:
    """The row of a builtin function (`kind` is builtin), or of a method of a kind of object; None if unknown."""
    return _OF.get((kind, name))
