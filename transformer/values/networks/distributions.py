"""Whether a script makes distributions, and what they compute when they check their arguments."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator

from transformer.facts.libraries import module_methods
from transformer.facts.torch_api import DISTRIBUTIONS, SETS_CHECKS, distributions
from transformer.recognition.roles import Roles
from transformer.syntax.query import TRY, last_written, pairwise, walk, without_methods
from transformer.syntax.tree import Tree
from transformer.values.effects.world import World


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
    return any(isinstance(node, ast.expr) and _names_distributions(roles, node) for node in code)


def _names_distributions(roles: Roles, node: ast.expr) -> bool:
    """Whether an expression may name a class or function of torch.distributions."""
    if "distributions" in (roles.tree.qualified(node) or ""):
        return True
    called = roles.get(World).of(node) if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) else ()
    return any(thing.kind == "library" and thing.name.startswith(DISTRIBUTIONS) for thing in called)


def _is_of_file(tree: Tree, value: ast.expr) -> bool:
    """Whether a value makes a network whose class is in the file, or one of torch's layers only."""
    made = without_methods(value, module_methods(gives="itself"))
    calls = [node for node in walk(made) if isinstance(node, ast.Call)]
    layers = isinstance(made, ast.Call) and all((tree.qualified(c.func) or "").startswith("torch.nn.") for c in calls)
    return tree.constructor(value) is not None or layers


def caught(roles: Roles) -> ast.stmt | None:
    """Where a script may catch the ValueError that a distribution raises for its arguments."""
    tree = roles.tree
    catching: list[ast.With | ast.Try] = [w for w in tree.of(ast.With) if not tree.lets_errors_pass(w)]
    catching += [t for kind in TRY for t in tree.of(kind) if any(_may_catch(tree, h) for h in t.handlers)]
    return next((s for s in sorted(catching, key=lambda s: s.lineno) if _may_make_inside(roles, s)), None)


def _may_make_inside(roles: Roles, stmt: ast.With | ast.Try) -> bool:
    """Whether the body of a statement, or what it may call, may make a distribution."""
    body = [node for inner in stmt.body for node in walk(inner)]
    if not any(isinstance(node, ast.Call) for node in body):
        return False
    run = roles.get(World).may_run(roles.tree.scope_of(stmt), body)
    if run is None:
        return may_make(roles, roles.reached(stmt.body, roles.tree.of(ast.FunctionDef)))
    return may_make(roles, [*body, *(node for function in run for node in walk(function))])


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
    if (switch := next(_switches(roles), None)) is not None and not never_check(roles):
        return f"line {switch.lineno} decides whether distributions check their arguments, and it is left to that line"
    if (stmt := roles.get(caught)) is None:
        return None
    return (
        f"line {stmt.lineno} may catch the error by which distributions reject arguments, so they go on checking them"
    )


def never_check(roles: Roles) -> bool:
    """Whether the file turns the checks of all distributions off by one statement that always runs before training."""
    tree, switches = roles.tree, list(_switches(roles))
    call = tree.parents[switches[0]] if len(switches) == 1 else None
    stmt = tree.parents[call] if isinstance(call, ast.Call) and call.func is switches[0] else None
    if not isinstance(call, ast.Call) or not isinstance(stmt, ast.Expr) or call.keywords:
        return False
    off = [isinstance(a, ast.Constant) and a.value is False for a in call.args] == [True]
    block = tree.block(stmt)
    always = block is tree.root.body or (roles.outermost in block and stmt.lineno < roles.outermost.lineno)
    return off and always and (tree.qualified(call.func) or "").startswith(DISTRIBUTIONS)


def _switches(roles: Roles) -> Iterator[ast.expr]:
    """Where the original names the switch of all distributions' checks, in file order."""
    if not any(name in roles.history.original for name in SETS_CHECKS):  # what `compile` adds is not the script's
        return
    for node in roles.tree.nodes:
        name = node.value if isinstance(node, ast.Constant) else last_written(node)
        if isinstance(node, ast.expr) and name in SETS_CHECKS:
            yield node


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
