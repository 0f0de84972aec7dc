"""Every single edit of a script's training code: what is edited, and how, is decided here.

Edited are the statements of functions, of methods and of the module. Never edited are imports, what stands in a class
beside its methods, the headers, decorators and annotations of functions, docstrings and all other text, assertions,
and what the caller names as no part of the training; nor edits that nothing could tell: the other order of sums,
products, maxima and differences that are squared, other things of the same shape where only that is read, the manner
in which a copy is made.
"""

from __future__ import annotations

import ast
import itertools
import textwrap
from collections import Counter
from collections.abc import Collection, Iterator
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from typing import Any

from observe import OPTIONS, Kinds

OPERATORS: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
}
COMMUTATIVE = (ast.Add, ast.Mult, ast.BitAnd, ast.BitOr)
"""Of numbers, arrays and tensors; two lists or texts in the other order are not tried."""
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
SYMMETRIC = ("torch.max", "torch.min", "np.logical_or", "np.logical_and", "F.mse_loss")
"""Functions of arguments in any order."""
SHAPED_LIKE = ("expand_as", "zeros_like", "empty_like")
"""Functions that read nothing of an argument but shape and dtype."""
MANNERS = ("non_blocking", "capturable", "allow_unused", "strict", "warmup")
"""Keyword arguments that say how something is done, and not what."""
DEFINITIONS = (ast.FunctionDef, ast.ClassDef)
LEFT_ALONE = (ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.Assert, ast.Pass)
REPEATED = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)


@dataclass(frozen=True)
class Mutant:
    """One edit of a script in canonical form."""

    kind: str
    """constant, sign, operator, comparison, condition, operands, index, name, drop or repeat."""
    scope: str
    """The function that is edited, as `Class.function`; empty for the module."""
    before: str
    """The statement, of one with a block its first line."""
    after: str
    line: int
    """The statement's first line."""
    end: int
    """The last line that is replaced."""
    lines: tuple[str, ...]
    """What stands there instead."""
    number: int = 1
    """Its number among statements with the same text."""

    @property
    def key(self) -> str:
        """Identifies a mutant among those of its script, as long as its statement stays the same."""
        place = f"{self.scope or '(module)'}" + (f", number {self.number}" if self.number > 1 else "")
        return f"{place}: {self.before} -> {self.after}"

    def applied(self, text: str) -> str:
        """The script with this edit."""
        lines = text.splitlines()
        lines[self.line - 1 : self.end] = self.lines
        return "\n".join(lines)


def canonical(source: str) -> str:
    """A script without comments, with one line for each statement. Mutants are edits of this form."""
    return ast.unparse(ast.parse(source))


def mutants(text: str, kinds: dict[str, Kinds], aside: Collection[str] = ()) -> list[Mutant]:
    """All mutants of a script in canonical form, in the order of the text, no two of them the same.

    `kinds` tells which variables are of the same kind. A function called as one of `aside`, and a statement in which
    one of these names occurs, is left alone.
    """
    seen: set[tuple[int, tuple[str, ...]]] = set()
    counts: Counter[tuple[str, str, str]] = Counter()
    found = []
    for mutant in _Mutator(text, kinds, frozenset(aside)).all():
        if (mutant.line, mutant.lines) not in seen and mutant.before != mutant.after:
            seen.add((mutant.line, mutant.lines))
            same = mutant.scope, mutant.before, mutant.after
            counts[same] += 1
            found.append(replace(mutant, number=counts[same]))
    return found


class _Mutator:
    def __init__(self, text: str, kinds: dict[str, Kinds], aside: frozenset[str]) -> None:
        self._tree, self._lines = ast.parse(text), text.splitlines()
        self._kinds, self._aside = kinds, aside
        self._keys = _keys(self._tree)
        self._bound = _bound(self._tree)

    def all(self) -> Iterator[Mutant]:
        yield from self._block(self._tree.body, "")

    def _block(self, block: list[ast.stmt], scope: str) -> Iterator[Mutant]:
        for statement in block:
            if isinstance(statement, DEFINITIONS):
                if statement.name not in self._aside:
                    inner = f"{scope}.{statement.name}".lstrip(".")
                    function = isinstance(statement, ast.FunctionDef)
                    yield from self._block([s for s in statement.body if function or isinstance(s, DEFINITIONS)], inner)
            elif not (isinstance(statement, LEFT_ALONE) or _is_text(statement) or self._is_aside(statement)):
                if not _is_guard(statement):
                    yield from self._whole(statement, scope)
                    yield from self._expressions(statement, scope)
                for inside in _blocks(statement):
                    yield from self._block(inside, scope)

    def _is_aside(self, statement: ast.stmt) -> bool:
        return any(getattr(n, "id", getattr(n, "attr", None)) in self._aside for n in ast.walk(_header(statement)))

    def _whole(self, statement: ast.stmt, scope: str) -> Iterator[Mutant]:
        """Drop a statement, of a `with` its first line alone; repeat it."""
        assert statement.end_lineno is not None
        begin, end, indent = statement.lineno, statement.end_lineno, " " * statement.col_offset
        lines = self._lines[begin - 1 : end]
        if isinstance(statement, ast.With):
            instead = textwrap.indent(textwrap.dedent("\n".join(lines[1:])), indent).splitlines()
        elif lines[0].lstrip().startswith("elif "):
            instead = [f"{indent}else:", f"{indent}    pass"]
        else:
            instead = [f"{indent}pass"]
        before = _shown(statement)
        yield Mutant("drop", scope, before, "(dropped)", begin, end, tuple(instead))
        if isinstance(statement, REPEATED):
            yield Mutant("repeat", scope, before, "(repeated)", begin, end, (*lines, *lines))

    def _expressions(self, statement: ast.stmt, scope: str) -> Iterator[Mutant]:
        before, line = _shown(statement), self._lines[statement.lineno - 1]
        indent = line[: len(line) - len(line.lstrip())] + "el" * line.lstrip().startswith("elif ")

        def mutant(kind: str) -> Mutant:
            after = _shown(statement)
            return Mutant(kind, scope, before, after, statement.lineno, statement.lineno, (indent + after,))

        if isinstance(statement, ast.AugAssign):
            operator = statement.op
            for other in OPERATORS.get(type(operator), ()):
                statement.op = other()
                yield mutant("operator")
            statement.op = operator
        for place in list(_places(statement)):
            for kind, new in self._changes(place, scope):
                place.put(new)
                yield mutant(kind)
            place.put(place.node)

    def _changes(self, place: _Place, scope: str) -> Iterator[tuple[str, ast.expr]]:
        """What may replace an expression."""
        node = place.node
        if place.field in ("test", "ifs") and not isinstance(node, ast.Compare):  # of those, another comparison does it
            yield "condition", _negated(node)
        match node:
            case ast.Constant(value=bool(value)):
                yield "constant", ast.Constant(not value)
            case ast.Constant(value=int(value)):
                yield from (("constant", ast.Constant(v)) for v in (value + 1, value - 1))
            case ast.Constant(value=float(value)):
                yield "constant", ast.Constant(value * 2 or 1.0)
                if value:
                    yield "sign", ast.UnaryOp(ast.USub(), ast.Constant(value))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                yield "sign", operand
            case ast.BinOp(left=left, op=op, right=right):
                yield from (("operator", ast.BinOp(left, other(), right)) for other in OPERATORS.get(type(op), ()))
                if not isinstance(op, COMMUTATIVE) and not place.even:
                    yield "operands", ast.BinOp(right, op, left)
            case ast.BoolOp(op=op, values=values):
                yield "operator", ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            case ast.Compare(left=left, ops=[op], comparators=comparators):
                others = COMPARISONS.get(type(op), ())
                yield from (("comparison", ast.Compare(left, [other()], comparators)) for other in others)
            case ast.Call(func=function, args=[_, _, *_] as arguments) if ast.unparse(function) not in SYMMETRIC:
                yield from (("operands", _with(node, args=swapped)) for swapped in _swaps(arguments))
            case ast.Tuple(elts=[_, _, *_] as parts) if not isinstance(place.parent, ast.Compare):
                yield from (("operands", _with(node, elts=swapped)) for swapped in _swaps(parts))
            case ast.Subscript(slice=ast.Name(id=name)) if not place.shape:
                yield "index", _with(node, slice=ast.parse(f"{name} - 1", mode="eval").body)
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))) if not place.shape:
                if (other := _next(key, self._keys[name])) is not None:
                    yield "index", _with(node, slice=ast.Constant(other))
            case ast.Attribute(value=ast.Name(id=name), attr=attribute, ctx=ast.Load()) if name == OPTIONS:
                if (other := self._neighbour(attribute, self._kinds.get(OPTIONS, {}))) is not None:
                    yield "name", _with(node, attr=other)
            case ast.Name(id=name, ctx=ast.Load()) if not place.shape:
                if (other := self._named_like(name, scope)) is not None:
                    yield "name", _with(node, id=other)

    def _named_like(self, name: str, scope: str) -> str | None:
        """A variable of the same kind, bound near a variable, in the scope that binds it."""
        while scope and name not in self._kinds.get(scope, {}):
            scope = scope.rpartition(".")[0]
        return self._neighbour(name, {n: k for n, k in self._kinds.get(scope, {}).items() if n in self._bound})

    def _neighbour(self, name: str, kinds: Kinds) -> str | None:
        alike = [n for n, kind in kinds.items() if kind == kinds.get(name)]
        return _next(name, [n for n in alike if n not in self._aside])


def _next(one: str, of: list[str]) -> str | None:
    """The next element of a list; the first one follows the last. None if there is no other."""
    return of[(of.index(one) + 1) % len(of)] if one in of and len(of) > 1 else None


def _keys(tree: ast.Module) -> dict[str, list[str]]:
    """The string keys that each variable is subscripted with, in the order of the text."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))):
                if key not in found.setdefault(name, []):
                    found[name].append(key)
    return found


def _bound(tree: ast.Module) -> set[str]:
    """The names that the script binds, except for imports and classes."""
    bound = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.FunctionDef(name=name):
                bound.add(name)
    return bound


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_guard(statement: ast.stmt) -> bool:
    """`if __name__ == "__main__":`."""
    return isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for _, value in ast.iter_fields(statement):
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            yield value
        elif isinstance(value, list) and value and isinstance(value[0], ast.ExceptHandler):
            yield from (handler.body for handler in value)


def _header(statement: ast.stmt) -> ast.stmt:
    """The statement, without the contents of its blocks."""
    header = copy(statement)
    for name, value in ast.iter_fields(statement):
        if isinstance(value, list) and value and isinstance(value[0], (ast.stmt, ast.ExceptHandler)):
            setattr(header, name, [ast.Pass()] if name == "body" else [])
    return header


def _shown(statement: ast.stmt) -> str:
    return ast.unparse(_header(statement)).partition("\n")[0]


@dataclass(frozen=True)
class _Place:
    """An expression and its context."""

    node: ast.expr
    parent: ast.AST
    field: str
    index: int | None
    shape: bool = False
    """Whether only its shape and dtype are read."""
    even: bool = False
    """Whether its sign makes no difference: it is squared, say."""

    def put(self, new: ast.expr) -> None:
        """Replace the expression."""
        if self.index is None:
            setattr(self.parent, self.field, new)
        else:
            getattr(self.parent, self.field)[self.index] = new


def _places(parent: ast.AST, shape: bool = False) -> Iterator[_Place]:
    """The places of all expressions of a statement, outermost first."""
    called = parent.func if isinstance(parent, ast.Call) else None
    shape = shape or getattr(called, "attr", "") in SHAPED_LIKE
    even = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Pow) and ast.unparse(parent.right) == "2"
    even = even or (isinstance(parent, ast.Attribute) and parent.attr == "abs")
    even = even or (called is not None and ast.unparse(called) in ("abs", "torch.abs"))
    for field, value in ast.iter_fields(parent):
        for i, part in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if field in ("annotation", "format_spec") or isinstance(part, (ast.stmt, ast.ExceptHandler)):
                continue
            if isinstance(part, ast.keyword) and part.arg in MANNERS:
                continue
            of_shape = shape and part is not called
            if isinstance(part, ast.expr):
                yield _Place(part, parent, field, i, of_shape, even)
            if isinstance(part, ast.AST):
                yield from _places(part, of_shape)


def _with(node: ast.expr, **fields: Any) -> ast.expr:
    new = deepcopy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _swaps(parts: list[ast.expr]) -> Iterator[list[ast.expr]]:
    """Two swapped neighbours; texts are left out, since nobody would swap them by mistake."""
    for i, (a, b) in enumerate(itertools.pairwise(parts)):
        if not any(isinstance(x, ast.Constant) and isinstance(x.value, str) for x in (a, b)):
            yield [*parts[:i], b, a, *parts[i + 2 :]]


def _negated(test: ast.expr) -> ast.expr:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    return ast.UnaryOp(ast.Not(), test)
