"""Which attributes a node sets: by an assignment, by string, or through code that gets their names."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TypeGuard

from transformer.facts.libraries import library_does, role
from transformer.facts.lookups import SETS, lookups
from transformer.facts.python import WRITES
from transformer.syntax.query import last_written
from transformer.syntax.tree import Tree

SETTERS = lookups(of="attribute", sets=True)


def attribute_set(tree: Tree, node: ast.AST) -> str | None:
    """The attribute that a node may set; "" if its name is known only at run time, None if the node sets none.

    Known forms are `x.act = f`, `setattr(x, "act", f)`, `object.__setattr__(x, "act", f)` and `vars(x)["act"] = f`.
    Unknown code may set it if it gets the name: `mock.patch.object(x, "act", f)`, `mock.patch("__main__.Agent.act")`.
    """
    if isinstance(node, ast.Attribute):
        return None if isinstance(node.ctx, ast.Load) else node.attr
    if isinstance(node, ast.Subscript):
        stores = not isinstance(node.ctx, ast.Load) and _is_namespace(node.value)
        return (_text(node.slice) or "") if stores else None
    if not isinstance(node, ast.Call):
        return None
    named = last_written(node.func)
    if named in (SETS if isinstance(node.func, ast.Name) else SETTERS):
        texts = [*filter(None, map(_text, node.args[:2]))]
        return texts[0] if len(texts) == 1 else ""
    return "" if sets_by_text(node) else _given_to_unknown_code(tree, node)


def _text(value: ast.expr) -> str | None:
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def _given_to_unknown_code(tree: Tree, call: ast.Call) -> str | None:
    """The attribute whose name is an argument of unknown code, along with an object or as part of a dotted path."""
    func, qualified = call.func, tree.qualified(call.func) or ""
    method = func.attr if isinstance(func, ast.Attribute) else ""
    given = [*call.args, *(k.value for k in call.keywords)]
    known = tree.names.builtin(func) or tree.function_called(call) or tree.methods(method)
    if not any(map(_text, given)) or known or library_does(qualified) or role(qualified) is not None:
        return None
    attributes = _attributes(tree)
    named = [text for text in map(_text, given) if text and text.rpartition(".")[2] in attributes]
    paths = [text for text in named if "." in text and all(part.isidentifier() for part in text.split("."))]
    objects = [v for v in given if isinstance(v, (ast.Name, ast.Attribute))]
    after = [text for text in named if objects and text.isidentifier() and text != _text(given[0])]
    return next((text.rpartition(".")[2] for text in (*paths, *after)), None)


def sets_by_text(node: ast.AST) -> TypeGuard[ast.expr]:
    """Whether a node sets attributes by string: `setattr(x, name, value)`, `vars(x)["name"] = value`,
    `x.__dict__.update(...)`, `exec(...)`."""
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return _is_namespace(node.value)
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute):
        return node.func.attr in WRITES | {"__setitem__"} and _is_namespace(node.func.value)
    return isinstance(node.func, ast.Name) and node.func.id in SETS | {"exec"}


def _is_namespace(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("vars", "globals", "locals")
    return isinstance(node, ast.Attribute) and node.attr == "__dict__"


@lru_cache(maxsize=2)
def _attributes(tree: Tree) -> frozenset[str]:
    """The names of all attributes and functions in a file."""
    return frozenset(n.attr for n in tree.of(ast.Attribute)) | {f.name for f in tree.of(ast.FunctionDef)}
