"""What the options of a script are declared to be, and which conditions hang on them alone."""

from __future__ import annotations

import ast

from transformer.dataflow.access import Names
from transformer.facts.python import does
from transformer.recognition.roles import Roles
from transformer.syntax.options import holds_options
from transformer.syntax.query import calls_method, names_in
from transformer.syntax.tree import Tree


def plain_option(tree: Tree, node: ast.Attribute) -> list[ast.expr] | None:
    """The defaults of an option that is a number or a text by its declaration; None if it is not known to be one.

    So are `parser.add_argument("--lr", type=float)`, and `lr: float` in a class that is given to `tyro.cli`.
    """
    if not holds_options(tree, node.value, tree.scope_of(node)):
        return None
    defaults: list[ast.expr] = []
    found = False
    for call in tree.of(ast.Call):
        if calls_method(call, "add_argument") and destination(call) == node.attr:
            given = {k.arg: k.value for k in call.keywords}
            if None in given or not _is_plain_type(tree, given.get("type")):
                return None
            defaults += [given["default"]] if "default" in given else []
            found = True
        elif tree.calls(call, "tyro.cli"):
            for field in (f for cls in tree.of(ast.ClassDef) for f in cls.body if isinstance(f, ast.AnnAssign)):
                if isinstance(field.target, ast.Name) and field.target.id == node.attr:
                    if not _is_plain_type(tree, field.annotation):
                        return None
                    defaults += [field.value] if field.value is not None else []
                    found = True
    return defaults if found else None


def destination(call: ast.Call) -> str | None:
    """The attribute in which `add_argument` puts what it parses."""
    for keyword in call.keywords:
        if keyword.arg == "dest" and isinstance(keyword.value, ast.Constant):
            return str(keyword.value.value)
    options = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    long = [o for o in options if o.startswith("--")] or options
    return long[0].lstrip("-").replace("-", "_") if long else None


def _is_plain_type(tree: Tree, node: ast.expr | None) -> bool:
    """Whether a builtin function or type gives numbers or texts, or one of several does, or None."""
    if isinstance(node, ast.BinOp):
        return _is_plain_type(tree, node.left) and _is_plain_type(tree, node.right)
    if isinstance(node, ast.Constant):
        return node.value is None
    row = does("builtin", tree.names.builtin(node) or "") if isinstance(node, ast.Name) else None
    return row is not None and row.gives == "nothing"


def decided(roles: Roles, test: ast.expr, local: Names = frozenset()) -> bool:
    """Whether a condition is made of constants and of the script's arguments, which training never changes.

    Args:
        roles: the script that it belongs to.
        test: a condition, in the training scope or in a function that was extracted from it.
        local: names that are that function's own.
    """
    if isinstance(test, ast.BoolOp):
        return all(decided(roles, value, local) for value in test.values)
    if isinstance(test, ast.UnaryOp):
        return decided(roles, test.operand, local)
    if isinstance(test, ast.Compare):
        return all(decided(roles, value, local) for value in (test.left, *test.comparators))
    if isinstance(test, ast.Attribute):
        steady = not names_in([test]) & (local | roles.variant) and roles.changed_by_training(test) is None
        return steady and holds_options(roles.tree, test.value, roles.scope)
    return isinstance(test, ast.Constant)


def cuda_arguments(tree: Tree) -> list[str]:
    """The arguments that put a script on a CUDA device, where its own option says otherwise: `--device cuda`.

    Found is `torch.device(args.device)`, by an option whose default is "cpu".
    """
    for call in tree.of(ast.Call):
        asked = call.args[0] if tree.calls(call, "torch.device") and len(call.args) == 1 else None
        if not isinstance(asked, ast.Attribute):
            continue
        for option in tree.of(ast.Call):
            given = {k.arg: k.value for k in option.keywords}
            declared = calls_method(option, "add_argument") and destination(option) == asked.attr
            if declared and _is_cpu(given.get("default")):
                texts = [a.value for a in option.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
                return [next((text for text in texts if text.startswith("--")), f"--{asked.attr}"), "cuda"]
        for field in (f for cls in tree.of(ast.ClassDef) for f in cls.body if isinstance(f, ast.AnnAssign)):
            if isinstance(field.target, ast.Name) and field.target.id == asked.attr and _is_cpu(field.value):
                return [f"--{asked.attr}", "cuda"]
    return []


def _is_cpu(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value == "cpu"
