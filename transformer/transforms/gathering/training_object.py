"""Whether variables and functions can replace an object that a script makes once and trains with."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from transformer.dataflow.access import block_names, free_names, scope_access
from transformer.dataflow.name_lookups import looks_up_names, texts_of
from transformer.dataflow.variables import COMPREHENSIONS
from transformer.facts.torch_api import NO_GRAD
from transformer.syntax.query import bind_arguments, first_parameter, has_decorator, is_read, names_in, parameters, walk
from transformer.syntax.tree import Scope, Tree
from transformer.transforms.gathering.inlining import Stays
from transformer.transforms.gathering.only_calls import clears_gradients
from transformer.transforms.gathering.private_methods import is_private
from transformer.transforms.gathering.unset import is_caught


class Kept(Stays):
    """The object must stay an object."""

    def __init__(self, why: str, instead: str) -> None:
        super().__init__(f"{why}: {instead}")


@dataclass(frozen=True)
class Dissolved:
    """The replacement of an object: the names of its parts, in the scope that made it."""

    cls: ast.ClassDef
    creation: ast.Call
    stmt: ast.Assign | ast.Expr
    """The statement of the creation: `trainer = Trainer(args)`, or `Trainer(args).train()`."""
    name: str | None
    """The name that this statement binds to the object."""
    scope: Scope
    init: ast.FunctionDef
    methods: tuple[ast.FunctionDef, ...]
    names: dict[str, str]
    """The variable of each attribute, and the function of each method."""
    constants: dict[str, ast.Constant]
    """Class attributes: the initial values of the object's attributes."""
    properties: frozenset[str]
    passed: dict[str, str]
    """Attributes that always equal a parameter of `__init__`, with the parameter."""
    stored: dict[ast.FunctionDef, frozenset[str]]
    """For each function in the class, the variables that it binds for others."""


def training_classes(tree: Tree) -> list[ast.ClassDef]:
    """Classes of the file whose methods clear gradients."""
    found: dict[ast.ClassDef, None] = {}
    for node in tree.nodes:
        if clears_gradients(node):
            found |= {c: None for c in tree.ancestors(node) if isinstance(c, ast.ClassDef)}
    return list(found)


def understand(tree: Tree, cls: ast.ClassDef) -> Dissolved:
    """Find the object and the names.

    Raises:
        Kept: variables and functions may not allow all uses of the object, or this cannot be determined.
    """
    return _Object(tree, cls).dissolved()


class _Object:
    def __init__(self, tree: Tree, cls: ast.ClassDef) -> None:
        self.tree = tree
        self.cls = cls
        self.functions = [f for f in cls.body if isinstance(f, ast.FunctionDef)]
        self.init = next((f for f in self.functions if f.name == "__init__"), None)
        self.methods = tuple(f for f in self.functions if f is not self.init)

    def dissolved(self) -> Dissolved:
        self.check_class()
        self.check_methods()
        creation = self.creation
        stmt = self.tree.statement(creation)
        name = self.name_of(stmt)
        self.check_uses(stmt, name)
        assert isinstance(stmt, (ast.Assign, ast.Expr))
        self.check_scope()
        passed = self.passed()
        names = self.named(passed)
        stored = {
            f: frozenset(
                names[n.attr]
                for n in self.attributes_in(f)
                if not isinstance(n.ctx, ast.Load) and not (f is self.init and n.attr in passed)
            )
            for m in self.functions
            for f in walk(m)
            if isinstance(f, ast.FunctionDef)
        }
        assert self.init is not None
        stored[self.init] |= {names[n] for n in self.constants}
        properties = frozenset(m.name for m in self.methods if has_decorator(m, "property"))
        return Dissolved(
            cls=self.cls, creation=creation, stmt=stmt, name=name, scope=self.scope, init=self.init,
            methods=self.methods, names=names, constants=self.constants, properties=properties, passed=passed,
            stored=stored,
        )  # fmt: skip

    # --- whether ---------------------------------------------------------------------------------------------

    def check_class(self) -> None:
        """Reject classes that contain more than methods and constants."""
        cls = self.cls
        if cls not in self.tree.root.body:
            raise Kept("it is defined inside something else", "define it at the top level of the file")
        if self.init is None:
            raise Kept("it has no __init__()", "give it one, which sets its attributes")
        if cls.decorator_list:
            raise Kept(f"line {cls.decorator_list[0].lineno} decorates it", "write out what the decorator does")
        if cls.keywords or self.tree.bases(cls):
            bases = " and ".join(map(ast.unparse, (*cls.bases, *(k.value for k in cls.keywords))))
            raise Kept(f"it is derived from {bases}", "train in a function, or in a plain class")
        for part in cls.body:
            doc = isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)
            if not doc and not isinstance(part, ast.FunctionDef) and not _declares(part) and _constant(part) is None:
                raise Kept(f"line {part.lineno} is neither a method nor a constant", "do it in __init__()")
        named = [f.name for f in self.functions] + [c[0] for part in cls.body if (c := _constant(part))]
        if len(set(named)) < len(named):
            raise Kept("it defines a name twice", "leave one of them out, or rename it")

    def check_methods(self) -> None:
        """Reject methods that need the object itself."""
        for method in self.functions:
            if method.name.startswith("__") and method is not self.init:
                raise Kept(f"line {method.lineno} defines {method.name}", "give it a plain name, and call that")
            for decorator in method.decorator_list:
                inner = decorator.func if isinstance(decorator, ast.Call) else decorator
                plain = ast.unparse(decorator) in ("staticmethod", "property")
                if self.tree.qualified(inner) not in (*NO_GRAD, "torch.enable_grad") and not plain:
                    raise Kept(f"line {decorator.lineno} decorates {method.name}()", "do in it what the decorator does")
            receiver = first_parameter(method)
            if receiver is None and not has_decorator(method, "staticmethod"):
                raise Kept(f"{method.name}() has no parameter for its object", "write @staticmethod above it")
            for node in walk(method):
                if isinstance(node, (ast.ClassDef, ast.AsyncFunctionDef)):
                    raise Kept(f"line {node.lineno} defines {node.name}", "define it outside of the class")
                if (
                    isinstance(node, ast.Name)
                    and node.id in ("super", "locals", "__class__")
                    and not self.is_super(node)
                ):
                    raise Kept(f"line {node.lineno} uses {node.id}", "name what it stands for")
                if isinstance(node, ast.Attribute) and is_private(node.attr):
                    raise Kept(f"line {node.lineno} uses the private name {node.attr}", "write one underscore")
                if isinstance(node, (ast.Global, ast.Nonlocal)):
                    raise Kept(f"line {node.lineno} binds variables from outside", "keep them as attributes")
                if isinstance(node, ast.JoinedStr) and any(_spells(part, receiver) for part in node.values):
                    raise Kept(f"line {node.lineno} prints the expression itself", "write it as text, without `=`")
                if receiver is not None:
                    self.check_receiver(node, receiver, method)

    def check_receiver(self, node: ast.AST, receiver: str, method: ast.FunctionDef) -> None:
        if isinstance(node, (ast.FunctionDef, ast.Lambda)) and node is not method and receiver in parameters(node):
            raise Kept(f"line {node.lineno} has another {receiver}", "rename that")
        if not isinstance(node, ast.Name) or node.id != receiver:
            return
        self.check_use(node)

    def check_use(self, name: ast.Name) -> None:
        """Reject a use of the object that does more than access an attribute."""
        user = self.tree.parents[name]
        if not isinstance(name.ctx, ast.Load):
            raise Kept(f"line {name.lineno} assigns {name.id}, too", "make the object in one place")
        if not isinstance(user, ast.Attribute):
            raise Kept(
                f"line {name.lineno} passes the object on", f"pass on only what is needed, such as `{name.id}.x`"
            )
        stored = not isinstance(user.ctx, ast.Load)
        if stored and any(isinstance(n, COMPREHENSIONS) for n in self.tree.ancestors(user)):
            raise Kept(f"line {name.lineno} sets {user.attr} in a comprehension", "write a loop")  # a variable is local
        if user.attr in {f.name for f in self.functions} and stored:
            raise Kept(f"line {name.lineno} replaces {user.attr}()", "decide in the method what it does")
        if user.attr.startswith("__"):
            raise Kept(f"line {name.lineno} uses {user.attr}", "write out which attributes are meant")
        if user.attr not in self.always_set and is_caught(self.tree, user):
            raise Kept(f"line {name.lineno} catches the error if {user.attr} is unset", "set it in __init__()")

    @cached_property
    def always_set(self) -> set[str]:
        """Methods, and attributes set by the class or by a top-level statement of `__init__()`."""
        simple = [s for s in self.init.body if isinstance(s, (ast.Assign, ast.AnnAssign))] if self.init else []
        stored = (n for stmt in simple for n in walk(stmt) if isinstance(n, ast.Attribute))
        methods = {f.name for f in self.functions}
        return methods | set(self.constants) | {n.attr for n in stored if isinstance(n.ctx, ast.Store)}

    @cached_property
    def constants(self) -> dict[str, ast.Constant]:
        """Class attributes: the initial values of the object's attributes."""
        return dict(c for part in self.cls.body if (c := _constant(part)))

    @cached_property
    def creation(self) -> ast.Call:
        """The only use of the class."""
        uses = [n for n in self.tree.of(ast.Name) if n.id == self.cls.name]
        call = self.tree.parents[uses[0]] if len(uses) == 1 else None
        if not isinstance(call, ast.Call) or call.func is not uses[0]:
            if not uses:
                raise Kept("the file makes no object of it", f"write `agent = {self.cls.name}(...)` in it, once")
            lines = " and ".join(f"line {n.lineno}" for n in uses[:2])
            more = f", and {len(uses) - 2} more" if len(uses) > 2 else ""
            what = "use it" if len(uses) > 1 else "uses it for more than making an object"
            raise Kept(f"{lines}{more} {what}", "make one object of it, by one call, and nothing else of the class")
        if self.cls.name in texts_of(self.tree) and looks_up_names(self.tree, self.tree.root):
            raise Kept("its name is a text of the script, which looks names up", "call it by its name")
        if self.tree.loops_around(call):
            raise Kept(f"line {call.lineno} makes it in a loop", "make it once, above")
        if self.cls in self.tree.ancestors(call):
            raise Kept("it is made in a method of its own", "make it below the class")
        if self.cls.name in self.tree.rebound or any(a.arg == self.cls.name for a in self.tree.of(ast.arg)):
            raise Kept("something else of the script has its name", "rename one of them")
        if any(isinstance(outer, ast.ClassDef) for outer in self.tree.ancestors(call)):
            raise Kept(f"line {call.lineno} makes it in another class", "make it in a function, or at the top level")
        return call

    @cached_property
    def scope(self) -> Scope:
        """The scope that makes the object."""
        return self.tree.scope_of(self.creation)

    def name_of(self, stmt: ast.stmt) -> str | None:
        """The name bound to the object by the statement that makes it; None if a method is called at once."""
        if isinstance(stmt, ast.Assign) and stmt.value is self.creation and len(stmt.targets) == 1:
            if isinstance(stmt.targets[0], ast.Name):
                return stmt.targets[0].id
        elif isinstance(stmt, (ast.Assign, ast.Expr)) and isinstance(stmt.value, ast.Call):
            called = stmt.value.func
            if isinstance(called, ast.Attribute) and called.value is self.creation:
                return None
        elif isinstance(stmt, ast.Expr) and stmt.value is self.creation:
            return None
        line = self.creation.lineno
        raise Kept(f"line {line} does more with it than giving it a name", f"write `agent = {self.cls.name}(...)`")

    def check_uses(self, stmt: ast.stmt, name: str | None) -> None:
        """Reject if the object is passed on, or used by other functions."""
        for node in self.tree.nodes:
            if isinstance(node, ast.Name) and node.id == name and node not in walk(stmt):
                if self.tree.scope_of(node) is not self.scope:
                    if not self.binds_itself(node):
                        raise Kept(f"line {node.lineno} uses it in another function", f"give it `{name}.x` instead")
                    continue
                self.check_use(node)
                if node.lineno < stmt.lineno:
                    raise Kept(f"line {node.lineno} uses it above", "make it first")
            elif isinstance(node, ast.JoinedStr) and any(_spells(part, name) for part in node.values):
                raise Kept(f"line {node.lineno} prints the expression itself", "write it as text, without `=`")
            elif isinstance(node, (ast.Lambda, ast.comprehension)) and self.tree.scope_of(node) is self.scope:
                own = parameters(node) if isinstance(node, ast.Lambda) else names_in([node.target])
                if name in own:
                    line = node.lineno if isinstance(node, ast.Lambda) else node.target.lineno
                    raise Kept(f"line {line} has another {name}", "rename that")

    def binds_itself(self, name: ast.Name) -> bool:
        """Whether a name in a function is local to that function."""
        function = self.tree.scope_of(name)
        return isinstance(function, ast.FunctionDef) and name.id not in free_names(function)

    def check_scope(self) -> None:
        """Reject if the scope hides module names that the methods read."""
        if isinstance(self.scope, ast.Module):
            return
        own = scope_access(self.scope.body).binds | set(parameters(self.scope))
        for method in self.functions:
            for name in sorted(free_names(method) & own):
                raise Kept(
                    f"{method.name}() reads the {name} of the file, and {self.scope.name}() has another {name}",
                    "rename one of them",
                )

    # --- names -----------------------------------------------------------------------------------------------

    def is_super(self, name: ast.Name) -> bool:
        """Whether a name is `super` in `super().__init__()`, which has no effect here."""
        around = list(self.tree.ancestors(name))[:4]
        return (
            name.id == "super"
            and ast.unparse(around[3]) == "super().__init__()"
            and around[3] in getattr(self.init, "body", ())
        )

    @cached_property
    def attributes(self) -> dict[str, list[ast.Attribute]]:
        """The uses of each attribute of the object in its methods."""
        found: dict[str, list[ast.Attribute]] = {}
        for method in self.functions:
            for node in walk(method):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    if node.value.id == first_parameter(method):
                        found.setdefault(node.attr, []).append(node)
        return found

    def attributes_in(self, function: ast.FunctionDef) -> Iterator[ast.Attribute]:
        """Uses of attributes in a function of the class, excluding inner functions."""
        for uses in self.attributes.values():
            yield from (u for u in uses if self.tree.scope_of(u) is function)

    @cached_property
    def outside(self) -> dict[str, list[ast.Attribute]]:
        """The uses of each attribute of the object in the scope that made it."""
        stmt = self.tree.statement(self.creation)
        name = self.name_of(stmt)
        found: dict[str, list[ast.Attribute]] = {}
        for node in self.tree.of(ast.Attribute):
            if self.tree.scope_of(node) is self.scope:
                if node.value is self.creation or (isinstance(node.value, ast.Name) and node.value.id == name):
                    found.setdefault(node.attr, []).append(node)
        return found

    def passed(self) -> dict[str, str]:
        """Attributes bound only to a parameter of `__init__`, neither of which changes afterwards."""
        assert self.init is not None
        found: dict[str, str] = {}
        arguments = self.arguments
        bound = scope_access(self.init.body).binds
        for stmt in self.init.body:
            if not isinstance(stmt, (ast.Assign, ast.AnnAssign)) or not isinstance(stmt.value, ast.Name):
                continue
            targets = stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target]
            attribute, param = targets[0], stmt.value.id
            if (
                len(targets) > 1
                or not isinstance(attribute, ast.Attribute)
                or param in bound
                or param in found.values()
            ):
                continue
            stores = [u for u in self.uses(attribute.attr) if not isinstance(u.ctx, ast.Load)]
            if param in arguments and stores == [attribute] and self.stays(arguments[param]):
                found[attribute.attr] = param
        return found

    def stays(self, argument: ast.expr) -> bool:
        """Whether an argument is a variable that never changes, or an expression that can become one."""
        if not isinstance(argument, ast.Name):
            return True
        stores = [n for n in self.tree.of(ast.Name) if n.id == argument.id and not is_read(n)]
        declared = {n for s in self.tree.nodes if isinstance(s, (ast.Global, ast.Nonlocal)) for n in s.names}
        here = [n for n in stores if self.tree.scope_of(n) is self.scope]
        given = isinstance(self.scope, ast.FunctionDef) and argument.id in parameters(self.scope)
        return len(here) + given == 1 and argument.id not in declared

    def uses(self, attribute: str) -> list[ast.Attribute]:
        """Every use of an attribute of the object."""
        return [*self.attributes.get(attribute, ()), *self.outside.get(attribute, ())]

    def named(self, passed: dict[str, str]) -> dict[str, str]:
        """A name for each attribute and method, unique wherever it is used."""
        names: dict[str, str] = {}
        arguments = self.arguments
        parts = [*(m.name for m in self.methods), *self.constants, *self.attributes, *self.outside]
        for part in dict.fromkeys(parts):
            given = arguments.get(passed.get(part, ""))
            users = {m for u in self.attributes.get(part, ()) if (m := self.method_of(u))}
            if part in self.constants:
                users |= {f for f in self.functions if f is self.init}  # it sets the constants
            methods = users - {self.init}  # in it, an attribute that equals a parameter has the parameter's name
            if isinstance(given, ast.Name) and not any(given.id in self.bound_in(m) for m in methods):
                names[part] = given.id
                continue
            if isinstance(given, ast.Name):
                del passed[part]
            elif part in passed:
                users = methods
            taken = part in self.around or part in names.values() or hasattr(builtins, part)
            fresh = taken or any(part in self.words_in(m) for m in users)
            fresh = fresh or any(part in self.bound_in(m) for m in self.methods)  # methods may be inlined later
            names[part] = self.tree.names.fresh(part) if fresh else part
        return names

    @cached_property
    def arguments(self) -> dict[str, ast.expr]:
        """The argument of each parameter of `__init__`, which may be a constant by default."""
        assert self.init is not None
        bound = bind_arguments(self.init, self.creation, self.creation.func)
        if bound is None:
            raise Kept(f"line {self.creation.lineno} does not say which parameter gets what", "name each argument")
        return {**{p: v for p, v in bound.defaults.items() if isinstance(v, ast.Constant)}, **bound.given}

    def method_of(self, node: ast.AST) -> ast.FunctionDef | None:
        """The method around a node."""
        around = list(self.tree.ancestors(node))
        return next((m for m in self.functions if m in around), None)

    @cached_property
    def around(self) -> set[str]:
        """Names with a meaning in the scope that made the object, or in other functions that can read it."""
        inner = scope_access(self.scope.body)
        found = set(inner.reads | inner.binds)
        if isinstance(self.scope, ast.FunctionDef):
            found |= set(parameters(self.scope))
        inside = set(walk(self.cls))
        for node in self.tree.nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and node not in inside:
                found |= free_names(node)
        for method in self.functions:
            found |= free_names(method)
        return found

    def bound_in(self, method: ast.FunctionDef) -> set[str]:
        """Names that a method or its inner functions bind."""
        found: set[str] = set()
        for node in walk(method):
            if isinstance(node, (ast.FunctionDef, ast.Lambda)):
                found |= set(parameters(node))
            if isinstance(node, ast.Name) and not is_read(node):
                found.add(node.id)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                found |= {(a.asname or a.name).split(".")[0] for a in node.names}
            elif isinstance(node, ast.FunctionDef) and node is not method:
                found.add(node.name)
            elif isinstance(node, ast.stmt):
                found |= block_names(node)
        return found

    def words_in(self, method: ast.FunctionDef) -> set[str]:
        """Names that a method uses in any way."""
        return self.bound_in(method) | {n.id for n in walk(method) if isinstance(n, ast.Name)}


def _declares(part: ast.stmt) -> bool:
    """Whether a statement of a class only annotates an attribute, or does nothing."""
    return isinstance(part, ast.Pass) or (isinstance(part, ast.AnnAssign) and part.value is None)


def _constant(part: ast.stmt) -> tuple[str, ast.Constant] | None:
    """The name and the value of `name = 3`."""
    if isinstance(part, (ast.Assign, ast.AnnAssign)) and isinstance(part.value, ast.Constant):
        targets = part.targets if isinstance(part, ast.Assign) else [part.target]
        if len(targets) == 1 and isinstance(targets[0], ast.Name):
            return targets[0].id, part.value
    return None


def _spells(part: ast.expr, name: str | None) -> bool:
    """Whether a part of an f-string is the text of an expression: `self.steps=` in `f"{self.steps=}"`."""
    text = part.value if isinstance(part, ast.Constant) else None
    return isinstance(text, str) and text.rstrip().endswith("=") and f"{name}." in text
