"""Rename private methods, `__size` to `_size`: outside of its class, Python would read such a name differently."""

from __future__ import annotations

import ast

import libcst as cst

from transformer.dataflow.name_lookups import fresh_member, identifiers, texts_of
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import walk
from transformer.syntax.rewrite import Edits
from transformer.transforms.gathering.only_calls import looks_at_methods_of


def with_plain_names(state: State, function: ast.FunctionDef) -> State | None:
    """The state in which the private methods that a method uses have names that mean the same outside of the class.

    A method keeps its name if other code may notice the change. None if no method is renamed.
    """
    tree, cls = state.tree, state.tree.parents[function]
    if not isinstance(cls, ast.ClassDef) or not _is_self_contained(state.roles, cls):
        return None
    edits, renamed = Edits(state.source), dict[ast.FunctionDef, str]()
    for name in dict.fromkeys(n.attr for n in walk(function) if isinstance(n, ast.Attribute) and is_private(n.attr)):
        uses = [n for n in tree.nodes if name in identifiers(n)]
        made = [n for n in uses if isinstance(n, ast.FunctionDef) and n in cls.body and not n.decorator_list]
        read = [n for n in uses if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load)]
        own = all(next((o for o in tree.ancestors(n) if isinstance(o, ast.ClassDef)), None) is cls for n in uses)
        if len(made) != 1 or len(read) + 1 != len(uses) or not own or any(name in text for text in texts_of(tree)):
            continue
        plain = fresh_member(tree, f"_{name.lstrip('_')}")
        renamed[made[0]] = plain
        for node in read:
            edits.substitute(node, f"{tree.text(node.value)}.{plain}")
    for method, plain in renamed.items():
        edits.replace(method, [edits.lines_of(method).with_changes(name=cst.Name(plain), leading_lines=[])])
    return state.after(edits) if renamed else None


def is_private(name: str) -> bool:
    """Whether Python puts the class's name in front of a name in a class."""
    return name.startswith("__") and not name.endswith("__")


def _is_self_contained(roles: Roles, cls: ast.ClassDef) -> bool:
    """Whether a class has only bases of this file, and nothing looks up its methods."""
    tree = roles.tree
    bases = (base for one in tree.lineage(cls) for base in tree.bases(one))
    known = all(isinstance(base, ast.Name) and base.id in tree.classes for base in bases)
    return known and not cls.keywords and not cls.decorator_list and looks_at_methods_of(roles, cls) is None
