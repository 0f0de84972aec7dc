"""Whether statements only define things, and so do the same if they are executed later, below other imports."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from transformer.facts.libraries import library_does, role
from transformer.facts.python import decorators
from transformer.facts.torch_api import functions, others
from transformer.syntax.tree import Tree

PURE = functions("torch", "numpy", draws=False)


def only_defines(tree: Tree, body: Iterable[ast.stmt]) -> bool:
    """Whether all statements are definitions of functions, classes and constants."""
    return all(_defines(tree, stmt) for stmt in body)


def _defines(tree: Tree, stmt: ast.stmt) -> bool:
    if isinstance(stmt, ast.Pass):
        return True
    if isinstance(stmt, ast.Expr):
        return isinstance(stmt.value, ast.Constant)
    if isinstance(stmt, ast.Assign):
        return all(isinstance(t, ast.Name) for t in stmt.targets) and _is_stable(tree, stmt.value)
    if isinstance(stmt, ast.AnnAssign):
        plain = stmt.value is None or _is_stable(tree, stmt.value)
        return isinstance(stmt.target, ast.Name) and plain and _is_annotation(stmt.annotation)
    if isinstance(stmt, ast.FunctionDef):
        defaults = [d for d in (*stmt.args.defaults, *stmt.args.kw_defaults) if d is not None]
        arguments = [n.annotation for n in ast.walk(stmt.args) if isinstance(n, ast.arg)]
        annotated = all(map(_is_annotation, [*arguments, stmt.returns]))
        return _decorated(tree, stmt) and annotated and all(_is_stable(tree, d) for d in defaults)
    if isinstance(stmt, ast.ClassDef):
        return (
            not stmt.keywords
            and _decorated(tree, stmt)
            and all(_is_base(tree, base) for base in stmt.bases)
            and only_defines(tree, stmt.body)
        )
    return False


def _is_annotation(value: ast.expr | None) -> bool:
    """Whether evaluating an annotation calls nothing."""
    return value is None or not any(isinstance(n, (ast.Call, ast.NamedExpr, ast.Await)) for n in ast.walk(value))


def _decorated(tree: Tree, stmt: ast.FunctionDef | ast.ClassDef) -> bool:
    for decorator in stmt.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if (tree.names.builtin(called) or tree.qualified(called)) not in decorators(lazy=True):
            return False
    return True


def _is_base(tree: Tree, base: ast.expr) -> bool:
    if isinstance(base, ast.Name) and base.id in tree.classes:
        return not tree.methods("__init_subclass__")
    if isinstance(base, ast.Name) and base.id in ("object", "Exception"):
        return True
    return role(tree.qualified(base) or "") in ("tensors", "bases", "environments")


def _is_stable(tree: Tree, value: ast.expr) -> bool:
    """Whether an expression has no effects, and has the same value if it is evaluated later."""
    if isinstance(value, (ast.Constant, ast.Name, ast.Lambda)):
        return True
    if isinstance(value, ast.Call) and not _is_pure(tree.qualified(value.func) or ""):
        return False
    kinds = (ast.Attribute, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.UnaryOp, ast.BinOp, ast.IfExp, ast.Call)
    if not isinstance(value, (*kinds, ast.Compare)):
        return False
    inner = (n for n in ast.iter_child_nodes(value) if isinstance(n, (ast.expr, ast.keyword)))
    return all(_is_stable(tree, n.value if isinstance(n, ast.keyword) else n) for n in inner)


def _is_pure(qualified: str) -> bool:
    """Whether a function of a library only computes, or returns a fact that never changes."""
    module, _, name = qualified.rpartition(".")
    computes = qualified in PURE or (library_does(qualified) == "computes" and role(qualified) == "plain")
    asks = (module == "torch" and name in others("asks")) or qualified == "torch.cuda.is_available"
    return computes or asks or role(qualified) == "bases"
