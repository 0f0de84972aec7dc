"""Attributes that are set only above the training loop: networks made by constructors, and numbers."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass

from transformer.dataflow.access import access, free_names
from transformer.dataflow.name_lookups import looks_up_names
from transformer.facts.libraries import LEAVES_PARTS, module_methods
from transformer.facts.lookups import lookups
from transformer.facts.torch_api import MADE
from transformer.recognition.attribute_setting import sets_by_text
from transformer.recognition.before_training import runs_before_training
from transformer.recognition.changes import only_makes
from transformer.recognition.roles import Roles
from transformer.syntax.query import unparse, walk, without_methods
from transformer.syntax.tree import Tree
from transformer.values.effects import kept_optimizers
from transformer.values.effects.world import World
from transformer.values.networks.attributes import NUMBER, BoundScope, Unknown, Values
from transformer.values.networks.uses import MOVING

NUMBERS = NUMBER | {"list"}
ANSWERS = lookups(of="special", finds=("attributes", "copies", "methods")) | module_methods(finds="parameters")
"""Methods with which a class overrides what torch and copy.deepcopy() do with a network."""
CALLED = LEAVES_PARTS | module_methods(sets="learning")


@dataclass(frozen=True)
class Kept:
    """The value of an attribute that is set only above the training loop."""

    maker: ast.FunctionDef
    """The constructor."""
    call: ast.Call | None
    """The only call that makes the object; None for the object that trains."""
    value: ast.expr

    def frame(self, roles: Roles) -> BoundScope | None:
        """The constructor with the arguments of its call; None if these are not explicit."""
        if self.call is None:
            return None
        return Values(roles, lambda *_: None).enter(self.maker, self.call, BoundScope(roles.scope))

    @staticmethod
    def of(roles: Roles, path: str) -> Kept | None:
        """The value of `agent.critic`; None if it is not known, or may change."""
        tree, (root, _, name) = roles.tree, path.rpartition(".")
        stored = roles.tree.attributes_set(name)
        single = (n for n in stored if isinstance(s := tree.statement(n), ast.Assign) and len(s.targets) == 1)
        made_at = [(tree.statement(n), tree.assigned[n]) for n in single if n in tree.assigned]
        maker = tree.scope_of(stored[0]) if stored else None
        if len(made_at) < len(stored) or not isinstance(maker, ast.FunctionDef) or maker.name != "__init__":
            return None
        cls = tree.class_of_self(stored[0].value, maker)
        again = any(tree.class_of_self(n.value, tree.scope_of(n)) is not cls for n in stored)
        again = again or len({unparse(value) for _, value in made_at}) > 1 or tree.methods(name) != ()
        if cls is None or again or not root.isidentifier() or kept_optimizers.rebound(roles, root, cls) is not None:
            return None
        if not only_makes(tree) or not all(runs_before_training(roles, n) for n in stored):
            return None
        stmt, value = made_at[0]
        outside = (n for n in tree.nodes if tree.scope_of(n) is not maker)
        by_name = looks_up_names(tree, cls) or any(map(sets_by_text, outside))
        if (by_name and any(n.value == name for n in tree.of(ast.Constant))) or tree.loops_around(stmt):
            return None
        if any(sets_by_text(n) and n.lineno > stmt.lineno for n in walk(maker)):
            return None
        in_class = any(name in access(s).binds for c in tree.classes.values() for s in c.body)  # such as a descriptor
        if in_class or any(isinstance(n, ast.Constant) and isinstance(n.value, complex) for n in walk(stmt)):
            return None
        made = roles.only_value(root)
        return Kept(maker, tree.constructor(made) if made is not None else None, value)


def changed_unseen(roles: Roles, names: Collection[str], of: type[ast.Attribute] | type[ast.Name]) -> str | None:
    """Why networks in attributes or variables of these names may get or share other parts; None if every use is known.

    The known uses of a network are calling it, calling methods of its class or torch's methods in CALLED, and
    copy.deepcopy(). Any other code that reaches a network, or a part of it, may do anything with it.
    """
    tree = roles.tree
    if "copy" in tree.bound or "copy" in tree.classes:
        return "the name copy is not the standard module"
    if answering := [m for name in sorted(ANSWERS) for m in tree.methods(name)]:
        return f"line {answering[0].lineno} may change what is copied, or which parameters a network has"
    if (hook := roles.hook(r"\w*")) is not None:
        return f"line {hook.lineno} registers a hook"
    for cls in roles.tree.classes.values():
        if roles.is_module(cls) and (cls.decorator_list or cls.keywords):
            return f"line {cls.lineno} makes {cls.name} differ from its text"
    for node in tree.nodes:
        named = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if isinstance(node, of) and named in names and isinstance(node.ctx, ast.Load):
            if not _is_known_use(tree, node):
                return f"line {node.lineno} uses {unparse(node)} in a way that may change its parts"
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            if (tree.qualified(node) or "").startswith(("torch.", "copy.")) and "backends" not in unparse(node):
                return f"line {node.lineno} sets {unparse(node)}"
        elif isinstance(node, ast.Call) and unparse(node.func) in ("getattr", "setattr", "delattr"):
            if len(node.args) > 1 and not isinstance(node.args[1], ast.Constant):
                return f"line {node.lineno} uses an attribute whose name is known only at run time"
    return None


def _is_known_use(tree: Tree, node: ast.Attribute | ast.Name) -> bool:
    call = tree.parents[node]
    if isinstance(call, ast.Attribute):
        method, call = call, tree.parents[call]
        if not isinstance(call, ast.Call) or call.func is not method:
            return False
        plain = method.attr != "load_state_dict" or (len(call.args) == 1 and not call.keywords)
        return bool(tree.methods(method.attr)) or (method.attr in CALLED and plain)
    return isinstance(call, ast.Call) and (call.func is node or tree.calls(call, "copy.deepcopy"))


def makes_new(roles: Roles, values: Values, value: ast.expr, frame: BoundScope) -> bool:
    """Whether a call makes a tensor, or a network of a class of the file, from numbers only."""
    value = without_methods(value, MOVING)
    if not isinstance(value, ast.Call):
        return False
    cls = values.class_called(value)
    if cls is None:
        return (roles.tree.qualified(value.func) or "") in MADE
    given = [*value.args, *(k.value for k in value.keywords)]
    classes = roles.tree.used_classes(cls)
    functions = [m for c in classes for m in c.body if isinstance(m, ast.FunctionDef)]
    if any(not isinstance(s, (ast.FunctionDef, ast.Expr, ast.Pass)) for c in classes for s in c.body):
        return False  # instances share class attributes
    are_numbers = roles.get(World).are_numbers
    try:
        numbers = all(are_numbers(v) or values.leaves(v, frame) <= NUMBERS for v in given)
        return numbers and not _shared(roles, values, functions)
    except Unknown:
        return False


def _shared(roles: Roles, values: Values, functions: list[ast.FunctionDef]) -> bool:
    """Whether functions, or their callees, use a variable of the file that may be more than a number."""
    top = BoundScope(roles.tree.root)
    for function in functions:  # the list grows
        defaults = [*function.args.defaults, *(d for d in function.args.kw_defaults if d is not None)]
        if function.decorator_list or not all(values.leaves(d, top) == NUMBER for d in defaults):
            return True
        if any(isinstance(n, (ast.Global, ast.Nonlocal, ast.NamedExpr)) for n in walk(function)):
            return True
        for name in free_names(function):
            defined = [f for f in roles.tree.of(ast.FunctionDef) if f.name == name]
            functions += [f for f in defined if f not in functions]
            if name in roles.tree.bound and values.leaves(ast.Name(name), top) != NUMBER:
                return True
    return False
