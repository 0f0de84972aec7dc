"""Lookups by name reach exactly what their rows say."""

import builtins
import copy
import gc
import importlib
import inspect
import io
import logging
import operator
import sys
import threading
import traceback
from types import FrameType, FunctionType, ModuleType
from typing import Any

import pytest

from transformer.facts.lookups import ANSWERING, ROWS, Lookup, lookups

OF_MODULE = "a variable of this module"
MODULES: dict[str, ModuleType] = {
    module.__name__: module for module in (sys, inspect, importlib, gc, threading, traceback)
}


def _frame() -> FrameType:
    return sys._getframe(1)


def _of_caller(name: str) -> Any:
    """What a builtin gives a function that calls it, by a name that is written nowhere."""
    of_caller = "a variable of this function"
    code = {
        "eval": "eval('of_' + 'caller')",
        "locals": "locals()['of_' + 'caller']",
        "vars": "vars()['of_' + 'caller']",
    }
    code |= {"dir": "'of_caller' in dir() and of_caller", "exec": "exec('found.append(of_' + 'caller)') or found[0]"}
    return eval(code[name], globals(), {"of_caller": of_caller, "text": "of_caller", "found": []})


@pytest.mark.parametrize("name", sorted(lookups(of="builtin", where=("caller", "both"))))
def test_variables_of_the_caller(name: str) -> None:
    assert _of_caller(name) == "a variable of this function"


@pytest.mark.parametrize("name", sorted(lookups(of="builtin", where=("module", "both"))))
def test_variables_of_a_module(name: str) -> None:
    text = "OF_" + "MODULE"
    code = {
        "globals": "globals()[text]",
        "eval": "eval(text)",
        "exec": "exec('found.append(' + text + ')') or found[0]",
        "__import__": "getattr(__import__(__name__), text)",
        "__builtins__": "(__builtins__ if type(__builtins__) is dict else vars(__builtins__))['globals']()[text]",
    }
    assert eval(code[name], {**globals(), "text": text, "found": [], "__name__": __name__}) == OF_MODULE


def test_globals_are_not_those_of_a_function() -> None:
    of_caller = 1
    assert "of_caller" not in globals() and of_caller
    assert "globals" not in lookups(where=("caller", "both"))


class Thing:
    """An object with a method."""

    def __init__(self) -> None:
        self.held = "held"

    def method(self) -> str:
        return "found"


def test_attributes_by_their_names() -> None:
    thing, name = Thing(), "he" + "ld"
    assert getattr(thing, name) == operator.attrgetter(name)(thing) == "held" and hasattr(thing, name)
    assert operator.methodcaller("meth" + "od")(thing) == "found"
    assert lookups(finds="attributes", of="library", sets=False) == {"operator", "attrgetter", "methodcaller"}


@pytest.mark.parametrize("name", sorted(lookups(sets=True)))
def test_attributes_are_set_by_their_names(name: str) -> None:
    thing, text = Thing(), "he" + "ld"
    {
        "setattr": lambda: setattr(thing, text, 1),
        "delattr": lambda: delattr(thing, text),
        "__setattr__": lambda: thing.__setattr__(text, 1),
        "__delattr__": lambda: thing.__delattr__(text),
        "__dict__": lambda: thing.__dict__.update({text: 1}),
    }[name]()
    assert getattr(thing, "held", None) != "held"


@pytest.mark.parametrize("name", sorted(lookups(of=("attribute", "inspect"), finds="methods")))
def test_methods_are_shown(name: str) -> None:
    shown = {
        "__dict__": lambda: "method" in Thing.__dict__,
        "__class__": lambda: "method" in vars(Thing().__class__),
        "__dir__": lambda: "method" in Thing().__dir__(),
        "mro": lambda: "method" in vars(Thing.mro()[0]),
        "__base__": lambda: "method" in vars(type("Small", (Thing,), {}).__base__),
        "__bases__": lambda: "method" in vars(type("Small", (Thing,), {}).__bases__[0]),
        "__mro__": lambda: "method" in vars(Thing.__mro__[0]),
        "__subclasses__": lambda: "method" in vars(next(c for c in object.__subclasses__() if c is Thing)),
        "getmembers": lambda: "method" in dict(inspect.getmembers(Thing())),
        "getattr_static": lambda: isinstance(inspect.getattr_static(Thing(), "method"), FunctionType),
        "getsource": lambda: "def method" in inspect.getsource(Thing),
    }
    assert shown[name]()


def _gives_variables(name: str) -> bool:
    of_caller, frame = "a variable of this function", _frame()

    def inner() -> object:
        return of_caller

    def generator() -> Any:
        yield of_caller

    try:
        raise ValueError
    except ValueError as error:
        trace = error.__traceback__
    assert trace is not None
    return {
        "__globals__": lambda: inner.__globals__["OF_MODULE"] == OF_MODULE,  # type: ignore[attr-defined]
        "f_globals": lambda: frame.f_globals["OF_MODULE"] == OF_MODULE,
        "f_locals": lambda: frame.f_locals["of_caller"] == of_caller,
        "f_back": lambda: frame.f_back is not None,
        "f_builtins": lambda: frame.f_builtins["len"] is len,
        "cell_contents": lambda: inner.__closure__[0].cell_contents == of_caller,  # type: ignore[attr-defined]
        "gi_frame": lambda: generator().gi_frame.f_locals["of_caller"] == of_caller,
        "tb_frame": lambda: trace.tb_frame.f_locals["of_caller"] == of_caller,
    }[name]()


@pytest.mark.parametrize("name", sorted(lookups(of="attribute", finds="variables")))
def test_attributes_that_lead_to_variables(name: str) -> None:
    assert _gives_variables(name)


@pytest.mark.parametrize("row", [row for row in ROWS if row.of in MODULES], ids=lambda row: row.names)
def test_modules_have_what_is_said_of_them(row: Lookup) -> None:
    assert all(hasattr(MODULES[row.of], name) for name in row.names.split())


def test_every_builtin_is_one() -> None:
    assert all(hasattr(builtins, n) or n == "__builtins__" for n in lookups(of="builtin"))


@pytest.mark.parametrize("name", sorted(lookups(of="special", finds="copies")))
def test_what_is_asked_for_a_copy(name: str) -> None:
    asked = []

    def answer(self: Any, *given: Any) -> Any:
        asked.append(name)
        default = {
            "__new__": lambda: object.__new__(self),
            "__getstate__": lambda: {"x": 1},
            "__setstate__": lambda: None,
        }
        return default.get(name, lambda: "copied" if "reduce" in name else None)()

    cls = type("Asked", (), {name: answer})
    made = cls()
    made.x = 1
    asked.clear()
    for copied in (copy.copy, copy.deepcopy):
        copied(made)
    assert asked


@pytest.mark.parametrize("name", sorted(ANSWERING))
def test_what_answers_for_any_name(name: str) -> None:
    asked = []

    class Meta(type):
        def __instancecheck__(cls, other: object) -> bool:
            asked.append("__instancecheck__")
            return True

    def answer(self: Any, *given: Any) -> Any:
        asked.append(name)
        return []

    cls = Meta("Asked", (), {} if name == "__instancecheck__" else {name: answer})
    made = cls()
    made.a = 1
    dir(made), getattr(made, "b", 0), isinstance(1, cls)
    assert name in asked


def _function_shown(name: str) -> Any:
    """What something that shows the running functions shows of this one."""
    seen: list[object] = []
    logger = logging.Logger("shows")
    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(logging.Formatter("%(funcName)s"))
    logger.addHandler(handler)

    def watch(frame: FrameType, event: str, given: object) -> None:
        seen.append(frame.f_code.co_name)

    def profiled(module: Any) -> object:
        thread = threading.Thread(target=lambda: None)
        getattr(module, name)(watch)
        try:
            thread.start()
            (lambda: None)()
        finally:
            getattr(module, name)(None)
        thread.join()
        return seen

    def generator() -> Any:
        yield sys._getframe(1).f_code.co_name

    try:
        raise ValueError
    except ValueError as error:
        raised, trace = error, error.__traceback__
        now = inspect.trace()
    assert trace is not None
    frame = sys._getframe()
    text = io.StringIO()
    return {
        "_current_frames": lambda: sys._current_frames()[threading.get_ident()].f_back,
        "_getframe": lambda: sys._getframe(1),
        "setprofile": lambda: profiled(threading),
        "settrace": lambda: profiled(threading),
        "currentframe": lambda: inspect.currentframe(),
        "getinnerframes": lambda: inspect.getinnerframes(trace),
        "getouterframes": lambda: inspect.getouterframes(frame),
        "stack": lambda: inspect.stack(),
        "trace": lambda: now,
        "f_back": lambda: frame.f_back,
        "gi_frame": lambda: generator().gi_frame,
        "tb_frame": lambda: trace.tb_frame,
        "StackSummary": lambda: traceback.StackSummary.extract(traceback.walk_stack(None)),
        "TracebackException": lambda: traceback.TracebackException.from_exception(raised).stack,
        "extract_stack": lambda: traceback.extract_stack(),
        "extract_tb": lambda: traceback.extract_tb(trace),
        "format_stack": lambda: traceback.format_stack(),
        "print_stack": lambda: traceback.print_stack(file=text) or text.getvalue(),
        "walk_stack": lambda: list(traceback.walk_stack(None)),
        "walk_tb": lambda: list(traceback.walk_tb(trace)),
        "findCaller": lambda: logger.findCaller(),
        "funcName": lambda: logger.warning("x") or handler.stream.getvalue(),
        "stack_info": lambda: logger.warning("x", stack_info=True) or handler.stream.getvalue(),
        "stacklevel": lambda: logger.warning("x", stacklevel=2) or handler.stream.getvalue(),
    }[name]()


@pytest.mark.parametrize("name", sorted(lookups(frames=True)))
def test_running_functions_are_shown(name: str) -> None:
    shown = str(_function_shown(name))
    assert any(one in shown for one in ("_function_shown", "<lambda>", "generator", "test_running_functions"))


@pytest.mark.parametrize("name", sorted(lookups(of="record")))
def test_fields_of_a_log_that_show_its_file(name: str) -> None:
    record = logging.Logger("shows").makeRecord("shows", logging.INFO, __file__, 1, "", (), None)
    shown = [style.format(name) for style in ("%({})s", "{{{}}}")]
    texts = [logging.Formatter(text, style=text[0]).format(record) for text in shown]  # type: ignore[arg-type]
    assert all(text in __file__ and "test_lookups" in text for text in texts)


@pytest.mark.parametrize("name", sorted(lookups(classes=True)))
def test_classes_show_their_module(name: str) -> None:
    small = type("Small", (Thing,), {})
    found = {"__class__": lambda: small().__class__}.get(name, lambda: getattr(small, name))()
    shown = str(
        Thing.__subclasses__() if name == "__subclasses__" else found() if callable(found) and name == "mro" else found
    )
    assert __name__ in shown
