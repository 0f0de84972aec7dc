"""What calls of Python's builtins, and of methods of its containers, do with their arguments.

A row holds for each of its names. A name without a row is unknown, and may do anything with whatever it can reach.
`tests/facts/test_python.py` calls everything that is listed here.
"""

from __future__ import annotations

import ast
import builtins
import math
from collections import Counter, OrderedDict, deque
from collections.abc import Generator
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

from transformer.facts.rows import named

Gives: TypeAlias = Literal[
    "nothing", "new", "given", "contents", "receiver", "of contents", "of given", "contents and given", "copy"
]
"""What a call returns. nothing: a number, a string, None; new: an object that shares nothing; given: an argument;
contents: an element of the receiver, or, for functions, of an argument; receiver: the receiver; of contents: a new
container of the arguments' elements; of given: a new container of the arguments; copy: a new container of the
receiver's elements."""
Keeps: TypeAlias = Literal["", "given", "contents"]
"""What the receiver additionally holds afterwards: the arguments or their elements."""
Makes: TypeAlias = Literal[
    "", "number", "text", "numbers", "container", "tuple", "mapping", "iterator", "class", "access", "error", "foreign"
]
"""The kind of object that a builtin makes, for any argument. numbers: an immutable sequence of numbers; iterator: it
holds what it iterates over; access: it gives access to methods; foreign: an error that no computation raises."""


@dataclass(frozen=True)
class Does:
    """Facts about callables; `names` are words separated by spaces."""

    names: str
    of: str
    """The owners of the names: `builtin` for functions, or the kinds of objects that have these methods."""
    gives: Gives = "nothing"
    keeps: Keeps = ""
    writes: bool = False
    """Whether it changes its receiver."""
    calls: Literal["", "given", "key", "first of two"] = ""
    """Whether it calls functions among its arguments: any of them, its keyword `key`, or the first of two arguments."""
    makes: Makes = ""
    takes: bool = False
    """Whether it, or the iterator that it returns, iterates over its argument."""
    maps: bool = False
    """Whether its result holds what a function returns for the elements of its argument."""
    pairs: bool = False
    """Whether its result holds pairs or tuples of the elements of its arguments."""
    converts: bool = False
    """Whether it converts a single number to a number, so that it waits for a tensor's value."""
    shows: bool = False
    """Whether it makes a string from its argument."""
    acts: bool = False
    """Whether it does more than compute: it prints, reads, or moves an iterator on."""
    varies: bool = False
    """Whether, for equal arguments, another process may get another result or another order."""


CONTAINERS = frozenset("list dict set deque tuple iterator".split())
"""Kinds of objects that hold others. Generators and iterators over containers are iterators."""

ROWS = (
    Does("bool complex float int", "builtin", makes="number", converts=True),
    Does("callable hasattr isinstance issubclass len ord", "builtin", makes="number"),
    Does("hash id", "builtin", makes="number", varies=True),
    Does("all any", "builtin", makes="number", takes=True),
    Does("ascii format repr str", "builtin", makes="text", shows=True),
    Does("bin bytes chr hex oct", "builtin", makes="text"),
    Does("print", "builtin", shows=True, acts=True),
    Does("range", "builtin", makes="numbers"),
    Does("slice", "builtin"),
    Does("type", "builtin", makes="class"),
    Does("super", "builtin", "given", makes="access"),
    Does("input object open", "builtin", acts=True),
    Does("abs divmod pow round", "builtin", "new"),
    Does("sum", "builtin", "contents and given", takes=True),
    Does("max min", "builtin", "contents and given", calls="key", takes=True),
    Does("next", "builtin", "contents and given", takes=True, acts=True),
    Does("list", "builtin", "of contents", makes="container", takes=True),
    Does("tuple", "builtin", "of contents", makes="tuple", takes=True),
    Does("dict", "builtin", "of contents", makes="mapping", takes=True, pairs=True),
    Does("frozenset set", "builtin", "of contents", makes="container", takes=True, varies=True),
    Does("sorted", "builtin", "of contents", calls="key", makes="container", takes=True),
    Does("iter", "builtin", "of contents", calls="first of two", makes="iterator", takes=True),
    Does("reversed", "builtin", "of contents", makes="iterator", takes=True),
    Does("enumerate zip", "builtin", "of contents", makes="iterator", takes=True, pairs=True),
    Does("filter", "builtin", "of contents", calls="given", makes="iterator", takes=True),
    Does("map", "builtin", "of contents", calls="given", makes="iterator", takes=True, maps=True),
    Does("Exception ValueError RuntimeError NotImplementedError KeyError TypeError SystemExit StopIteration "
         "AssertionError IndexError", "builtin", "of given", makes="error", acts=True),
    Does("FileNotFoundError ImportError KeyboardInterrupt ModuleNotFoundError", "builtin", "of given",
         makes="foreign", acts=True),
    # containers
    Does("append appendleft add", "list set deque", keeps="given", writes=True),
    Does("discard remove", "list set deque", writes=True),
    Does("insert", "list deque", keeps="given", writes=True),
    Does("extend extendleft", "list deque", keeps="contents", writes=True),
    Does("update", "set", keeps="contents", writes=True),
    Does("pop popleft", "list deque set", "contents", writes=True),
    Does("clear reverse rotate", "list dict set deque", writes=True),
    Does("sort", "list", writes=True, calls="key"),
    Does("index count", "list tuple deque"),
    Does("copy", "list dict set deque", "copy"),
    Does("issubset issuperset isdisjoint", "set"),
    Does("union intersection difference symmetric_difference", "set", "of contents"),
    Does("difference_update intersection_update", "set", writes=True),
    Does("symmetric_difference_update", "set", keeps="contents", writes=True),
    Does("update", "dict", keeps="contents", writes=True),
    Does("setdefault", "dict", "contents and given", keeps="given", writes=True),
    Does("get", "dict", "contents and given"),
    Does("pop popitem", "dict", "contents and given", writes=True),
    Does("move_to_end", "dict", writes=True),
    Does("items values keys", "dict", "copy"),
    Does("close", "iterator"),
)  # fmt: skip


@dataclass(frozen=True)
class Decorators:
    """Facts about decorators; `names` are qualified names separated by spaces."""

    names: str
    calls: bool = True
    """Whether the decorated object runs the function with the arguments of the call."""
    lazy: bool = True
    """Whether decorating has no other effect."""


DECORATORS = (
    Decorators("abc.abstractmethod classmethod functools.cached_property functools.wraps property staticmethod "
               "torch._dynamo.disable torch.compile torch.compiler.disable torch.enable_grad torch.inference_mode "
               "torch.no_grad"),
    Decorators("dataclasses.dataclass typing.overload", calls=False),  # it decorates classes; it is not called
    Decorators("torch.jit.script", lazy=False),
)  # fmt: skip


def is_exception(name: str) -> bool:
    """Whether a builtin is a class of exceptions; making one calls nothing."""
    found = getattr(builtins, name, None)
    return isinstance(found, type) and issubclass(found, BaseException)


@cache
def decorators(**facts: object) -> frozenset[str]:
    """The decorators whose rows say all of these facts."""
    return named(DECORATORS, facts)


_TYPES = {"list": list, "dict": dict, "set": set, "deque": deque, "tuple": tuple, "iterator": Generator}


def has(kind: str, name: str) -> bool:
    """Whether a kind of container has an attribute. Subclasses of dict have more, and count as dicts here."""
    return name in _attributes_of(kind)


@cache
def _attributes_of(kind: str) -> frozenset[str]:
    types = (_TYPES[kind], *((OrderedDict, Counter) if kind == "dict" else ()))
    return frozenset(name for one in types for name in dir(one))  # hasattr() would also find those of `type`


DIMENSIONS = ("list", "tuple", "deque")
"""The containers whose elements numpy takes to make an array; of others it makes an array of objects."""


def combines(kind: str, operator: ast.operator) -> bool:
    """Whether an operator may make a container of this kind from one and something else."""
    return has(kind, f"__{_ARITHMETIC[_OPERATORS.index(type(operator))]}__")


def _index() -> dict[tuple[str, str], Does]:
    pairs = ((row, kind, name) for row in ROWS for kind in row.of.split() for name in row.names.split())
    return {(kind, name): row for row, kind, name in pairs if kind not in CONTAINERS or has(kind, name)}


_OF = _index()


def does(kind: str, name: str) -> Does | None:
    """The row of a builtin function (`kind` is builtin), or of a method of a kind of object; None if unknown."""
    return _OF.get((kind, name))


@cache
def builtin_names(**facts: object) -> frozenset[str]:
    """The builtin functions whose rows match all of these facts; each fact is a value or a tuple of values."""
    return named((row for row in ROWS if row.of == "builtin"), facts)


@cache
def method_names(kind: str, **facts: object) -> frozenset[str]:
    """The methods of a kind of container whose row says all of these facts."""
    return frozenset(n for n in named((row for row in ROWS if kind in row.of.split()), facts) if has(kind, n))


WRITES = frozenset(name for kind in CONTAINERS for name in method_names(kind, writes=True))
"""Methods that change a container."""
READS = frozenset(name for kind in ("list", "dict") for name in method_names(kind, writes=False))
"""Methods of lists and dicts that change nothing; they may return elements."""
COMPUTES = builtin_names(acts=False, calls=("", "key")) - builtin_names(makes="access")
"""Builtin functions that only compute."""
SAME = COMPUTES - builtin_names(varies=True) - builtin_names(makes=("container", "mapping", "iterator", "access"))
"""Builtins in COMPUTES with immutable results that are the same for equal arguments in every run and process."""
CONVERTS = builtin_names(converts=True)
ACCESS = builtin_names(makes="access")
SHOWS = builtin_names(shows=True)
_ARITHMETIC = "add sub mul matmul truediv floordiv mod pow and or xor lshift rshift".split()
OPERATOR_METHODS = frozenset(
    f"__{name}__"
    for name in (
        *(side + name for side in ("", "r") for name in _ARITHMETIC),
        *"eq ne lt le gt ge contains".split(),
    )
)
"""Methods that binary operators call."""
_OPERATORS = (
    *(ast.Add, ast.Sub, ast.Mult, ast.MatMult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow),
    *(ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift),
)
"""Those of `_ARITHMETIC`, in its order."""
SHOWN_BY = ("__str__", "__repr__", "__format__")
"""The methods that show an object; modules of torch also call `extra_repr` and `_get_name`."""
PRINTED_TO = ("write", "flush")
"""The methods that `print(file=...)` calls."""
TAKES_VALUES = builtin_names(makes=("number", "class"))
"""Builtins that use only the values and types of tensors; their results have no gradient."""
HARMLESS = COMPUTES | SHOWS
"""Builtins that neither keep nor change their arguments; their results may hold them."""


@cache
def math_gives_float(name: str) -> bool:
    """Whether `math` has this constant or function of one or two numbers, and its value is a float; found by a call."""
    found = getattr(math, name, None)
    if not callable(found):
        return isinstance(found, float)
    for given in ((1,), (1, 1)):
        try:
            return isinstance(found(*given), float)
        except TypeError:
            continue
    return False


OF_FUNCTIONS = frozenset("__name__ __qualname__ __doc__ __module__ __annotations__ __code__".split())
"""Attributes of functions that lead to no object of the script."""
OF_ATTRIBUTES = frozenset("__getattribute__ __getattr__ __setattr__ __delattr__".split())
"""Methods that Python calls for `x.a`."""
_EXPLICIT = frozenset("__init__ __new__ __call__ __post_init__ __init_subclass__ __class_getitem__".split())
_NO_METHODS = frozenset("__name__ __main__ __file__ __doc__ __dict__ __class__ __module__ __all__ __debug__".split())


def is_implicit(name: str) -> bool:
    """Whether Python may call a method of this name by itself, for an operator, a builtin or a statement."""
    special = name.startswith("__") and name.endswith("__") and name not in _EXPLICIT | _NO_METHODS
    return special or name == "keys"


FOLLOWED = frozenset("builtins collections contextlib copy functools inspect random".split())
"""Modules of which some functions are known; of other modules without a row, nothing is."""
CALLED_AT_ANY_END = frozenset("atexit excepthook faulthandler finalize signal unraisablehook".split())
"""Names that make functions run at the end of a script, even after an error, or on a signal."""


PICKLES = (
    "torch.save",
    *(
        f"{module}.{function}"
        for module in ("pickle", "dill", "cloudpickle", "joblib")
        for function in ("dump", "dumps")
    ),
)
"""Functions that save whole objects, including the module names of their classes."""
SAYING_WHAT_IS_SAVED = frozenset("__reduce__ __reduce_ex__ __getstate__ __getnewargs__ __getnewargs_ex__".split())
"""Methods that these functions call to decide what to save of an object."""
