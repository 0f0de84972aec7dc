"""Whether a network computes the same bits without gradients, so that acting need not record them."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from transformer.dataflow.written_numbers import is_of_written_numbers
from transformer.facts.python import ACCESS, COMPUTES, SHOWS
from transformer.facts.torch_api import DISTRIBUTIONS, GRADIENTS, HOLDERS, OF, PRODUCTS, layers
from transformer.recognition.changes import foreign_base
from transformer.recognition.roles import Roles
from transformer.syntax.query import calls_itself, first_parameter, walk
from transformer.values.device.graph_capture import SAMPLED
from transformer.values.networks.attributes import MODULE, BoundScope, Unknown, Values, kept_by

LAYERS = layers(same_bits=True) | HOLDERS
"""Modules that compute the same bits with and without gradients."""
KNOWN = {
    "Linear": ("in_features", "out_features"),
    "Conv2d": ("in_channels", "out_channels", "kernel_size", "stride", "padding"),
}
"""Options of a layer, in order, that keep it so: they change neither its bias nor its groups."""
FUNCTIONS = (OF["torch"].keys() | OF["functional"].keys()) - PRODUCTS
"""Functions of torch except matrix products, some of which torch folds differently when gradients are recorded."""
METHODS = OF["tensor"].keys() | OF["distribution"].keys()


def differs(roles: Roles, cls: ast.ClassDef, called: str | None = None) -> str | None:
    """What may compute other bits without gradients in a network's methods, with its line; None if nothing does.

    Known to be the same: linear layers with a bias, convolutions without groups, elementwise functions, functions that
    pick the largest or work along a dimension, and distributions.

    Args:
        roles: the script.
        cls: the network's class.
        called: the only method that is called from outside the class; None if any may be.
    """
    tree = roles.tree
    classes, family = tree.used_classes(cls), tree.lineage(cls)
    run = _methods(family) if called is None else reached(_methods(family), called)
    for one in classes:
        if (base := foreign_base(tree, one)) is not None:
            return f"{one.name} is derived from {base}, which is not in this file"
        inherited = _methods(family if one in family else tree.lineage(one))
        known = {m.name for m in inherited} | _attributes_set_once(roles, inherited, classes)
        for method in (m for m in _methods([one]) if one not in family or m in run):
            own = method.args.args[0].arg if method.args.args else ""
            ours = {n for stmt in method.body for n in walk(stmt)}
            for node in _with_what_it_calls(roles, method):
                found = (
                    layer_differs(roles, node)
                    if method.name == "__init__"
                    else _other(roles, node, own if node in ours else "", known)
                )
                if found is not None:
                    return f"line {getattr(node, 'lineno', method.lineno)} {found}"
    return None


def reached(methods: Sequence[ast.FunctionDef], called: str) -> list[ast.FunctionDef]:
    """The constructor, a method of a class, and the methods that these mention, directly or indirectly."""
    found = [m for m in methods if m.name == called]
    for method in found:  # grows during the loop
        nodes, own = [*walk(method)], first_parameter(method)
        named = {n.attr for n in nodes if isinstance(n, ast.Attribute)}
        named |= {"forward" for n in nodes if calls_itself(n, own)}
        found += [m for m in methods if m.name in named and m not in found]
    return [*(m for m in methods if m.name == "__init__" and m not in found), *found]


def _methods(classes: Sequence[ast.ClassDef]) -> list[ast.FunctionDef]:
    return [s for cls in classes for s in cls.body if isinstance(s, ast.FunctionDef)]


def _attributes_set_once(
    roles: Roles, methods: Sequence[ast.FunctionDef], classes: Collection[ast.ClassDef]
) -> set[str]:
    """The attributes that only constructors among these methods set, to layers or networks of these classes."""

    def check(made: ast.ClassDef, call: ast.Call, frame: BoundScope) -> None:
        if made not in classes:
            raise Unknown(f"line {call.lineno} makes {made.name}()")

    found: dict[str, bool] = {}
    values = Values(roles, check)
    for method in methods:
        for name, value in kept_by(method):
            try:
                shown = method.name == "__init__" and values.leaves(value, BoundScope(method)) == MODULE
            except Unknown:
                shown = False
            found[name] = found.get(name, True) and shown
    return {name for name, shown in found.items() if shown}


def _with_what_it_calls(roles: Roles, function: ast.FunctionDef) -> list[ast.AST]:
    """The nodes of a function, and of the functions of this file that it calls."""
    found, functions = list[ast.AST](), [function]
    for one in functions:  # grows during the loop
        nodes = [n for stmt in one.body for n in walk(stmt)]
        found += nodes
        called = (roles.tree.function_called(n) for n in nodes if isinstance(n, ast.Call))
        functions += [f for f in dict.fromkeys(called) if f is not None and f not in functions]
    return found


def layer_differs(roles: Roles, node: ast.AST) -> str | None:
    """What a constructor's node may make that computes other bits without gradients; None if nothing."""
    if not isinstance(node, ast.Call):
        return None
    name = roles.tree.qualified(node.func) or ""
    last = name.rpartition(".")[2]
    if name.startswith("torch.nn.") and last[:1].isupper():
        return None if last in LAYERS and _has_known_options(node, last) else f"makes {ast.unparse(node.func)}()"
    return None


def _has_known_options(call: ast.Call, layer: str) -> bool:
    """Whether a layer is made only with options with which it is known to compute the same."""
    options = KNOWN.get(layer)
    if options is None:
        return True
    biased = all(isinstance(k.value, ast.Constant) and k.value.value for k in call.keywords if k.arg == "bias")
    starred = any(isinstance(a, ast.Starred) for a in call.args)
    named = {k.arg for k in call.keywords} <= {*options, "bias", "device", "dtype"}
    return named and not starred and len(call.args) <= len(options) and (biased or layer != "Linear")


def _other(roles: Roles, node: ast.AST, own: str, known: set[str]) -> str | None:
    """What a node outside constructors may compute differently, or keep for a loss, whose gradient would be lost."""
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        return f"binds {', '.join(node.names)} elsewhere"
    if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
        return f"sets {ast.unparse(node)}"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return "multiplies matrices"
    if isinstance(node, ast.Attribute) and node.attr in GRADIENTS:
        return f"uses {ast.unparse(node)}"
    if not isinstance(node, ast.Call):
        return None
    text, name = ast.unparse(node.func), roles.tree.qualified(node.func) or ""
    last = name.rpartition(".")[2]
    if name.startswith(DISTRIBUTIONS):
        fine = last in SAMPLED
    elif name.startswith("torch."):
        fine = last in FUNCTIONS
    elif name.startswith("random."):
        fine = True  # Python's random numbers do not depend on gradients
    elif isinstance(node.func, ast.Name):
        builtin = roles.tree.names.builtin(node.func)
        followed = roles.tree.function_called(node) is not None
        fine = followed or node.func.id in (own, roles.history.sampler) or builtin in COMPUTES - SHOWS | ACCESS
    elif isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == own:
        fine = node.func.attr in known
    else:
        fine = isinstance(node.func, ast.Attribute) and not name and node.func.attr in METHODS
    return None if fine or is_of_written_numbers(roles.tree, node) else f"calls {text}()"
