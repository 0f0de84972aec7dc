"""Functions made inside a block of statements, and whether they are called only while the block runs.

A function reads its free variables when it is called. If its block moves into or out of another function, it reads
other variables. Moving is safe only if the function is shown to be called only while the block runs.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from transformer.dataflow.access import NONE, Names, access, free_names, scope_access
from transformer.facts.python import CALLED_AT_ANY_END, builtin_names
from transformer.syntax.query import children, parameters, walk
from transformer.syntax.tree import Scope, Tree

Nested = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp

LAZY = builtin_names(makes="iterator")
CONSUMERS = builtin_names(takes=True) - LAZY
"""Builtins that exhaust an iterator and do not keep it."""


def kept_for_later(
    tree: Tree, block: Sequence[ast.stmt], names: Collection[str], carried: Collection[str] = ()
) -> dict[str, int]:
    """Names that functions or generators made in a block may read after the block, each with the function's line.

    Args:
        tree: the script that the block belongs to.
        block: the statements.
        names: variables of the block.
        carried: the variables bound before the block, or used after it.
    """
    found: dict[str, int] = {}
    for node in (n for s in block for n in walk(s)):
        if not isinstance(node, (Nested, ast.GeneratorExp)) or _is_done(tree, node, block, carried):
            continue
        for name in sorted((late_reads(node) - _bound_around(tree, node, block)) & set(names)):
            found.setdefault(name, node.lineno)
    return found


def late_reads(node: Nested | ast.GeneratorExp) -> Names:
    """The free names that a function reads when called, or a generator when it is advanced."""
    if not isinstance(node, ast.GeneratorExp):
        return free_names(node)
    first, *others = node.generators  # the first iterable is evaluated where the generator is made
    parts = [node.elt, *first.ifs, *(part for g in others for part in (g.iter, *g.ifs))]
    return frozenset[str]().union(*(access(part).reads for part in parts)) - _targets(node)


def functions_in(scope: Scope) -> list[Nested | ast.GeneratorExp]:
    """The functions and generators directly in a scope; the names they read may be the scope's variables."""
    found: list[Nested | ast.GeneratorExp] = []
    pending: list[ast.AST] = list(children(scope))
    while pending:
        node = pending.pop()
        if isinstance(node, Nested):
            found.append(node)
            pending += [node.args, *getattr(node, "decorator_list", ())]
        else:
            found += [node] if isinstance(node, ast.GeneratorExp) else []
            pending += children(node)
    return sorted(found, key=lambda n: n.lineno)


def read_by_functions(scope: Scope) -> Names:
    """The names of a scope that its functions read, whenever they are called."""
    return frozenset(name for node in functions_in(scope) for name in late_reads(node))


def read_at_error(tree: Tree, scope: Scope) -> Names:
    """The names of a scope that functions may read after an uncaught error or a signal."""
    modules = {imported.partition(".")[0] for imported in tree.imports.values()}  # `from atexit import register`
    return NONE if CALLED_AT_ANY_END.isdisjoint(tree.mentioned | modules) else read_by_functions(scope)


def is_used_up(tree: Tree, made: ast.expr) -> bool:
    """Whether the expression or loop around a generator (or a map() or similar over one) exhausts it."""
    parent = tree.parents[made]
    if _is_used_up_by_call(tree, made):
        return True
    if isinstance(parent, ast.Call) and made in parent.args:
        return tree.names.builtin(parent.func) in LAZY and is_used_up(tree, parent)
    if isinstance(parent, ast.comprehension):
        outer = tree.parents[parent]
        return not isinstance(outer, ast.GeneratorExp) or is_used_up(tree, outer)
    if isinstance(parent, ast.Assign):
        return all(isinstance(t, (ast.Tuple, ast.List)) for t in parent.targets)
    return isinstance(parent, ast.Starred) or (isinstance(parent, ast.For) and parent.iter is made)


def _is_used_up_by_call(tree: Tree, made: ast.expr) -> bool:
    """Whether a call exhausts a generator where it stands: of a builtin such as sum(), or of a text's join()."""
    call = tree.parents[made]
    if not isinstance(call, ast.Call) or made not in call.args:
        return False
    return tree.names.builtin(call.func) in CONSUMERS or _joins(call)


def runs_elsewhere(tree: Tree, node: ast.AST, scope: Scope) -> bool:
    """Whether a node runs in another function than `scope`, or later than where it stands.

    That is in a lambda, or in a generator expression that no call exhausts at once.
    """
    below = inner = node
    for outer in tree.ancestors(node):
        if outer is scope:
            return False
        if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef)) and below in outer.body:
            return True
        if isinstance(outer, ast.Lambda) and below is outer.body:
            return True
        if isinstance(outer, ast.GeneratorExp) and inner is not outer.generators[0].iter:  # this runs where it is made
            if not (_is_used_up_by_call(tree, outer) or isinstance(tree.parents[outer], ast.Starred)):
                return True
        below, inner = outer, below
    return True


def _is_done(tree: Tree, node: Nested | ast.GeneratorExp, block: Sequence[ast.stmt], carried: Collection[str]) -> bool:
    """Whether a function or generator is known to be used only while its block runs."""
    if isinstance(node, ast.GeneratorExp):
        return is_used_up(tree, node)
    if isinstance(node, ast.Lambda):
        return _is_called(tree, node)
    if isinstance(node, ast.AsyncFunctionDef) or node.decorator_list or node.name in carried:
        return False
    if any(isinstance(n, (ast.Yield, ast.YieldFrom, ast.Global, ast.Nonlocal)) for n in walk(node)):
        return False
    uses = (n for s in block for n in walk(s) if isinstance(n, ast.Name) and n.id == node.name)
    return not isinstance(tree.parents[node], ast.ClassDef) and all(_is_called(tree, n) for n in uses)


def _is_called(tree: Tree, function: ast.expr) -> bool:
    """Whether a use of a function calls it, or passes it to a builtin that calls it and does not keep it."""
    parent = tree.parents[function]
    if isinstance(parent, ast.keyword):
        call = tree.parents[parent]
        ordering = isinstance(call, ast.Call) and tree.names.builtin(call.func) in builtin_names(calls="key")
        return parent.arg == "key" and ordering
    if not isinstance(parent, ast.Call):
        return False
    if parent.func is function or (tree.calls(parent, "functools.reduce") and parent.args[0] is function):
        return True
    lazy = tree.names.builtin(parent.func) in builtin_names(calls="given") and parent.args[0] is function
    return lazy and is_used_up(tree, parent)


def _joins(call: ast.Call) -> bool:
    """Whether a call is `"text".join(...)`."""
    text = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "join" else None
    return isinstance(text, ast.Constant) and isinstance(text.value, str)


def _targets(node: Comprehension) -> set[str]:
    return {n.id for g in node.generators for n in walk(g.target) if isinstance(n, ast.Name)}


def _bound_around(tree: Tree, node: ast.AST, block: Sequence[ast.stmt]) -> set[str]:
    """Names that functions and comprehensions around a node, inside the block, bind for themselves."""
    return {name for outer in _ancestors_in(tree, node, block) for name in _binds_itself(outer)}


def _ancestors_in(tree: Tree, node: ast.AST, block: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    inside = {n for s in block for n in walk(s)}
    return (outer for outer in tree.ancestors(node) if outer in inside)


def _binds_itself(node: ast.AST) -> set[str]:
    if isinstance(node, Comprehension):
        return _targets(node)
    if not isinstance(node, Nested):
        return set()
    own = set(parameters(node))
    if not isinstance(node, ast.Lambda):
        own |= scope_access(node.body).binds
        own -= {n for s in walk(node) if isinstance(s, (ast.Global, ast.Nonlocal)) for n in s.names}
    return own
