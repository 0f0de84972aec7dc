"""Whether a script may find functions and classes by their names: by text that no analysis of names sees."""

from __future__ import annotations

import ast

from transformer.syntax.tree import Tree

NAMESPACES = frozenset("globals locals vars eval exec sys importlib".split())


BY_NAME = frozenset("getattr hasattr setattr delattr methodcaller attrgetter operator".split())
"""What finds functions, and methods, by their names."""


def texts_of(tree: Tree) -> set[str]:
    """The texts of a script."""
    return {n.value for n in tree.of(ast.Constant) if isinstance(n.value, str)}


def looks_up_names(tree: Tree, owner: ast.AST) -> bool:
    """Whether the script may look up functions and classes (methods, where `owner` is a class) by their names."""
    return any(
        isinstance(n, ast.Name) and (n.id in NAMESPACES or (n.id in BY_NAME and isinstance(owner, ast.ClassDef)))
        for n in tree.nodes
        if not is_vars_of_options(tree, n)
    )


def is_vars_of_options(tree: Tree, name: ast.AST) -> bool:
    """Whether a name is that of `vars(args)`, whose argument is no module."""
    call = tree.parents.get(name)
    given = call.args if isinstance(name, ast.Name) and name.id == "vars" and isinstance(call, ast.Call) else []
    return any(isinstance(a, ast.Name) and a.id not in tree.imports for a in given)
