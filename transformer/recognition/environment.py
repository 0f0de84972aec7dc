"""Whether the environment is a vector environment, how it is made, and whether single environments share objects."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from transformer.dataflow.access import free_names, scope_access
from transformer.facts.libraries import of_environments
from transformer.facts.python import builtin_names
from transformer.recognition.roles import Roles
from transformer.syntax.options import holds_options
from transformer.syntax.query import bind_arguments, calls_method, children, names_in, root, walk
from transformer.syntax.tree import Tree


def is_vector(roles: Roles, sizes: Collection[str]) -> bool:
    """Whether the environment has single spaces, or is made with a number that is one of the sizes, as written.

    A plain environment also works with buffers for one environment, because its observations are broadcast. An
    environment may be plain if the script itself sets its single spaces.
    """
    step = roles.phases.env_step
    if not isinstance(step.func, ast.Attribute):
        return False
    told = [
        node
        for node in roles.tree.of(ast.Attribute)
        if node.attr in ("single_observation_space", "single_action_space")
        and ast.unparse(node.value) == ast.unparse(step.func.value)
    ]
    return bool(told and all(isinstance(node.ctx, ast.Load) for node in told)) or is_made_with(roles, sizes)


def is_made_with(roles: Roles, sizes: Collection[str]) -> bool:
    """Whether the environment is made with a number that is one of the sizes, as written."""
    step = roles.phases.env_step
    if not isinstance(step.func, ast.Attribute):
        return False
    names = sorted(names_in([step.func.value]))
    for name in names:  # grows: envs = Wrapper(envs), envs = made
        made = [value for stmt, value in roles.assignments(name) if stmt in roles.setup]
        for value in reversed(made):
            if any(ast.unparse(n) in sizes for n in walk(value) if isinstance(n, (ast.Name, ast.Attribute))):
                return True
            names += sorted(names_in([value]) - set(names))
            if name not in names_in([value]):  # the earlier value of the name is lost
                break
    return False


SYNC = tuple(f"{gym}.vector.SyncVectorEnv" for gym in ("gymnasium", "gym"))
SAME_ELSEWHERE = of_environments(anywhere=True)
"""Attributes and methods that work the same wherever the environments are stepped."""


OF_ONE_PROCESS = frozenset("wandb mlflow neptune comet_ml swanlab multiprocessing threading queue".split())
"""Modules with state that only one process has: a logged run, threads, queues."""


class Unshown(Exception):
    """Something about the environments is not known; the message says what, with its line."""


@dataclass(frozen=True)
class SyncVector:
    """The environments that training steps one after the other."""

    call: ast.Call
    """`gym.vector.SyncVectorEnv(env_fns)`."""
    stmt: ast.Assign
    """The statement that contains the call and binds a name to its result, or to a wrapper around it."""
    env_fns: ast.expr
    listed: bool
    """Whether infos are a list and a step has four results, as in gym 0.23."""


def find_sync_vector(roles: Roles, offered: Collection[str] = SAME_ELSEWHERE) -> SyncVector | None:
    """The SyncVectorEnv that is made above the training loop; None if there is none.

    Args:
        roles: the script's roles.
        offered: the attributes of it that the script may use.

    Raises:
        Unshown: it is made or used in a way that is not known to work with another vector environment.
    """
    tree = roles.tree
    made = [n for stmt in roles.setup for n in walk(stmt) if isinstance(n, ast.Call) and tree.calls(n, *SYNC)]
    if not made:
        return None
    call, stmt = made[0], tree.statement(made[0])
    targets = stmt.targets if isinstance(stmt, ast.Assign) and stmt in roles.setup else []
    if len(made) > 1:
        raise Unshown(f"line {made[1].lineno} makes another SyncVectorEnv")
    if len(targets) != 1 or not isinstance(targets[0], ast.Name) or not isinstance(stmt, ast.Assign):
        raise Unshown(f"line {call.lineno} does not bind the environments to a single name")
    if len(call.args) != 1 or call.keywords or isinstance(call.args[0], ast.Starred):
        raise Unshown(f"line {call.lineno} gives SyncVectorEnv more than a list of functions")
    if not (stmt.value is call or _wraps(tree, stmt.value, call)):
        raise Unshown(f"line {call.lineno} does more with the environments than wrap them")
    name = targets[0].id
    for node in tree.of(ast.Name):
        if node.id == name and roles.is_ours(node):
            _check_use(roles, node, node.id, offered, 0)
    return SyncVector(call, stmt, call.args[0], _infos_are_listed(tree, call, name))


def _wraps(tree: Tree, value: ast.expr, inner: ast.expr) -> bool:
    """Whether an expression is `inner` in one or several of gym's own wrappers."""
    while isinstance(value, ast.Call) and value is not inner:
        if not re.match(r"(gym|gymnasium)\.wrappers\.\w+$", tree.qualified(value.func) or "") or not value.args:
            return False
        value = value.args[0]
    return value is inner


def _check_use(roles: Roles, name: ast.Name, of: str, offered: Collection[str], depth: int) -> None:
    """Check that a use of the environments works with another vector environment.

    Raises:
        Unshown: it is not known to.
    """
    tree, parent = roles.tree, roles.tree.parents[name]
    stmt = tree.statement(name)
    if isinstance(parent, ast.Attribute) and isinstance(parent.ctx, ast.Load) and parent.attr in offered:
        return
    if isinstance(stmt, ast.Assign) and stmt in roles.setup and [ast.unparse(t) for t in stmt.targets] == [of]:
        read = next((n for n in walk(stmt.value) if isinstance(n, ast.Name) and n.id == of), None)
        if read is None or _wraps(tree, stmt.value, read):
            return
    call = tree.parents[parent] if isinstance(parent, ast.keyword) else parent
    if isinstance(call, ast.Call) and call.func is not name and depth < _DEEP:
        function = tree.function_called(call) or _constructor(tree, call)
        bound = bind_arguments(function, call, call.func if _is_method(tree, function) else None) if function else None
        parameter = bound.parameter_of(name) if bound else None
        if function is not None and parameter is not None:
            for inside in walk(function):
                if isinstance(inside, ast.Name) and inside.id == parameter:
                    _check_use(roles, inside, parameter, offered, depth + 1)
            return
    raise Unshown(f"line {name.lineno} uses {tree.text(parent) if isinstance(parent, ast.Attribute) else name.id}")


_DEEP = 4


def _is_method(tree: Tree, function: ast.FunctionDef | None) -> bool:
    return function is not None and isinstance(tree.parents[function], ast.ClassDef)


def _constructor(tree: Tree, call: ast.Call) -> ast.FunctionDef | None:
    cls = tree.classes.get(ast.unparse(call.func))
    methods = cls.body if cls is not None else []
    return next((m for m in methods if isinstance(m, ast.FunctionDef) and m.name == "__init__"), None)


def _infos_are_listed(tree: Tree, call: ast.Call, name: str) -> bool:
    """Whether a step has four results.

    Raises:
        Unshown: the targets of the assignment do not show it.
    """
    if (tree.qualified(call.func) or "").startswith("gymnasium."):
        return False
    counts = {
        len(stmt.targets[0].elts)
        for stmt in tree.of(ast.Assign)
        if calls_method(stmt.value, "step") and ast.unparse(stmt.value.func.value) == name
        if isinstance(stmt.targets[0], ast.Tuple)
    }
    if len(counts) != 1 or not counts <= {4, 5}:
        raise Unshown(f"line {call.lineno} uses a gym whose steps have an unknown number of results")
    return counts == {4}


def check_separate(roles: Roles, env_fns: ast.expr) -> int | None:
    """Check that the environments share no object of the script that one of them, or later training, may change.

    Code inside packages is not checked.

    Args:
        roles: the script's roles.
        env_fns: a list of functions, each of which makes one environment.

    Returns:
        the number of environments; None if it is not explicit.

    Raises:
        Unshown: they may share an object.
    """
    return _Separate(roles, roles.tree.statement(env_fns)).functions(env_fns)


class _Separate:
    def __init__(self, roles: Roles, made_at: ast.stmt) -> None:
        self.roles, self.tree = roles, roles.tree
        self.made_at = made_at
        self.seen: set[ast.AST] = set()

    def functions(self, value: ast.expr) -> int | None:
        """Check a list of functions."""
        if isinstance(value, ast.List):
            for element in value.elts:
                self.maker(element, frozenset())
            return len(value.elts)
        if isinstance(value, ast.ListComp):
            numbers = {
                n.id
                for g in value.generators
                if isinstance(g.iter, ast.Call) and self.tree.names.builtin(g.iter.func) == "range"
                for n in walk(g.target)
                if isinstance(n, ast.Name)
            }
            self.maker(value.elt, frozenset(numbers))
            return None
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
            repeated = value.left if isinstance(value.left, (ast.List, ast.Name)) else value.right
            for node in walk(repeated):
                if (
                    isinstance(node, ast.Call)
                    and self.tree.function_called(node)
                    and not self._is_per_environment(node, repeated)
                ):
                    self._own_values_are_parameters(node)
            self.functions(repeated)
            return None
        if isinstance(value, ast.Name):
            assigned = [v for s, v in self.roles.assignments(value.id) if s in self.roles.setup]
            uses = [n for n in self.tree.of(ast.Name) if n.id == value.id]
            if len(assigned) == 1 and len(uses) == 2:
                return self.functions(assigned[0])
        raise Unshown(f"line {value.lineno} does not pass the functions that make environments as a plain list")

    def _is_per_environment(self, node: ast.AST, outer: ast.AST) -> bool:
        """Whether a node is in a function that is called once per environment."""
        around = (a for a in self.tree.ancestors(node) if a in walk(outer))
        return any(isinstance(a, ast.Lambda) for a in around)

    def _own_values_are_parameters(self, call: ast.Call) -> None:
        """Check that a function, called once for all environments, makes nothing that these would share."""
        function = self.tree.function_called(call)
        assert function is not None
        made = scope_access(function.body).binds - {s.name for s in function.body if isinstance(s, ast.FunctionDef)}
        for inner in walk(function):
            if isinstance(inner, (ast.FunctionDef, ast.Lambda)) and inner is not function and free_names(inner) & made:
                raise self._shared(inner, f"what {function.name}() makes in one call")

    def maker(self, value: ast.expr, numbers: frozenset[str]) -> None:
        """Check an expression for a function that makes an environment; `numbers` are names of numbers."""
        if isinstance(value, ast.Lambda):
            self.function(value, numbers)
        elif isinstance(value, ast.Name):
            self.name(value.id, value, numbers)
        elif isinstance(value, ast.Call):
            for given in (*value.args, *(k.value for k in value.keywords)):
                if not (given is value.args[0] and self.tree.calls(value, "functools.partial")):
                    self.plain(given, numbers)
            self.maker(value.args[0] if self.tree.calls(value, "functools.partial") else value.func, numbers)
        elif self.tree.qualified(value) is None:
            raise Unshown(f"line {value.lineno} makes an environment in an unknown way")

    def function(self, function: ast.FunctionDef | ast.Lambda, numbers: frozenset[str] = frozenset()) -> None:
        """Check a function, and everything it uses from outside."""
        if function in self.seen:
            return
        self.seen.add(function)
        for default in (*function.args.defaults, *filter(None, function.args.kw_defaults)):
            self.plain(default, numbers)
        for node in walk(function):
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                raise self._shared(node, ", ".join(node.names))
            if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
                self.written(node, function)
        for name in sorted(free_names(function)):
            self.name(name, function, numbers)

    def written(self, place: ast.Attribute | ast.Subscript, function: ast.FunctionDef | ast.Lambda) -> None:
        """Check that an assigned place belongs to the environment, not to a class, a module or the options."""
        chain = [n for n in walk(place) if isinstance(n, ast.Attribute)]
        calls = any(
            isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "type" for n in walk(place)
        )
        base = root(place)
        own = self.tree.class_of_self(place.value, self.tree.scope_of(place)) is not None
        options = isinstance(place, ast.Attribute) and place.attr in self._options and not own
        if calls or options or any(n.attr == "__class__" for n in chain) or base in free_names(function) - {""}:
            raise self._shared(place, ast.unparse(place))

    @cached_property
    def _options(self) -> frozenset[str]:
        """The names of options that the script reads."""
        tree = self.tree
        return frozenset(
            node.attr
            for node in tree.of(ast.Attribute)
            if isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name)
            if holds_options(tree, node.value, tree.scope_of(node))
        )

    def name(self, name: str, used: ast.AST, numbers: frozenset[str]) -> None:
        """Check that nothing can change a name that a function reads from outside, or that a package defines it."""
        tree = self.tree
        bound = [n for n in tree.of(ast.Name) if n.id == name and not isinstance(n.ctx, ast.Load)]
        bound = [n for n in bound if tree.scope_of(n) in (tree.root, self.roles.scope)]
        definitions: list[ast.FunctionDef | ast.ClassDef] = [*tree.of(ast.FunctionDef), *tree.of(ast.ClassDef)]
        defined = [d for d in definitions if d.name == name and not isinstance(tree.parents[d], ast.ClassDef)]
        if tree.imports.get(name, "").partition(".")[0] in OF_ONE_PROCESS:
            raise self._shared(used, name)
        if (
            name in numbers
            or (name in tree.imports and not bound)
            or (hasattr(builtins, name) and not bound and not defined)
        ):
            return
        if defined and not bound:
            for definition in defined:
                if definition.decorator_list:
                    raise self._shared(definition, name)
                if isinstance(definition, ast.ClassDef):
                    self.of_class(definition)
                else:
                    self.function(definition)
            return
        if holds_options(tree, ast.Name(name, ast.Load()), self.roles.scope):
            self.options(name)
            return
        for node in bound:
            stmt = tree.statement(node)
            above = node.lineno < self.made_at.lineno and not tree.loops_around(node)
            if not above or not isinstance(stmt, ast.Assign) or stmt.targets != [node]:
                raise self._shared(node, name)
            self.plain(stmt.value, numbers)
        if not bound:
            raise self._shared(used, name)

    def options(self, name: str) -> None:
        """Check that the script's options do not change after the environments are made."""
        for node in self.tree.of(ast.Attribute):
            if not isinstance(node.ctx, ast.Load) and ast.unparse(node.value) == name:
                if node.lineno > self.made_at.lineno:
                    raise self._shared(node, ast.unparse(node))

    def of_class(self, cls: ast.ClassDef) -> None:
        """Check that a class of the script keeps nothing that its objects share."""
        if cls in self.seen:
            return
        self.seen.add(cls)
        for base in cls.bases:
            self.maker(base, frozenset())
        for stmt in cls.body:
            if isinstance(stmt, ast.FunctionDef):
                self.function(stmt)
            elif isinstance(stmt, (ast.Assign, ast.AnnAssign)) and stmt.value is not None:
                targets = stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target]
                if [ast.unparse(t) for t in targets] != ["metadata"]:
                    self.plain(stmt.value, frozenset())
            elif not isinstance(stmt, (ast.Expr, ast.Pass, ast.AnnAssign)):
                raise self._shared(stmt, f"what {cls.name} keeps")

    def plain(self, value: ast.expr, numbers: frozenset[str]) -> None:
        """Check that the value of an expression is immutable: a number, a string, the options."""
        if isinstance(value, (ast.Constant, ast.JoinedStr)):
            return
        if isinstance(value, ast.Attribute):
            self.plain(value.value, numbers)
            return
        if isinstance(value, ast.Name):
            self.name(value.id, value, numbers)
            return
        if isinstance(value, ast.Call):
            if (builtin := self.tree.names.builtin(value.func)) in builtin_names(makes=("number", "text")):
                return
            if builtin in builtin_names(gives="new"):
                for given in value.args:
                    self.plain(given, numbers)
                return
            if (self.tree.qualified(value.func) or "").startswith(("os.path.", "time.")):
                return
        if isinstance(value, (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple)):
            for part in children(value):
                if isinstance(part, ast.expr):
                    self.plain(part, numbers)
            return
        raise self._shared(value, ast.unparse(value))

    def _shared(self, node: ast.AST, what: str) -> Unshown:
        return Unshown(f"line {getattr(node, 'lineno', 0)}: the environments may share {what}")
