"""Whether a piece of a script is known to run only before the training loop begins, or only after it has ended."""

from __future__ import annotations

import ast

from transformer.dataflow.bindings import variables
from transformer.dataflow.name_lookups import looks_up_names
from transformer.recognition.roles import Roles
from transformer.syntax.query import root
from transformer.syntax.tree import Scope, Tree

DEEP = 8
"""The maximum number of functions to follow from an action to the call that causes it."""


def runs_before_training(roles: Roles, node: ast.AST, depth: int = 0) -> bool:
    """Whether a call, or the name of something called or set, is known to run only above or below the training loop.

    It is there itself, or in functions whose every use is a call for which the same holds.
    """
    tree = roles.tree
    around = list(tree.ancestors(node))
    function = next((n for n in around if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))), None)
    called = isinstance(node, ast.Call) or _is_called(tree, node)
    if function is roles.scope or function is None:
        return called and roles.outermost not in around
    if not isinstance(function, ast.FunctionDef) or depth == DEEP or not called:
        return False
    owner = tree.parents[function]
    name = function.name
    if isinstance(owner, ast.ClassDef) and name == "__init__":
        name = owner.name
    elif isinstance(owner, ast.ClassDef) and (tree.bases(owner) or name.startswith("__")):
        return False  # Python or the base class may call it
    home = tree.scope_of(owner if name != function.name else function)
    by_text = looks_up_names(tree, tree.root if name != function.name else owner)
    uses = [
        n
        for n in tree.nodes
        if (isinstance(n, ast.Name) and n.id == name and not _is_anothers(tree, n, home))
        or (isinstance(n, ast.Attribute) and n.attr == name and root(n) not in tree.imports)  # not torch.load
        or (by_text and isinstance(n, ast.Constant) and n.value == name)
    ]
    return not function.decorator_list and all(
        (
            isinstance(call := tree.parents[n], ast.Call)
            and call.func is n
            and runs_before_training(roles, call, depth + 1)
        )
        or _is_named_to_super(tree, n)
        or _names_a_method(tree, n)
        for n in uses
    )


def _is_named_to_super(tree: Tree, node: ast.AST) -> bool:
    """Whether a class's name is used in `super(Agent, self)`, which makes no object."""
    call = tree.parents[node]
    return isinstance(call, ast.Call) and ast.unparse(call.func) == "super" and call.args[:1] == [node]


def _is_anothers(tree: Tree, name: ast.Name, home: Scope) -> bool:
    """Whether a name is a variable of another scope than the one that defines the function or class in question."""
    owner = variables(tree).owner_of(name)
    return owner not in (home, None) and not isinstance(owner, ast.ClassDef)


def _names_a_method(tree: Tree, node: ast.AST) -> bool:
    """Whether a class's name is used for a method that does not get the class, as in `Agent.act = compile(Agent.act)`.

    Only the class itself, or a class method, makes an object.
    """
    cls, attribute = tree.classes.get(getattr(node, "id", "")), tree.parents[node]
    if cls is None or not isinstance(attribute, ast.Attribute) or attribute.attr.startswith("__"):
        return False
    named = [s for s in cls.body if getattr(s, "name", "") == attribute.attr]
    return len(named) == 1 and isinstance(named[0], ast.FunctionDef) and not named[0].decorator_list


def _is_called(tree: Tree, node: ast.AST) -> bool:
    """Whether a name is part of a call or an assignment that runs immediately, and is not stored under another name."""
    parent = tree.parents.get(node)
    if isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load):
        return isinstance(parent, ast.Call) and parent.func is node
    return isinstance(node, (ast.Attribute, ast.Subscript))
