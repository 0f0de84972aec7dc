"""What a statement or a scope reads from outside, and which names it binds.

Writes into an object (`obs[step] = y`, `x.y = z`, `x += 1` on a tensor) are uses of the name: the object is shared, not
rebound.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from transformer.syntax.query import TRY, asked_name, children, parameters, statements, walk

Names = frozenset[str]
NONE: Names = frozenset()


@dataclass(frozen=True)
class Access:
    """Names that a piece of code reads from outside, and names that it binds."""

    reads: Names
    binds: Names


def access(node: ast.AST) -> Access:
    """Reads and binds of one statement's own expressions, or of one expression; nested blocks are not entered.

    A nested function, lambda or class counts with its free names, because it may be called immediately.
    """
    kept: Access | None = node.__dict__.get("_access")  # cached in the node, like its children
    if kept is None:
        visitor = _Access()
        visitor.top(node)
        kept = node.__dict__["_access"] = Access(frozenset(visitor.reads), frozenset(visitor.binds))
    return kept


_SPECIAL = frozenset(
    {ast.AugAssign, ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda}
    | {ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp}
)
"""Nodes with names that need special treatment."""


class _Access(ast.NodeVisitor):
    def __init__(self) -> None:
        self.reads: set[str] = set()
        self.binds: set[str] = set()

    def visit(self, node: ast.AST) -> None:
        """Visit a node, without its children if they are only names."""
        below = walk(node)
        if not _SPECIAL.isdisjoint(n.__class__ for n in below):
            super().visit(node)
            return
        for part in below:
            if isinstance(part, ast.Name):
                (self.reads if isinstance(part.ctx, ast.Load) else self.binds).add(part.id)
            elif (asked := asked_name(part)) is not None:
                self.reads.add(asked)

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

    def visit_Compare(self, node: ast.Compare) -> None:
        if (asked := asked_name(node)) is not None:
            self.reads.add(asked)
        self.generic_visit(node)

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
        self.visit(first)  # evaluated outside the comprehension's scope
        inner = _Access()
        for part in children(node):
            if part is node.generators[0]:
                for inside in (part.target, *part.ifs):
                    inner.visit(inside)
            else:
                inner.visit(part)
        bound = {n.id for g in node.generators for n in walk(g.target) if isinstance(n, ast.Name)}
        self.reads |= inner.reads - bound
        self.binds |= inner.binds - bound  # a walrus inside binds outside

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = visit_comp  # noqa: N815


def free_names(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Names:
    """Free names of a function (including builtins: the caller knows what is bound in its scope)."""
    params = set(parameters(node))
    if isinstance(node, ast.Lambda):
        return access(node.body).reads - params
    inner = scope_access(node.body)
    outside = {n for s in walk(node) if isinstance(s, (ast.Global, ast.Nonlocal)) for n in s.names}
    return (inner.reads - inner.binds - params) | outside


def scope_access(body: Iterable[ast.stmt]) -> Access:
    """All reads and binds of a scope's statements, in any order."""
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
        names |= {n.name for n in walk(case.pattern) if isinstance(n, (ast.MatchAs, ast.MatchStar)) and n.name}
    return names
