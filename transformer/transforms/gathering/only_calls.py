"""Functions and methods that are called in exactly one place, and the loops that train through such calls."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache, partial
from itertools import takewhile
from operator import is_not
from typing import TypeGuard

from transformer.dataflow.access import free_names, scope_access
from transformer.dataflow.name_lookups import looks_at_methods, looks_up_names, texts_of
from transformer.dataflow.variables import COMPREHENSIONS
from transformer.facts.libraries import module_methods
from transformer.facts.lookups import ANSWERING, lookups
from transformer.facts.python import decorators
from transformer.recognition.buffers import find_allocations
from transformer.recognition.roles import Roles
from transformer.syntax.query import (
    backwards,
    bind_arguments,
    calls_method,
    names_in,
    parameters,
    statements,
    unparse,
    walk,
    without_methods,
)
from transformer.syntax.tree import Loop, Tree
from transformer.values.effects.world import World

ITSELF = module_methods(gives="itself")
OF_CLASSES = decorators(calls=False)
"""Decorators that return the class that they decorate."""


class _MethodCall(ast.Call):
    """A call of a method, for type checkers."""

    func: ast.Attribute


@dataclass(frozen=True)
class OnlyCall:
    """The only use of a function of the file: a call by its name, or of a method on a known object."""

    call: ast.Call
    function: ast.FunctionDef
    receiver: ast.expr | None
    """The object whose method is called."""


def only_calls(
    roles: Roles, *, by_name: bool = True, known: AbstractSet[str] = frozenset()
) -> dict[ast.FunctionDef, OnlyCall]:
    """Functions of the file whose only use is one call.

    Args:
        roles: the script.
        by_name: whether to judge by names alone, and omit calls whose callee depends on the object of an expression.
        known: names of methods that are known to be called only by the one expression that ends with their name.
    """
    tree = roles.tree
    defined: dict[str, list[ast.AST]] = {}
    names: dict[str, list[ast.expr]] = {}
    attributes: dict[str, list[ast.Attribute]] = {}
    texts = texts_of(tree)
    for node in tree.nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            defined.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Name):
            names.setdefault(node.id, []).append(node)
        elif isinstance(node, ast.Attribute):
            attributes.setdefault(node.attr, []).append(node)
    shows = cache(lambda cls: looks_at_methods_of(roles, cls, by_name=by_name) is not None)
    found: dict[ast.FunctionDef, OnlyCall] = {}
    for name, function in ((name, node) for name, nodes in defined.items() for node in nodes):
        others = [node for node in defined[name] if node is not function]
        if not isinstance(function, ast.FunctionDef) or name in tree.imports:
            continue
        owner = tree.parents[function]
        if name in texts and looks_up_names(tree, owner):
            continue
        if others and not (isinstance(owner, ast.ClassDef) and all(_is_method_beside(tree, n, owner) for n in others)):
            continue
        if isinstance(owner, ast.ClassDef):
            asked = attributes.get(name, [])
            uses: list[ast.expr] = [u for u in asked if len(asked) == 1 or not _is_of_another(tree, u.value, owner)]
            if len(uses) > 1 and not by_name:
                uses = [u for u in uses if roles.get(World).may_be(u, function)]
        else:
            uses = [*names.get(name, [])]
        call = tree.parents[uses[0]] if len(uses) == 1 else None
        if not isinstance(call, ast.Call) or call.func is not uses[0] or function in tree.ancestors(call):
            continue
        if isinstance(owner, ast.ClassDef) and any(_in_class_body(tree, n, owner) for n in names.get(name, [])):
            continue  # such as `act = method` in the class's body
        if isinstance(owner, ast.ClassDef):
            receiver = uses[0].value if isinstance(uses[0], ast.Attribute) else None
            if receiver is None or _is_called_unseen(tree, name):
                continue
            shown = name in known or (not by_name and roles.get(World).only_runs(uses[0], function))
            if not shown and not _is_instance(tree, receiver, owner) and not _is_inherited(roles, receiver, function):
                continue
            if name not in known and shows(owner):
                continue
            found[function] = OnlyCall(call, function, receiver)
        elif isinstance(owner, (ast.Module, ast.FunctionDef)):
            found[function] = OnlyCall(call, function, None)
    return found


def trains_once(roles: Roles) -> bool:
    """Whether a process trains only once: each function around the training is called once, and not in a loop."""
    tree, scope = roles.tree, roles.scope
    calls = only_calls(roles, by_name=False) if isinstance(scope, ast.FunctionDef) else {}
    while isinstance(scope, ast.FunctionDef):
        only = calls.pop(scope, None)
        if only is None or scope.decorator_list:  # a decorator may call it again
            return False
        scope = tree.scope_of(only.call)
        around = takewhile(partial(is_not, scope), tree.ancestors(only.call))
        if any(isinstance(node, (ast.For, ast.While, ast.ClassDef, ast.Lambda, *COMPREHENSIONS)) for node in around):
            return False
    return isinstance(scope, ast.Module)


def looks_at_methods_of(roles: Roles, cls: ast.ClassDef, *, by_name: bool = False) -> ast.AST | None:
    """A place where a script may see, replace or call methods of a class by other means than their literal names."""
    return looks_at_methods(roles.tree, cls, lambda value: by_name or roles.get(World).may_be_of(value, cls))


def _is_called_unseen(tree: Tree, name: str) -> bool:
    """Whether Python, torch or a pattern may use a method without a call by its name."""
    special = name == "forward" or (name.startswith("__") and name.endswith("__"))
    return special or any(name in getattr(node, "kwd_attrs", ()) for node in tree.nodes)  # `case object(update=_)`


def _is_method_beside(tree: Tree, node: ast.AST, owner: ast.ClassDef) -> bool:
    """Whether a definition is a method of a class unrelated to another class."""
    other = tree.parents[node]
    return isinstance(other, ast.ClassDef) and isinstance(node, ast.FunctionDef) and _are_apart(tree, other, owner)


def _are_apart(tree: Tree, one: ast.ClassDef, other: ast.ClassDef) -> bool:
    """Whether no object is an instance of both classes."""
    if one is other or other in tree.lineage(one) or one in tree.lineage(other):
        return False
    for cls in (one, other):
        decorated = any(tree.qualified(getattr(d, "func", d)) not in OF_CLASSES for d in cls.decorator_list)
        special = decorated or cls.keywords or any(m.name == "__new__" for m in cls.body if _is_function(m))
        if special or tree.classes.get(cls.name) is not cls or cls.name in tree.rebound:
            return False
    return tree.asked.isdisjoint((one.name, other.name))


def _is_function(node: ast.AST) -> TypeGuard[ast.FunctionDef]:
    return isinstance(node, ast.FunctionDef)


def _is_of_another(tree: Tree, value: ast.expr, owner: ast.ClassDef) -> bool:
    """Whether an object is known to be an instance of a class unrelated to `owner`, which has no subclasses.

    It is `self` of such a class, or a name or attribute that is only ever bound to new instances of it.
    """
    if any(owner.name in map(unparse, cls.bases) for cls in tree.classes.values()):
        return False
    if isinstance(value, ast.Name):
        cls = _class_of(tree, value)
        return cls is not None and _are_apart(tree, cls, owner)
    if not isinstance(value, ast.Attribute) or not isinstance(value.value, ast.Name):
        return False
    holder = _class_of(tree, value.value)
    if holder is None or holder.decorator_list or tree.methods(value.attr) or any(map(tree.methods, ANSWERING)):
        return False
    setting = lookups(sets=True) | {"vars", "__class__"}
    if not tree.mentioned.isdisjoint(setting):
        return False
    stores = [n for kind in (ast.Name, ast.Attribute) for n in tree.stores.get((kind, value.attr), ())]
    made = [cls for n in stores if isinstance(n, ast.Attribute) for cls in [_class_assigned(tree, n)]]
    in_class = any(isinstance(tree.parents[tree.statement(n)], ast.ClassDef) for n in stores)
    return bool(made) and not in_class and all(cls is not None and _are_apart(tree, cls, owner) for cls in made)


def _class_of(tree: Tree, name: ast.Name) -> ast.ClassDef | None:
    """The class of a name's object: of `self`, of a name bound only to new instances, or of a parameter that gets such
    a name in every call."""
    scope = tree.scope_of(name)
    stores = [n for n in tree.stores.get((ast.Name, name.id), ()) if isinstance(n, ast.Name)]
    own = [n for n in stores if tree.scope_of(n) is scope]
    if isinstance(scope, ast.FunctionDef) and name.id in parameters(scope):
        if own or scope.decorator_list:
            return None
        return tree.class_of_self(name, scope) or _class_given(tree, scope, name.id)
    classes = {_class_assigned(tree, n) for n in stores}
    return classes.pop() if own and len(classes) == 1 else None


def _class_given(tree: Tree, function: ast.FunctionDef, parameter: str) -> ast.ClassDef | None:
    """The class of the objects that all calls of a function of the module give a parameter; None if not known."""
    uses = [n for n in tree.of(ast.Name) if n.id == function.name]
    if function not in tree.root.body or (function.name in texts_of(tree) and looks_up_names(tree, tree.root)):
        return None
    found = set[ast.ClassDef | None]()
    for use in uses:
        call = tree.parents[use]
        called = isinstance(call, ast.Call) and call.func is use and tree.function_called(call) is function
        bound = bind_arguments(function, call) if called and isinstance(call, ast.Call) else None
        given = bound.given.get(parameter) if bound is not None else None
        inside = tree.scope_of(use) is function  # a recursive call may pass on its own argument
        found.add(_class_of(tree, given) if isinstance(given, ast.Name) and not inside else None)
    return found.pop() if len(found) == 1 else None


def _class_assigned(tree: Tree, target: ast.expr) -> ast.ClassDef | None:
    """The class of the file whose new instance a target is bound to, an attribute perhaps by way of `.to(device)`."""
    stmt = tree.parents[target]
    if not isinstance(stmt, ast.Assign) or target not in stmt.targets:
        return None
    made = without_methods(stmt.value, ITSELF) if isinstance(target, ast.Attribute) else stmt.value
    cls = tree.classes.get(unparse(made.func)) if isinstance(made, ast.Call) else None
    return cls if cls is None or made is stmt.value or _has_only_torchs(tree, cls, ITSELF) else None


def _has_only_torchs(tree: Tree, cls: ast.ClassDef, methods: Collection[str]) -> bool:
    """Whether a class of the file is a module of torch and inherits torch's own versions of these methods."""
    line = tree.lineage(cls)
    foreign = [b for c in line for b in tree.bases(c) if unparse(b) not in tree.classes]
    own = {m.name for c in line for m in c.body if _is_function(m)}
    torchs = bool(foreign) and all((tree.qualified(b) or "").startswith("torch.nn.") for b in foreign)
    return torchs and own.isdisjoint(methods)


def _in_class_body(tree: Tree, name: ast.AST, owner: ast.ClassDef) -> bool:
    """Whether a name is evaluated when a class is created, in its body or in the signatures of its methods."""
    below = name
    for outer in tree.ancestors(name):
        if outer is owner:
            return True
        if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            decorates = below in getattr(outer, "decorator_list", ())
            if not decorates and not isinstance(below, ast.arguments):
                return False
        below = outer
    return False


def _is_instance(tree: Tree, value: ast.expr, owner: ast.ClassDef) -> bool:
    """Whether a name is an instance of exactly this class: `self` in its methods, or the result of its call."""
    if not isinstance(value, ast.Name) or any(owner.name in map(unparse, c.bases) for c in tree.classes.values()):
        return False
    scope = tree.scope_of(value)
    if isinstance(scope, ast.FunctionDef) and value.id in parameters(scope):
        return tree.class_of_self(value, scope) is owner and not scope.decorator_list
    bound = [n for n in walk(scope) if isinstance(n, ast.Name) and n.id == value.id and isinstance(n.ctx, ast.Store)]
    made = [tree.parents[n] for n in bound]
    values = [m.value for m in made if isinstance(m, ast.Assign) and len(m.targets) == 1]
    first, *others = values if len(values) == len(made) > 0 else [value]
    made_by = without_methods(first, ITSELF)
    same = all(isinstance(bare := without_methods(v, ITSELF), ast.Name) and bare.id == value.id for v in others)
    return isinstance(made_by, ast.Call) and unparse(made_by.func) == owner.name and same


def _is_inherited(roles: Roles, value: ast.expr, method: ast.FunctionDef) -> bool:
    """Whether `value` is `self` in a class whose subclasses, all in this file, do not override the method."""
    tree = roles.tree
    owner = tree.class_of_self(value, tree.scope_of(value))
    if owner is not tree.parents[method] or not isinstance(owner, ast.ClassDef):
        return False
    for cls in (c for c in tree.of(ast.ClassDef) if owner in tree.lineage(c)):
        bases = [base for one in tree.lineage(cls) for base in tree.bases(one)]
        known = all(isinstance(base, ast.Name) and tree.classes.get(base.id) for base in bases)
        special = cls.keywords or cls.decorator_list or looks_at_methods_of(roles, cls) is not None
        if special or not known or tree.classes.get(cls.name) is not cls or cls.name in tree.rebound:
            return False
    set_in_class = (ast.Name, method.name) in tree.stores
    return len(tree.methods(method.name)) == 1 and not set_in_class and not tree.attributes_set(method.name)


def call_to_inline(roles: Roles, calls: dict[ast.FunctionDef, OnlyCall]) -> OnlyCall | None:
    """A call in the training loop that leads to the rollout or the update; None if there is none."""
    tree = roles.tree
    environment, optimizer = (_reaching(tree, calls, s) for s in (roles.env_steps, roles.optimizer_steps))
    loops = [
        loop
        for loop in (n for n in tree.nodes if isinstance(n, (ast.For, ast.While)))
        if _makes_a_step(tree, calls, loop, roles.env_steps, environment)
        and _makes_a_step(tree, calls, loop, roles.optimizer_steps, optimizer)
    ]
    for loop in loops:
        inside = _entered(tree, calls, loop)
        if any(other is not loop and (other in inside or tree.scope_of(other) in inside) for other in loops):
            continue
        for steps, reaching in ((roles.optimizer_steps, optimizer), (roles.env_steps, environment)):
            if not any(loop in tree.loops_around(step) for step in steps):
                return next(c for c in calls.values() if c.function in reaching and loop in tree.loops_around(c.call))
    return None


def advantages_to_inline(roles: Roles, calls: dict[ast.FunctionDef, OnlyCall]) -> OnlyCall | None:
    """The call of a function that estimates advantages from values other than its arguments; None if there is none."""
    buffers = set(roles.get(find_allocations))
    for only in calls.values():
        takes = only.receiver is not None or not buffers.isdisjoint(free_names(only.function))
        if takes and roles.phases.loop in roles.tree.loops_around(only.call) and _goes_back(only.function):
            return only
    return None


def computation_to_inline(roles: Roles, calls: dict[ast.FunctionDef, OnlyCall]) -> OnlyCall | None:
    """The call of a function in a minibatch's computation that may read tensors on the host; None if there is none."""
    for only in calls.values():
        if roles.tree.loops_around(only.call)[:1] == list(roles.phases.updates[:1]) != []:
            return only
    return None


def targets_to_inline(roles: Roles, calls: dict[ast.FunctionDef, OnlyCall]) -> OnlyCall | None:
    """The call of a method in the training loop that updates one network's parameters from another's; None if none."""
    for only in calls.values():
        if only.receiver is not None and roles.outermost in roles.tree.loops_around(only.call):
            if any(isinstance(s, ast.For) and _goes_through_two(s.iter) for s in statements(only.function.body)):
                return only
    return None


def _goes_through_two(iterated: ast.expr) -> bool:
    """`zip(a.parameters(), b.parameters())`."""
    plain = isinstance(iterated, ast.Call) and unparse(iterated.func) == "zip" and len(iterated.args) == 2
    return plain and all(calls_method(a, "parameters") for a in iterated.args)  # type: ignore[attr-defined]


def training_to_inline(roles: Roles, calls: dict[ast.FunctionDef, OnlyCall]) -> OnlyCall | None:
    """The call of a function that trains networks with an optimizer made outside it; None if there is none."""
    tree = roles.tree
    stepping = _reaching(tree, calls, roles.env_steps)
    for only in calls.values():
        function = only.function
        if function not in stepping or tree.loops_around(only.call) or only.receiver is not None:
            continue
        own = scope_access(function.body).binds
        cleared = [n.func.value for n in tree.nodes if clears_gradients(n) and tree.scope_of(n) is function]
        if any(isinstance(root := root_of(held), ast.Name) and root.id not in own for held in cleared):
            return only
    return None


def making_to_inline(roles: Roles, calls: dict[ast.FunctionDef, OnlyCall]) -> OnlyCall | None:
    """The call above the training loop of a function that makes or returns an optimizer; None if there is none."""
    tree = roles.tree
    names = [*(o.name for o in roles.optimizers), *roles.made_elsewhere]
    stepped = {name.partition(".")[0] for name in names}
    for only in calls.values():
        stmt = tree.parents[only.call]
        if not isinstance(stmt, ast.Assign) or stmt not in roles.setup or not names_in(stmt.targets) & stepped:
            continue
        if any(isinstance(n, ast.Call) and makes_optimizer(tree, n) for n in walk(only.function)):
            return only
    return None


def makes_optimizer(tree: Tree, call: ast.Call) -> bool:
    """Whether a call makes one of torch's optimizers."""
    made = tree.qualified(call.func) or ""
    return made.startswith("torch.optim.") and not made.startswith("torch.optim.lr_scheduler.")


def clears_gradients(node: ast.AST) -> TypeGuard[_MethodCall]:
    """Whether a node is `optimizer.zero_grad()`, for any object."""
    return calls_method(node, "zero_grad")


def root_of(value: ast.expr) -> ast.expr:
    """`x` in `x.y.z`."""
    while isinstance(value, ast.Attribute):
        value = value.value
    return value


def _goes_back(function: ast.FunctionDef) -> bool:
    """Whether a function has a loop backwards in time."""
    return any(isinstance(s, ast.For) and backwards(s.iter) is not None for s in statements(function.body))


def _reaching(
    tree: Tree, calls: dict[ast.FunctionDef, OnlyCall], steps: Iterable[ast.Call]
) -> Collection[ast.FunctionDef]:
    """The functions that make one of the steps, directly or through the functions they call."""
    found: set[ast.FunctionDef] = set()
    stack: list[ast.AST] = list(steps)
    while stack:
        scope = tree.scope_of(stack.pop())
        if isinstance(scope, ast.FunctionDef) and scope in calls and scope not in found:
            found.add(scope)
            stack.append(calls[scope].call)
    return found


def _makes_a_step(
    tree: Tree,
    calls: dict[ast.FunctionDef, OnlyCall],
    loop: Loop,
    steps: Iterable[ast.Call],
    reaching: Collection[ast.FunctionDef],
) -> bool:
    """Whether a loop makes one of the steps, directly or in a function that it calls."""
    nodes = [*steps, *(calls[f].call for f in reaching)]
    return any(loop in tree.loops_around(node) for node in nodes)


def _entered(tree: Tree, calls: dict[ast.FunctionDef, OnlyCall], loop: Loop) -> set[ast.AST]:
    """The nodes of a loop, and of the functions that it calls, directly or indirectly."""
    nodes = set(walk(loop))
    grown = True
    while grown:
        inside = {c.function for c in calls.values() if c.call in nodes or tree.scope_of(c.call) in nodes}
        grown = not inside <= nodes
        nodes |= inside
    return nodes
