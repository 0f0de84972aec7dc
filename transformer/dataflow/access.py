"""What a region of statements reads, writes and leaves live.

A structured analysis over the `ast` of one scope. Def-use chains (beniget) answer which definition reaches
which use, but not along which path: a value that the loop's last turn left behind and a value set just above
look alike there, and extraction must tell them apart. Liveness and definite assignment do, and cost a tenth.

Writes into an object (`obs[step] = y`, `x.y = z`, `x += 1` on a tensor) are uses of the name: the object is
shared, not rebound.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache

Names = frozenset[str]
NONE: Names = frozenset()
TRY: tuple[type[ast.Try], ...] = tuple(getattr(ast, n) for n in ("Try", "TryStar") if hasattr(ast, n))
"""`try`, and `try` with `except*` where the running Python has it."""


@dataclass(frozen=True)
class Access:
    """Names that a piece of code reads from outside itself, and names that it binds."""

    reads: Names
    binds: Names


@lru_cache(maxsize=1 << 14)
def access(node: ast.AST) -> Access:
    """Reads and binds of one statement's own expressions, or of one expression; blocks inside are not entered.

    A nested function, lambda or class counts with its free names: it may be called at once.
    """
    visitor = _Access()
    visitor.top(node)
    return Access(frozenset(visitor.reads), frozenset(visitor.binds))


class _Access(ast.NodeVisitor):
    def __init__(self) -> None:
        self.reads: set[str] = set()
        self.binds: set[str] = set()

    def top(self, node: ast.AST) -> None:
        """Visit a statement without its blocks."""
        if isinstance(node, (ast.For, ast.AsyncFor)):
            self.visit(node.iter)
            self.visit(node.target)
        elif isinstance(node, (ast.While, ast.If)):
            self.visit(node.test)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                self.visit(item)
        elif isinstance(node, ast.Match):
            self.visit(node.subject)
        elif not isinstance(node, TRY):
            self.visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        (self.reads if isinstance(node.ctx, ast.Load) else self.binds).add(node.id)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.reads.add(node.target.id)
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.binds |= {(a.asname or a.name).split(".")[0] for a in node.names}

    visit_ImportFrom = visit_Import  # noqa: N815

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.binds.add(node.name)
        for expr in (*node.decorator_list, *node.args.defaults, *(d for d in node.args.kw_defaults if d)):
            self.visit(expr)
        self.reads |= free_names(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.binds.add(node.name)
        for expr in (*node.decorator_list, *node.bases, *(k.value for k in node.keywords)):
            self.visit(expr)
        inner = scope_access(node.body)
        self.reads |= inner.reads

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for expr in (*node.args.defaults, *(d for d in node.args.kw_defaults if d)):
            self.visit(expr)
        self.reads |= free_names(node)

    def visit_comp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        first = node.generators[0].iter
        self.visit(first)  # it sees the names outside, whatever the comprehension binds
        inner = _Access()
        for part in ast.iter_child_nodes(node):
            if part is node.generators[0]:
                for inside in (part.target, *part.ifs):
                    inner.visit(inside)
            else:
                inner.visit(part)
        bound = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
        self.reads |= inner.reads - bound
        self.binds |= inner.binds - bound  # a walrus inside binds outside

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = visit_comp  # noqa: N815


def free_names(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Names:
    """Names that a function reads from around it (builtins included: the caller knows what is bound there)."""
    params = set(parameters(node))
    if isinstance(node, ast.Lambda):
        return access(node.body).reads - params
    inner = scope_access(node.body)
    outside = {n for s in ast.walk(node) if isinstance(s, (ast.Global, ast.Nonlocal)) for n in s.names}
    return (inner.reads - inner.binds - params) | outside


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[str]:
    """The names of a function's parameters, `*args` and `**kwargs` last."""
    a = function.args
    return [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg)))]


def scope_access(body: Iterable[ast.stmt]) -> Access:
    """All reads and binds of a scope's statements, whatever their order."""
    reads: set[str] = set()
    binds: set[str] = set()
    for stmt in statements(body):
        one = access(stmt)
        reads |= one.reads
        binds |= one.binds | block_names(stmt)
    return Access(frozenset(reads), frozenset(binds))


def block_names(stmt: ast.stmt) -> set[str]:
    """Names that the handlers or cases of a statement bind: `except Error as name`, `case [name, _]`."""
    names = {h.name for h in getattr(stmt, "handlers", ()) if h.name}
    for case in getattr(stmt, "cases", ()):
        names |= {n.name for n in ast.walk(case.pattern) if isinstance(n, (ast.MatchAs, ast.MatchStar)) and n.name}
    return names


def statements(body: Iterable[ast.stmt]) -> Iterable[ast.stmt]:
    """The statements of a block and of the blocks inside it, in order; nested functions are not entered."""
    for stmt in body:
        yield stmt
        if not isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for block in blocks(stmt):
                yield from statements(block)


def blocks(stmt: ast.stmt) -> Iterable[list[ast.stmt]]:
    """The blocks of a compound statement."""
    for name in ("body", "orelse"):
        yield getattr(stmt, name, [])
    for part in (*getattr(stmt, "handlers", ()), *getattr(stmt, "cases", ())):
        yield part.body
    yield getattr(stmt, "finalbody", [])


def pairwise(stmt: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
    """Targets and values of an assignment, `a, b = x, y` taken apart."""
    pairs = []
    for target in stmt.targets:
        value = stmt.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            pairs += list(zip(target.elts, value.elts, strict=True))
        else:
            pairs.append((target, value))
    return pairs


@dataclass
class Liveness:
    """Names live after each statement of a scope: their present value may still be read."""

    after: dict[ast.stmt, Names] = field(default_factory=dict)
    _breaks: list[Names] = field(default_factory=list)
    _continues: list[Names] = field(default_factory=list)
    _raises: Names = NONE
    at_least_once: frozenset[ast.stmt] = frozenset()
    """Loops taken to run their body at least once; see :class:`Assignment`."""

    @classmethod
    def of(cls, body: Sequence[ast.stmt], at_exit: Names = NONE, at_least_once: Iterable[ast.stmt] = ()) -> Liveness:
        """Analyse a scope; `at_exit` is live where it ends (a module's globals that functions read)."""
        self = cls(at_least_once=frozenset(at_least_once))
        self.before(body, at_exit)
        return self

    def before(self, body: Sequence[ast.stmt], live: Names) -> Names:
        """Names live before a block, given those live after it."""
        for stmt in reversed(body):
            self.after[stmt] = self.after.get(stmt, NONE) | live
            live = self._statement(stmt, live) | self._raises
        return live

    def _statement(self, stmt: ast.stmt, live: Names) -> Names:
        own = access(stmt)
        if isinstance(stmt, ast.If):
            return own.reads | self.before(stmt.body, live) | self.before(stmt.orelse, live)
        if isinstance(stmt, (ast.For, ast.AsyncFor, ast.While)):
            done = self.before(stmt.orelse, live)
            targets = NONE if isinstance(stmt, ast.While) else access(stmt.target).binds
            reads = own.reads
            head = done | (reads if isinstance(stmt, ast.While) else NONE)
            while True:
                self._breaks.append(live)
                self._continues.append(head)
                entry = self.before(stmt.body, head) - targets
                self._breaks.pop()
                self._continues.pop()
                if head | entry == head:
                    return (entry if stmt in self.at_least_once else head) | reads
                head = head | entry
        if isinstance(stmt, (ast.With, ast.AsyncWith)):
            return (self.before(stmt.body, live) - own.binds) | own.reads
        if isinstance(stmt, TRY):
            final = self.before(stmt.finalbody, live | self._elsewhere()) if stmt.finalbody else live
            caught = NONE
            for handler in stmt.handlers:
                caught |= self.before(handler.body, final) - ({handler.name} if handler.name else NONE)
                caught |= access(handler.type).reads if handler.type else NONE
            outer, self._raises = self._raises, self._raises | caught | (final if stmt.finalbody else NONE)
            inside = self.before(stmt.body, self.before(stmt.orelse, final))
            self._raises = outer
            return inside | caught
        if isinstance(stmt, ast.Match):
            after = live
            for case in stmt.cases:
                after |= self.before(case.body, live)
                after |= access(case.guard).reads if case.guard else NONE
            return after | own.reads
        if isinstance(stmt, ast.Return):
            return own.reads
        if isinstance(stmt, ast.Raise):
            return own.reads
        if isinstance(stmt, ast.Break):
            return self._breaks[-1] if self._breaks else live
        if isinstance(stmt, ast.Continue):
            return self._continues[-1] if self._continues else live
        if isinstance(stmt, ast.Delete):
            return live | own.reads | own.binds
        return (live - own.binds) | own.reads

    def _elsewhere(self) -> Names:
        """Live where a `finally` block may go on but below it: after an exception, `break` or `continue`."""
        return self._raises.union(*self._breaks[-1:], *self._continues[-1:])


def exposed(body: Sequence[ast.stmt], at_least_once: Iterable[ast.stmt] = ()) -> Names:
    """Names whose value from before the block may be read in it (upward-exposed uses)."""
    flow = Liveness(at_least_once=frozenset(at_least_once))
    flow._breaks.append(NONE)
    flow._continues.append(NONE)
    return flow.before(body, NONE)


class Assignment:
    """Definite assignment: names that every path has bound.

    Loops in `at_least_once` are taken to run their body at least once: the rollout, epoch and minibatch
    loops, where a run with none of them trains nothing and fails in the original too.
    """

    def __init__(self, at_least_once: Iterable[ast.stmt] = ()) -> None:
        self.before: dict[ast.stmt, Names] = {}
        self._once = set(at_least_once)
        self._jumps: list[list[Names]] = []

    def after(self, body: Sequence[ast.stmt], bound: Names = NONE) -> Names | None:
        """Names bound after a block; None where its end is not reached."""
        current: Names | None = bound
        for stmt in body:
            if current is None:
                current = _EVERYTHING  # unreachable code binds whatever is asked
            self.before[stmt] = self.before.get(stmt, current) & current
            current = self._statement(stmt, current)
        return current

    def _statement(self, stmt: ast.stmt, bound: Names) -> Names | None:
        own = access(stmt).binds
        if isinstance(stmt, ast.If):
            return _meet(self.after(stmt.body, bound | own), self.after(stmt.orelse, bound | own))
        if isinstance(stmt, (ast.For, ast.AsyncFor, ast.While)):
            self._jumps.append([])
            bound = bound - _deleted(stmt.body)  # by an earlier turn
            end = self.after(stmt.body, bound | own)
            breaks = self._jumps.pop()
            ran = _meet(end, *breaks) if breaks else end
            if stmt in self._once:
                return ran
            forever = isinstance(stmt, ast.While) and isinstance(stmt.test, ast.Constant) and bool(stmt.test.value)
            none = self.after(stmt.orelse, bound)
            return _meet(*breaks) if forever else _meet(none, *breaks)
        if isinstance(stmt, (ast.With, ast.AsyncWith)):
            return self.after(stmt.body, bound | own)
        if isinstance(stmt, TRY):
            tried = self.after(stmt.body, bound)
            done = self.after(stmt.orelse, tried) if tried is not None else None
            caught = bound - _deleted(stmt.body)
            ends = [done, *(self.after(h.body, caught) for h in stmt.handlers)]
            met = _meet(*ends)
            self.after(stmt.finalbody, bound - _deleted([stmt]))  # after an exception, which goes on
            return self.after(stmt.finalbody, met) if met is not None else None
        if isinstance(stmt, ast.Match):
            return _meet(bound, *(self.after(c.body, bound) for c in stmt.cases))
        if isinstance(stmt, (ast.Break, ast.Continue)):
            if self._jumps:
                self._jumps[-1].append(bound)
            return None
        if isinstance(stmt, (ast.Return, ast.Raise)):
            return None
        if isinstance(stmt, ast.Delete):
            return bound - own
        return bound | own


def _deleted(body: Iterable[ast.stmt]) -> Names:
    """Names that `del` may have unbound when a block is left in its middle."""
    return NONE.union(*(access(s).binds for s in statements(body) if isinstance(s, ast.Delete)))


class _Everything(frozenset[str]):
    """The top of the lattice: code that is never reached has every name bound."""

    def __and__(self, other: Set[object]) -> Names:
        return frozenset(n for n in other if isinstance(n, str))

    def __or__(self, other: Set[object]) -> Names:
        return self

    def __sub__(self, other: Set[object]) -> Names:
        return self

    def __contains__(self, name: object) -> bool:
        return True


_EVERYTHING = _Everything()


def _meet(*ends: Names | None) -> Names | None:
    reached = [e for e in ends if e is not None]
    if not reached:
        return None
    first = reached[0]
    for other in reached[1:]:
        first = first & other if not isinstance(other, _Everything) else first
    return first
