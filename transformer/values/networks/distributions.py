"""Whether a script makes distributions, and what they compute when they check their arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from transformer.facts.torch_api import DISTRIBUTIONS, distributions
from transformer.recognition.roles import Roles
from transformer.syntax.query import pairwise
from transformer.syntax.tree import Tree

"""Classes that are only used in tests of type."""


def is_made(tree: Tree, node: ast.expr) -> bool:
    """Whether an expression is a call of a class of torch.distributions."""
    name = tree.qualified(node.func) or "" if isinstance(node, ast.Call) else ""
    return name.startswith(DISTRIBUTIONS) and name.rpartition(".")[2][:1].isupper()


def may_make(roles: Roles, code: Iterable[ast.AST] | None = None) -> bool:
    """Whether training may make a distribution: the file mentions them, or a network's class is in another file.

    Given the nodes of some code and of its callees: whether that code may.
    """
    made = [value for name in roles.modules for _, value in roles.assignments(name)]
    kept = {path.rpartition(".")[2] for path in roles.networks if path.startswith("self.")}
    if kept:  # an agent keeps its networks: self.actor = Actor()
        stores = [(t, v) for s in roles.tree.of(ast.Assign) for t, v in pairwise(s) if isinstance(t, ast.Attribute)]
        made += [value for target, value in stores if isinstance(target, ast.Attribute) and target.attr in kept]
    here = bool(made) and all(roles.tree.constructor(value) is not None for value in made)
    if not here or code is None:
        return not here or "distributions" in roles.tree.code
    return any("distributions" in (roles.tree.qualified(node) or "") for node in code)


def computes_to_check(tree: Tree) -> ast.Name | ast.Attribute | None:
    """Where a script names a distribution that may keep what it computes to check its arguments.

    Without the check it computes that later, and gradients are summed in another order.
    """
    named: list[ast.Name | ast.Attribute] = [*tree.of(ast.Name), *tree.of(ast.Attribute)]
    for node in named:
        qualified = tree.qualified(node) or ""
        name = qualified.rpartition(".")[2]
        is_class = name[:1].isupper() and not name.endswith("Transform")
        if qualified.startswith(DISTRIBUTIONS) and is_class and name not in distributions(checked_alone=True):
            return node
    return None
