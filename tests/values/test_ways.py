"""Whether the world knows all code that runs and all that unknown code gets, in whatever way the script holds it."""

from __future__ import annotations

import ast
import contextlib
import io
import random
import signal
from collections.abc import Iterator
from itertools import cycle
from textwrap import indent
from typing import Any

import numpy as np
import pytest
import torch
from ways_of_holding import ANSWERS, CALLING, GIVING, HOLDING, USING

from transformer.recognition.history import History
from transformer.recognition.roles import Roles
from transformer.syntax.tree import Tree
from transformer.values.effects.world import World

IMPORTS = """\
import asyncio, atexit, collections, concurrent.futures, contextlib, copy, dataclasses, enum, functools, heapq, inspect
import itertools, math, multiprocessing.pool, operator, pickle, queue, threading, types, typing, weakref
import numpy as np
import torch
from torch import nn
"""
UPDATE = """
net = nn.Linear(2, 2)
optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
def update():
{body}
update()
"""
OUTSIDE = """\
import outside
found = outside.find()
class G:
    x = outside.x
    def __init__(self):
        self.y = outside.x
    @property
    def p(self):
        return self.y
"""
UNKNOWN_THINGS = ["outside.x", "outside.f()", "found", "outside.x.y", "G.x", "G().y", "G().p", "found['x']", "outside"]
STEP = """
CALLED = []
def step(*given, **named):
    CALLED.append(1)
    return 1
class S:
    m = step
    def __init__(self):
        self.s = step
    def __call__(self, *given):
        return step()
    def __iter__(self):
        return iter([step])
    def __getitem__(self, i):
        return step
    def keys(self):
        return ["a"]
    def __add__(self, other):
        return step
    __radd__ = __sub__ = __mul__ = __matmul__ = __and__ = __or__ = __lt__ = __add__
    def __neg__(self):
        return step
    def __enter__(self):
        return step
    def __exit__(self, *given):
        pass
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return step
"""
THINGS = [
    "step", "[step]", "[[step]]", "{'a': step, 'k': step}", "S()", "S", "lambda *a: step", "(step, step)",
    "[(step, step)]", "[{'a': step}]", "types.SimpleNamespace(y=step, a=step)", "iter([step])",
    "collections.deque([step])", "functools.partial(step)", "S().m", "np.array([step, step])", "staticmethod(step)",
]  # fmt: skip
"""Holders of the script's function `step`."""
SECONDS = 10
"""The longest that a script may run."""


@pytest.fixture(autouse=True)
def same_generators() -> Iterator[None]:
    """Scripts that run here draw and seed; other tests shall not notice."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])


def world(before: str, body: str) -> tuple[Tree, World]:
    tree = Tree(IMPORTS + before + UPDATE.replace("{body}", indent(body, "    ")))
    return tree, World(Roles(tree, History()))


def function(tree: Tree, name: str) -> ast.FunctionDef:
    return next(f for f in tree.of(ast.FunctionDef) if f.name == name)


@pytest.mark.parametrize(("way", "thing"), [*zip(HOLDING, cycle(UNKNOWN_THINGS), strict=False)])
def test_what_is_unknown_is_unknown_however_it_is_held(way: str, thing: str) -> None:
    tree, seen = world(OUTSIDE, f"{way.replace('<x>', thing)}\nf(net)")
    assert seen.functions_run(function(tree, "update")) is None


@pytest.mark.parametrize(("way", "thing"), [*zip(GIVING, cycle(UNKNOWN_THINGS), strict=False)])
def test_unknown_code_gets_what_it_is_given(way: str, thing: str) -> None:
    tree, seen = world(OUTSIDE, f"f = {thing}\n{way}")
    made = next(a.value for a in tree.of(ast.Assign) if ast.unparse(a.targets[0]) == "net")
    assert not seen.is_known(seen.of(made))


def drawn(seed: int, count: int) -> Iterator[str]:
    draw = random.Random(seed)
    for _ in range(count):
        way, thing, call = draw.choice(HOLDING), draw.choice(THINGS), draw.choice(CALLING)
        yield f"{way.replace('<x>', thing)}\n{call}"


@contextlib.contextmanager
def in_time() -> Iterator[None]:
    """Stop what takes too long."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def calls_step(body: str, before: str = STEP) -> bool:
    """Whether a script with this body of update() calls step(); errors end it, as most bodies make no sense."""
    names: dict[str, Any] = {"__name__": "script"}
    try:
        code = compile(IMPORTS + before + UPDATE.replace("{body}", indent(body, "    ")), "script", "exec")
        with contextlib.redirect_stdout(io.StringIO()), in_time():
            exec(code, names)
    except Exception:
        pass
    return bool(names.get("CALLED"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("seed", "count"), [(0, 250), *(pytest.param(s, 1000, marks=pytest.mark.slow) for s in range(1, 7))]
)
def test_a_function_that_runs_is_known_to_run(seed: int, count: int) -> None:
    called, wrong = 0, []
    for body in drawn(seed, count):
        if not calls_step(body):
            continue
        called += 1
        tree, seen = world(STEP, body)
        run = seen.functions_run(function(tree, "update"))
        if run is not None and function(tree, "step") not in run:
            wrong.append(body)
    assert not wrong
    assert called > count / 10


ONE = """
import bisect, json, random, sys, time, warnings, io
CALLED = []
def step():
    CALLED.append(1)
class P:{decorator}
    def {method}(self, *given):
        step()
        {answer}
"""


def of_one(method: str) -> str:
    """A class with this method, which calls step()."""
    decorator = "\n    @classmethod" if method in ("__class_getitem__", "__init_subclass__") else ""
    answer = "raise StopIteration" if method == "__next__" else f"return {ANSWERS[method]}"
    return ONE.replace("{method}", method).replace("{answer}", answer).replace("{decorator}", decorator)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("use", USING)
def test_methods_that_python_calls_are_known_to_run(use: str) -> None:
    body = f"p = P()\n{use}"
    for method in ANSWERS:
        if calls_step(body, of_one(method)):
            tree, seen = world(of_one(method), body)
            run = seen.functions_run(function(tree, "update"))
            assert run is None or function(tree, "step") in run, method
