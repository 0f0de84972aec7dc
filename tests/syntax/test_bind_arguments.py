"""Arguments are bound to parameters as Python binds them, or the result is None."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.syntax.query import Function, bind_arguments, first_parameter

NAMES = st.sampled_from("abcdefg")


@st.composite
def signatures(draw: st.DrawFn) -> str:
    """Parameters of every kind."""
    names = draw(st.lists(NAMES, max_size=6, unique=True))
    positional = draw(st.integers(0, len(names)))
    only = draw(st.integers(0, positional))
    defaults = draw(st.integers(0, positional))
    parts = [f"{n}={i}" if i >= positional - defaults else n for i, n in enumerate(names[:positional])]
    if only:
        parts.insert(only, "/")
    keywords = [f"{n}={n!r}" if draw(st.booleans()) else n for n in names[positional:]]
    if draw(st.booleans()):
        parts.append("*rest")
    elif keywords:
        parts.append("*")
    parts += keywords
    if draw(st.booleans()):
        parts.append("**others")
    return ", ".join(parts)


@st.composite
def calls(draw: st.DrawFn) -> str:
    """The arguments of a call."""
    values = [f"{10 + i}" for i in range(draw(st.integers(0, 5)))]
    values += [f"{n}={20 + i}" for i, n in enumerate(draw(st.lists(NAMES, max_size=4, unique=True)))]
    return ", ".join(values)


def parsed(signature: str, call: str) -> tuple[ast.FunctionDef, ast.Call]:
    tree = ast.parse(f"def f({signature}):\n    pass\n\n\nf({call})")
    function, stmt = tree.body
    assert isinstance(function, ast.FunctionDef) and isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Call)
    return function, stmt.value


def expected(signature: str, call: str, *first: Any) -> dict[str, Any] | None:
    """What Python binds; None if it raises or fills `*rest` or `**others`."""
    space: dict[str, Any] = {}
    exec(f"def f({signature}): pass\ndef given(*args, **named): return args, named\nhow = given({call})", space)
    args, named = space["how"]
    try:
        bound = inspect.signature(space["f"]).bind(*first, *args, **named)
    except TypeError:
        return None
    if bound.arguments.get("rest") or bound.arguments.get("others"):
        return None
    bound.apply_defaults()
    return {name: value for name, value in bound.arguments.items() if name not in ("rest", "others")}


@settings(max_examples=400, deadline=None, derandomize=True)
@given(signatures(), calls())
def test_as_python_binds_them(signature: str, call: str) -> None:
    function, node = parsed(signature, call)
    bound, wanted = bind_arguments(function, node), expected(signature, call)
    assert (bound is None) == (wanted is None)
    if bound is not None:
        assert {n: ast.literal_eval(v) for n, v in bound.values.items()} == wanted
        order = [*node.args, *(k.value for k in node.keywords)]
        assert list(bound.given.values()) == order, "in the order of evaluation"
        assert all(bound.parameter_of(v) == name for name, v in bound.given.items())


@settings(max_examples=200, deadline=None, derandomize=True)
@given(signatures(), calls())
def test_an_object_is_the_first_argument(signature: str, call: str) -> None:
    function, node = parsed(signature, call)
    bound = bind_arguments(function, node, ast.Constant("object"))
    wanted = expected(signature, call, "object")
    values = None if bound is None else {n: ast.literal_eval(v) for n, v in bound.values.items()}
    assert values == wanted


@pytest.mark.parametrize("call", ["*values", "1, *values", "**options", "a=1, **options"])
def test_spread_arguments_are_unknown(call: str) -> None:
    assert bind_arguments(*parsed("a=1, b=2, *rest, **others", call)) is None


def method(decorator: str, parameters: str) -> Function:
    function = ast.parse(f"{decorator}\ndef f({parameters}):\n    pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    return function


def test_methods() -> None:
    call = parsed("", "1")[1]
    of_object, of_class, static = (
        method(*m) for m in (("", "self, /, x"), ("@classmethod", "cls, x"), ("@staticmethod", "x"))
    )
    for function, first in ((of_object, "self"), (of_class, "cls"), (static, None)):
        bound = bind_arguments(function, call, call.func)
        assert bound is not None
        assert list(bound.given) == [*([first] if first else []), "x"]
        assert first_parameter(function) == first
    assert first_parameter(method("", "*, x")) is None


def test_functions_without_a_name() -> None:
    lambda_ = ast.parse("lambda x, *, y=2: 0", mode="eval").body
    assert isinstance(lambda_, ast.Lambda)
    bound = bind_arguments(lambda_, parsed("", "1")[1])
    assert bound is not None and list(bound.given) == ["x"] and list(bound.defaults) == ["y"]


def test_one_value_for_two_parameters() -> None:
    function, call = parsed("a, b", "1, 2")
    call.args[1] = call.args[0]
    bound = bind_arguments(function, call)
    assert bound is not None and bound.parameter_of(call.args[0]) is None
