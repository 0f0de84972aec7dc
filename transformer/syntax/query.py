"""Parsing, and simple queries on nodes: statements, blocks, names, parameters and arguments.

Queries here need only the node itself; queries that need the whole file are in tree.py.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TypeGuard, TypeVar

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
N = TypeVar("N", bound=ast.AST)


_NOT_PARTS = frozenset("ctx op ops id attr arg asname module level kind conversion type_comment".split())
"""Fields that hold operators, contexts, or no nodes."""
PARTS: dict[type[ast.AST], tuple[str, ...]] = {
    kind: tuple(name for name in kind._fields if name not in _NOT_PARTS)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
"""The fields of each type of node that may contain other nodes."""


_ONE_AT_A_TIME = threading.Lock()


def parse(source: str) -> ast.Module:
    """`ast.parse`, made thread-safe, which it is not in CPython 3.11.

    CPython counts the tree's depth per interpreter, not per thread. If the garbage collector runs Python code during a
    parse, another thread may continue with the same count, and one of the threads ends in `SystemError: AST constructor
    recursion depth mismatch`.

    Raises:
        SyntaxError: the source is not Python.
        ValueError: it contains a null byte.
    """
    with _ONE_AT_A_TIME:
        return ast.parse(source)


def children(node: ast.AST) -> tuple[ast.AST, ...]:
    """The children of a node, as by `ast.iter_child_nodes`, without operators and contexts.

    These (`ast.Add`, `ast.Load`) contain nothing, and are a third of all nodes. The result is cached on the node
    itself, so it lives exactly as long as the node. To change a node, change a copy (:func:`copied`), which has no
    cache yet.
    """
    fields = node.__dict__
    kept: tuple[ast.AST, ...] | None = fields.get("_children")
    if kept is None:
        kept = ()
        for name in PARTS.get(node.__class__, node._fields):
            value = fields.get(name)
            if value.__class__ is list:
                kept += tuple([part for part in value if isinstance(part, ast.AST)])
            elif isinstance(value, ast.AST):
                kept += (value,)
        fields["_children"] = kept
    return kept


def walk(node: ast.AST) -> tuple[ast.AST, ...]:
    """A node and all its descendants in the order of `ast.walk` (breadth first); cached like :func:`children`."""
    kept = node.__dict__.get("_below")
    if kept is None:
        # The cache leaves out the node itself, which would otherwise never be freed
        found = list(children(node))
        for below in found:  # grows during the loop
            right_below = below.__dict__.get("_children")
            found += children(below) if right_below is None else right_below
        kept = node.__dict__["_below"] = tuple(found)
    return (node, *kept)


def unparse(node: ast.AST) -> str:
    """The result of `ast.unparse` for a node; cached like :func:`children`."""
    if isinstance(node, ast.Name):
        return node.id
    kept: str | None = node.__dict__.get("_text")
    if kept is None:
        if isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Name, ast.Attribute, ast.Call)):
            kept = f"{unparse(node.value)}.{node.attr}"  # most nodes are attributes, and ast.unparse is slow
        else:
            kept = ast.unparse(node)
        node.__dict__["_text"] = kept
    return kept


def copied(node: N) -> N:
    """A deep copy of a node, which may be changed."""

    def copy(value: object) -> object:
        if isinstance(value, ast.AST):
            return copied(value)
        return [copy(part) for part in value] if isinstance(value, list) else value

    names = (*node._fields, *node._attributes)
    return type(node)(**{name: copy(getattr(node, name)) for name in names if hasattr(node, name)})


@dataclass(frozen=True)
class Arguments:
    """A call's argument for each parameter of the function; every parameter is in one of the two mappings."""

    given: dict[str, ast.expr]
    """Arguments of the call, in evaluation order."""
    defaults: dict[str, ast.expr]
    """Defaults of the other parameters, which were evaluated when the function was defined."""

    @property
    def values(self) -> dict[str, ast.expr]:
        """All parameters with their values."""
        return self.given | self.defaults

    def parameter_of(self, argument: ast.expr) -> str | None:
        """The parameter that an argument of the call is for; None unless it is for exactly one."""
        found = [name for name, value in self.given.items() if value is argument]
        return found[0] if len(found) == 1 else None


def bind_arguments(function: Function, call: ast.Call, receiver: ast.expr | None = None) -> Arguments | None:
    """Bind a call's arguments as Python does (`inspect.Signature.bind`), from the text alone.

    `*rest` and `**rest` of the function are left out if they receive nothing. The caller must deal with decorators
    other than `staticmethod` and `classmethod`.

    Args:
        function: the function of the call, or `__init__` of the class.
        call: the call.
        receiver: for a method call, the expression for the object, which becomes the first argument unless the method
        is static.

    Returns:
        the arguments; None if some are unpacked from a container (`*values`, `**options`) or go into `*rest` or
        `**rest`, or if Python would raise TypeError.
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
    """The parameter for a method's object or class; None if it is static or has no positional parameter."""
    first = [*function.args.posonlyargs, *function.args.args][:1]
    return first[0].arg if first and not is_static(function) else None


def is_static(function: Function) -> bool:
    """Whether a function is decorated with `staticmethod`, so that it does not get the object."""
    return has_decorator(function, "staticmethod")


def is_class_method(function: Function) -> bool:
    """Whether a function is decorated with `classmethod`, so that its first argument is the class."""
    return has_decorator(function, "classmethod")


def has_decorator(function: ast.AST | None, name: str) -> bool:
    """Whether one of a function's decorators is this name; a lambda has none."""
    return any(isinstance(d, ast.Name) and d.id == name for d in getattr(function, "decorator_list", ()))


def is_text_line(stmt: ast.stmt) -> bool:
    """Whether a statement consists only of a string, as a docstring does."""
    return isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant) and isinstance(stmt.value.value, str)


TRY: tuple[type[ast.Try], ...] = tuple(getattr(ast, n) for n in ("Try", "TryStar") if hasattr(ast, n))
"""`try`, and `try` with `except*` if the running Python has it."""


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[str]:
    """The names of a function's parameters, `*args` and `**kwargs` last."""
    a = function.args
    return [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg)))]


def statements(body: Iterable[ast.stmt]) -> list[ast.stmt]:
    """The statements of a block and of its nested blocks, in order; nested functions are not entered."""
    found: list[ast.stmt] = []
    for stmt in body:
        found.append(stmt)
        found += _statements_of_blocks(stmt)
    return found


def _statements_of_blocks(stmt: ast.stmt) -> tuple[ast.stmt, ...]:
    """The statements of a statement's blocks; cached like :func:`children`."""
    kept: tuple[ast.stmt, ...] | None = stmt.__dict__.get("_statements_of_blocks")
    if kept is None:
        opens = not isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        kept = tuple(s for block in blocks(stmt) for s in statements(block)) if opens else ()
        stmt.__dict__["_statements_of_blocks"] = kept
    return kept


def blocks(stmt: ast.stmt) -> Iterable[list[ast.stmt]]:
    """The blocks of a compound statement."""
    for name in ("body", "orelse"):
        yield getattr(stmt, name, [])
    for part in (*getattr(stmt, "handlers", ()), *getattr(stmt, "cases", ())):
        yield part.body
    yield getattr(stmt, "finalbody", [])


def pairwise(stmt: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
    """The targets and values of an assignment; `a, b = x, y` gives two pairs."""
    pairs = []
    for target in stmt.targets:
        value = stmt.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            pairs += list(zip(target.elts, value.elts, strict=True))
        else:
            pairs.append((target, value))
    return pairs


def backwards(iterable: ast.expr) -> ast.expr | None:
    """The number of steps T of `reversed(range(T))`, `reversed(range(0, T))` or `range(T - 1, -1, -1)`."""
    if not isinstance(iterable, ast.Call) or not isinstance(iterable.func, ast.Name):
        return None
    args = iterable.args
    if iterable.func.id == "reversed" and len(args) == 1:
        inner = args[0]
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id == "range":
            if len(inner.args) == 1:
                return inner.args[0]
            if len(inner.args) == 2 and is_number(inner.args[0], 0):
                return inner.args[1]
    if iterable.func.id == "range" and len(args) == 3 and is_number(args[1], -1) and is_number(args[2], -1):
        start = args[0]
        if isinstance(start, ast.BinOp) and isinstance(start.op, ast.Sub) and is_number(start.right, 1):
            return start.left
    return None


def is_number(node: ast.AST, value: float) -> bool:
    """Whether `node` is this literal number."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return is_number(node.operand, -value)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value == value


class MethodCall(ast.Call):
    """A method call. The class is for type checkers only: the parser makes plain `ast.Call` nodes."""

    func: ast.Attribute


def calls_method(node: ast.AST | None, *names: str) -> TypeGuard[MethodCall]:
    """Whether a node is a method call `x.method(...)` with one of these names, or any name if none is given."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return not names or node.func.attr in names


def method(node: ast.AST) -> str | None:
    """The name of the called method; None if the node is not a method call."""
    return node.func.attr if calls_method(node) else None


def receiver(call: ast.Call) -> ast.expr:
    """The object on which a method is called."""
    assert isinstance(call.func, ast.Attribute)
    return call.func.value


def calls_itself(call: ast.AST, own: str | None) -> TypeGuard[ast.Call]:
    """Whether a node is `self(x)` in a method, `own` being the method's name for its object."""
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == own


def asked_name(node: ast.AST) -> str | None:
    """The name whose presence a node tests, `x` in `"x" in locals()`; None for other nodes."""
    if not isinstance(node, ast.Compare) or not isinstance(node.left, ast.Constant) or len(node.ops) != 1:
        return None
    call, name = node.comparators[0], node.left.value
    plain = isinstance(call, ast.Call) and not (call.args or call.keywords)
    of_names = plain and isinstance(call, ast.Call) and unparse(call.func) in ("locals", "vars")
    return name if of_names and isinstance(node.ops[0], (ast.In, ast.NotIn)) and isinstance(name, str) else None


def without_methods(value: ast.expr, names: Collection[str]) -> ast.expr:
    """A value without calls of these methods: `x` for `x.to(device).eval()`."""
    while calls_method(value) and value.func.attr in names:
        value = value.func.value
    return value


def root(node: ast.AST) -> str:
    """The name at the root of a chain of attributes, elements and stars, `a` in `a.b[0].c`; "" if there is none."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def last_written(node: ast.AST) -> str:
    """The last name of an expression, as written: `b` in `a.b`, `a` in `a`; "" for other nodes."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def is_none(node: ast.AST) -> bool:
    """Whether an expression is None, written out."""
    return isinstance(node, ast.Constant) and node.value is None


def is_read(name: ast.Name) -> bool:
    """Whether a name node is a read, not a binding or deletion."""
    return isinstance(name.ctx, ast.Load)


def assigns(stmt: ast.stmt, name: str) -> bool:
    """Whether a statement assigns its whole value to a name, without unpacking."""
    return isinstance(stmt, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in stmt.targets)


def names_in(nodes: Iterable[ast.AST]) -> set[str]:
    """All names in the nodes."""
    return {n.id for node in nodes for n in walk(node) if isinstance(n, ast.Name)}
