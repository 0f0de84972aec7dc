"""Which variable a name refers to: the scope that owns it, by Python's rules."""

from __future__ import annotations

import ast
from typing import TypeAlias

from transformer.dataflow.access import block_names
from transformer.syntax.query import PARTS, children, parameters, walk
from transformer.syntax.tree import Tree

Owner: TypeAlias = (
    "ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ListComp | ast.SetComp | "
    "ast.DictComp | ast.GeneratorExp"
)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_OPENING = (*FUNCTIONS, ast.ClassDef)
_BINDING = (ast.stmt, ast.Lambda, *COMPREHENSIONS, ast.NamedExpr, ast.pattern, ast.excepthandler)
_BINDS = {kind: issubclass(kind, _BINDING) for kind in PARTS}
"""Whether a node of a type may bind names or open a scope; most expressions do neither."""


class Variables:
    """The scopes of a file, and the names that each binds."""

    def __init__(self, tree: Tree) -> None:
        self._tree, self._root = tree, tree.root
        self._parent: dict[Owner, Owner] = {}
        self._bound: dict[Owner, set[str]] = {}
        self._global: dict[Owner, set[str]] = {}
        self._nonlocal: dict[Owner, set[str]] = {}
        self._open(tree.root, None)
        self._visit_all(tree.root.body, tree.root)
        for owner, names in self._global.items():
            self._bound[owner] -= names
            self._bound[self._root] |= names
        for owner, names in self._nonlocal.items():
            self._bound[owner] -= names

    def owner(self, name: str, scope: Owner) -> Owner | None:
        """The scope that owns a name used in `scope`; None for a builtin or an unbound name."""
        if name in self._global.get(scope, ()):
            return self._root
        first, found = scope, scope
        while True:
            if name in self._bound[found] and (found is first or not isinstance(found, ast.ClassDef)):
                return found
            if found not in self._parent:
                return None
            found = self._parent[found]
            if name in self._global.get(found, ()) and not isinstance(found, ast.ClassDef):
                return self._root

    def owner_of(self, name: ast.Name) -> Owner | None:
        """The scope that owns a name; None for a builtin or an unbound name."""
        inner: ast.AST = name
        for outer in self._tree.ancestors(name):
            # Decorators, defaults, annotations and the first iterable of a comprehension are evaluated outside
            body = outer.body if isinstance(outer, (*FUNCTIONS, ast.ClassDef)) else None
            inside = inner in body if isinstance(body, list) else inner is body
            if isinstance(outer, COMPREHENSIONS):
                inside = inner is not outer.generators[0] or name not in walk(outer.generators[0].iter)
            if inside or isinstance(outer, ast.Module):
                return self.owner(name.id, outer)  # type: ignore[arg-type]
            inner = outer
        return None

    def parent(self, scope: Owner) -> Owner | None:
        """The enclosing scope; None for the module's."""
        return self._parent.get(scope)

    def _open(self, owner: Owner, parent: Owner | None) -> None:
        self._bound[owner], self._global[owner], self._nonlocal[owner] = set(), set(), set()
        if parent is not None:
            self._parent[owner] = parent

    def _visit_all(self, nodes: list[ast.stmt] | list[ast.expr], scope: Owner) -> None:
        for node in nodes:
            self._visit(node, scope)

    def _binder(self, scope: Owner) -> Owner:
        """The scope in which a walrus binds, which is outside all comprehensions."""
        while isinstance(scope, COMPREHENSIONS):
            scope = self._parent[scope]
        return scope

    def _visit(self, node: ast.AST, scope: Owner) -> None:
        bound = self._bound[scope]
        if isinstance(node, ast.Name):  # first, because most nodes are names
            if not isinstance(node.ctx, ast.Load):
                bound.add(node.id)
            return
        if not _BINDS[type(node)]:
            for part in children(node):
                self._visit(part, scope)
            return
        if isinstance(node, _OPENING):
            if not isinstance(node, ast.Lambda):
                bound.add(node.name)
            for part in children(node):
                inside = part in (node.body if isinstance(node.body, list) else [node.body])
                if not inside and not isinstance(part, ast.arguments):
                    self._visit(part, scope)
            self._open(node, scope)
            if not isinstance(node, ast.ClassDef):
                self._bound[node] |= set(parameters(node))
                given = (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None))
                self._visit_all(list(given), scope)
            for part in node.body if isinstance(node.body, list) else [node.body]:
                self._visit(part, node)
            return
        if isinstance(node, COMPREHENSIONS):
            self._visit(node.generators[0].iter, scope)
            self._open(node, scope)
            for part in children(node):
                if part is node.generators[0]:
                    self._visit_all([node.generators[0].target, *node.generators[0].ifs], node)
                else:
                    self._visit(part, node)
            return
        if isinstance(node, ast.NamedExpr):
            self._bound[self._binder(scope)].add(node.target.id)
            self._visit(node.value, scope)
            return
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            bound.update((a.asname or a.name).split(".")[0] for a in node.names)
        elif isinstance(node, ast.Global):
            self._global[scope].update(node.names)
        elif isinstance(node, ast.Nonlocal):
            self._nonlocal[scope].update(node.names)
        if isinstance(node, ast.stmt):
            bound |= block_names(node)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            bound.add(node.rest)
        for part in children(node):
            self._visit(part, scope)
