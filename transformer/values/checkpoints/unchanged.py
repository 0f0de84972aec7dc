"""Which uses of a value only read it. Any other use may change the value, or store it where other code may."""

from __future__ import annotations

import ast
from collections.abc import Collection

from transformer.facts import torch_api
from transformer.facts.python import HARMLESS, READS, does
from transformer.facts.torch_api import DISTRIBUTIONS
from transformer.recognition.roles import Roles
from transformer.syntax.query import calls_method, unparse
from transformer.syntax.tree import Tree
from transformer.values.reports import is_report

FUNCTIONS = torch_api.functions("torch", "functional", "numpy", memory=("new", "number"))
VIEWING = torch_api.functions("torch", "numpy", memory="shared")


class Unchanged:
    """Tells whether uses of names and attributes only read."""

    def __init__(self, roles: Roles) -> None:
        self._roles, self._tree = roles, roles.tree

    def name(self, name: str, *, but: Collection[ast.AST] = (), seen: frozenset[str] = frozenset()) -> ast.AST | None:
        """A use of a name in training that is not shown to only read; None if all do.

        Args:
            name: the name, checked in every scope.
            but: uses that are checked elsewhere.
            seen: names that are already being checked.
        """
        if name in seen:
            return None
        for node in self._roles.run_by_training:
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) and node not in but:
                if not self.reads(node, seen | {name}):
                    return node
        return None

    def reads(self, node: ast.expr, seen: frozenset[str] = frozenset()) -> bool:
        """Whether code around an expression only reads its value, or stores it only under names that are checked."""
        parent = self._tree.parents[node]
        if isinstance(parent, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.FormattedValue)):
            return True
        if isinstance(parent, (ast.If, ast.While, ast.Assert)) or (
            isinstance(parent, ast.IfExp) and parent.test is node
        ):
            return True
        if isinstance(parent, (ast.BoolOp, ast.IfExp, ast.Starred)):
            return self.reads(parent, seen)
        if isinstance(parent, ast.Expr):
            return True
        if isinstance(parent, ast.Subscript):
            return isinstance(parent.ctx, ast.Load) and (parent.slice is node or self.reads(parent, seen))
        if isinstance(parent, ast.Slice):
            return True
        if isinstance(parent, ast.Tuple) and isinstance(self._tree.parents[parent], ast.Subscript):
            return True
        if isinstance(parent, (ast.For, ast.comprehension)):
            return parent.iter is not node or self._target_is_harmless(parent.target, seen)
        if isinstance(parent, ast.Assign):
            return all(self._target_is_harmless(target, seen) for target in parent.targets)
        if isinstance(parent, ast.AugAssign):
            return parent.value is node  # `x += value` computes with the value
        if isinstance(parent, ast.Attribute):
            return self._attribute_only_read(parent, seen)
        if isinstance(parent, ast.keyword):
            call = self._tree.parents[parent]
            return isinstance(call, ast.Call) and parent.arg not in (None, "out") and self._given(call, node, seen)
        if isinstance(parent, ast.Call) and parent.func is not node:
            return self._given(parent, node, seen)
        if isinstance(parent, (ast.List, ast.Tuple)):
            outer = self._tree.parents[parent]
            return isinstance(outer, ast.Call) and self._given(outer, parent, seen)
        return False

    def _target_is_harmless(self, target: ast.expr, seen: frozenset[str]) -> bool:
        if isinstance(target, (ast.Tuple, ast.List)):
            return all(self._target_is_harmless(t, seen) for t in target.elts)
        if isinstance(target, ast.Subscript):  # a tensor or an array copies it; a list or a dict would keep it
            return not isinstance(target.slice, ast.Constant) or not isinstance(target.slice.value, str)
        return isinstance(target, ast.Name) and self.name(target.id, seen=seen) is None

    def _attribute_only_read(self, node: ast.Attribute, seen: frozenset[str]) -> bool:
        call = self._tree.parents[node]
        if not isinstance(node.ctx, ast.Load):
            return False
        if not (isinstance(call, ast.Call) and call.func is node):
            looked_at = node.attr in torch_api.ATTRIBUTES or node.attr == "maxlen"
            return looked_at or (node.attr in torch_api.VIEWS_OF_IT and self.reads(node, seen))
        if torch_api.may_be_given(call):
            return False
        if node.attr in torch_api.NEW or node.attr in ("size", "tolist", "item"):
            return True
        return (node.attr in torch_api.VIEWS or node.attr in READS) and self.reads(call, seen)

    def _given(self, call: ast.Call, node: ast.expr, seen: frozenset[str]) -> bool:
        """Whether a call only reads an argument."""
        qualified = self._tree.qualified(call.func) or ""
        if torch_api.may_be_given(call):
            return False
        if is_report(self._tree, call) or qualified in FUNCTIONS or qualified.startswith(DISTRIBUTIONS):
            return True
        if qualified in VIEWING:
            return self.reads(call, seen)
        if (builtin := self._tree.names.builtin(call.func)) in HARMLESS:
            row = does("builtin", builtin)
            return row is None or row.gives in ("nothing", "new") or self.reads(call, seen)
        if calls_method(call) and node in call.args and call.func.attr in torch_api.NEW:
            return True  # an operand
        function = self._tree.function_called(call)
        extracted = {f.name for f in self._roles.history.functions.values()}
        if function is not None and function.name in extracted and node in call.args and isinstance(node, ast.Name):
            place = call.args.index(node)
            parameters = [a.arg for a in function.args.args]
            return place < len(parameters) and self.name(parameters[place], seen=seen) is None
        return False


def only_reported(roles: Roles, name: str, seen: frozenset[str] = frozenset()) -> ast.AST | None:
    """The first use of a name whose content may go anywhere but into reports; None if there is none.

    What is appended to the name does not count: it is lost along with it.
    """
    if name in seen:
        return None
    for node in roles.run_by_training:
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            if not _goes_into_a_report(roles, node, seen | {name}):
                return node
        if isinstance(node, ast.Global) and name in node.names:
            return node
    return None


def _goes_into_a_report(roles: Roles, node: ast.Name, seen: frozenset[str]) -> bool:
    tree = roles.tree
    inner: ast.AST = node
    for outer in tree.ancestors(node):
        if isinstance(outer, ast.Call) and is_report(tree, outer):
            return True
        if isinstance(outer, ast.Expr):  # `name.append(...)`: the result is dropped
            return fills(outer, node.id)
        if isinstance(outer, ast.Assign):
            targets = outer.targets
            return (
                all(isinstance(t, ast.Name) and only_reported(roles, t.id, seen) is None for t in targets)
                and (isinstance(outer.value, (ast.Call, ast.BinOp, ast.IfExp, ast.Subscript)))
                and _computes(tree, outer.value)
            )
        if isinstance(outer, (ast.If, ast.IfExp)) and outer.test is inner:
            if isinstance(outer, ast.If):
                return all(_reports(roles, s, seen) for s in (*outer.body, *outer.orelse)) and _computes(
                    tree, outer.test
                )
        elif isinstance(outer, ast.stmt):
            return False
        inner = outer
    return False


def _reports(roles: Roles, stmt: ast.stmt, seen: frozenset[str]) -> bool:
    """Whether a statement only reports, or only binds names that are only reported."""
    tree = roles.tree
    if isinstance(stmt, ast.Expr):
        return is_report(tree, stmt.value) or (
            isinstance(stmt.value, ast.Call)
            and any(isinstance(n, ast.Name) and n.id in seen and fills(stmt, n.id) for n in ast.walk(stmt))
        )
    if isinstance(stmt, ast.If):
        return _computes(tree, stmt.test) and all(_reports(roles, s, seen) for s in (*stmt.body, *stmt.orelse))
    if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 and isinstance(stmt.targets[0], ast.Name):
        return _computes(tree, stmt.value) and only_reported(roles, stmt.targets[0].id, seen) is None
    return isinstance(stmt, ast.Pass)


def _computes(tree: Tree, value: ast.expr) -> bool:
    """Whether an expression only calls functions that compute with numbers."""
    for node in ast.walk(value):
        if isinstance(node, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.Lambda)):
            return False
        if isinstance(node, ast.Call):
            known = tree.names.builtin(node.func) in HARMLESS or (tree.qualified(node.func) or "") in FUNCTIONS
            method = calls_method(node) and (node.func.attr in torch_api.NEW or node.func.attr in READS)
            if not (known or method) or torch_api.may_be_given(node):
                return False
    return True


def fills(stmt: ast.Expr, name: str) -> bool:
    """Whether a statement does nothing with a list, a deque or a dict but add or remove an item."""
    call = stmt.value
    return (
        isinstance(call, ast.Call)
        and calls_method(call, "append", "appendleft", "extend", "insert", "clear", "pop", "popleft", "update")
        and unparse(call.func.value) == name
    )
