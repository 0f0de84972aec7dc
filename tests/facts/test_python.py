"""Facts about builtins and container methods: each row is compared with what the call really does."""

import ast
import builtins
import contextlib
import copy
import gc
import subprocess
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from transformer.facts.python import (
    CONTAINERS,
    DIMENSIONS,
    OPERATOR_METHODS,
    ROWS,
    Does,
    builtin_names,
    combines,
    does,
    has,
    is_exception,
    math_gives_float,
)


class Marker:
    """An object that can be told apart by identity."""

    def __lt__(self, other: object) -> bool:
        return False

    def __add__(self, other: object) -> "Marker":
        return self

    __radd__ = __add__


HELD, OTHER = Marker(), Marker()
GIVEN, INSIDE = Marker(), Marker()


def receiver(kind: str) -> object:
    return {
        "list": lambda: [HELD, OTHER],
        "dict": lambda: {HELD: OTHER},
        "set": lambda: {HELD, OTHER},
        "deque": lambda: deque([HELD, OTHER]),
        "tuple": lambda: (HELD, OTHER),
        "iterator": lambda: (x for x in (HELD, OTHER)),
    }[kind]()


def reached(thing: object) -> set[int]:
    """The ids of markers that can be reached through an object."""
    found, stack, seen = set(), [thing], set()
    while stack:
        one = stack.pop()
        if id(one) in seen or isinstance(one, (type, int, str)):
            continue
        seen.add(id(one))
        if isinstance(one, Marker):
            found.add(id(one))
        elif type(one).__module__ in ("builtins", "collections") and not callable(one):
            stack += gc.get_referents(one)
    return found


ARGUMENTS = {
    "insert": (0, GIVEN),
    "extend": ([INSIDE],),
    "extendleft": ([INSIDE],),
    "index": (HELD,),
    "count": (HELD,),
    "discard": (HELD,),
    "remove": (HELD,),
    "rotate": (1,),
    "union": ([INSIDE],),
    "intersection": ([INSIDE],),
    "difference": ([INSIDE],),
    **dict.fromkeys("symmetric_difference symmetric_difference_update".split(), ([INSIDE],)),
    **dict.fromkeys("difference_update intersection_update".split(), ([INSIDE],)),
    "issubset": ([INSIDE],),
    "issuperset": ([INSIDE],),
    "isdisjoint": ([INSIDE],),
    "setdefault": ("key", GIVEN),
    "get": ("key", GIVEN),
    "move_to_end": None,  # only OrderedDict has it
    **dict.fromkeys("append appendleft add".split(), (GIVEN,)),
}
METHODS = [
    (kind, name, row)
    for row in ROWS
    for kind in row.of.split()
    if kind in CONTAINERS
    for name in row.names.split()
    if has(kind, name)
]


def allowed(row: Does) -> set[int]:
    """The ids of markers that a call's result may lead to, according to its row."""
    held, given = {id(HELD), id(OTHER)}, {id(GIVEN), id(INSIDE)}
    return {
        "nothing": set(),
        "new": set(),
        "given": given,
        "contents": held,
        "receiver": held | given,
        "of contents": held | {id(INSIDE)},
        "of given": given,
        "contents and given": held | given,
        "copy": held,
    }[row.gives]


@pytest.mark.parametrize(("kind", "name", "row"), METHODS, ids=[f"{k}.{n}" for k, n, _ in METHODS])
def test_a_method_does_what_its_row_says(kind: str, name: str, row: Does) -> None:
    arguments = ARGUMENTS.get(name, ())
    if name == "update":
        arguments = ({"key": INSIDE},) if kind == "dict" else ([INSIDE],)
    if name == "pop" and kind == "dict":
        arguments = ("key", GIVEN)
    if arguments is None:
        return
    one = receiver(kind)
    before = list(one) if kind != "iterator" else None
    result = getattr(one, name)(*arguments)
    assert reached(result) <= allowed(row)
    if kind == "iterator":
        return
    kept = reached(one) - {id(HELD), id(OTHER)}
    assert kept <= {"": set(), "given": {id(GIVEN)}, "contents": {id(INSIDE)}}[row.keeps]
    assert row.writes or list(one) == before


def test_what_is_kept_is_found() -> None:
    """Shows that the tests above can fail: append() keeps its argument, and its row says so."""
    held = [HELD]
    held.append(GIVEN)
    assert id(GIVEN) in reached(held)
    assert does("list", "append").keeps == "given"  # type: ignore[union-attr]


BUILTINS = [(name, row) for row in ROWS if row.of == "builtin" for name in row.names.split()]


@pytest.mark.parametrize(("name", "row"), BUILTINS, ids=[n for n, _ in BUILTINS])
def test_a_builtin_does_what_its_row_says(name: str, row: Does) -> None:
    arguments: dict[str, tuple[object, ...]] = {
        **dict.fromkeys("list tuple set frozenset reversed iter enumerate zip all any len sorted".split(), ([INSIDE],)),
        "dict": ([(GIVEN, INSIDE)],),
        "max": (GIVEN, INSIDE),
        "min": (GIVEN, INSIDE),
        "sum": ([INSIDE], GIVEN),
        "next": (iter([INSIDE]), GIVEN),
        "map": (lambda x: x, [INSIDE]),
        "filter": (None, [INSIDE]),
        "bool": (GIVEN,),
        "repr": (GIVEN,),
        "str": ([GIVEN],),
        "print": (),
        "id": (GIVEN,),
        "hash": (GIVEN,),
        "callable": (GIVEN,),
        "isinstance": (GIVEN, int),
    }
    if name not in arguments:
        return
    result = getattr(builtins, name)(*arguments[name])
    deep = {id(GIVEN)} if name == "dict" else set()  # dict() unpacks pairs, and so looks two levels deep
    more = deep | ({id(INSIDE)} if row.gives in ("contents and given", "given") else set())
    assert reached(result) <= allowed(row) | more


def test_methods_that_containers_have_are_those_of_python() -> None:
    assert has("list", "append") and has("dict", "get") and has("dict", "move_to_end")
    assert not has("list", "get") and not has("tuple", "append") and not has("set", "cpu")
    named = {name for row in ROWS if row.of != "builtin" for name in row.names.split()}
    assert named == {name for _, name, _ in METHODS}


CALLS = {
    name: arguments
    for names, arguments in {
        "abs bin bool bytes chr float hash hex id int oct range repr round str ascii": "(3)",
        "all any dict enumerate frozenset iter len list reversed set sorted sum tuple zip": "([])",
        "type": "(3)", "super": "(bool, True)",
        "callable print": "(repr)", "complex format": "(1.5)", "hasattr": "(1, 'real')", "isinstance": "(1, int)",
        "issubclass": "(bool, int)", "ord": "('a')", "divmod pow max min slice": "(7, 2)", "next": "(iter([1]))",
        "filter map": "(str, [1])",
    }.items()
    for name in names.split()
}  # fmt: skip
"""Arguments for each builtin, except for those that read or open, and for exceptions."""


@pytest.mark.parametrize("name", sorted(CALLS.keys() & builtin_names()))
def test_what_a_builtin_makes(name: str) -> None:
    made = eval(name + CALLS[name])
    kinds = {
        "number": isinstance(made, (bool, int, float, complex)),
        "text": isinstance(made, (str, bytes)),
        "numbers": isinstance(made, range),
        "container": isinstance(made, (list, set, frozenset)),
        "tuple": isinstance(made, tuple),
        "mapping": isinstance(made, dict),
        "iterator": isinstance(made, Iterator),
        "class": isinstance(made, type),
        "access": not isinstance(made, type) and type(made) is super,
    }
    makes = does("builtin", name).makes  # type: ignore[union-attr]
    assert (
        kinds[makes] if makes else name in builtin_names(gives=("new", "contents and given")) or not any(kinds.values())
    )


@pytest.mark.parametrize("name", sorted(builtin_names(makes=("error", "foreign"))))
def test_errors_that_computations_raise(name: str) -> None:
    """The only exceptions that no computation raises are those of imports, of files and of the process."""
    error = getattr(builtins, name)
    assert issubclass(error, BaseException)
    outside = issubclass(error, (ImportError, KeyboardInterrupt, OSError))
    assert outside == (name in builtin_names(makes="foreign"))


@pytest.mark.parametrize("name", sorted(builtin_names(gives="of contents", calls=("", "key", "first of two"))))
def test_what_makes_pairs(name: str) -> None:
    given = [(1, 2)] if name == "dict" else [1]
    made = getattr(builtins, name)(given)
    elements = made.items() if isinstance(made, dict) else made
    assert all(isinstance(e, tuple) for e in elements) == (name in builtin_names(pairs=True))


def test_what_holds_what_a_function_returns() -> None:
    mapping = {name for name in ("filter", "map") if [*getattr(builtins, name)(lambda x: x + 5, [1])] == [6]}
    assert mapping == builtin_names(maps=True) and [*filter(lambda x: x + 5, [1])] == [1]


def test_what_operators_call() -> None:
    """A class that defines all of these methods sees each binary operator, from either side."""
    seen: list[str] = []

    def method(name: str) -> object:
        return lambda self, other: (seen.append(name), NotImplemented)[1]

    cls = type("Watched", (), {name: method(name) for name in OPERATOR_METHODS})
    for symbol in "+ - * @ / // % ** & | ^ << >> == != < <= > >= in".split():
        for text in (f"x {symbol} 1", f"1 {symbol} x") if symbol != "in" else ("1 in x",):
            with contextlib.suppress(TypeError):
                eval(text, {"x": cls()})
    assert {*seen} == OPERATOR_METHODS


def test_which_operators_make_containers() -> None:
    """Of a container and anything else, from either side."""
    others = [
        [1],
        (1,),
        {1},
        {1: 1},
        deque([1]),
        iter([1]),
        "a",
        1,
        1.0,
        True,
        np.ones(1),
        np.float32(1),
        torch.ones(1),
    ]
    kinds: dict[str, list[object]] = {
        "list": [[1]], "tuple": [(1,)], "set": [{1}], "dict": [{1: 1}, Counter("a"), OrderedDict(a=1)],
        "deque": [deque([1])],
    }  # fmt: skip
    for kind, ours in kinds.items():
        for symbol in "+ - * @ / // % ** & | ^ << >>".split():
            expression = ast.parse(f"x {symbol} y", mode="eval").body
            assert isinstance(expression, ast.BinOp)
            made = False
            for x, y in (pair for o in ours for other in (*others, *ours) for pair in ((o, other), (other, o))):
                with contextlib.suppress(Exception):
                    found = eval(f"x {symbol} y", {"x": copy.copy(x), "y": copy.copy(y)})
                    made |= isinstance(found, type(ours[0]))
            if made:
                assert combines(kind, expression.op), (kind, symbol)
            elif kind != "dict":  # what Counter and OrderedDict have counts for all
                assert not combines(kind, expression.op), (kind, symbol)


def test_which_containers_numpy_takes_apart() -> None:
    made = {
        "list": [1.0],
        "tuple": (1.0,),
        "set": {1.0},
        "dict": {1.0: 1},
        "deque": deque([1.0]),
        "iterator": iter([1.0]),
    }
    assert {*made} == CONTAINERS
    assert {kind for kind, one in made.items() if np.array(one).dtype != object} == {*DIMENSIONS}


def test_what_calls_the_first_of_two() -> None:
    called: list[object] = []
    assert list(iter(lambda: called.append(1) or len(called), 3)) == [1, 2]  # type: ignore[func-returns-value]
    assert len(called) == 3 and [*iter([1])] == [1]
    assert builtin_names(calls="first of two") == {"iter"}


def _goes_through(name: str) -> bool:
    """Whether a builtin iterates over its argument, at once or when its result is consumed."""
    seen = []

    class Watched(list[object]):
        def __iter__(self) -> Iterator[object]:
            seen.append(self)
            return super().__iter__()

        def __reversed__(self) -> Iterator[object]:
            seen.append(self)
            return super().__reversed__()

    given = Watched([("a", 1)]) if name == "dict" else Watched([1])
    call = getattr(builtins, name)
    try:
        call(*(str, given) if name in ("map", "filter") else (iter(given),) if name == "next" else (given,))
    except TypeError:
        return False
    return bool(seen)


@pytest.mark.parametrize("name", sorted(CALLS.keys() & builtin_names()))
def test_what_goes_through_what_it_is_given(name: str) -> None:
    if name not in ("bytes", "print", "repr", "str", "ascii", "format"):  # these iterate in order to show or copy it
        assert (name in builtin_names(takes=True)) == _goes_through(name)


class Waits(TorchDispatchMode):
    """Counts how often a tensor's value is requested."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def test_what_makes_a_number_of_a_tensor_reads_it() -> None:
    for name in builtin_names(makes="number", takes=False) & {
        "bool",
        "complex",
        "float",
        "int",
        "callable",
        "hash",
        "id",
    }:
        tensor = torch.tensor(1.5)
        with Waits() as waits:
            getattr(builtins, name)(tensor)
        assert (waits.count > 0) == (name in builtin_names(converts=True)), name


@pytest.mark.parametrize("name", "abs callable frozenset hash id iter len list pow reversed tuple type zip".split())
def test_what_leaves_the_values_of_tensors_on_the_device(name: str) -> None:
    with Waits() as waits:
        getattr(builtins, name)(torch.ones(2), *((2,) if name == "pow" else ()))
    assert not waits.count


@pytest.mark.parametrize("name", sorted(builtin_names(calls=("given", "key"))))
def test_what_is_called_back(name: str) -> None:
    row = does("builtin", name)
    called: list[object] = []
    function = getattr(builtins, name)
    if row is not None and row.calls == "key":
        function([1, 2], key=lambda x: (called.append(x), x)[1])
    else:
        list(function(called.append, [1, 2]))
    assert called == [1, 2]


def test_builtins_that_depend_on_the_process() -> None:
    """String hashes differ between processes, and with them the order of sets."""
    calls = {n: n + CALLS[n] for n in builtin_names(makes=("number", "text", "container")) & CALLS.keys()}
    calls |= {"hash": "hash('a')", "set": "[*set('abcdefgh')]", "frozenset": "[*frozenset('abcdefgh')]"}
    calls |= {"id": "id(object())", "dict": "[*dict.fromkeys('abcdefgh')]", "sorted": "sorted('abcdefgh')"}
    code = f"for call in {[*calls.values()]}: print(eval(call))"
    seen = [
        subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True)
        for seed in ("1", "2", "3")
    ]
    lines = zip(calls, *(s.stdout.splitlines() for s in seen), strict=True)
    assert {name for name, *results in lines if len({*results}) > 1} == builtin_names(varies=True)


def test_what_of_math_is_a_float() -> None:
    floats = {"acos", "cos", "copysign", "fmod", "inf", "log", "pi", "pow", "radians", "sqrt"}
    others = {"ceil", "comb", "floor", "gcd", "isnan", "prod", "trunc", "no_such_name", "__name__"}
    assert all(map(math_gives_float, floats))
    assert not any(map(math_gives_float, others))


EXCEPTIONS = sorted(name for name in dir(builtins) if is_exception(name))


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_an_exception_keeps_its_arguments_and_calls_nothing(name: str) -> None:
    called: list[str] = []

    def method(name: str) -> Callable[..., object]:
        return lambda self, *given: called.append(name)

    shown = ("__str__", "__repr__", "__format__", "__len__", "__iter__", "__eq__", "__call__", "__bool__", "__int__")
    argument = type("Argument", (), {name: method(name) for name in shown})()
    try:
        made = getattr(builtins, name)(argument)
        assert made.args == (argument,)
        raise made
    except TypeError as error:
        assert "Unicode" in name or "Group" in name or error is made, "which check what they are given"
    except BaseException as caught:
        assert caught is made
    assert called == []


def test_what_is_no_exception() -> None:
    assert {"ValueError", "KeyboardInterrupt", "OSError"} < {*EXCEPTIONS}
    assert not any(map(is_exception, ("print", "type", "object", "no_such_name")))
