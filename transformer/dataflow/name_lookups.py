"""Whether a script may look up functions, classes and variables by string, which analyses of names cannot see."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache

from transformer.dataflow.access import scope_access
from transformer.dataflow.reaching import Reaching
from transformer.dataflow.variables import COMPREHENSIONS, FUNCTIONS
from transformer.facts.lookups import ANSWERING, ATTRIBUTE_LOOKUPS, OF_CALLER, VARIABLES, lookups
from transformer.syntax.options import holds_options
from transformer.syntax.query import PARTS, asked_name, last_written, parameters, statements, walk
from transformer.syntax.tree import Scope, Tree


def texts_of(tree: Tree) -> set[str]:
    """All string constants of a script."""
    return {n.value for n in tree.of(ast.Constant) if isinstance(n.value, str)}


_NAMES = {kind: [field for field in kind._fields if field in ("id", "attr", "name", "asname", "arg")] for kind in PARTS}
"""The fields that hold names, by type of node."""


def identifiers(node: ast.AST) -> set[str | None]:
    """The names in a node itself; None stands for an optional name that is absent."""
    return {getattr(node, field, None) for field in _NAMES[type(node)]}


@lru_cache(maxsize=2)
def words_of(tree: Tree) -> AbstractSet[str | None]:
    """All names and string constants of a file."""
    return {getattr(node, field, None) for node in tree.nodes for field in _NAMES[type(node)]} | texts_of(tree)


def fresh_member(tree: Tree, wanted: str) -> str:
    """A name for a method that no variable, attribute, keyword argument or string has; strings may set attributes."""
    taken, name = words_of(tree), tree.names.fresh(wanted)
    while name in taken:
        name = tree.names.fresh(wanted)
    return name


def names_in_locals(tree: Tree, reaching: Reaching, call: ast.Call) -> frozenset[str] | None:
    """The names that the dict from `locals()` may ever contain in a function; writing to the dict sets no variable.

    Before Python 3.13, all calls in one run of a function return the same dict, and each call updates it. None if there
    may be other names: in a class, a comprehension or a nested function.
    """
    function = tree.scope_of(call)
    around = [*tree.ancestors(call)]
    if not isinstance(function, ast.FunctionDef) or any(isinstance(n, FUNCTIONS) for n in tree.ancestors(function)):
        return None
    if any(isinstance(n, (ast.ClassDef, ast.Lambda, *COMPREHENSIONS)) for n in around[: around.index(function)]):
        return None
    found, bound = set(parameters(function)), scope_access(function.body).binds
    for name in (n for n in walk(function) if isinstance(n, ast.Name) and n.id in OF_CALLER):
        found.update(n for n in bound if any(b is not None for b in reaching.before(n, tree.statement(name))))
    return frozenset(found)


def looks_up_names(tree: Tree, owner: ast.AST) -> bool:
    """Whether the script may look up functions and classes (or methods, if `owner` is a class) by string."""
    found = NAMESPACES | (ATTRIBUTE_LOOKUPS if isinstance(owner, ast.ClassDef) else frozenset())
    return any(
        (isinstance(n, ast.Name) and n.id in found) or _leads_to_variables(tree, n)  # sys.argv does not
        for n in tree.nodes
        if isinstance(n, (ast.Name, ast.Attribute)) and not is_vars_of_options(tree, n)
    )


NAMESPACES = VARIABLES | lookups(of="library", finds="modules")
SHOWING = lookups(of=("attribute", "inspect"), finds="methods") | {"_getframe", "currentframe"}
"""Attributes and functions that reveal which methods there are, or which one runs; a class's `__name__` does not."""


def looks_at_methods(tree: Tree, cls: ast.ClassDef, may_have: Callable[[ast.expr], bool]) -> ast.AST | None:
    """Where a script may see, replace or call methods of a class other than by their literal names; None if nowhere.

    Args:
        tree: the script.
        cls: the class.
        may_have: whether an expression may be the class, or an object with its methods.
    """
    names = [m.name for m in cls.body if isinstance(m, ast.FunctionDef)]
    for node in (*tree.of(ast.Name), *tree.of(ast.Attribute), *tree.of(ast.FunctionDef)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            if node.id == cls.name and not _makes_or_names(tree, node):
                return node
            call = tree.parents[node]
            given = call.args if isinstance(call, ast.Call) and call.func is node else []
            if node.id in ("dir", "vars") and given and _may_have_any(tree, given[0], may_have):
                item = tree.parents[call]  # in vars(x)["name"]
                if not (isinstance(item, ast.Subscript) and item.value is call and not _may_be(item.slice, names)):
                    return node
            asked = node.id in ("getattr", "hasattr", "setattr", "delattr") and len(given) > 1
            if asked and not isinstance(given[1], ast.Constant) and _may_be(given[1], names):
                if _may_have_any(tree, given[0], may_have):
                    return node
        elif isinstance(node, ast.Attribute) and node.attr in SHOWING and not _is_named_alone(tree, node):
            of_object = node.attr == "__dict__" and (
                isinstance(tree.parents[node], ast.Attribute) or not may_have(node.value)
            )
            if not of_object:
                return node
        elif isinstance(node, ast.FunctionDef) and node.name in ANSWERING and tree.parents[node] is cls:
            return node
    return None


def _may_be(text: ast.expr, names: Sequence[str]) -> bool:
    """Whether a string expression may be one of some names; it is not if it starts with another prefix."""
    if isinstance(text, ast.JoinedStr) and text.values:
        text = text.values[0]
    elif isinstance(text, ast.BinOp) and isinstance(text.op, ast.Add):
        text = text.left
    elif isinstance(text, ast.Constant):
        return text.value in names
    begins = text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else ""
    return any(name.startswith(begins) for name in names)


def _makes_or_names(tree: Tree, name: ast.Name) -> bool:
    """Whether a class is called, subclassed, tested with `isinstance`, read for an attribute, or used as an annotation.

    It may have an alias that is only called: `made = Small if args.small else Large`.
    """
    parent = tree.parents[name]
    below: ast.AST = name
    while isinstance(parent, ast.IfExp) and below is not parent.test:
        below, parent = parent, tree.parents[parent]
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        others = [n for n in tree.of(ast.Name) if n.id == parent.targets[0].id and isinstance(n.ctx, ast.Load)]
        called = all(isinstance(c := tree.parents[n], ast.Call) and c.func is n for n in others)
        return called and isinstance(tree.scope_of(parent), ast.FunctionDef)
    if isinstance(parent, ast.Call):
        return parent.func is name or ast.unparse(parent.func) in ("isinstance", "super")
    return isinstance(parent, (ast.ClassDef, ast.arg, ast.AnnAssign, ast.Attribute)) or (
        isinstance(parent, ast.FunctionDef) and parent.returns is name
    )


def _is_named_alone(tree: Tree, node: ast.AST) -> bool:
    """Whether only the name of a class is read: `self.__class__.__name__`, `type(x).__name__`."""
    parent = tree.parents[node]
    return isinstance(parent, ast.Attribute) and parent.attr in ("__name__", "__qualname__")


def _may_have_any(tree: Tree, value: ast.expr, may_have: Callable[[ast.expr], bool]) -> bool:
    """Whether an expression may have the methods (`may_have`); modules and the script's options have not."""
    if isinstance(value, ast.Name) and value.id in tree.imports:
        return False
    return not holds_options(tree, value, tree.scope_of(value)) and may_have(value)


def is_vars_of_options(tree: Tree, name: ast.AST) -> bool:
    """Whether a name is part of `vars(args)`, or of `vars(parser.parse_args())`."""
    call = tree.parents.get(name)
    given = call.args if isinstance(name, ast.Name) and name.id == "vars" and isinstance(call, ast.Call) else []
    return call is not None and len(given) == 1 and holds_options(tree, given[0], tree.scope_of(call))


def sees_no_value(tree: Tree, name: ast.AST) -> bool:
    """Whether a name is part of `vars(args)`, or of `"x" in locals()`, a read of x that analyses see."""
    call = tree.parents.get(name, name)
    return is_vars_of_options(tree, name) or asked_name(tree.parents.get(call, call)) is not None


MODULES = {module: lookups(of=module) for module in lookups(of="library", finds=("modules", "state", "objects"))}
"""Modules, with those of their names that give access to variables."""
BUILTINS = lookups(of="builtin", where=("module", "caller", "both"))
"""Builtins that give access to variables."""


def variable_lookups(tree: Tree, function: ast.FunctionDef | None) -> Iterator[ast.expr]:
    """The places where the script may read or set variables by string.

    These are all uses of a name that returns a namespace, and of a module that contains such names, except accesses to
    the module's other names.

    Args:
        tree: the script.
        function: the function that owns the variables; None for the module.
    """
    of_module, apart = function is None, lookups(where="module")
    imported = any(whole.partition(".")[0] in (*MODULES, "builtins", "__main__") for whole in tree.imports.values())
    attributes = lookups(of="attribute", finds="variables")
    used = attributes & {n.attr for n in tree.of(ast.Attribute)} or BUILTINS & {n.id for n in tree.of(ast.Name)}
    if not imported and not used:
        return
    for node in tree.nodes:
        if not isinstance(node, (ast.Name, ast.Attribute)) or (not of_module and last_written(node) in apart):
            continue
        if isinstance(node, ast.Name) and node.id in BUILTINS and not _is_of_an_object(tree, node):
            if function is None or not _is_called_outside(tree, node, function):
                yield node
        if isinstance(node, ast.Attribute) and node.attr in attributes:
            yield node
        if imported and isinstance(node.ctx, ast.Load):
            if (of_module and tree.qualified(node) == "__main__") or _leads_to_variables(tree, node):
                yield node


def _is_called_outside(tree: Tree, name: ast.Name, function: ast.FunctionDef) -> bool:
    """Whether a builtin that reveals its caller's variables is called outside a function, and so reveals others."""
    call = tree.parents[name]
    called = isinstance(call, ast.Call) and call.func is name
    return called and name.id in OF_CALLER and function not in tree.ancestors(name)


def _leads_to_variables(tree: Tree, node: ast.Name | ast.Attribute) -> bool:
    """Whether an expression passes on one of MODULES, or is its attribute that returns a namespace."""
    module, _, name = (tree.qualified(node) or "").partition(".")
    if module not in (*MODULES, "builtins"):
        return False
    if name:
        return name in MODULES.get(module, BUILTINS) and not _imports_another(tree, node)
    outer = tree.parents[node]
    return not (isinstance(outer, ast.Attribute) and outer.value is node)


def _imports_another(tree: Tree, node: ast.AST) -> bool:
    """Whether `import_module` is called with the name of a module other than the script."""
    call = tree.parents[node]
    if not (isinstance(call, ast.Call) and call.func is node and len(call.args) >= 1):
        return False
    texts = [n.value for n in ast.walk(call.args[0]) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return tree.last_name(node) == "import_module" and bool("".join(texts)) and "__main__" not in texts


def _is_of_an_object(tree: Tree, name: ast.Name) -> bool:
    """Whether a use of a builtin cannot see the script's variables: `vars(args)`, `vars(C())`, `__import__("os")`."""
    if not isinstance(name.ctx, ast.Load):
        return False
    if sees_no_value(tree, name):
        return True
    call = tree.parents[name]
    if name.id == "__import__" and isinstance(call, ast.Call) and call.func is name:
        texts = [a.value for a in call.args if isinstance(a, ast.Constant)]
        return bool(texts) and "__main__" not in texts
    given = call.args if isinstance(call, ast.Call) and call.func is name else []
    made = (isinstance(a, ast.Call) and isinstance(a.func, ast.Name) and a.func.id in tree.classes for a in given)
    named = (isinstance(a, (ast.Name, ast.Attribute)) for a in given)
    objects = name.id in ("vars", "dir") and (any(named) or any(made))
    return objects and not any(isinstance(n, ast.Name) and n.id in tree.imports for a in given for n in ast.walk(a))


def seen_by_text(before: Tree, after: Tree, scope: Scope) -> ast.expr | None:
    """Where a script accesses its variables by string, if statements that set some of them have changed; else None.

    Args:
        before: the script.
        after: the script with some edits.
        scope: the training scope of `before`.
    """
    sets_globals = any(isinstance(n, ast.Global) for n in walk(scope))
    function = scope if isinstance(scope, ast.FunctionDef) and not sets_globals else None
    functions = [f for f in after.of(ast.FunctionDef) if f.name == getattr(scope, "name", None)]
    places = (p for p in variable_lookups(before, function) if not _comes_first(before, function, functions, p))
    place = next(places, None)
    if place is None:
        return None
    now = [after.root] if isinstance(scope, ast.Module) else functions
    kept = Counter(text for one in now for text in _settings(one))
    return place if Counter(_settings(scope)) - kept else None


def _comes_first(
    before: Tree, function: ast.FunctionDef | None, now: Sequence[ast.FunctionDef], place: ast.expr
) -> bool:
    """Whether a place is `f(locals())` in a training function, and all statements down to it are unchanged.

    The result lacks names bound below the call: Python updates it only when locals() is called again.
    """
    call = before.parents[place]
    asked = isinstance(place, ast.Name) and place.id == "locals" and isinstance(call, ast.Call) and call.func is place
    if not asked or function is None or len(now) != 1 or before.scope_of(place) is not function:
        return False
    stmt = before.statement(place)
    if (
        stmt not in function.body
        or hasattr(stmt, "body")
        or any(isinstance(outer, ast.Lambda) for outer in before.ancestors(place))
    ):
        return False
    count = function.body.index(stmt) + 1
    return [*map(ast.dump, function.body[:count])] == [*map(ast.dump, now[0].body[:count])]


def _settings(scope: Scope) -> list[str]:
    """The statements, as text, that set variables of a scope or their contents."""
    return [_head(s) for s in statements(scope.body) if isinstance(s, SETTING)]


SETTING = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.With, ast.Delete)


def _head(stmt: ast.stmt) -> str:
    if isinstance(stmt, ast.For):
        return f"for {ast.unparse(stmt.target)} in {ast.unparse(stmt.iter)}"
    if isinstance(stmt, ast.With):
        return f"with {', '.join(map(ast.unparse, stmt.items))}"
    return ast.unparse(stmt)
