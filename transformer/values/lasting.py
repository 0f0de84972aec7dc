"""What lives across the iterations of the training loop, and how much of it a checkpoint can hold.

All names that training reads and that were bound above it are gone through. What is of no known kind is an obstacle:
a list of what would be lost is never complete, so what is kept, and what may be forgotten, is named instead.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from transformer.dataflow.access import access, free_names
from transformer.dataflow.liveness import exposed
from transformer.recognition.arguments import holds_options
from transformer.recognition.roles import Roles
from transformer.syntax.query import (
    calls_method,
    first_parameter,
    is_read,
    pairwise,
    parameters,
    root,
    statements,
    unparse,
    walk,
)
from transformer.values.reports import is_logger

CLOCKS = ("time.time", "time.perf_counter", "time.monotonic")
ENVIRONMENTS = ("gym.", "gymnasium.", "envpool.")
SCHEDULERS = "torch.optim.lr_scheduler."
SCALERS = ("torch.amp.GradScaler", "torch.cuda.amp.GradScaler")
FILLED = frozenset("zeros ones full empty zeros_like ones_like full_like arange tensor as_tensor".split())
"""Functions of torch and numpy that make what does not change by itself."""
NUMBERS = ("int", "float", "len", "min", "max", "abs", "round", "bool", "sum")
PLAIN = (*NUMBERS, "str", "range", "tuple", "repr", "format", "getattr", "hasattr", "isinstance")
LISTS = ("collections.deque", "deque", "list", "dict")
CHANGING = frozenset("append extend appendleft insert pop popleft clear update setdefault remove sort add".split())


class Lasting:
    """The names that live across iterations, by what becomes of them in a run that goes on from a checkpoint."""

    def __init__(self, roles: Roles) -> None:
        self._roles, self._tree = roles, roles.tree
        self.numbers: dict[str, None] = {}
        """Counters and the like, as they are bound again in the loop."""
        self.holders: dict[str, None] = {}
        """Networks, optimizers, schedulers: what has a state_dict()."""
        self.clocks: dict[str, ast.expr] = {}
        """What was read of a clock above the loop, with the reading."""
        self.anew: dict[str, None] = {}
        """What belongs to the environments and their episodes, and begins anew with them."""
        self.obstacles: list[tuple[ast.AST, str]] = []
        """What is of no known kind, and why."""
        for name in self._read:
            self._place(name)
        for name in sorted(self._carried - self._bindings.keys()):
            self.obstacles.append((self._bound(name), f"{name} lives across iterations, and is bound in them alone"))
        self.obstacles += self._attributes()
        if self._beside_state is not None:
            self.obstacles.append(self._beside_state)

    # --- what is read --------------------------------------------------------------------------------------

    @cached_property
    def _read(self) -> list[str]:
        """Names that training reads, in the order in which they are bound above it."""
        nodes = self._roles.run_by_training
        read = {n.id for n in nodes if isinstance(n, ast.Name) and is_read(n) and self._roles.is_ours(n)}
        if isinstance(self._roles.scope, ast.FunctionDef):
            module = access_of(self._tree.root.body)
            read |= {n.id for n in nodes if isinstance(n, ast.Name) and is_read(n) and n.id in module}
        return [name for name in self._bindings if name in read]

    @cached_property
    def _bindings(self) -> dict[str, list[tuple[ast.stmt, ast.expr | None]]]:
        """What binds each name outside of the loop, and the value where it is told; definitions and imports aside."""
        found: dict[str, list[tuple[ast.stmt, ast.expr | None]]] = {}
        inside = set(walk(self._roles.outermost))
        scope = self._roles.scope
        if isinstance(scope, ast.FunctionDef):
            found |= {name: [(scope, None)] for name in parameters(scope)}
        blocks = [self._tree.root.body] if scope is self._tree.root else [self._tree.root.body, scope.body]
        for stmt in (s for block in blocks for s in statements(block)):
            if stmt in inside or isinstance(stmt, (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)):
                continue
            told = dict(_told(stmt))
            for name in sorted(access(stmt).binds):
                found.setdefault(name, []).append((stmt, told.get(name)))
        return found

    def _place(self, name: str) -> None:
        """Find out what becomes of a name."""
        made = self._bindings[name]
        if name in self._carried:
            return self._place_carried(name)
        if name in self._roles.variant:
            return None  # it is bound anew in each iteration before it is read
        if name in self._environments:
            self.anew[name] = None
            return None
        if any(name == o.name for o in self._roles.optimizers) or name in self._roles.networks:
            self.holders[name] = None
            return None
        for stmt, value in made:
            why = self._object(name, stmt, value)
            if why:
                self.obstacles.append((stmt, why))
                return None
        return None

    @cached_property
    def _beside_state(self) -> tuple[ast.AST, str] | None:
        """Where a network of the file keeps something, outside of `__init__`, that no state_dict() holds."""
        for cls in self._tree.of(ast.ClassDef):
            if not self._roles.is_module(cls):
                continue
            methods = [m for m in cls.body if isinstance(m, ast.FunctionDef) and m.name != "__init__"]
            for method in methods:
                own = first_parameter(method) or ""
                for node in walk(method):
                    kept = isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load)
                    changed = calls_method(node, *CHANGING) and isinstance(node.func.value, ast.Attribute)
                    place = node.func.value if calls_method(node) and changed else node
                    if (kept or changed) and root(place) == own:
                        return node, f"{cls.name}.{method.name}() changes {unparse(place)}, which no state_dict() holds"
        return None

    # --- what the loop binds again -------------------------------------------------------------------------

    @cached_property
    def _carried(self) -> frozenset[str]:
        """Names that the loop binds, and whose value of an iteration the next one may read."""
        loop, roles = self._roles.phases.loop, self._roles
        targets = access(loop.target).binds if isinstance(loop, ast.For) else frozenset()
        head = exposed(loop.body, roles.counted)
        functions = {f.name for f in roles.history.functions.values()}
        for function in self._tree.of(ast.FunctionDef):
            if function in roles.run_by_training and function.name not in functions:
                head |= free_names(function)
        return (head & roles.variant) - targets

    def _place_carried(self, name: str) -> None:
        again = list(self._bound_again(name))
        values = [value for _, value in (*self._bindings[name], *again)]
        if all(value is not None and self._is_number(value, frozenset({name})) for value in values):
            self.numbers[name] = None
        elif all(where for where, _ in again) and self._is_of_environments(name):
            self.anew[name] = None
        else:
            self.obstacles.append((self._bound(name), f"{name} lives across iterations, and is no known number"))

    def _bound(self, name: str) -> ast.stmt:
        """The first statement of the loop that binds a name."""
        return next(s for s in statements(self._roles.outermost.body) if name in access(s).binds)

    def _bound_again(self, name: str) -> Iterator[tuple[bool, ast.expr | None]]:
        """Whether the rollout binds a name in the loop, and the value where it is told, each time that it is bound."""
        roles, phases = self._roles, self._roles.phases
        extracted = {f.name: f for f in roles.history.functions.values()}
        learn = phases.block.index(phases.learn)
        early = {s for stmt in phases.block[:learn] for s in statements([stmt])}
        for stmt in statements(roles.outermost.body):
            if name not in access(stmt).binds:
                continue
            value = dict(_told(stmt)).get(name)
            called = stmt.value.func if isinstance(stmt, ast.Assign) and isinstance(stmt.value, ast.Call) else None
            function = extracted.get(called.id) if isinstance(called, ast.Name) else None
            if function is not None and name in function.results:
                for inner in statements(self._tree.definition(function.name).body):
                    if name in access(inner).binds:
                        yield stmt in early, dict(_told(inner)).get(name)
            else:
                own = stmt in early and (
                    self._in_collect(stmt) or (value is not None and self._reads_only(value, name))
                )
                yield own, value

    def _in_collect(self, stmt: ast.stmt) -> bool:
        collect = self._roles.phases.collect
        return stmt is collect or collect in self._tree.ancestors(stmt)

    def _reads_only(self, value: ast.expr, name: str) -> bool:
        """Whether a value is made of nothing but what a name was before, as on another device."""
        read = {n.id for n in walk(value) if isinstance(n, ast.Name)} - self._tree.imports.keys()
        return read <= {name, self._roles.device or name}

    def _is_number(self, value: ast.expr, seen: frozenset[str]) -> bool:
        """Whether an expression gives a number of Python's, whatever it is made of."""
        if isinstance(value, ast.Constant):
            return isinstance(value.value, (int, float))
        if isinstance(value, (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp)):
            parts = [n for n in ast.iter_child_nodes(value) if isinstance(n, ast.expr)]
            return all(self._is_number(part, seen) for part in parts)
        if isinstance(value, ast.Call):
            builtin = self._tree.names.builtin(value.func)
            if builtin in ("int", "float", "len"):
                return True
            if builtin in ("min", "max", "abs", "round"):
                return all(self._is_number(a, seen) for a in value.args) and not value.keywords
            return calls_method(value, "item") and not value.args
        if isinstance(value, ast.Attribute):
            infinite = self._tree.qualified(value) in ("numpy.inf", "math.inf")
            return infinite or holds_options(self._tree, value.value, self._roles.scope)
        if not isinstance(value, ast.Name) or value.id in seen:
            return isinstance(value, ast.Name)
        made = [v for _, v in self._bindings.get(value.id, [])] + [v for _, v in self._bound_again(value.id)]
        loop = self._roles.phases.loop
        if isinstance(loop, ast.For) and unparse(loop.target) == value.id:
            return True
        return bool(made) and all(v is not None and self._is_number(v, seen | {value.id}) for v in made)

    # --- environments --------------------------------------------------------------------------------------

    @cached_property
    def _environments(self) -> frozenset[str]:
        """Names of what is stepped, and of what an environment's library makes."""
        others = {o.name for o in self._roles.optimizers}
        found = set()
        for node in self._roles.run_by_training:
            if calls_method(node, "step") and node.args and root(node.func.value) not in others:
                found.add(root(node.func.value))
        for name, made in self._bindings.items():
            calls = [v.func for _, v in made if isinstance(v, ast.Call)]
            if any((self._tree.qualified(c) or "").startswith(ENVIRONMENTS) for c in calls):
                found.add(name)
        return frozenset(found - {""})

    @cached_property
    def _sizes(self) -> frozenset[str]:
        """What the environments are made with, as written: the number of them is among it."""
        options = {n.value for n in self._tree.of(ast.Attribute)}
        found = set()
        for name in self._environments:
            for _, value in self._bindings.get(name, []):
                for node in walk(value) if value is not None else ():
                    if isinstance(node, (ast.Attribute, ast.Name)) and node not in options:
                        found.add(unparse(node))
        return frozenset(found)

    def _is_of_environments(self, name: str, seen: frozenset[str] = frozenset()) -> bool:
        """Whether what a name begins with is observed at a reset, or has a row for each environment."""
        values = [value for _, value in self._bindings[name]]
        return all(value is not None and self._begins(value, seen | {name}) for value in values)

    def _begins(self, value: ast.expr, seen: frozenset[str]) -> bool:
        for node in walk(value):
            if calls_method(node, "reset") and root(node.func.value) in self._environments:
                return True
            if isinstance(node, (ast.Attribute, ast.Name)) and unparse(node) in self._sizes:
                return True
        names = {n.id for n in walk(value) if isinstance(n, ast.Name) and n.id in self._bindings}
        return bool(names & seen) or any(self._is_of_environments(n, seen) for n in sorted(names))

    # --- objects that the loop leaves under their names -----------------------------------------------------

    def _object(self, name: str, stmt: ast.stmt, value: ast.expr | None) -> str | None:
        """Why an object cannot go on from a checkpoint; None where it can, or needs not."""
        unknown = f"it is not known what {name} keeps"
        if value is None:
            return self._passed(name, stmt) if isinstance(stmt, ast.FunctionDef) else self._unpacked(stmt, unknown)
        if isinstance(value, ast.IfExp):
            return self._object(name, stmt, value.body) or self._object(name, stmt, value.orelse)
        if is_logger(self._tree, ast.Name(name, ast.Load())) or self._is_plain(value) or self._is_function(value):
            return self._changed(name, value)
        qualified = (self._tree.qualified(value.func) or "") if isinstance(value, ast.Call) else ""
        if qualified in CLOCKS:
            self.clocks[name] = value
        elif qualified in SCALERS or qualified.startswith(SCHEDULERS) or self._is_network(value):
            self.holders[name] = None
        elif self._is_list(value):
            asked = self._in_condition(name)
            if asked is not None:
                return f"{name} begins anew, and line {asked.lineno} decides by it"
            self.anew[name] = None
        elif self._is_filled(value):
            return self._changed(name, value)
        elif qualified.startswith("tqdm") or is_logger(self._tree, value) or self._keeps_nothing(value):
            return None
        else:
            return unknown
        return None

    def _passed(self, name: str, function: ast.FunctionDef) -> str | None:
        """For a parameter of the function that trains: why it may be something else than the options."""
        return None if holds_options(self._tree, ast.Name(name, ast.Load()), function) else f"{name} is passed in"

    def _unpacked(self, stmt: ast.stmt, unknown: str) -> str | None:
        """For what is unpacked of a call: whether it is of the functions that an earlier transform wrote."""
        called = stmt.value if isinstance(stmt, ast.Assign) else None
        if isinstance(called, ast.Call) and isinstance(called.func, ast.Name):
            if called.func.id in self._roles.history.on_device or called.func.id == "traceable":
                return None
        return unknown

    def _is_plain(self, value: ast.expr) -> bool:
        """Whether a value is made of options, sizes, numbers and texts, and so the same in each run."""
        if isinstance(value, (ast.Constant, ast.JoinedStr, ast.Lambda)):
            return True
        if isinstance(value, (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.Dict)):
            return all(self._is_plain(n) for n in ast.iter_child_nodes(value) if isinstance(n, ast.expr))
        if holds_options(self._tree, value, self._roles.scope):
            return True
        if isinstance(value, ast.Attribute):
            known = self._tree.qualified(value) is not None or root(value) in self._environments
            return known or value.attr == "shape" or self._is_plain(value.value)
        if isinstance(value, ast.Subscript):
            return self._is_plain(value.value)
        if isinstance(value, ast.Name):
            made = [v for _, v in self._bindings.get(value.id, [])]
            known = value.id in self._tree.imports or value.id in self._environments
            return known or (bool(made) and all(v is not None and self._is_plain(v) for v in made))
        if not isinstance(value, ast.Call):
            return False
        qualified = self._tree.qualified(value.func) or ""
        given = [*value.args, *(k.value for k in value.keywords)]
        pure = qualified in ("torch.device", "numpy.prod", "numpy.array", "math.prod") or qualified.startswith(
            ("torch.cuda.is_", "os.", "pathlib.", "datetime.", "time.strftime")
        )
        if pure or self._tree.names.builtin(value.func) in PLAIN:
            return all(self._is_plain(v) for v in given)
        return calls_method(value, "format", "replace", "strip", "split", "numel") and self._is_plain(value.func.value)

    def _is_function(self, value: ast.expr) -> bool:
        """Whether a value is a function or a bound method, compiled or not, or a list of what networks hold."""
        if any(calls_method(n, "parameters") and root(n.func.value) in self._roles.modules for n in walk(value)):
            return True
        if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
            owner = value.value.id
            return owner in self._roles.modules or any(owner == o.name for o in self._roles.optimizers)
        if isinstance(value, ast.Name):
            defined = any(f.name == value.id for f in self._tree.of(ast.FunctionDef))
            return defined or value.id in self._roles.modules
        if isinstance(value, ast.Call) and unparse(value.func).rpartition(".")[2] in ("compile", "CudaGraphModule"):
            return bool(value.args) and (isinstance(value.args[0], ast.Name) or self._is_function(value.args[0]))
        return False

    def _is_network(self, value: ast.expr) -> bool:
        """Whether a value is a module of torch, or of a class of the file that is derived from one."""
        made = self._tree.constructor(value)
        if made is not None:
            return self._roles.is_module(self._tree.classes[unparse(made.func)])
        return any(
            isinstance(n, ast.Call) and (self._tree.qualified(n.func) or "").startswith("torch.nn.")
            for n in walk(value)
        )

    def _keeps_nothing(self, value: ast.expr) -> bool:
        """Whether a value is an object of a plain class of the file, made of nothing, that sets no attributes."""
        made = self._tree.constructor(value)
        if made is None or made.args or made.keywords:
            return False
        cls = self._tree.classes[unparse(made.func)]
        plain = not (cls.bases or cls.keywords or cls.decorator_list)
        return plain and all(
            isinstance(n.ctx, ast.Load) for n in walk(cls) if isinstance(n, (ast.Attribute, ast.Subscript))
        )

    def _is_list(self, value: ast.expr) -> bool:
        """Whether a value is an empty list, deque or dict."""
        if isinstance(value, (ast.List, ast.Dict)):
            return not ast.unparse(value).strip("[]{}")
        if not isinstance(value, ast.Call) or value.args:
            return False
        return (self._tree.qualified(value.func) or self._tree.names.builtin(value.func)) in LISTS

    def _is_filled(self, value: ast.expr) -> bool:
        """Whether a value is a new tensor or array of torch's or numpy's."""
        for node in walk(value):
            if isinstance(node, ast.Call):
                module, _, function = (self._tree.qualified(node.func) or "").rpartition(".")
                if module in ("torch", "numpy") and function in FILLED:
                    return True
        return False

    def _changed(self, name: str, value: ast.expr) -> str | None:
        """Why a value that is made in one way is another one in training; buffers that each rollout fills aside."""
        extracted = {f.name for f in self._roles.history.functions.values()}
        methods = {m.name for cls in self._tree.of(ast.ClassDef) for m in cls.body if isinstance(m, ast.FunctionDef)}
        for node in self._roles.run_by_training:
            if isinstance(node, ast.Subscript) and not is_read_place(node) and root(node) == name:
                if not (self._is_filled(value) and self._is_step(node)):
                    return f"line {node.lineno} changes {name}"
            if isinstance(node, ast.AugAssign) and root(node.target) == name and not self._is_filled(value):
                return f"line {node.lineno} changes {name}"
            if calls_method(node) and root(node.func.value) == name and isinstance(node.func.value, ast.Name):
                if node.func.attr in CHANGING or (node.func.attr.endswith("_") and node.func.attr[:1] != "_"):
                    return f"line {node.lineno} changes {name}"
            if isinstance(node, ast.Call) and unparse(node.func).rpartition(".")[2] in ("shuffle", "copyto"):
                if any(unparse(a) == name for a in node.args):
                    return f"line {node.lineno} changes {name}"
            if isinstance(node, ast.Call) and self._is_filled(value):
                function = self._tree.function_called(node)
                ours = function is not None and function.name not in extracted
                if ours or (isinstance(node.func, ast.Attribute) and node.func.attr in methods):
                    given = [*node.args, *(k.value for k in node.keywords)]
                else:
                    given = [k.value for k in node.keywords if k.arg == "out"]
                if any(unparse(a) == name for a in given):
                    return f"line {node.lineno} may change {name}"
        return None

    def _is_step(self, node: ast.Subscript) -> bool:
        """Whether an element is that of a step of the rollout, as `obs[step]`."""
        index = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
        loops = (x for x in self._tree.loops_around(node) if isinstance(x, ast.For) and x is not self._roles.outermost)
        return any(unparse(x.target) == unparse(index) for x in loops if any(map(self._steps, walk(x))))

    def _steps(self, node: ast.AST) -> bool:
        return calls_method(node, "step") and root(node.func.value) in self._environments

    def _in_condition(self, name: str) -> ast.expr | None:
        """A condition of training that a list takes part in, by more than its length."""
        for node in self._roles.run_by_training:
            if isinstance(node, (ast.If, ast.While, ast.IfExp)):
                if any(isinstance(n, ast.Name) and n.id == name for n in walk(node.test)):
                    return node.test
        return None

    def _attributes(self) -> Iterator[tuple[ast.AST, str]]:
        """Attributes that training sets on what is taken for the same in each run, and names that functions set."""
        same = {*self._bindings, *self._tree.classes, *self._tree.imports}
        same -= {*self._environments, *self._roles.variant}
        for node in self._roles.run_by_training:
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and root(node) in same:
                yield node, f"{unparse(node)} is set in training"
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                yield node, f"{', '.join(node.names)} are set in a function"


def access_of(body: list[ast.stmt]) -> frozenset[str]:
    """The names that statements bind, definitions and imports aside."""
    kinds = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    return frozenset(n for s in statements(body) if not isinstance(s, kinds) for n in access(s).binds)


def is_read_place(node: ast.Subscript) -> bool:
    """Whether an element is read where it stands."""
    return isinstance(node.ctx, ast.Load)


def _told(stmt: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """The names that a statement binds to a value of their own, and that."""
    if isinstance(stmt, ast.Assign):
        for target, value in pairwise(stmt):
            if isinstance(target, ast.Name):
                yield target.id, value
            elif isinstance(target, ast.Tuple) and calls_method(value, "reset", "step"):
                yield from ((n.id, value) for n in target.elts if isinstance(n, ast.Name))
    elif isinstance(stmt, (ast.AnnAssign, ast.AugAssign)) and isinstance(stmt.target, ast.Name):
        if stmt.value is not None:
            yield stmt.target.id, stmt.value
