"""Whether emitted code reads a builtin or an import under a name that the script uses for something else."""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import lru_cache

from transformer.dataflow.access import access, scope_access
from transformer.syntax.query import parameters, statements, walk
from transformer.syntax.tree import Tree

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
SCOPES = (*COMPREHENSIONS, ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
IMPORTS = (ast.Import, ast.ImportFrom)


def captured(before: Tree, after: Tree) -> str | None:
    """A name that the script binds itself and that the later text reads in a way that the earlier text does not.

    Emitted code means Python's `len`, and the `inspect` that is imported for it. Reads in the same form in both texts
    are the script's own; so are the arguments and results of an extracted function.
    """
    everywhere = _set_for_all(before)
    own = {name for name in before.names.bound if hasattr(builtins, name)} | everywhere | _beside_imports(before, after)
    if not own:
        return None
    made = after.names.bound - before.names.bound
    read, known = _own_reads(after, own, everywhere, made), _own_reads(before, own, everywhere, made)
    return min((name for name, _ in read - known), default=None)


def called_otherwise(before: Tree, after: Tree) -> str | None:
    """A function of torch or numpy that the script replaces, `torch.zeros = mine`, and the later text names more or
    less often."""
    names = {*_replaced(before)}
    if not names:
        return None
    one, other = (Counter(name for name in _named(tree) if name in names) for tree in (before, after))
    return min((one - other) | (other - one), default=None)


def _named(tree: Tree) -> Iterator[str]:
    """The names of all attributes, of any object, and of all uses of imports."""
    yield from (n.attr for n in tree.of(ast.Attribute))
    yield from (n.id for n in tree.of(ast.Name) if n.id in tree.imports)


def _replaced(tree: Tree) -> Iterator[str]:
    """The attributes that a script sets on torch, numpy and their submodules."""
    set_: list[tuple[ast.expr, object]] = [(n.value, n.attr) for n in tree.attributes_set()]
    calls = (n for n in tree.of(ast.Call) if tree.names.builtin(n.func) == "setattr" and len(n.args) > 1)
    set_ += [(call.args[0], getattr(call.args[1], "value", None)) for call in calls]
    for holder, name in set_:
        if (tree.qualified(holder) or "").partition(".")[0] in ("torch", "numpy") and isinstance(name, str):
            yield name


def _set_for_all(tree: Tree) -> set[str]:
    """Names that the script redefines globally: `builtins.print = ...`."""
    stored = (n for n in tree.of(ast.Attribute) if not isinstance(n.ctx, ast.Load))
    return {n.attr for n in stored if (tree.qualified(n) or "").startswith("builtins.")}


def _beside_imports(before: Tree, after: Tree) -> set[str]:
    """Names that the later text imports and the script also binds to something else."""
    imported = set(after.imports)
    return {n.id for n in before.of(ast.Name) if not isinstance(n.ctx, ast.Load)} & imported | {
        name for name in _definitions(before) if name in imported
    }


def _definitions(tree: Tree) -> Iterable[str]:
    yield from (n.name for n in tree.of(ast.FunctionDef))
    yield from (n.name for n in tree.of(ast.AsyncFunctionDef))
    yield from (n.name for n in tree.of(ast.ClassDef))
    yield from (n.arg for n in tree.of(ast.arg))


def _own_reads(tree: Tree, own: set[str], everywhere: set[str], made: AbstractSet[str]) -> Counter[tuple[str, str]]:
    """The script's reads of its own variables with these names, counted by name and form."""
    return Counter(
        (n.id, _manner(tree.parents[n], n))
        for n in tree.of(ast.Name)
        if n.id in own and isinstance(n.ctx, ast.Load)
        if not _is_handed_on(tree, n, made)
        if n.id in everywhere or any(n.id in bound for bound in _bound_around(tree, n))
    )


def _bound_around(tree: Tree, name: ast.Name) -> Iterator[frozenset[str]]:
    """For each scope around a name: the names that the scope binds."""
    known = _known_scopes(tree)
    for outer in tree.ancestors(name):
        if isinstance(outer, SCOPES):
            if outer not in known:
                known[outer] = _names_bound(outer)
            yield known[outer]


@lru_cache(maxsize=2)
def _known_scopes(tree: Tree) -> dict[ast.AST, frozenset[str]]:
    """A cache of the names that the scopes of a file bind."""
    return {}


def _is_handed_on(tree: Tree, name: ast.Name, made: AbstractSet[str]) -> bool:
    """Whether a variable is an argument of an extracted function, or is returned."""
    parent = tree.parents[name]
    if isinstance(parent, ast.Call):
        return parent.func is not name and isinstance(parent.func, ast.Name) and parent.func.id in made
    return isinstance(tree.parents[parent] if isinstance(parent, ast.Tuple) else parent, ast.Return)


def _manner(parent: ast.AST, name: ast.Name) -> str:
    if isinstance(parent, ast.Call) and parent.func is name:
        given = ("*" if isinstance(a, ast.Starred) else "_" for a in parent.args)
        return ", ".join((*given, *sorted(f"{k.arg}=" for k in parent.keywords)))
    return f"{type(parent).__name__}.{getattr(parent, 'attr', '')}"


def _names_bound(node: ast.AST) -> frozenset[str]:
    """The names that a scope binds; imports count only if they rebind a builtin's name. Empty if a node is no scope."""
    if isinstance(node, ast.Lambda):
        return frozenset(parameters(node)) | access(node.body).binds
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return frozenset(parameters(node)) | _bound_in(node.body)
    if isinstance(node, ast.Module):
        return _bound_in(node.body).union(*(n.names for n in walk(node) if isinstance(n, ast.Global)))
    if isinstance(node, ast.ClassDef):
        return _bound_in(node.body)
    if isinstance(node, COMPREHENSIONS):
        targets = (n for g in node.generators for n in walk(g.target))
        return frozenset(n.id for n in targets if isinstance(n, ast.Name))
    return frozenset()


def _bound_in(body: list[ast.stmt]) -> frozenset[str]:
    imports = [s for s in statements(body) if isinstance(s, IMPORTS)]
    others = scope_access(s for s in statements(body) if not isinstance(s, IMPORTS)).binds
    return others | {name for s in imports for name in access(s).binds if hasattr(builtins, name)}
