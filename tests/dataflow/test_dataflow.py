"""Liveness, definite assignment and reaching definitions: what random programs do when they run must be allowed for.

And by hand, that the answers are no larger than they need be, as an analysis that says "everything" would pass too.
"""

from __future__ import annotations

import ast
import random
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_programs import NAMES, Interpreter, program

from transformer.dataflow.access import access, free_names
from transformer.dataflow.assignment import Assignment
from transformer.dataflow.liveness import Liveness, exposed
from transformer.dataflow.reaching import Reaching

PROGRAMS = settings(max_examples=150, deadline=None, derandomize=True)
PATHS = 12


def parsed(text: str) -> list[ast.stmt]:
    function = ast.parse(f"def scope():\n{textwrap.indent(textwrap.dedent(text), '    ')}").body[0]
    assert isinstance(function, ast.FunctionDef)
    return function.body


@PROGRAMS
@given(st.integers(0, 10**9))
def test_what_is_read_later_is_live(seed: int) -> None:
    chance = random.Random(seed)
    text = program(chance)
    body = parsed(text)
    live = Liveness.of(body).after
    for _ in range(PATHS):
        later: set[str] = set()
        for event in reversed(Interpreter(body, chance).events):
            if event.kind == "read":
                later.add(event.name)
            elif event.kind in ("bind", "unbind"):
                later.discard(event.name)
            elif event.kind == "done":
                assert later <= live[event.stmt], f"after {ast.unparse(event.stmt)!r} of\n{text}"
        assert later <= exposed(body), text


@PROGRAMS
@given(st.integers(0, 10**9))
def test_what_is_said_to_be_bound_is_bound(seed: int) -> None:
    chance = random.Random(seed)
    text = program(chance)
    body = parsed(text)
    assignment = Assignment()
    assignment.after(body)
    for _ in range(PATHS):
        bound: set[str] = set()  # none at first, as far as the analysis knows
        for event in Interpreter(body, chance).events:
            if event.kind == "bind":
                bound.add(event.name)
            elif event.kind == "unbind":
                bound.discard(event.name)
            elif event.kind == "at":
                missing = {n for n in NAMES if n in assignment.before[event.stmt]} - bound
                assert not missing, f"before {ast.unparse(event.stmt)!r} of\n{text}"


@pytest.mark.slow
@PROGRAMS
@given(st.integers(0, 10**9))
def test_the_last_binding_reaches(seed: int) -> None:
    chance = random.Random(seed)
    text = program(chance)
    body = parsed(text)
    reaching = Reaching(body)
    for _ in range(PATHS):
        last: dict[str, ast.stmt | None] = dict.fromkeys(NAMES)
        for event in Interpreter(body, chance).events:
            if event.kind in ("bind", "unbind") and event.name in last:
                last[event.name] = event.stmt
            elif event.kind in ("at", "test"):
                for name, stmt in last.items():
                    where = f"{name} before {ast.unparse(event.stmt)!r} of\n{text}"
                    assert stmt in reaching.before(name, event.stmt), where


@pytest.mark.parametrize(
    ("text", "stmt", "expected"),
    [
        ("a = 1\nb = 2\nf(a)", 0, "fa"),
        ("a = 1\na = 2\nf(a)", 0, "f"),
        ("for i in x:\n    a = i\nf(a)", 0, "fa"),
        ("a = 1\nfor i in x:\n    a = i\n    f(a)", 0, "fx"),
        ("a = 1\nwhile x:\n    a = 2\nf(a)", 0, "afx"),
        ("a = 1\nreturn b\nf(a)", 0, "b"),
        ("a = 1\nraise b\nf(a)", 0, "b"),
    ],
)
def test_no_more_is_live_than_is_read(text: str, stmt: int, expected: str) -> None:
    body = parsed(text)
    assert Liveness.of(body).after[body[stmt]] == set(expected)


def test_loops_that_run_bind_what_they_hold() -> None:
    body = parsed("a = 1\nfor i in x:\n    a = i\nf(a)")
    loop = body[1]
    assert "a" in Liveness.of(body).after[body[0]]
    assert "a" not in Liveness.of(body, at_least_once=[loop]).after[body[0]]
    body = parsed("for i in x:\n    a = i\nf(a)")
    plain, once = Assignment(), Assignment([body[0]])
    plain.after(body)
    once.after(body)
    assert ("a" in plain.before[body[1]], "a" in once.before[body[1]]) == (False, True)


def test_what_stands_below_a_jump_binds_whatever_is_asked() -> None:
    body = parsed("if x:\n    a = 1\nelse:\n    return\n    b = a\nf(a)")
    branch = body[0]
    assert isinstance(branch, ast.If)
    assignment = Assignment()
    assignment.after(body)
    assert "a" in assignment.before[branch.orelse[1]]
    assert ("a" in assignment.before[body[1]], "b" in assignment.before[body[1]]) == (True, False)


def test_a_body_without_its_loop() -> None:
    loop = parsed("for i in x:\n    if i:\n        continue\n    a = i")[0]
    assert isinstance(loop, ast.For)
    assert Assignment().after(loop.body) == {"a"}
    assert exposed(loop.body) == {"i"}


def test_a_binding_that_is_overwritten_does_not_reach() -> None:
    body = parsed("a = 1\nif x:\n    a = 2\nelse:\n    a = 3\nf(a)")
    branch = body[1]
    assert isinstance(branch, ast.If)
    assert set(Reaching(body).before("a", body[2])) == {branch.body[0], branch.orelse[0]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(x):\n    y = x + z\n    return y", "z"),
        ("def f(x=w):\n    return x", ""),
        ("def f():\n    global g\n    g = 1", "g"),
        ("def f(*a, **k):\n    return lambda b: (a, b, c)", "c"),
        ("def f():\n    return [x for x in x if x]", "x"),
        ("def f():\n    return {x: y for x in z for y in x}", "z"),
    ],
)
def test_free_names(text: str, expected: str) -> None:
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert free_names(function) == set(expected)


@pytest.mark.parametrize(
    ("text", "reads", "binds"),
    [
        ("x += y", "xy", "x"),
        ("x[i] = y", "xiy", ""),
        ("import a.b, c.d as e", "", "ae"),
        ("from a import b as c", "", "c"),
        ("class A(B, metaclass=M):\n    x = y", "BMy", "A"),
        ("@d\ndef f(a=w, *, k=v):\n    return g", "dwvg", "f"),
        ("f = lambda a=w, *b, k=v: a + b + k + g", "wvg", "f"),
        ("y = [a for a in b if (c := a)]", "b", "yc"),
        ("if a:\n    b = c", "a", ""),
        ("with a as b:\n    c", "a", "b"),
        ("for a in b:\n    c", "b", "a"),
        ("match a:\n    case b:\n        c", "a", ""),
        ("try:\n    a\nexcept b:\n    c", "", ""),
    ],
)
def test_what_a_statement_reads_and_binds(text: str, reads: str, binds: str) -> None:
    own = access(ast.parse(text).body[0])
    assert (own.reads, own.binds) == (set(reads), set(binds))
