"""Objects that may keep the memory of what their methods are given, and so see what is written to it later."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence

from transformer.dataflow.memory import holders, is_array, is_in_place, roots
from transformer.recognition.changes import GROWING
from transformer.recognition.roles import Roles
from transformer.syntax.query import bind_arguments, pairwise, statements, walk
from transformer.syntax.tree import Tree

LIBRARIES = frozenset("torch numpy gym gymnasium wandb tensorboard tensorboardX envpool tqdm rich logging tyro".split())
"""Packages whose objects are known to keep no tensor that they are given, but for what they are made for."""


def keeper(roles: Roles, body: Collection[ast.stmt], names: set[str]) -> ast.Call | None:
    """The first call in a block that hands the memory of names to what may keep it beyond the block."""
    for stmt in body:
        for node in walk(stmt):
            if not isinstance(node, ast.Call) or roles.tree.qualified(node.func):
                continue
            held = names | _comprehended(roles.tree, node, names)
            for argument in (*node.args, *(k.value for k in node.keywords)):
                if roots(argument) & held and _may_keep(roles, node, argument):
                    return node
    return None


def kept_beyond(
    body: Sequence[ast.stmt], names: set[str], older: Collection[str], is_tensor: Callable[[ast.expr], bool]
) -> int | None:
    """The first line of a block that puts the memory of names into an object which was there before the block.

    Args:
        body: the block.
        names: what is looked for.
        older: names whose value from before the block may be read in it.
        is_tensor: whether an expression is known to be a tensor, whose elements are copied where they are set.
    """
    links = [
        (into.lineno, roots(into), roots(value)) for stmt in statements(body) for into, value in _put(stmt, is_tensor)
    ]
    held, size = {*names}, 0
    while len(held) > size:  # a list of this turn may be put into an older one
        size = len(held)
        for line, into, values in links:
            if values & held:
                if into & {*older}:
                    return line
                held |= into
    return None


def _put(stmt: ast.stmt, is_tensor: Callable[[ast.expr], bool]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a statement puts something into, an attribute's object or a container, and what."""
    for node in walk(stmt):
        if isinstance(node, ast.Assign):
            for target, value in pairwise(node):
                if isinstance(target, ast.Attribute) or (
                    isinstance(target, ast.Subscript) and not is_tensor(target.value)
                ):
                    yield target.value, value
        elif isinstance(node, ast.AugAssign) and isinstance(node.value, (ast.List, ast.Tuple, ast.ListComp)):
            yield node.target, node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in GROWING:
            method = node.func.attr  # sets hold no tensors; running statistics have an update() too
            given = [] if method == "add" else [a for a in node.args if method != "update" or isinstance(a, ast.Dict)]
            for value in (*given, *(k.value for k in node.keywords)):
                yield node.func.value, value


def _comprehended(tree: Tree, node: ast.AST, names: set[str]) -> set[str]:
    """Variables of comprehensions around a node that run over the memory of names."""
    found: set[str] = set()
    for outer in tree.ancestors(node):
        if isinstance(outer, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            for generator in outer.generators:
                if roots(generator.iter) & (names | found):
                    found |= roots(generator.target)
    return found


def _may_keep(roles: Roles, call: ast.Call, argument: ast.expr) -> bool:
    if isinstance(call.func, ast.Name):
        grows = (v for _, v in roles.assignments(call.func.id) if isinstance(v, ast.Attribute))
        if any(v.attr in GROWING for v in grows) or any(
            _keeps(roles, cls, method, call, argument) for cls, method in _methods(roles, call.func.id)
        ):
            return True
        functions = (n for n in roles.tree.nodes if isinstance(n, ast.FunctionDef) and n.name == call.func.id)
        return any(_puts_away(f, call, argument) for f in functions if not _is_method(roles.tree, f))
    if not isinstance(call.func, ast.Attribute):
        return False
    methods = list(_methods(roles, call.func.attr))
    if not methods:
        return _is_foreign(roles, call.func.value)
    return any(_keeps(roles, cls, method, call, argument) for cls, method in methods)


def _puts_away(function: ast.FunctionDef, call: ast.Call, argument: ast.expr) -> bool:
    """Whether a function puts its parameter's memory into an object that is not its own."""
    bound = bind_arguments(function, call)
    held = bound.parameter_of(argument) if bound is not None else None
    if held is None:
        return True
    own = {n.id for n in walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    own -= {name for n in walk(function) if isinstance(n, (ast.Global, ast.Nonlocal)) for name in n.names}
    others = {n.id for n in walk(function) if isinstance(n, ast.Name)} - own
    names = {held} | holders(held, function.body, _unknown)
    return kept_beyond(function.body, names, others, _unknown) is not None


def _unknown(value: ast.expr) -> bool:
    return False


def _is_method(tree: Tree, function: ast.FunctionDef) -> bool:
    return isinstance(tree.parents[function], ast.ClassDef)


def _methods(roles: Roles, name: str) -> Iterator[tuple[ast.ClassDef, ast.FunctionDef]]:
    """The methods of a name of all classes of this file but those of the networks, which compute and return."""
    for cls in roles.tree.classes.values():
        for method in cls.body if cls not in roles.network_classes else ():
            if isinstance(method, ast.FunctionDef) and method.name == name:
                yield cls, method


def _is_foreign(roles: Roles, receiver: ast.expr) -> bool:
    """Whether an object is of a class that is neither of this file nor of a library that is known."""
    if not isinstance(receiver, ast.Name) or receiver.id in roles.modules:
        return False
    made = [roles.tree.qualified(v.func) for _, v in roles.assignments(receiver.id) if isinstance(v, ast.Call)]
    return any(q is not None and q.partition(".")[0] not in LIBRARIES for q in made)


def _is_row_of_array(tree: Tree, argument: ast.expr) -> bool:
    """Whether an argument is a row of an array, whose copy() is new; that of a list holds the same objects."""
    comprehensions = (
        n for n in tree.ancestors(argument) if isinstance(n, (ast.ListComp, ast.SetComp, ast.GeneratorExp))
    )
    generators = [g for comprehension in comprehensions for g in comprehension.generators]
    over = [g.iter for g in generators if ast.unparse(g.target) == ast.unparse(argument)]
    return bool(over) and all(map(is_array, over))


def _keeps(roles: Roles, cls: ast.ClassDef, method: ast.FunctionDef, call: ast.Call, argument: ast.expr) -> bool:
    """Whether a method binds an attribute to its parameter's memory, and not only until it is called again."""
    bound = bind_arguments(method, call, call.func)
    given = bound.parameter_of(argument) if bound is not None else None
    if given is None:
        return True
    held = {given}
    copied = f"{given}.copy()" if _is_row_of_array(roles.tree, argument) else ""
    for stmt in statements(method.body):
        if isinstance(stmt, ast.Assign):
            held |= {t.id for t, v in pairwise(stmt) if isinstance(t, ast.Name) and roots(v) & held}
        elif isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Call):
            func = stmt.value.func
            grows = isinstance(func, ast.Attribute) and func.attr in ("append", "extend", "add", "appendleft", "insert")
            if grows and any(roots(a) & held for a in stmt.value.args):
                return True
    for stmt in statements(method.body):
        for target, value in pairwise(stmt) if isinstance(stmt, ast.Assign) else ():
            if isinstance(target, ast.Subscript) or not isinstance(target, ast.Attribute) or not roots(value) & held:
                continue
            if ast.unparse(value) == copied:
                continue
            if not _is_replaced(cls, method, stmt, target, held):
                return True
    return False


def _is_replaced(
    cls: ast.ClassDef, method: ast.FunctionDef, stmt: ast.stmt, target: ast.Attribute, held: set[str]
) -> bool:
    """Whether an attribute holds a parameter from the first call to the second alone, which makes a new value of it.

    That is how rewards are discounted forwards: `self.sums = x if self.sums is None else self.sums * gamma + x`.
    """
    text = ast.unparse(target)
    begins = [s for s in statements(method.body) if isinstance(s, ast.If) and ast.unparse(s.test) == f"{text} is None"]
    first = {s for begin in begins for s in begin.body}
    for other in statements(method.body):
        for bound, value in pairwise(other) if isinstance(other, ast.Assign) and other not in first else ():
            if ast.unparse(bound) == text and roots(value) & held:
                return False
    changes = (n for n in walk(cls) if isinstance(n, (ast.AugAssign, ast.Subscript, ast.Call)))
    return stmt in first and not any(text in _changed(n) for n in changes)


def _changed(node: ast.AugAssign | ast.Subscript | ast.Call) -> str:
    """What an augmented or element assignment or a method of tensors changes in place, as it is written."""
    if isinstance(node, ast.AugAssign):
        return ast.unparse(node.target)
    if isinstance(node, ast.Subscript):
        return ast.unparse(node.value) if isinstance(node.ctx, ast.Store) else ""
    return ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) and is_in_place(node.func.attr) else ""
