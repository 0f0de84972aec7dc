"""The declarations of a script's options, and which conditions depend only on options."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from transformer.dataflow.access import Names, access
from transformer.dataflow.bindings import bound_to, variables
from transformer.facts.python import does
from transformer.recognition.roles import Roles
from transformer.syntax.options import holds_options
from transformer.syntax.query import calls_method, is_none, names_in, parameters, statements, without_methods
from transformer.syntax.tree import Tree


def plain_option(tree: Tree, node: ast.Attribute) -> list[ast.expr] | None:
    """The defaults of an option that is declared as a number or a string; None if it is not known to be declared so.

    Examples are `parser.add_argument("--lr", type=float)`, and `lr: float` in a class that is passed to `tyro.cli`.
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


def declared_types(tree: Tree, option: str) -> list[ast.expr]:
    """The types that an option is declared with: `type=` of `add_argument`, or the annotation of a field."""
    added, fields = _declarations(tree, option)
    return [*(k.value for c in added for k in c.keywords if k.arg == "type"), *(f.annotation for f in fields)]


def _declarations(tree: Tree, option: str | None) -> tuple[Sequence[ast.Call], Sequence[ast.AnnAssign]]:
    """The calls of `add_argument` and the fields that declare an option."""
    added = [c for c in tree.of(ast.Call) if calls_method(c, "add_argument") and destination(c) == option]
    fields = [f for f in tree.of(ast.AnnAssign) if isinstance(f.target, ast.Name) and f.target.id == option]
    return added, fields


def destination(call: ast.Call) -> str | None:
    """The attribute in which `add_argument` stores the parsed value."""
    for keyword in call.keywords:
        if keyword.arg == "dest" and isinstance(keyword.value, ast.Constant):
            return str(keyword.value.value)
    options = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    long = [o for o in options if o.startswith("--")] or options
    return long[0].lstrip("-").replace("-", "_") if long else None


def defaults(tree: Tree, option: str | None) -> list[str]:
    """The defaults of an option, as written: of `parser.add_argument("--x", default=...)`, or of a field."""
    added, fields = _declarations(tree, option)
    given = [k.value for c in added for k in c.keywords if k.arg == "default"]
    return [ast.unparse(value) for value in (*given, *(f.value for f in fields)) if value is not None]


def is_other_choice(tree: Tree, node: ast.AST) -> bool:
    """Whether code is in a branch of `if args.x == "...":` that the option's default does not take."""
    below = node
    for outer in tree.ancestors(node):
        test = outer.test if isinstance(outer, ast.If) else None
        if isinstance(outer, ast.If) and isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq):
            known = defaults(tree, tree.last_name(test.left)) if len(test.ops) == 1 else []
            if known and (ast.unparse(test.comparators[0]) in known) != (below in outer.body):
                return True
        below = outer
    return False


def _is_plain_type(tree: Tree, node: ast.expr | None) -> bool:
    """Whether a type annotation or converter allows only numbers, strings and None."""
    if isinstance(node, ast.BinOp):
        return _is_plain_type(tree, node.left) and _is_plain_type(tree, node.right)
    if isinstance(node, ast.Constant):
        return node.value is None
    row = does("builtin", tree.names.builtin(node) or "") if isinstance(node, ast.Name) else None
    return row is not None and row.gives == "nothing"


def decided(roles: Roles, test: ast.expr, local: Names = frozenset()) -> bool:
    """Whether a condition is the same throughout the training loop, which changes nothing that it tests.

    The condition may consist of constants, the script's options, and names bound to such values. Or it may test whether
    an object was made above the loop: `if icm is not None:`.

    Args:
        roles: the script.
        test: a condition in the training scope, or in a function that was extracted from it.
        local: names that belong to that function.
    """
    if isinstance(test, ast.BoolOp):
        return all(decided(roles, value, local) for value in test.values)
    if isinstance(test, ast.UnaryOp):
        return decided(roles, test.operand, local)
    if isinstance(test, ast.Compare):
        if isinstance(test.ops[0], (ast.Is, ast.IsNot)) and isinstance(test.left, ast.Name):
            return len(test.ops) == 1 and is_none(test.comparators[0]) and _made_above(roles, test.left, local) != []
        return all(decided(roles, value, local) for value in (test.left, *test.comparators))
    if isinstance(test, ast.Attribute):
        steady = not names_in([test]) & (local | roles.variant) and roles.changed_by_training(test) is None
        return steady and holds_options(roles.tree, test.value, roles.scope)
    if isinstance(test, ast.Name):
        made = _made_above(roles, test, local)
        given_to = parameters(roles.scope) if isinstance(roles.scope, ast.FunctionDef) else []
        if test.id in given_to and variables(roles.tree).owner_of(test) is roles.scope:
            given = [*bound_to(roles.tree, test, own=True)]
            steady = test.id not in roles.variant and roles.changed_by_training(test) is None
            return steady and given != [] and all(_never_changes(roles.tree, value) for value in given)
        return made != [] and all(decided(roles, value) or _is_true(roles, value) for value in made)
    return isinstance(test, ast.Constant)


def _made_above(roles: Roles, name: ast.Name, local: Names) -> list[ast.expr]:
    """The values of a name of the training scope, if it is assigned only above the training loop; otherwise none."""
    made = roles.assignments(name.id)
    bound = {s for s in statements(roles.scope.body) if name.id in access(s).binds}
    steady = name.id not in local | roles.variant and roles.changed_by_training(name) is None
    return [value for _, value in made] if steady and bound == {stmt for stmt, _ in made} else []


def _never_changes(tree: Tree, value: ast.expr | None) -> bool:
    """Whether a value is a constant, or an option that is a number or a string; neither changes."""
    given = isinstance(value, ast.Attribute) and plain_option(tree, value) is not None
    return given or isinstance(value, ast.Constant)


def _is_true(roles: Roles, value: ast.expr) -> bool:
    """Whether a value is an object that is always true: an optimizer, or a network of this file."""
    tree = roles.tree
    if isinstance(value, ast.Call) and (tree.qualified(value.func) or "").startswith("torch.optim."):
        return True
    call = tree.constructor(value)
    if call is None or call is not without_methods(value, {"to", "cpu", "cuda", "train"}):
        return False
    lineage = tree.lineage(tree.classes[ast.unparse(call.func)])
    bases = [b for cls in lineage for b in cls.bases if ast.unparse(b) not in tree.classes]
    return all(tree.qualified(b) == "torch.nn.Module" for b in bases) and not tree.decides_truth


def cuda_arguments(tree: Tree) -> list[str]:
    """The arguments that put a script on a CUDA device if its default is the CPU: `--device cuda`.

    Only `torch.device(args.device)` is recognised, with an option whose default is "cpu".
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
