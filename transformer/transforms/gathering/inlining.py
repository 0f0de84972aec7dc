"""Whether a function's statements can replace its only call, and under which names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from transformer.dataflow.access import Names, access, block_names, free_names, scope_access
from transformer.dataflow.closures import Nested, kept_for_later
from transformer.dataflow.liveness import Liveness, exposed
from transformer.dataflow.name_lookups import variable_lookups
from transformer.facts.torch_api import NO_GRAD
from transformer.state import State
from transformer.syntax.query import TRY, bind_arguments, is_read, parameters, statements, walk
from transformer.transforms.gathering.only_calls import OnlyCall, root_of
from transformer.transforms.gathering.private_methods import is_private
from transformer.transforms.gathering.unset import is_caught


class Stays(Exception):
    """A function or an object must stay one; the message says why, and what to write instead."""


class NotInlined(Stays):
    """The function must stay a function."""

    def __init__(self, why: str, instead: str) -> None:
        super().__init__(f"{why}: {instead}")


@dataclass(frozen=True)
class Inlining:
    """How a function's statements replace its call."""

    stmt: ast.Assign | ast.Expr
    """The statement that is the call, or assigns its result."""
    names: dict[str, str]
    """The new names of the function's parameters and variables, if they change."""
    bindings: tuple[tuple[str, ast.expr], ...]
    """Parameters to assign above, by their new names, with their arguments."""
    results: tuple[tuple[ast.expr, ast.expr], ...]
    """Targets and values to assign below; the values use the function's names."""
    value: ast.expr | None
    """The result to evaluate for its effects if it is not assigned."""
    aliases: tuple[ast.Assign, ...]
    """Statements that only bind another name to something."""
    guards: tuple[ast.If, ...]
    """The `if x: return` statements; the statements below each go under the opposite condition."""


def plan(state: State, only: OnlyCall) -> Inlining:
    """Plan how a function's statements replace its call.

    Raises:
        NotInlined: the statements would behave differently there, or this cannot be determined.
    """
    return _Planner(state, only).plan()


class _Planner:
    def __init__(self, state: State, only: OnlyCall) -> None:
        self.state, self.tree = state, state.tree
        self.function = only.function
        self.call = only.call
        self.receiver = only.receiver
        self.scope = state.tree.scope_of(only.call)
        inner = scope_access(self.function.body)
        self.declared = {
            n for s in statements(self.function.body) if isinstance(s, (ast.Global, ast.Nonlocal)) for n in s.names
        }
        self.bound = inner.binds - self.declared
        grown = [s for s in statements(self.function.body) if not _extends(s)]
        self.rebound = frozenset(n for s in grown for n in access(s).binds | block_names(s))
        self.params = parameters(self.function)
        self.locals = self.bound | frozenset(self.params)
        self.free = free_names(self.function)
        self.placed: dict[str, str] = {}

    def plan(self) -> Inlining:
        self.check()
        stmt = self.statement()
        given = self.given()
        value = _last_returned(self.function)
        targets = self.targets(stmt, value)
        names, bindings = self.choose(stmt, given, targets)
        results = [
            (t, v) for t, v in targets if not (isinstance(v, ast.Name) and names.get(v.id, v.id) == ast.unparse(t))
        ]
        self.check_renamed({old for old, new in names.items() if old != new})
        self.check_steady(stmt, names)
        ignored = isinstance(stmt, ast.Expr) and value is not None and any(isinstance(n, ast.Call) for n in walk(value))
        aliases = tuple(s for x, s in self.aliases.items() if x in self.placed)
        return Inlining(stmt, names, tuple(bindings), tuple(results), value if ignored else None, aliases, self.guards)

    def check(self) -> None:
        """Reject functions whose statements work only in a function."""
        function = self.function
        for decorator in function.decorator_list:
            plain = isinstance(decorator, ast.Call) and not decorator.args and not decorator.keywords
            if not plain or not self.tree.calls(decorator, *NO_GRAD):
                raise NotInlined(f"line {decorator.lineno} decorates it", "do in it what the decorator does")
        for node in (n for s in function.body for n in walk(s)):
            if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)):
                raise NotInlined(f"line {node.lineno} has a {type(node).__name__.lower()}", "return a list instead")
            if isinstance(node, (ast.Global, ast.Nonlocal)) and not self.is_owner(node):
                stores = (n for n in walk(function) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))
                bound = min((n for n in stores if n.id in node.names), key=lambda n: n.lineno, default=None)
                name, line = (node.names[0], node.lineno) if bound is None else (bound.id, bound.lineno)
                raise NotInlined(f"line {line} sets {name}, which lasts beyond the call", "set it where the call is")
            if isinstance(node, ast.AnnAssign) and isinstance(self.scope, ast.Module) and not self.is_plain_type(node):
                line = node.annotation.lineno
                raise NotInlined(f"line {line} has an annotation that only functions leave unevaluated", "drop it")
            if isinstance(node, ast.Name) and node.id in ("locals", "vars", "eval", "exec", "super", "__class__"):
                raise NotInlined(f"line {node.lineno} uses {node.id}", "name what it stands for")
            if isinstance(node, ast.Attribute) and is_private(node.attr):
                raise NotInlined(f"line {node.lineno} uses the private name {node.attr}", "write one underscore")
        unset = exposed(function.body) & scope_access(function.body).binds - set(parameters(function))
        for node in (n for s in function.body for n in walk(s)):
            if isinstance(node, ast.Name) and node.id in unset and is_read(node) and is_caught(self.tree, node):
                raise NotInlined(f"line {node.lineno} catches the error if {node.id} is unset", "set it first")
        returns = list(_returns(function))
        last = _tail(function.body)
        for stmt in returns:
            if stmt is not last and not any(stmt is guard.body[0] for guard in self.guards):
                raise NotInlined(f"line {stmt.lineno} returns before its end", "return once, in its last line")
        if self.kept and self.tree.loops_around(self.call):
            name, line = next(iter(self.kept.items()))
            raise NotInlined(f"line {line} may keep {name} for later", "define that function outside")
        outer = self.tree.scope_of(function)
        if not isinstance(self.scope, ast.Module) and outer is not self.scope:
            own = scope_access(self.scope.body).binds | set(parameters(self.scope))
            for name in sorted(self.free & own):
                raise NotInlined(
                    f"it reads the {name} of the file, and the function that calls it has another {name}",
                    "rename one of them",
                )
        if isinstance(outer, ast.FunctionDef) and outer is not self.scope:
            raise NotInlined(f"it is defined in {outer.name}() and called elsewhere", "define it at the top level")
        given = [a for a in (*self.call.args, *self.call.keywords) if not isinstance(a, ast.Starred)]
        if any(isinstance(n, ast.NamedExpr) for a in given for n in walk(a)):
            raise NotInlined(f"line {self.call.lineno} binds a name in its arguments", "bind it above the call")
        if isinstance(self.scope, ast.Module):  # the function's variables would become the module's
            lookups = (n for n in variable_lookups(self.tree, None) if not self.names_another(n))
            if (lookup := next(lookups, None)) is not None:
                raise NotInlined(f"line {lookup.lineno} may look variables up by their names", "name them")

    def names_another(self, lookup: ast.expr) -> bool:
        """Whether a lookup by text has a literal name that the function does not bind: `globals()["Agent"]`."""
        item = self.tree.parents.get(self.tree.parents[lookup])
        key = item.slice.value if isinstance(item, ast.Subscript) and isinstance(item.slice, ast.Constant) else None
        return isinstance(key, str) and key not in self.locals

    def is_plain_type(self, stmt: ast.AnnAssign) -> bool:
        """Whether evaluating an annotation does nothing: it is made of builtins, imports and classes of the module."""
        module = self.tree.root.body
        defined = {s.name for s in module if isinstance(s, ast.ClassDef)}
        defined |= {n for s in module if isinstance(s, (ast.Import, ast.ImportFrom)) for n in access(s).binds}
        nodes = list(walk(stmt.annotation))
        names = [n for n in nodes if isinstance(n, ast.Name)]
        plain = all(self.tree.names.builtin(n) or n.id in defined for n in names)
        return plain and not any(isinstance(n, (ast.Call, ast.NamedExpr)) for n in nodes)

    @cached_property
    def guards(self) -> tuple[ast.If, ...]:
        """The `if x: return` statements of the function, if its result is unused or assigned to a name."""
        outer = self.tree.parents[self.call]
        assigned = isinstance(outer, ast.Assign) and len(outer.targets) == 1 and isinstance(outer.targets[0], ast.Name)
        if not (isinstance(outer, ast.Expr) or assigned) or self.function.decorator_list:
            return ()
        found = [s for s in self.function.body[:-1] if isinstance(s, ast.If) and len(s.body) == 1 and not s.orelse]
        return tuple(s for s in found if _returns_early(s.body[0], kept=assigned))

    def is_owner(self, declaration: ast.Global | ast.Nonlocal) -> bool:
        """Whether the variables of a `global` or `nonlocal` declaration belong to the scope of the call."""
        if declaration not in self.function.body:
            return False
        if isinstance(declaration, ast.Global):
            return isinstance(self.scope, ast.Module)
        return self.tree.scope_of(self.function) is self.scope

    @cached_property
    def kept(self) -> dict[str, int]:
        """Variables that inner functions may read later, with the line: each call of the function makes new ones."""
        for node in (n for s in self.function.body for n in walk(s)):
            if isinstance(node, ast.ClassDef):
                raise NotInlined(f"line {node.lineno} makes a class", "make it outside of the function")
        return kept_for_later(self.tree, self.function.body, self.locals)

    def check_steady(self, stmt: ast.stmt, names: dict[str, str]) -> None:
        """Reject if inner functions would see a variable of the function change after the call."""
        for name, line in self.kept.items():
            root = names.get(name, name).partition(".")[0]
            bound = [s for s in statements(self.scope.body) if root in access(s).binds | block_names(s)]
            if root in self.shared - self.declared or any(s.lineno > stmt.lineno for s in bound):
                raise NotInlined(
                    f"line {line} may keep {name} for later, and the script has another {root} then",
                    "rename one of them",
                )

    def statement(self) -> ast.Assign | ast.Expr:
        """The statement of the call."""
        stmt = self.tree.parents[self.call]
        if isinstance(stmt, ast.Expr):
            return stmt
        if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1:
            shielded = self.function.decorator_list or isinstance(self.function.body[-1], ast.With)
            if shielded and any(isinstance(n, ast.Subscript) for n in walk(stmt.targets[0])):
                raise NotInlined(f"line {stmt.lineno} writes its result into an object", "give it a name first")
            return stmt
        raise NotInlined(f"line {self.call.lineno} does more with its result than assigning it", "give it a name first")

    def given(self) -> dict[str, ast.expr]:
        """The argument of each parameter, in order of evaluation."""
        bound = bind_arguments(self.function, self.call, self.receiver)
        if bound is None or set(bound.values) != set(self.params):
            spread = [v for v in (*self.call.args, *self.call.keywords) if getattr(v, "arg", "*") is None]
            spread += [v for v in self.call.args if isinstance(v, ast.Starred)]
            what = f"spreads {ast.unparse(spread[0]).lstrip('*')} out" if spread else "gives it other arguments"
            raise NotInlined(f"line {self.call.lineno} {what}", "name each argument")
        for name, value in bound.defaults.items():
            if not isinstance(value, ast.Constant):
                raise NotInlined(f"the default of {name} is not a constant", "give the argument in the call")
        return bound.values

    def targets(self, stmt: ast.Assign | ast.Expr, value: ast.expr | None) -> list[tuple[ast.expr, ast.expr]]:
        """The targets of the assignment, each with its value."""
        if isinstance(stmt, ast.Expr):
            return []
        target = stmt.targets[0]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            if not any(isinstance(e, ast.Starred) for e in (*target.elts, *value.elts)):
                return list(zip(target.elts, value.elts, strict=True))
        return [(target, value if value is not None else ast.Constant(None))]

    # --- names -----------------------------------------------------------------------------------------------

    def choose(
        self, stmt: ast.stmt, given: dict[str, ast.expr], targets: list[tuple[ast.expr, ast.expr]]
    ) -> tuple[dict[str, str], list[tuple[str, ast.expr]]]:
        """The name of each parameter and variable, and the parameters to assign."""
        placed = {p: text for p, value in given.items() if (text := self.in_place(p, value)) is not None}
        for name, alias in self.aliases.items():
            root = root_of(alias.value)
            assert isinstance(root, ast.Name)
            stays = placed.get(root.id, root.id)[:1].isidentifier() and root.id not in self.locals - set(placed)
            stays = stays and root.id not in self.declared
            text = self.in_place(name, alias.value) if stays else None
            if text is not None:
                first, dot, rest = text.partition(".")
                placed[name] = placed.get(first, first) + dot + rest
        placed = {name: self.known_as.get(text, text) for name, text in placed.items()}
        while True:
            names = self.named(stmt, given, targets, placed)
            own = {new for old, new in names.items() if old not in placed}
            lost = next((p for p, text in placed.items() if text.partition(".")[0] in own), None)
            if lost is None:
                break
            del placed[lost]  # the statements bind the name that would stand for the parameter
        self.placed = placed
        bindings = [(names[p], v) for p, v in given.items() if p not in placed and ast.unparse(v) != names[p]]
        for i, (name, _) in enumerate(bindings):
            for _, value in bindings[i + 1 :]:
                if name in access(value).reads:
                    raise NotInlined(f"an argument reads {name}, the name of a parameter", "rename one of them")
        return names, bindings

    @cached_property
    def aliases(self) -> dict[str, ast.Assign]:
        """Variables that are only another name for an object, with the statement: `s = self.settings`."""
        found: dict[str, ast.Assign] = {}
        for stmt in self.function.body:
            if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 and isinstance(stmt.targets[0], ast.Name):
                name, line = stmt.targets[0].id, self.state.source.pairs[stmt].line
                bound = [s for s in statements(self.function.body) if name in access(s).binds | block_names(s)]
                alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
                own = name in self.bound and name not in self.params
                if bound == [stmt] and alone and own and isinstance(root_of(stmt.value), ast.Name):
                    found[name] = stmt
        return found

    @cached_property
    def known_as(self) -> dict[str, str]:
        """Names by which the scope knows attributes, bound above the call: `args` for `self.args`.

        An attribute that can replace a parameter never changes, so the name still stands for it.
        """
        found: dict[str, str] = {}
        for stmt in (s for s in self.scope.body if (s.end_lineno or 0) < self.call.lineno):
            if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 and isinstance(stmt.value, ast.Attribute):
                name = stmt.targets[0].id if isinstance(stmt.targets[0], ast.Name) else ""
                bound = [s for s in statements(self.scope.body) if name in access(s).binds | block_names(s)]
                if bound == [stmt] and name not in self.shared | self.inner:
                    found.setdefault(ast.unparse(stmt.value), name)
        return found

    def in_place(self, param: str, value: ast.expr) -> str | None:
        """The text that can replace a parameter wherever it is read: a name, an option, a number."""
        alias = param in self.aliases
        if param in self.inner or (not alias and param in self.rebound):
            return None
        if param in self.bound and not alias and not isinstance(value, ast.Name):
            return None
        if isinstance(value, ast.Constant) and (value.value is None or isinstance(value.value, (bool, int, float))):
            read = (n for s in self.function.body for n in walk(s) if isinstance(n, ast.Attribute))
            return (
                None if any(isinstance(n.value, ast.Name) and n.value.id == param for n in read) else repr(value.value)
            )
        root = value
        while isinstance(root, ast.Attribute):
            if not self.is_option(root.attr):
                return None
            root = root.value
        return ast.unparse(value) if isinstance(root, ast.Name) and root.id not in self.shared | self.inner else None

    def is_option(self, attribute: str) -> bool:
        """Whether attributes of this name are set before training and never change."""
        declared, by_name = False, self.tree.names.taken("setattr")
        for node in self.tree.nodes:
            if isinstance(node, ast.FunctionDef) and node.name == attribute:
                return False  # a method or a property
            if by_name and isinstance(node, ast.Constant) and node.value == attribute:
                return False
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == attribute:
                declared = declared or isinstance(self.tree.parents[node], ast.ClassDef)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                declared = declared or node.value.replace("-", "_") == f"__{attribute}"
            elif isinstance(node, ast.Attribute) and node.attr == attribute and not isinstance(node.ctx, ast.Load):
                scope = self.tree.scope_of(node)
                if self.tree.loops_around(node) or not (scope is self.scope or _makes(scope)):
                    return False
                declared = True
        return declared

    def named(
        self,
        stmt: ast.stmt,
        given: dict[str, ast.expr],
        targets: list[tuple[ast.expr, ast.expr]],
        placed: dict[str, str],
    ) -> dict[str, str]:
        names = dict(placed)
        around = {text.partition(".")[0] for text in placed.values()}
        returned = [v.id for _, v in targets if isinstance(v, ast.Name)]
        assigned = {n.id for t, _ in targets for n in walk(t) if isinstance(n, ast.Name)}
        unread = assigned - self.closures - self.free - self.inner - around - self.guarded(stmt)
        for target, value in targets:  # a result is named after its target
            if isinstance(target, ast.Name) and isinstance(value, ast.Name) and value.id in self.locals - set(names):
                if target.id in unread and returned.count(value.id) == 1 and target.id not in self.locals - {value.id}:
                    passed = given.get(value.id)
                    if passed is None or ast.unparse(passed) == target.id or target.id not in self.read_by(given):
                        names[value.id] = target.id
        replaceable = self.replaceable(stmt, assigned) - around - set(names.values())
        for name in sorted(self.locals - set(names)):
            taken = name in self.used or name in around or name in names.values()
            argument = given.get(name)
            same = argument is not None and ast.unparse(argument) == name
            if taken and (name not in replaceable or (name in self.read_by(given) and not same)):
                names[name] = self.tree.names.fresh(name)
            else:
                names[name] = name
        return names

    @staticmethod
    def read_by(given: dict[str, ast.expr]) -> set[str]:
        return {name for value in given.values() for name in access(value).reads}

    def replaceable(self, stmt: ast.stmt, assigned: set[str]) -> set[str]:
        """Variables around the call whose values are no longer read."""
        live = self.liveness.after[stmt] - assigned
        own = set(scope_access(self.scope.body).binds)
        if isinstance(self.scope, ast.FunctionDef):
            own |= set(parameters(self.scope))
        return own - live - self.closures - self.free - self.guarded(stmt)

    def guarded(self, stmt: ast.stmt) -> set[str]:
        """Names that may be read after an exception in the function."""
        names: set[str] = set()
        for outer in self.tree.ancestors(stmt):
            if outer is self.scope:
                break
            if isinstance(outer, TRY):
                names |= self.liveness.after[outer]
                for block in (*(h.body for h in outer.handlers), outer.finalbody):
                    names |= scope_access(block).reads
        return names

    @cached_property
    def liveness(self) -> Liveness:
        """Liveness in the scope of the call."""
        return Liveness.of(self.scope.body, self.closures if isinstance(self.scope, ast.Module) else frozenset())

    @cached_property
    def inner(self) -> set[str]:
        """Names that are local to comprehensions and inner functions."""
        found: set[str] = set()
        for node in (n for s in self.function.body for n in walk(s)):
            if isinstance(node, ast.comprehension):
                found |= {n.id for n in walk(node.target) if isinstance(n, ast.Name)}
            elif isinstance(node, Nested):
                found |= set(parameters(node))
                if not isinstance(node, ast.Lambda):
                    found |= scope_access(node.body).binds
        return found

    @cached_property
    def shared(self) -> set[str]:
        """Variables that a `global` or `nonlocal` statement declares."""
        return {n for s in self.tree.nodes if isinstance(s, (ast.Global, ast.Nonlocal)) for n in s.names}

    @cached_property
    def used(self) -> Names:
        """Names that the scope of the call uses."""
        inner = scope_access(self.scope.body)
        params = set(parameters(self.scope)) if isinstance(self.scope, ast.FunctionDef) else set()
        return inner.reads | inner.binds | params | self.closures

    @cached_property
    def closures(self) -> Names:
        """Variables of the scope that other functions may read."""
        return frozenset(
            name
            for node in walk(self.scope)
            if isinstance(node, Nested) and node is not self.scope and node is not self.function
            if self.function not in self.tree.ancestors(node)
            for name in free_names(node)
        )

    def check_renamed(self, renamed: set[str]) -> None:
        """Reject names in places that cannot be renamed without renaming a definition."""
        for node in (n for s in self.function.body for n in walk(s)):
            bound: set[str] = set()
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                bound = {(a.asname or a.name).split(".")[0] for a in node.names}
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                bound = {node.name}
            elif isinstance(node, ast.stmt):
                bound = block_names(node)
            if isinstance(node, Nested):
                bound |= set(parameters(node))
            for name in sorted(bound & renamed):
                line = f"line {getattr(node, 'lineno', 0)}"
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    advice = "move the imports in functions to the top of the file"
                    raise NotInlined(f"{line} imports {name} in a function, and the script uses it elsewhere", advice)
                raise NotInlined(f"{line} binds {name}, a name that the script uses elsewhere", "rename one of them")


def _extends(stmt: ast.stmt) -> bool:
    """Whether a statement is `x += [...]`, after which x is still the same list."""
    return isinstance(stmt, ast.AugAssign) and isinstance(stmt.op, ast.Add) and isinstance(stmt.value, ast.List)


def _makes(scope: ast.Module | ast.FunctionDef) -> bool:
    return isinstance(scope, ast.Module) or scope.name in ("__init__", "__post_init__")


def _returns_early(stmt: ast.stmt, *, kept: bool) -> bool:
    """Whether a statement returns a value that can be dropped or, if the value is `kept`, evaluated in its place."""
    does = (ast.NamedExpr, ast.Lambda, *(() if kept else (ast.Call, ast.Attribute, ast.Subscript)))
    return isinstance(stmt, ast.Return) and not any(isinstance(n, does) for n in walk(stmt))


def _returns(function: ast.FunctionDef) -> Iterator[ast.Return]:
    return (s for s in statements(function.body) if isinstance(s, ast.Return))


def _tail(block: list[ast.stmt]) -> ast.stmt:
    """The last statement of a block, inside trailing `with` blocks."""
    last = block[-1]
    return _tail(last.body) if isinstance(last, ast.With) else last


def _last_returned(function: ast.FunctionDef) -> ast.expr | None:
    last = _tail(function.body)
    return last.value if isinstance(last, ast.Return) else None
