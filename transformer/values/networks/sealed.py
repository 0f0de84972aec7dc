"""Networks that are fully known: their parts stay, and calling one does nothing but compute.

A network's call can then be moved past other statements without any visible difference. Only known uses of a network,
and known statements in its methods, are allowed; anything else breaks the seal.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable

from transformer.dataflow.access import scope_access
from transformer.dataflow.name_lookups import is_vars_of_options
from transformer.facts.libraries import LEAVES_PARTS, module_methods
from transformer.facts.lookups import ATTRIBUTE_LOOKUPS, EVERYTHING, lookups
from transformer.facts.python import builtin_names
from transformer.facts.torch_api import DISTRIBUTIONS, NO_GRAD, attributes, layers, may_be_given, names, of_layers
from transformer.recognition.roles import Roles
from transformer.syntax.query import bind_arguments, first_parameter, is_static, parameters, root, walk
from transformer.syntax.tree import Tree
from transformer.values.networks.attributes import initializes_all, kept_by, only_initializes

METHODS = names("tensor", "distribution", memory=("new", "shared"), waits="")
"""Methods of tensors and distributions that compute and change nothing."""
FUNCTIONS = names("torch", memory=("new", "shared"), waits="", made="") | names("functional", memory=("new", "shared"))
"""Functions of torch and torch.nn.functional that compute and change nothing."""
ASKED = LEAVES_PARTS | module_methods(sets="place")
"""Methods of a module that change at most the values of parameters."""
HELD = of_layers(is_a="parameter") | attributes(memory="shared", graph=False, tells=False)
"""The parameters of a layer, and the values of a parameter."""
REACHING = (
    module_methods(finds="parts")
    | module_methods(sets=("parts", "parameters", "buffers"))
    | lookups(of="attribute")
    | frozenset("__getattribute__ __slots__ __match_args__ __code__ suppress".split())
)
"""Attributes that reach or replace a part or a method without naming it, or catch exceptions."""
OVERRIDDEN = frozenset("forward append".split())
"""Methods that may be replaced."""
BY_TEXT = ATTRIBUTE_LOOKUPS | EVERYTHING | {"suppress"}
"""Names that reach attributes or variables by string, or catch exceptions."""
NO_RESULT = builtin_names(makes="foreign")
"""Exceptions that no computation raises."""
SPECIAL = lookups(of="special", finds="nothing")
"""Methods that Python itself calls and that do not affect attribute lookup."""
BUILTINS = (
    builtin_names(converts=True)
    | builtin_names(gives="contents and given", calls="key")
    | builtin_names(makes=("numbers", "access"))
)
"""Builtins that compute of numbers alone; len() depends on what a list holds at the time."""


def overlooked(roles: Roles, moved: Iterable[ast.AST]) -> str | None:
    """Code in a script that may change a network, or observe the order of statements, without naming them.

    Args:
        roles: the script.
        moved: the scopes of these statements.
    """
    tree = roles.tree
    for node in tree.nodes:
        if isinstance(node, ast.Attribute):
            sets = node.attr in OVERRIDDEN and not isinstance(node.ctx, ast.Load)
            reaches = node.attr in REACHING and not (_registers_buffer(tree, node) or initializes_all(tree, node))
            if sets or reaches or (node.attr == "apply" and not _initializes(tree, node)):
                return f"line {node.lineno} uses {node.attr}"
        elif isinstance(node, ast.Name) and node.id in BY_TEXT and not is_vars_of_options(tree, node):
            return f"line {node.lineno} uses {node.id}"
        elif isinstance(node, ast.MatchClass):
            return f"line {node.lineno} matches attributes"
        elif isinstance(node, ast.ExceptHandler):
            caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            harmless = all(isinstance(c, ast.Name) and c.id in NO_RESULT for c in caught)
            if not harmless and not _ends_before_training(roles, node, moved):
                return f"line {node.lineno} catches what a computation may raise"
    return None


def _ends_before_training(roles: Roles, handler: ast.ExceptHandler, moved: Iterable[ast.AST]) -> bool:
    """Whether a handler covers only code above the training loop that names none of these functions."""
    tried = roles.tree.parents[handler]
    around = (tried, *roles.tree.ancestors(tried))
    if not isinstance(tried, ast.Try) or not any(stmt in roles.setup for stmt in around):
        return False
    above = roles.tree.scope_of(tried) is roles.scope
    return above and {*moved}.isdisjoint(roles.reached([*tried.body, *roles.called_unseen]))


def _registers_buffer(tree: Tree, register: ast.Attribute) -> bool:
    """Whether a constructor registers a tensor on its own object: `self.register_buffer("scale", scale)`."""
    call, scope = tree.parents[register], tree.scope_of(register)
    own = first_parameter(scope) if isinstance(scope, ast.FunctionDef) and scope.name == "__init__" else None
    return (
        register.attr == "register_buffer"
        and isinstance(register.value, ast.Name)
        and register.value.id == own
        and isinstance(call, ast.Call)
        and call.func is register
        and isinstance(call.args[0] if call.args else None, ast.Constant)
    )


def _initializes(tree: Tree, apply: ast.Attribute) -> bool:
    """Whether `module.apply(function)` only writes values into parameters."""
    call = tree.parents[apply]
    given = call.args if isinstance(call, ast.Call) and call.func is apply else []
    if len(given) != 1 or not isinstance(given[0], (ast.Name, ast.Attribute)):
        return False
    name = given[0].id if isinstance(given[0], ast.Name) else given[0].attr
    functions = [f for f in tree.of(ast.FunctionDef) if f.name == name]
    if len(functions) != 1 or not (is_static(functions[0]) or not functions[0].decorator_list):
        return False
    return only_initializes(tree, functions[0].body)


def is_plain_class(tree: Tree, cls: ast.ClassDef) -> bool:
    """Whether a class is what its definition says: derived from torch's modules or nothing, and without a metaclass."""
    known = all(tree.qualified(b) == "torch.nn.Module" for b in tree.bases(cls))
    special = {s.name for s in cls.body if isinstance(s, ast.FunctionDef) and s.name.startswith("__")}
    once = [c for c in tree.of(ast.ClassDef) if c.name == cls.name] == [cls] and cls in tree.root.body
    plain = not cls.decorator_list and not cls.keywords and special <= SPECIAL and cls.name not in tree.rebound
    derived = any(isinstance(b, ast.Name) and b.id == cls.name for c in tree.of(ast.ClassDef) for b in c.bases)
    return known and plain and once and not derived


def stays(roles: Roles, uses: Iterable[ast.Name | ast.Attribute]) -> bool:
    """Whether nothing replaces a network or one of its parts.

    Functions of the file to which it is passed are checked too.

    Args:
        roles: the script, of which nothing may be `overlooked`.
        uses: all nodes with the network's name, or its attribute's name.
    """
    asked, entered = [*uses], set[tuple[ast.FunctionDef, str]]()
    for node in asked:  # grows during the loop
        if _is_known(roles.tree, node) or _leaves_training(roles, node):
            continue
        given = _given_to(roles.tree, node)
        if given is None:
            return False
        if given not in entered:
            entered.add(given)
            function, name = given
            asked += [n for n in walk(function) if isinstance(n, ast.Name) and n.id == name]
    return True


def _leaves_training(roles: Roles, node: ast.expr) -> bool:
    """Whether an expression returns a network from the training function, whose loop has then ended."""
    stmt = roles.tree.parents[node]
    if isinstance(stmt, ast.Tuple):
        stmt = roles.tree.parents[stmt]
    returned = isinstance(stmt, ast.Return) and isinstance(node, ast.Name)
    return returned and roles.tree.scope_of(node) is roles.scope


def _given_to(tree: Tree, node: ast.expr) -> tuple[ast.FunctionDef, str] | None:
    """The function of this file that a network is passed to, and its parameter; None for any other use."""
    call = tree.parents[node]
    if isinstance(call, ast.keyword):
        call = tree.parents[call]
    function = tree.function_called(call) if isinstance(call, ast.Call) else None
    if function is None or not all(tree.calls(d, *NO_GRAD) for d in function.decorator_list):
        return None
    bound = bind_arguments(function, call) if isinstance(call, ast.Call) else None
    names = [name for name, value in bound.given.items() if value is node] if bound is not None else []
    return (function, names[0]) if names else None


def _is_known(tree: Tree, node: ast.Name | ast.Attribute) -> bool:
    outer = tree.parents[node]
    if isinstance(node.ctx, ast.Store):
        scope = tree.scope_of(node)
        if isinstance(node, ast.Attribute):
            if not isinstance(scope, ast.FunctionDef) or scope.name != "__init__":
                return False
            if not isinstance(node.value, ast.Name) or node.value.id != first_parameter(scope):
                return False
        if isinstance(outer, ast.Tuple):  # actor, critic = make(), make()
            outer = tree.parents[outer]
            if isinstance(node, ast.Attribute) and node not in tree.assigned:
                return False
        return (isinstance(outer, ast.Assign) and len(outer.targets) == 1) or isinstance(outer, ast.AnnAssign)
    if not isinstance(node.ctx, ast.Load):
        return False
    if isinstance(outer, ast.Call):
        return outer.func is node or tree.calls(outer, "copy.deepcopy", "torch.save")
    while isinstance(outer, ast.Subscript) and outer.value is node:  # a layer of a Sequential
        node, outer = outer, tree.parents[outer]  # type: ignore[assignment]
    if not isinstance(outer, ast.Attribute):
        return False
    call = tree.parents[outer]
    called = isinstance(call, ast.Call) and call.func is outer
    if outer.attr in HELD and isinstance(call, ast.Call) and outer in call.args:
        return (tree.qualified(call.func) or "").startswith("torch.nn.init.")
    if isinstance(node, ast.Subscript):
        return outer.attr in HELD and isinstance(outer.ctx, ast.Load)
    return called and outer.attr in ASKED


def only_computes(roles: Roles, cls: ast.ClassDef, methods: Iterable[ast.FunctionDef]) -> bool:
    """Whether methods of a network's class read only their arguments and their object, and change nothing.

    Args:
        roles: the script.
        cls: the class.
        methods: those that run, except the constructor.
    """
    tree = roles.tree
    own_methods = {s.name for s in cls.body if isinstance(s, ast.FunctionDef)}
    kept = {name for s in cls.body if isinstance(s, ast.FunctionDef) for name, _ in kept_by(s)}
    for method in methods:
        own = first_parameter(method)
        local = set(scope_access(method.body).binds) | set(parameters(method))
        if method.decorator_list or own is None or own in scope_access(method.body).binds:
            return False
        for node in (n for s in method.body for n in walk(s)):
            if isinstance(node, (ast.Global, ast.Nonlocal, ast.AugAssign, ast.Delete, ast.Yield, ast.YieldFrom)):
                return False
            if isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Await)):
                return False
            if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
                return False
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in local:
                if not (
                    node.id in tree.only_imported
                    or node.id == roles.history.sampler
                    or tree.names.builtin(node) in BUILTINS
                ):
                    return False
            if isinstance(node, ast.Call) and not _computes(roles, node, own, own_methods | kept):
                return False
    return True


def _computes(roles: Roles, call: ast.Call, own: str, known: Collection[str]) -> bool:
    if may_be_given(call):
        return False
    func, name = call.func, meaning(roles.tree, call.func)
    last = name.rpartition(".")[2]
    if name.startswith(DISTRIBUTIONS):
        return last[:1].isupper()
    if name.startswith("torch."):
        return name in (f"torch.{last}", f"torch.nn.functional.{last}") and last in FUNCTIONS
    if isinstance(func, ast.Name):
        return func.id in (own, roles.history.sampler) or roles.tree.names.builtin(func) in BUILTINS
    if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == own:
        return func.attr in known
    return isinstance(func, ast.Attribute) and not name and func.attr in METHODS


def meaning(tree: Tree, node: ast.expr) -> str:
    """The qualified name of an expression; "" if it is not certain."""
    return tree.qualified(node) or "" if root(node) in tree.only_imported else ""


def makes_inplace(node: ast.AST) -> bool:
    """Whether a node of a constructor may make a layer that works in place."""
    if not isinstance(node, ast.Call):
        return False
    given = [*node.args, *(k.value for k in node.keywords)]
    layer = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if layer in layers(inplace=True) and any(isinstance(n, ast.Name) for v in given for n in walk(v)):
        return True  # the option may be True
    return any(k.arg == "inplace" for k in node.keywords) or any(
        isinstance(v, ast.Constant) and v.value is True for v in given
    )
