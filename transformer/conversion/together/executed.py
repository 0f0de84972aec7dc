"""Whether the code that `exec` executes is known, and does the same in another file.

`for name, value in options.items(): exec("self." + name + " = " + str(value))` only sets attributes, if `options` is
always a literal dictionary that nothing changes, perhaps passed through several functions.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, TypeAlias

from transformer.conversion.together.gathered import Gathered
from transformer.conversion.together.modules import File
from transformer.facts.lookups import ATTRIBUTE_LOOKUPS, VARIABLES
from transformer.syntax.query import bind_arguments, parameters

Function: TypeAlias = ast.FunctionDef
Options: TypeAlias = "dict[str, Any]"


def sets_attributes(gathered: Gathered, file: File, call: ast.AST) -> bool:
    """Whether everything that an `exec` may execute sets attributes of a local object to constants."""
    tree = file.tree
    function = tree.scope_of(call)
    loop = next((n for n in tree.ancestors(call) if isinstance(n, ast.For)), None)
    if "str" in file.scopes.bound | file.scopes.local:
        return False
    if not isinstance(call, ast.Call) or len(call.args) != 1 or call.keywords or loop is None:
        return False
    over, names = loop.iter, loop.target.elts if isinstance(loop.target, ast.Tuple) else []
    of = over.func.value if isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute) else None
    if not (isinstance(of, ast.Name) and isinstance(function, Function) and ast.unparse(over) == f"{of.id}.items()"):
        return False
    bound = [n.id for n in names if isinstance(n, ast.Name)]
    stored = [n.id for n in ast.walk(function) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
    found = _Known(gathered).options(file, function, of.id)
    if found is None or len(bound) != 2 or any(stored.count(name) != 1 for name in bound):
        return False
    texts = [_text(call.args[0], dict(zip(bound, item, strict=True))) for options in found for item in options.items()]
    return all(text is not None and _sets_attribute(text, parameters(function)) for text in texts)


def _text(value: ast.expr, known: Options) -> str | None:
    """The string that an expression of these variables evaluates to."""
    if isinstance(value, ast.Constant):
        return value.value if isinstance(value.value, str) else None
    if isinstance(value, ast.Name):
        return known.get(value.id) if isinstance(known.get(value.id), str) else None
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        left, right = _text(value.left, known), _text(value.right, known)
        return None if left is None or right is None else left + right
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "str" and len(value.args) == 1 and not value.keywords:
        of = value.args[0]
        return str(known[of.id]) if isinstance(of, ast.Name) and of.id in known else None
    return None


def _sets_attribute(text: str, local: Sequence[str]) -> bool:
    try:
        (stmt,) = ast.parse(text).body
        target = ast.unparse(stmt.targets[0]) if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 else ""
        _ = ast.literal_eval(stmt.value) if isinstance(stmt, ast.Assign) else None
    except (SyntaxError, ValueError):
        return False
    owner, _, name = target.partition(".")
    return owner in local and name.isidentifier()


class _Known:
    """The contents of dictionaries of options, in all files."""

    def __init__(self, gathered: Gathered) -> None:
        self.files = gathered.all_files
        self.asked: set[tuple[ast.AST, str]] = set()

    def options(self, file: File, scope: ast.AST, name: str) -> list[Options] | None:
        """All dictionaries that a variable may hold; None if they are not known."""
        if any((ATTRIBUTE_LOOKUPS | VARIABLES) - {"exec"} & each.scopes.used for each in self.files):
            return None
        if sum(n.id == "exec" for each in self.files for n in each.tree.of(ast.Name)) != 1:
            return None
        if not isinstance(scope, (Function, ast.Module)) or not self._is_only_read(file, scope, name):
            return None
        stores = [n for n in ast.walk(scope) if isinstance(n, ast.Name) and n.id == name and _is_bound(n)]
        rest = scope.args.kwarg.arg if isinstance(scope, Function) and scope.args.kwarg else None
        if isinstance(scope, Function) and not stores and name in (*parameters(scope), rest):
            return self._passed(file, scope, name, whole=name != rest)
        made = [s.value for s in ast.walk(scope) if isinstance(s, ast.Assign) and s.targets == stores]
        return [found] if len(stores) == 1 and made and (found := _literal(made[0])) is not None else None

    def _passed(self, file: File, function: Function, name: str, *, whole: bool) -> list[Options] | None:
        calls = self._calls(file, function)
        found: list[Options] = []
        for of, call, receiver in calls or ():
            if whole:
                arguments = bind_arguments(function, call, receiver)
                value = arguments.values.get(name) if arguments is not None else None
                spread, given = [value], dict[str, ast.expr]()
            else:
                spread = [keyword.value for keyword in call.keywords if keyword.arg is None]
                own = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
                given = {key: value for key, value in own.items() if key not in parameters(function)}
            if len(spread) != 1 or given or not isinstance(spread[0], ast.Name):
                return None
            known = self.options(of, of.tree.scope_of(call), spread[0].id)
            if known is None:
                return None
            found += known
        return found or None

    def _calls(self, file: File, function: Function) -> list[tuple[File, ast.Call, ast.expr | None]] | None:
        """All calls of a function, each with the receiver of a method; None if the function is also used otherwise."""
        owner = file.tree.parents[function]
        is_method = isinstance(owner, ast.ClassDef)
        makes = is_method and function.name == "__init__"
        name = owner.name if isinstance(owner, ast.ClassDef) and makes else function.name
        named = [n for f in self.files for n in f.tree.nodes if getattr(n, "name", "") == name]
        if len([n for n in named if isinstance(n, (Function, ast.AsyncFunctionDef, ast.ClassDef))]) != 1:
            return None
        if function.decorator_list or not (is_method or owner is file.tree.root):
            return None
        found: list[tuple[File, ast.Call, ast.expr | None]] = []
        for of in self.files:
            nodes: list[ast.Name | ast.Attribute] = [*of.tree.of(ast.Name), *of.tree.of(ast.Attribute)]
            for node in nodes:
                if name != (node.attr if isinstance(node, ast.Attribute) else node.id):
                    continue
                call = of.tree.parents[node]
                if not isinstance(call, ast.Call) or call.func is not node:
                    return None
                bound = node.value if isinstance(node, ast.Attribute) and is_method and not makes else None
                found.append((of, call, bound))
        return found

    def _is_only_read(self, file: File, scope: ast.AST, name: str) -> bool:
        """Whether no code changes a dictionary through a variable, or in a function that the variable is passed to."""
        if (scope, name) in self.asked:
            return True
        self.asked.add((scope, name))
        if name in file.tree.declared:
            return False
        for node in ast.walk(scope):
            if not isinstance(node, ast.Name) or node.id != name or _is_bound(node):
                continue
            around = file.tree.parents[node]
            call = file.tree.parents[around]
            if isinstance(around, ast.Attribute):
                fine = isinstance(call, ast.Call) and call.func is around and around.attr == "items"
            elif isinstance(around, ast.keyword) and around.arg is None:
                fine = True
            else:
                passes = around if isinstance(around, ast.Call) else call
                fine = isinstance(passes, ast.Call) and self._leaves(passes, node)
            if not fine:
                return False
        return True

    def _leaves(self, call: ast.Call, argument: ast.Name) -> bool:
        """Whether a call can run only one function, and that function only reads the argument."""
        func = call.func
        name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        found = [(f, n) for f in self.files for n in f.tree.of(Function) if n.name == name]
        others = [n for f in self.files for n in f.tree.nodes if getattr(n, "name", "") == name]
        if len(found) != 1 or any(isinstance(n, (ast.ClassDef, ast.AsyncFunctionDef)) for n in others):
            return False
        file, function = found[0]
        is_method = isinstance(file.tree.parents[function], ast.ClassDef)
        receiver = func.value if isinstance(func, ast.Attribute) and is_method else None
        arguments = bind_arguments(function, call, receiver)
        names = [n for n, value in arguments.values.items() if value is argument] if arguments is not None else []
        return bool(names) and all(self._is_only_read(file, function, n) for n in names)


def _is_bound(name: ast.Name) -> bool:
    return not isinstance(name.ctx, ast.Load)


def _literal(value: ast.expr) -> Options | None:
    """A literal dictionary with strings as keys; None for any other expression."""
    try:
        found = ast.literal_eval(value)
    except ValueError:
        return None
    return found if isinstance(found, dict) and all(isinstance(key, str) for key in found) else None
