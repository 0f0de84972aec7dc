"""What the rows say of Python's builtins and containers is what calls of them do."""

import builtins
import gc
from collections import deque

import pytest

from transformer.facts.python import CONTAINERS, ROWS, Does, does, has


class Marker:
    """An object that is told from others."""

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
    """Which markers can be got at through an object."""
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
    "symmetric_difference": ([INSIDE],),
    "issubset": ([INSIDE],),
    "issuperset": ([INSIDE],),
    "isdisjoint": ([INSIDE],),
    "setdefault": ("key", GIVEN),
    "get": ("key", GIVEN),
    "move_to_end": None,  # of OrderedDict alone
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
    """The markers that a call's result may lead to, by its row."""
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
    """The tests above can fail: with a row that says less than append() does, they would."""
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
    deep = {id(GIVEN)} if name == "dict" else set()  # pairs are taken apart twice
    more = deep | ({id(INSIDE)} if row.gives in ("contents and given", "given") else set())
    assert reached(result) <= allowed(row) | more


def test_methods_that_containers_have_are_those_of_python() -> None:
    assert has("list", "append") and has("dict", "get") and has("dict", "move_to_end")
    assert not has("list", "get") and not has("tuple", "append") and not has("set", "cpu")
    named = {name for row in ROWS if row.of != "builtin" for name in row.names.split()}
    assert named == {name for _, name, _ in METHODS}
