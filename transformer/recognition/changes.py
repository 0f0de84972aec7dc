"""What code run by the training loop may change: names, attributes, and the contents of containers."""

from __future__ import annotations

import ast

from transformer.facts.python import WRITES
from transformer.facts.torch_api import DISTRIBUTIONS
from transformer.recognition.attribute_setting import attribute_set, sets_by_text
from transformer.recognition.roles import Roles
from transformer.syntax.query import first_parameter, unparse
from transformer.syntax.tree import Tree


class Changes:
    """What code run by the training loop changes, by attribute name."""

    def __init__(self, roles: Roles) -> None:
        self._tree = roles.tree
        self.stored: dict[str, int] = {}
        """Attributes that are rebound, with the line."""
        self.touched: dict[str, int] = {}
        """Attributes whose value is changed in place, each with the line."""
        self.bound: dict[str, int] = {}
        """Names of an outer scope that a function binds, with the line."""
        self.grown: dict[str, int] = {}
        """Names and attributes of containers that a method changes, with the line."""
        self.by_text: int | None = None
        """A line that sets names or attributes known only at run time."""
        self._methods = {
            m.name for cls in roles.tree.classes.values() for m in cls.body if isinstance(m, ast.FunctionDef)
        }
        made = only_makes(roles.tree)
        for node in roles.run_by_training:
            if not (made and _of_new_object(roles.tree, node)):
                self._note(node)

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
            self.stored.setdefault(node.attr, node.lineno)
            self._touch(node.value, node)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
            self._touch(node.value, node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if is_in_place(node.func.attr) or node.func.attr in WRITES:
                self._touch(node.func.value, node)
            if node.func.attr in WRITES - {"add", *self._methods}:  # tensors have an add() too
                self.grown.setdefault(unparse(node.func.value).rpartition(".")[2], node.lineno)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self.bound.update(dict.fromkeys(node.names, node.lineno))
        name = attribute_set(self._tree, node) if isinstance(node, ast.Call) else None
        if name:
            self.stored.setdefault(name, node.lineno)  # type: ignore[attr-defined]
        elif self.by_text is None and (name == "" or sets_by_text(node)):
            self.by_text = node.lineno  # type: ignore[attr-defined]

    def _touch(self, node: ast.expr, where: ast.expr) -> None:
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            if isinstance(node, ast.Attribute):
                self.touched.setdefault(node.attr, where.lineno)
            node = node.value
        if isinstance(node, ast.Name):
            self.touched.setdefault(node.id, where.lineno)


def _of_new_object(tree: Tree, node: ast.AST) -> bool:
    """Whether a node sets an attribute of a constructor's own object, which nothing has read before."""
    if not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Load):
        return False
    scope = tree.scope_of(node)
    own = isinstance(scope, ast.FunctionDef) and scope.name == "__init__"
    return own and tree.class_of_self(node.value, scope) is not None


def only_makes(tree: Tree) -> bool:
    """Whether all explicit calls of `__init__` in the file are of base classes, for the object being made."""
    if any(node.value == "__init__" for node in tree.of(ast.Constant)):  # getattr(agent, "__init__")(args)
        return False
    for node in tree.of(ast.Attribute):
        if node.attr != "__init__":
            continue
        scope, call = tree.scope_of(node), tree.parents[node]
        if not isinstance(scope, ast.FunctionDef) or scope.name != "__init__":
            return False
        of_base = isinstance(node.value, ast.Call) and unparse(node.value.func) == "super"
        given = call.args[0] if isinstance(call, ast.Call) and call.args else None
        if not of_base and not (isinstance(given, ast.Name) and given.id == first_parameter(scope)):
            return False
    return True


def foreign_base(tree: Tree, cls: ast.ClassDef) -> str | None:
    """A base class of a network that another file defines; None if there is none."""
    for base in tree.bases(cls):
        of_torch = (tree.qualified(base) or "").startswith(("torch.nn.", DISTRIBUTIONS))
        known = of_torch or unparse(base) in tree.classes
        if not known:
            return unparse(base)
    return None


def is_in_place(method: str) -> bool:
    """Whether a method changes its object, by torch's naming convention."""
    return method.endswith("_") and not method.endswith("__")
