"""Whether a script makes distributions, and what they compute when they check their arguments."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable

from transformer.facts.libraries import module_methods
from transformer.facts.torch_api import DISTRIBUTIONS, distributions
from transformer.recognition.roles import Roles
from transformer.syntax.query import TRY, pairwise, walk, without_methods
from transformer.syntax.tree import Tree


def is_made(tree: Tree, node: ast.expr) -> bool:
    """Whether an expression is a call of a class of torch.distributions."""
    name = tree.qualified(node.func) or "" if isinstance(node, ast.Call) else ""
    return name.startswith(DISTRIBUTIONS) and name.rpartition(".")[2][:1].isupper()


def may_make(roles: Roles, code: Iterable[ast.AST] | None = None) -> bool:
    """Whether training may make a distribution: the file mentions them, or a network's class is in another file.

    Given the nodes of some code and of its callees: whether that code may.
    """
    made = [value for name in roles.modules for _, value in roles.assignments(name)]
    kept = {path.rpartition(".")[2] for path in roles.networks if path.startswith("self.")}
    if kept:  # an agent keeps its networks: self.actor = Actor()
        stores = [(t, v) for s in roles.tree.of(ast.Assign) for t, v in pairwise(s) if isinstance(t, ast.Attribute)]
        made += [value for target, value in stores if isinstance(target, ast.Attribute) and target.attr in kept]
    here = bool(made) and all(_is_of_file(roles.tree, value) for value in made)
    if not here or code is None:
        return not here or "distributions" in roles.tree.code
    return any("distributions" in (roles.tree.qualified(node) or "") for node in code)


def _is_of_file(tree: Tree, value: ast.expr) -> bool:
    """Whether a value makes a network whose class is in the file, or one of torch's layers only."""
    made = without_methods(value, module_methods(gives="itself"))
    calls = [node for node in walk(made) if isinstance(node, ast.Call)]
    layers = isinstance(made, ast.Call) and all((tree.qualified(c.func) or "").startswith("torch.nn.") for c in calls)
    return tree.constructor(value) is not None or layers


def caught(roles: Roles) -> ast.stmt | None:
    """Where a script may catch the ValueError that a distribution raises for its arguments, and continue."""
    tree = roles.tree
    catching: list[ast.With | ast.Try] = [w for w in tree.of(ast.With) if not tree.lets_errors_pass(w)]
    catching += [t for kind in TRY for t in tree.of(kind) if any(_may_catch(tree, h) for h in t.handlers)]
    functions = tree.of(ast.FunctionDef)
    for stmt in sorted(catching, key=lambda s: s.lineno):
        run = list(roles.reached(stmt.body, functions))
        if any(isinstance(n, ast.Call) for n in run) and may_make(roles, run):
            return stmt
    return None


def _may_catch(tree: Tree, handler: ast.ExceptHandler) -> bool:
    """Whether a handler may catch a ValueError: it names this error or a base of it, or something unknown."""
    if handler.type is None:
        return True
    for kind in handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]:
        if (name := tree.names.builtin(kind)) is not None:
            error = getattr(builtins, name, ValueError)
            if not isinstance(error, type) or issubclass(ValueError, error):
                return True
        elif not (isinstance(kind, ast.Name) and kind.id in tree.classes) and tree.qualified(kind) is None:
            return True  # a variable
    return False


def goes_on_checking(roles: Roles) -> str | None:
    """Why distributions must go on checking their arguments with a flag on; None if they need not."""
    if (computing := computes_to_check(roles.tree)) is not None:
        name = roles.tree.text(computing)
        keeps = f"{name} (line {computing.lineno}) keeps what it computes to check its arguments"
        return f"{keeps}, so it goes on checking them"
    if (stmt := roles.get(caught)) is None:
        return None
    return (
        f"line {stmt.lineno} may catch the error by which distributions reject arguments, so they go on checking them"
    )


def computes_to_check(tree: Tree) -> ast.Name | ast.Attribute | None:
    """Where a script names a distribution that may keep values computed to check its arguments.

    Without the check, it computes them later, and gradients are summed in another order.
    """
    named: list[ast.Name | ast.Attribute] = [*tree.of(ast.Name), *tree.of(ast.Attribute)]
    for node in named:
        qualified = tree.qualified(node) or ""
        name = qualified.rpartition(".")[2]
        is_class = name[:1].isupper() and not name.endswith("Transform")
        if qualified.startswith(DISTRIBUTIONS) and is_class and name not in distributions(checked_alone=True):
            return node
    return None
