"""Code that shows a script its own structure: lists of all names of its module, or of the functions that run."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from transformer.dataflow.access import scope_access
from transformer.dataflow.bindings import variables
from transformer.dataflow.name_lookups import identifiers, texts_of, variable_lookups, words_of
from transformer.dataflow.variables import COMPREHENSIONS, FUNCTIONS
from transformer.facts import python
from transformer.facts.lookups import FRAMES, lookups
from transformer.syntax.query import last_written
from transformer.syntax.tree import Tree


def shown(before: Tree, after: Tree) -> tuple[ast.AST, str] | None:
    """A place where a script may notice an edit in its own structure, and why, for a message; None if there is none."""
    if (place := next(_lists_of_names(before), None)) is not None and _names(before) != _names(after):
        return place, "lists the names of the module, and there would be others"
    if (place := _looks_at_frames(before)) is not None and _functions(before) != _functions(after):
        return place, "shows which functions run, and there would be others"
    return None


def _names(tree: Tree) -> frozenset[str]:
    """The names that a module binds."""
    return scope_access(tree.root.body).binds.union(*(n.names for n in tree.of(ast.Global)))


def _lists_of_names(tree: Tree) -> Iterator[ast.AST]:
    """The places where the script may list all names of its module."""
    places = (p for p in variable_lookups(tree, None) if last_written(p) not in lookups(frames=True))
    return (place for place in places if not _gives_one(tree, place))


def _gives_one(tree: Tree, place: ast.expr) -> bool:
    """Whether a lookup finds one name: `globals()["x"]`, `"x" in globals()`, `getattr(sys.modules[x], y)`.

    A string that is evaluated is assumed to list names only if a string of the script names a function that does.
    """
    word, node, outer = last_written(place), place, tree.parents[place]
    if isinstance(place, ast.Name) and word not in tree.imports and variables(tree).owner_of(place) is not None:
        return True  # the script's own variable: `def save(self, dir)`
    if word in lookups(of="builtin", where="both"):
        words = {word for text in texts_of(tree) for word in re.findall(r"\w+", text)}
        return words.isdisjoint(lookups(of="builtin", where=("module", "caller")))
    of_caller = word in lookups(of="builtin", where="caller") and isinstance(outer, ast.Call) and not outer.args
    if of_caller and tree.scope_of(place) is not tree.root:
        return True  # it lists names of a function
    of_module = tree.qualified(place) in ("__main__", "sys.modules") or word in lookups(of="importlib")
    if tree.qualified(place) == "sys.modules":  # it contains the script's own module
        if not (isinstance(outer, ast.Subscript) and outer.value is node):
            return isinstance(outer, ast.Compare) and _asked_for_one(tree, node, of_module)
        node = outer
    elif isinstance(outer, ast.Call) and outer.func is node:
        node = outer
    elif isinstance(place, ast.Name) and not of_module:
        return False  # `names = globals`
    return _asked_for_one(tree, node, of_module)


def _asked_for_one(tree: Tree, node: ast.expr, of_module: bool) -> bool:
    """Whether one name is looked up in a module, or in the dict of its names."""
    outer = tree.parents[node]
    if isinstance(outer, ast.Attribute):
        row = python.does("dict", outer.attr)
        return outer.attr not in lookups(of="attribute") if of_module else row is not None and row.gives != "copy"
    if isinstance(outer, ast.Call) and node in outer.args[:1]:
        return tree.names.builtin(outer.func) in lookups(of="builtin", finds="attributes")
    if isinstance(outer, ast.Compare):
        return node is not outer.left and all(isinstance(op, (ast.In, ast.NotIn)) for op in outer.ops)
    listed = last_written(getattr(node, "func", node)) in lookups(of="builtin", finds="methods")  # `dir()[0]`
    return isinstance(outer, ast.Subscript) and outer.value is node and not listed


def _functions(tree: Tree) -> Counter[tuple[str, ...]]:
    """The functions of a script, each with the names of the functions and classes around it."""
    opening = (*FUNCTIONS, *COMPREHENSIONS, ast.ClassDef)
    nodes = (n for kind in opening for n in tree.of(kind))
    around = ([n, *(outer for outer in tree.ancestors(n) if isinstance(outer, opening))] for n in nodes)
    return Counter(tuple(getattr(n, "name", type(n).__name__) for n in chain) for chain in around)


@lru_cache(maxsize=2)
def _looks_at_frames(tree: Tree) -> ast.AST | None:
    """A place where the script may see which functions run, and which called them."""
    words = lookups(of=("attribute", "word"), frames=True)
    modules = {name.partition(".")[0] for name in FRAMES}
    imported = not modules.isdisjoint(whole.partition(".")[0] for whole in tree.imports.values())
    if not imported and not any(word in text for text in words_of(tree) if text for word in words):
        return None
    for node in tree.nodes:
        if isinstance(node, (ast.Name, ast.Attribute)) and tree.qualified(node) in FRAMES:
            return node
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        if not words.isdisjoint((*identifiers(node), *re.findall(r"\w+", text))):
            return node
    return None
