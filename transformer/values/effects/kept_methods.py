"""Whether objects keep their methods: an alias or a compiled function would still run the replaced method."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable

from transformer.facts.libraries import role
from transformer.facts.torch_api import METHODS_OF
from transformer.recognition.attribute_setting import attribute_set
from transformer.recognition.roles import Roles
from transformer.syntax.options import holds_options
from transformer.values.effects.world import World

METHODS = frozenset[str]().union(*METHODS_OF.values())
"""The methods of torch's modules and optimizers."""


def reclassed(roles: Roles) -> ast.expr | None:
    """Where training may replace the class of an object, and with it all methods."""
    run = (n for n in roles.run_by_training if isinstance(n, ast.expr))
    return next((n for n in run if attribute_set(roles.tree, n) == "__class__"), None)


def replaced_in_torch(roles: Roles, nodes: Iterable[ast.AST], methods: Collection[str] = METHODS) -> ast.expr | None:
    """Where code may replace one of these methods of an optimizer, a module or a class of torch."""
    tree = roles.tree
    for node in (n for n in nodes if isinstance(n, ast.expr)):
        name = attribute_set(tree, node)
        if (
            name is not None
            and name in methods
            and not (isinstance(node, ast.Attribute) and _has_another(roles, node.value, name))
        ):
            return node
    return None


def _has_another(roles: Roles, value: ast.expr, name: str) -> bool:
    """Whether an object holds options, or its class in this file inherits no such method from torch."""
    tree = roles.tree
    if holds_options(tree, value, tree.scope_of(value)):
        return True
    own = tree.class_of_self(value, tree.scope_of(value))
    found = [own] if own is not None else roles.get(World).classes(value)
    for cls in (one for each in found for one in tree.lineage(each)):
        for base in (b for b in tree.bases(cls) if not (isinstance(b, ast.Name) and b.id in tree.classes)):
            qualified = tree.qualified(base) or ""
            methods = next((of for module, of in METHODS_OF.items() if qualified.startswith(module)), frozenset[str]())
            known = bool(methods) or tree.names.builtin(base) is not None or role(qualified) is not None
            if not known or name in methods:
                return False
    return bool(found)
