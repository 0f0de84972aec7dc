"""Learning rates that may be tensors while an update runs, and are floats at all other times."""

from __future__ import annotations

import ast
from collections.abc import Collection

from transformer.dataflow.name_lookups import sees_no_value
from transformer.facts.libraries import module_methods
from transformer.facts.torch_api import of_optimizers, optimizers
from transformer.recognition.learning_rate import REACHES_VARIABLES
from transformer.recognition.optimizers import Optimizer
from transformer.recognition.roles import Roles
from transformer.syntax.query import calls_method, is_read, last_written, walk
from transformer.syntax.tree import Tree
from transformer.values.effects.world import World

STEPPED = of_optimizers("stepping")
"""The methods of an optimizer that an update may call while the rate is a tensor."""
HELD = module_methods(finds="parameters")
"""Methods that return a network's parameters."""
TAKING = optimizers()
CHOOSING = frozenset(("foreach", "fused", "capturable", "differentiable", None))
"""Arguments with which an optimizer may reject a rate that is a tensor, or a tensor on the host."""


def obstacle(roles: Roles, optimizer: Optimizer, updates: Collection[ast.FunctionDef]) -> str | None:
    """Why the rate must not be a tensor while updates run; None if nothing else sees the optimizer meanwhile.

    An update may clear the optimizer's gradients and step it. Other code that may run meanwhile, even in a thread or a
    signal handler, must not use the optimizer, its groups, or a library's object that holds it, such as a scheduler.
    All code that runs at other times finds the floats that it set, by whatever name it knows the optimizer.
    """
    tree, world = roles.tree, roles.get(World)
    if optimizer.kind not in TAKING or any(k.arg in CHOOSING for k in optimizer.call.keywords):
        return "it is not known to accept a tensor as its rate"
    if not _makes_its_groups(roles, optimizer):
        return "its groups may be in use elsewhere"
    if "." not in optimizer.name and not _is_above(roles, optimizer.stmt):
        return "it is not a variable bound above the training loop"
    for name in tree.of(ast.Name):
        if name.id == optimizer.name and not is_read(name) and name is not optimizer.stmt.targets[0]:
            return f"line {name.lineno} binds its name to something else, or deletes it"
    for node in tree.nodes:
        word = node.id if isinstance(node, ast.Name) else tree.last_name(node)
        method = isinstance(node, ast.Attribute) and tree.qualified(node) is None and word != "_getframe"
        if word in REACHES_VARIABLES and not method and not sees_no_value(tree, node):
            return f"line {_line(node)} uses {word}, which may see it"
    made = world.of(optimizer.call)
    if not world.is_known(made):
        return "code that is not known may have it"
    run = world.nodes_run(updates)
    if run is None:  # code of other files runs: it does not hold the optimizer, but may call methods of its arguments
        methods = (m for cls in tree.of(ast.ClassDef) for m in cls.body if m is not roles.scope)
        run = [*roles.reached([*updates, *methods])]
    seeing, attribute = world.with_library_objects(made), last_written(optimizer.stmt.targets[0])
    for node in dict.fromkeys([*run, *roles.reached([*roles.called_unseen, *tree.of(ast.AsyncFunctionDef)])]):
        if _is_of_group(node) or (
            isinstance(node, ast.expr) and last_written(node) == attribute and world.never_runs(node)
        ):
            return f"line {_line(node)} may see it while an update runs"
        found = world.of(node) & seeing if isinstance(node, ast.expr) else frozenset()
        if found and not (found <= made and any(_is_step(tree, n) for n in (node, tree.parents[node]))):
            return f"line {_line(node)} may see it while an update runs"
    return None


def _is_above(roles: Roles, stmt: ast.stmt) -> bool:
    """Whether a statement of the training scope runs exactly once, before the training begins."""
    block, around = roles.tree.block(stmt), {roles.outermost, *roles.tree.ancestors(roles.outermost)}
    return roles.tree.scope_of(stmt) is roles.scope and any(s in around for s in block[block.index(stmt) + 1 :])


def _is_of_group(node: ast.AST) -> bool:
    """Whether a node accesses an optimizer's parameter groups, or the rate in one."""
    rate = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == "lr"
    return rate or (isinstance(node, ast.Attribute) and node.attr == "param_groups")


def _is_step(tree: Tree, node: ast.AST) -> bool:
    """Whether a node is the called method in `optimizer.step()`."""
    call = tree.parents[node]
    return isinstance(node, ast.Attribute) and node.attr in STEPPED and isinstance(call, ast.Call) and call.func is node


def _makes_its_groups(roles: Roles, optimizer: Optimizer) -> bool:
    """Whether the call builds the groups from `parameters()`: an optimizer keeps the dictionaries that it is given."""
    tree = roles.tree
    given = [n for v in optimizer.params for n in walk(v)]
    asked = [n for n in given if calls_method(n, *HELD) and not any(map(tree.methods, HELD))]
    known = {n for one in asked for n in walk(one)}
    local = {n.id for n in given if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    names = [n for n in given if isinstance(n, ast.Name) and n not in known and n.id not in local]
    return bool(asked) and all(tree.names.builtin(n) for n in names)


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 1)
