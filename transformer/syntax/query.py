"""Which argument of a call goes to which parameter of the function that it calls."""

from __future__ import annotations

import ast
from dataclasses import dataclass

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Arguments:
    """The parameters of a function under a call: each is in one of the two."""

    given: dict[str, ast.expr]
    """What the call gives, in the order in which it is evaluated."""
    defaults: dict[str, ast.expr]
    """The defaults of the others, which were evaluated where the function was defined."""

    @property
    def values(self) -> dict[str, ast.expr]:
        """All of them."""
        return self.given | self.defaults

    def parameter_of(self, argument: ast.expr) -> str | None:
        """The parameter that an argument of the call is given for; None where there is none, or more than one."""
        found = [name for name, value in self.given.items() if value is argument]
        return found[0] if len(found) == 1 else None


def bind_arguments(function: Function, call: ast.Call, receiver: ast.expr | None = None) -> Arguments | None:
    """Bind a call's arguments as Python does (`inspect.Signature.bind`), from the text alone.

    `*rest` and `**rest` of the function are left out where nothing goes into them. Decorators are the caller's matter,
    but for `staticmethod` and `classmethod`.

    Args:
        function: the function of the call, or `__init__` of the class.
        call: the call.
        receiver: where a method is called on an object, what stands for the object, which is the first argument;
            it is left out of a static method.

    Returns:
        None where arguments are spread out of a container (`*values`, `**options`), go into `*rest` or `**rest`, or
        where Python would raise TypeError.
    """
    own = function.args
    if any(isinstance(value, ast.Starred) for value in call.args) or any(k.arg is None for k in call.keywords):
        return None
    first = [receiver] if receiver is not None and not is_static(function) else []
    values = [*first, *call.args]
    positional = [*own.posonlyargs, *own.args]
    if len(values) > len(positional):
        return None
    given = {p.arg: value for p, value in zip(positional, values, strict=False)}
    by_name = {p.arg for p in (*own.args, *own.kwonlyargs)}
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg not in by_name or keyword.arg in given:
            return None
        given[keyword.arg] = keyword.value
    late = positional[len(positional) - len(own.defaults) :]
    defaults = {p.arg: value for p, value in zip(late, own.defaults, strict=True)}
    defaults |= {p.arg: value for p, value in zip(own.kwonlyargs, own.kw_defaults, strict=True) if value is not None}
    missing = [p.arg for p in (*positional, *own.kwonlyargs) if p.arg not in given]
    if any(name not in defaults for name in missing):
        return None
    return Arguments(given, {name: defaults[name] for name in missing})


def first_parameter(function: Function) -> str | None:
    """What a method calls its object, or its class; None where it is static or takes none by position."""
    first = [*function.args.posonlyargs, *function.args.args][:1]
    return first[0].arg if first and not is_static(function) else None


def is_static(function: Function) -> bool:
    """Whether a function is decorated with `staticmethod`: its object is no argument."""
    return _is(function, "staticmethod")


def is_class_method(function: Function) -> bool:
    """Whether a function is decorated with `classmethod`: its first argument is the class."""
    return _is(function, "classmethod")


def _is(function: Function, decorator: str) -> bool:
    return any(isinstance(d, ast.Name) and d.id == decorator for d in getattr(function, "decorator_list", ()))
