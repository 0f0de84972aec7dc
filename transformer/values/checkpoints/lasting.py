"""What lives across the iterations of the training loop, and how much of it a checkpoint can hold.

The analysis visits every name that training reads and that is bound above the loop. A list of what would be lost is
never complete. So the analysis lists the kinds that are saved and those that may be forgotten; any other kind is an
obstacle.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from transformer.dataflow.access import access, free_names
from transformer.dataflow.liveness import exposed
from transformer.facts.libraries import library_does, module_methods, role
from transformer.facts.lookups import SETS, VARIABLES
from transformer.facts.python import SAME, builtin_names
from transformer.facts.torch_api import NEW, SCALERS, VIEWS, attributes, names
from transformer.recognition.roles import Roles
from transformer.syntax.options import holds_options
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
from transformer.values.checkpoints.unchanged import Unchanged, fills, only_reported
from transformer.values.reports import is_logger

SCHEDULERS = "torch.optim.lr_scheduler."
TENSORS = names("torch", memory="new", made=("of host", "on host"), draws=False) | names("torch", fills="like")
ARRAYS = names("numpy", memory="new", rows="mixed", reduces=False)
"""Functions of numpy whose results change only if code writes to them; TENSORS are those of torch."""
LISTS = builtin_names(makes=("container", "mapping"), calls="", varies=False)
METHODS = NEW | VIEWS
OBJECTS = ("object", "'object'", "str", "'O'")
SAVED = attributes(settable=True) | module_methods(sets="mode", attribute=True)
"""Attributes of parameters and networks that a checkpoint holds, except gradients, which live for one iteration."""


class Lasting:
    """The names that live across iterations, by what happens to them when a run resumes from a checkpoint."""

    def __init__(self, roles: Roles) -> None:
        self._roles, self._tree = roles, roles.tree
        self.numbers: dict[str, None] = {}
        """Counters and other numbers, with the bindings in the loop."""
        self.holders: dict[str, None] = {}
        """Networks, optimizers and schedulers: objects with a state_dict()."""
        self.networks: dict[str, None] = {}
        """The networks among them."""
        self.tensors: dict[str, None] = {}
        """Tensors made above the loop: saved whole and loaded back in place."""
        self.arrays: dict[str, None] = {}
        """Numpy arrays made above the loop, treated in the same way."""
        self.lists: dict[str, None] = {}
        """Lists and deques of numbers, treated in the same way."""
        self.clocks: dict[str, ast.expr] = {}
        """Times read from a clock above the loop, with the call."""
        self.anew: dict[str, None] = {}
        """What belongs to the environments and their episodes, and starts afresh with them."""
        self.reported: dict[str, bool] = {}
        """Lists, deques and dicts that are only reported, and whether each is a dict: saved if they hold numbers."""
        self.obstacles: list[tuple[ast.AST, str]] = []
        """What is of no known kind, with the reason."""
        self._unchanged = Unchanged(roles)
        for name in self._names_read:
            self._decide(name)
        for name in sorted(self._carried - self._bound_outside_loop.keys()):
            self.obstacles.append(
                (self._first_binding(name), f"{name} lives across iterations, but is bound only inside the loop")
            )
        self.obstacles += self._attributes()
        self.obstacles += self._defaults()
        self.obstacles += self._beside_state()

    # --- what is read --------------------------------------------------------------------------------------

    @cached_property
    def _names_read(self) -> list[str]:
        """Names that training reads, in the order in which they are bound above it."""
        nodes = self._roles.run_by_training
        read = {n.id for n in nodes if isinstance(n, ast.Name) and is_read(n) and self._roles.is_ours(n)}
        if isinstance(self._roles.scope, ast.FunctionDef):
            module = access_of(self._tree.root.body)
            read |= {n.id for n in nodes if isinstance(n, ast.Name) and is_read(n) and n.id in module}
        todo = list(read)
        for name in todo:  # a function made above the loop holds its arguments, such as an optimizer's step
            for stmt, value in self._bound_outside_loop.get(name, []):
                if value is None or self._is_function(value):
                    given = {n.id for n in walk(stmt) if isinstance(n, ast.Name) and is_read(n)} - read
                    todo += sorted(given) if isinstance(stmt, (ast.Assign, ast.AnnAssign)) else []
                    read |= given
        return [name for name in self._bound_outside_loop if name in read]

    @cached_property
    def _bound_outside_loop(self) -> dict[str, list[tuple[ast.stmt, ast.expr | None]]]:
        """The statements outside the loop that bind each name, with the value if known; no definitions or imports."""
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

    def _decide(self, name: str) -> None:
        """Decide what happens to a name."""
        made = self._bound_outside_loop[name]
        if name in self._carried:
            return self._place_carried(name)
        if name in self._roles.variant:
            return None  # each iteration binds it before reading it
        if name in self._environments:
            self.anew[name] = None
            return None
        if any(name == o.name for o in self._roles.optimizers) or name in self._roles.networks:
            self.holders[name] = None
            if name in self._roles.networks:
                self.networks[name] = None
            return None
        for stmt, value in made:
            why = self._object(name, stmt, value)
            if why:
                self.obstacles.append((stmt, why))
                return None
        return None

    def _beside_state(self) -> Iterator[tuple[ast.AST, str]]:
        """What networks of this file keep outside their state_dict(), unless it is shown never to change."""
        attributes = [n for n in self._tree.of(ast.Attribute) if isinstance(n.ctx, ast.Load)]
        for cls in self._tree.of(ast.ClassDef):
            if not self._roles.is_module(cls):
                continue
            beside: set[str] = set()
            for method in (m for m in cls.body if isinstance(m, ast.FunctionDef)):
                own = first_parameter(method) or ""
                for node in walk(method):
                    kept = isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load)
                    if method.name == "__init__":
                        beside |= set(self._kept_beside(node, own))
                    elif kept and root(node) == own:
                        yield node, f"{cls.name}.{method.name}() changes {unparse(node)}, which no state_dict() holds"
            for node in attributes:
                call = self._tree.parents[node]
                if isinstance(call, ast.Call) and call.func is node and node.attr in METHODS:
                    continue  # a tensor's method of that name
                if node.attr in beside and not self._unchanged.reads(node):
                    around = next((a for a in self._tree.ancestors(node) if isinstance(a, ast.FunctionDef)), None)
                    if around is None or around.name != "__init__":
                        where = f"{cls.name}.{around.name}()" if around in cls.body and around else "training"
                        yield node, f"{where} may change {unparse(node)}, which no state_dict() holds"
                        break
            for stmt in cls.body:
                if isinstance(stmt, (ast.Assign, ast.AnnAssign)) and stmt.value is not None:
                    if not self._is_fixed(stmt.value):
                        yield stmt, f"{cls.name} keeps {unparse(stmt)}, which no state_dict() holds"

    def _kept_beside(self, node: ast.AST, own: str) -> Iterator[str]:
        """The attribute outside the state_dict() that a node of a network's `__init__` sets, if any."""
        if isinstance(node, ast.Assign):
            for target, value in pairwise(node):
                if isinstance(target, ast.Attribute) and unparse(target.value) == own:
                    qualified = (self._tree.qualified(value.func) or "") if isinstance(value, ast.Call) else ""
                    held = (
                        self._is_network(value)
                        or self._returns_network(value)
                        or qualified
                        in (
                            "torch.nn.Parameter",
                            "torch.nn.parameter.Parameter",
                        )
                    )
                    if not (held or self._is_fixed(value)):
                        yield target.attr
        if calls_method(node, "register_buffer") and any(k.arg == "persistent" for k in node.keywords):
            name = node.args[0] if node.args else None
            if isinstance(name, ast.Constant):
                yield str(name.value)

    def _returns_network(self, value: ast.expr) -> bool:
        """Whether a value is the result of a function of this file that returns networks."""
        function = self._tree.function_called(value) if isinstance(value, ast.Call) else None
        returned = [n.value for n in walk(function) if isinstance(n, ast.Return)] if function is not None else []
        return bool(returned) and all(r is not None and self._is_network(r) for r in returned)

    def _is_fixed(self, value: ast.expr) -> bool:
        """Whether a value is immutable: a number, a string, a tuple of these, a function."""
        if isinstance(value, (ast.Dict, ast.List, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)):
            return False
        if isinstance(value, ast.Tuple):
            return all(map(self._is_fixed, value.elts))
        if isinstance(value, ast.Call):
            if self._tree.names.builtin(value.func) in (
                "int",
                "float",
                "bool",
                "str",
                "len",
                "tuple",
                "range",
                "max",
                "min",
            ):
                return True
            qualified = self._tree.qualified(value.func) or ""
            return qualified in (
                "numpy.prod",
                "numpy.sqrt",
                "numpy.log",
                "math.sqrt",
                "math.log",
                "math.prod",
                "torch.device",
            )
        if isinstance(value, (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp)):
            return all(self._is_fixed(n) for n in ast.iter_child_nodes(value) if isinstance(n, ast.expr))
        if isinstance(value, ast.Name):  # a parameter of unknown value is an option or a size, or else no expression
            return True
        return isinstance(value, (ast.Constant, ast.Attribute, ast.JoinedStr, ast.Lambda, ast.Subscript))

    def _defaults(self) -> Iterator[tuple[ast.AST, str]]:
        """The mutable default arguments of functions that training may call; they live as long as the function."""
        called = [n for n in self._roles.run_by_training if isinstance(n, (ast.FunctionDef, ast.Lambda))]
        around = {
            f for n in self._roles.run_by_training for f in self._tree.ancestors(n) if isinstance(f, ast.FunctionDef)
        }
        for function in dict.fromkeys([*called, *sorted(around, key=lambda f: f.lineno)]):
            for default in (*function.args.defaults, *function.args.kw_defaults):
                if default is not None and not self._is_fixed(default):
                    yield default, f"the default argument {unparse(default)} may be changed, and no checkpoint holds it"

    # --- what the loop binds again -------------------------------------------------------------------------

    @cached_property
    def _carried(self) -> frozenset[str]:
        """The names that the loop binds and whose values may carry over from one iteration to the next."""
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
        values = [value for _, value in (*self._bound_outside_loop[name], *again)]
        if all(value is not None and self._is_number(value, frozenset({name})) for value in values):
            self.numbers[name] = None
        elif all(where for where, _ in again) and self._is_of_environments(name):
            self.anew[name] = None
        else:
            self.obstacles.append(
                (self._first_binding(name), f"{name} lives across iterations, and is not known to be a number")
            )

    def _first_binding(self, name: str) -> ast.stmt:
        """The first statement of the loop that binds a name."""
        return next(s for s in statements(self._roles.outermost.body) if name in access(s).binds)

    def _bound_again(self, name: str) -> Iterator[tuple[bool, ast.expr | None]]:
        """For each binding of a name in the loop: whether it belongs to the rollout, and the value if known."""
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
        """Whether a value is computed only from the name's previous value, as when it moves to another device."""
        read = {n.id for n in walk(value) if isinstance(n, ast.Name)} - self._tree.imports.keys()
        return read <= {name, self._roles.device or name}

    def _is_number(self, value: ast.expr, seen: frozenset[str]) -> bool:
        """Whether an expression is a Python number."""
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
        made = [v for _, v in self._bound_outside_loop.get(value.id, [])] + [v for _, v in self._bound_again(value.id)]
        loop = self._roles.phases.loop
        if isinstance(loop, ast.For) and unparse(loop.target) == value.id:
            return True
        return bool(made) and all(v is not None and self._is_number(v, seen | {value.id}) for v in made)

    # --- environments --------------------------------------------------------------------------------------

    @cached_property
    def _environments(self) -> frozenset[str]:
        """The names of objects that are stepped, or made by an environment library."""
        others = {o.name for o in self._roles.optimizers}
        found = set()
        for node in self._roles.run_by_training:
            if self._roles.is_step(node) and node.args and root(node.func.value) not in others:
                found.add(root(node.func.value))
        for name, made in self._bound_outside_loop.items():
            calls = [v.func for _, v in made if isinstance(v, ast.Call)]
            if any(role(self._tree.qualified(c) or "") == "environments" for c in calls):
                found.add(name)
        return frozenset(found - {""})

    @property
    def environments(self) -> frozenset[str]:
        """The names of environments, single or vectorized."""
        return self._environments

    @cached_property
    def may_be_known(self) -> bool:
        """Whether the environments are gym's or gymnasium's own, so that their state can perhaps be restored."""
        made = {self._tree.qualified(node.func) or "" for node in self._tree.of(ast.Call)}
        own = ("vector.SyncVectorEnv", "wrappers.NormalizeReward", "wrappers.NormalizeObservation")
        return any(f"{library}.{name}" in made for library in ("gym", "gymnasium") for name in own)

    @cached_property
    def _sizes(self) -> frozenset[str]:
        """The arguments of the environments' constructor, as written; the number of environments is among them."""
        options = {n.value for n in self._tree.of(ast.Attribute)}
        found = set()
        for name in self._environments:
            for _, value in self._bound_outside_loop.get(name, []):
                for node in walk(value) if value is not None else ():
                    if isinstance(node, (ast.Attribute, ast.Name)) and node not in options:
                        found.add(unparse(node))
        return frozenset(found)

    def _is_of_environments(self, name: str, seen: frozenset[str] = frozenset()) -> bool:
        """Whether a name's first value is a reset's observation, or has a row for each environment."""
        values = [value for _, value in self._bound_outside_loop[name]]
        return all(value is not None and self._begins_episode(value, seen | {name}) for value in values)

    def _begins_episode(self, value: ast.expr, seen: frozenset[str]) -> bool:
        for node in walk(value):
            if calls_method(node, "reset") and root(node.func.value) in self._environments:
                return True
            if isinstance(node, (ast.Attribute, ast.Name)) and unparse(node) in self._sizes:
                return True
        names = {n.id for n in walk(value) if isinstance(n, ast.Name) and n.id in self._bound_outside_loop}
        return bool(names & seen) or any(self._is_of_environments(n, seen) for n in sorted(names))

    # --- objects that the loop leaves under their names -----------------------------------------------------

    def _object(self, name: str, stmt: ast.stmt, value: ast.expr | None) -> str | None:
        """Why a checkpoint cannot restore an object; None if it can, or need not."""
        unknown = f"it is not known what state {name} holds"
        if value is None:
            return (
                self._why_not_options(name, stmt)
                if isinstance(stmt, ast.FunctionDef)
                else self._unpacked(stmt, unknown)
            )
        if isinstance(value, ast.IfExp):
            return self._object(name, stmt, value.body) or self._object(name, stmt, value.orelse)
        if is_logger(self._tree, ast.Name(name, ast.Load())) or self._is_function(value):
            return None
        if self._is_list(value):
            return self._place_list(name)
        if self._is_same_in_each_run(value) and not self._is_array(value):
            # options that are set are reported separately
            fixed = self._is_fixed(value) or holds_options(self._tree, value, self._roles.scope)
            return None if fixed else self._left_alone(name)
        qualified = (self._tree.qualified(value.func) or "") if isinstance(value, ast.Call) else ""
        if library_does(qualified) == "clock":
            self.clocks[name] = value
        elif qualified in SCALERS or qualified.startswith(SCHEDULERS):
            self.holders[name] = None
        elif self._is_network(value):
            self.holders[name] = self.networks[name] = None
        elif self._is_new_tensor(value):
            if not self._is_filled_anew(name, value):
                self.tensors[name] = None
        elif self._is_array(value):
            if not self._is_filled_anew(name, value):
                self.arrays[name] = None
        elif qualified.startswith("tqdm") or is_logger(self._tree, value) or self._keeps_nothing(value):
            return None
        else:
            return unknown
        return None

    def _why_not_options(self, name: str, function: ast.FunctionDef) -> str | None:
        """Why a parameter of the training function may not be the options; None if it is known to be."""
        return None if holds_options(self._tree, ast.Name(name, ast.Load()), function) else f"{name} is passed in"

    def _unpacked(self, stmt: ast.stmt, unknown: str) -> str | None:
        """Why a checkpoint cannot restore a call's result; None if an earlier transform wrote the called function."""
        called = stmt.value if isinstance(stmt, ast.Assign) else None
        if isinstance(called, ast.Call) and isinstance(called.func, ast.Name):
            if called.func.id in self._roles.history.on_device or called.func.id == "traceable":
                return None
        return unknown

    def _is_same_in_each_run(self, value: ast.expr) -> bool:
        """Whether a value is made of options, sizes, numbers and strings, so that it is the same in each run."""
        if isinstance(value, (ast.Constant, ast.JoinedStr, ast.Lambda)):
            return True
        if isinstance(value, (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.Dict)):
            return all(self._is_same_in_each_run(n) for n in ast.iter_child_nodes(value) if isinstance(n, ast.expr))
        if holds_options(self._tree, value, self._roles.scope):
            return True
        if isinstance(value, ast.Attribute):
            known = self._tree.qualified(value) is not None or root(value) in self._environments
            return known or value.attr == "shape" or self._is_same_in_each_run(value.value)
        if isinstance(value, ast.Subscript):
            return self._is_same_in_each_run(value.value)
        if isinstance(value, ast.Name):
            made = [v for _, v in self._bound_outside_loop.get(value.id, [])]
            known = value.id in self._tree.imports or value.id in self._environments
            return known or (bool(made) and all(v is not None and self._is_same_in_each_run(v) for v in made))
        if not isinstance(value, ast.Call):
            return False
        qualified = self._tree.qualified(value.func) or ""
        given = [*value.args, *(k.value for k in value.keywords)]
        pure = qualified in ("torch.device", "numpy.prod", "numpy.array", "math.prod") or qualified.startswith(
            ("torch.cuda.is_", "os.", "pathlib.", "datetime.", "time.strftime")
        )
        if pure or self._tree.names.builtin(value.func) in SAME | {"getattr"}:
            return all(self._is_same_in_each_run(v) for v in given)
        return calls_method(value, "format", "replace", "strip", "split", "numel") and self._is_same_in_each_run(
            value.func.value
        )

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
        """Whether a value is a module of torch, or of a class of the file derived from one."""
        made = self._tree.constructor(value)
        if made is not None:
            return self._roles.is_module(self._tree.classes[unparse(made.func)])
        return any(
            isinstance(n, ast.Call) and (self._tree.qualified(n.func) or "").startswith("torch.nn.")
            for n in walk(value)
        )

    def _keeps_nothing(self, value: ast.expr) -> bool:
        """Whether a value is an object made without arguments, of a plain class of this file that sets no
        attributes."""
        made = self._tree.constructor(value)
        if made is None or made.args or made.keywords:
            return False
        cls = self._tree.classes[unparse(made.func)]
        plain = not (self._tree.bases(cls) or cls.keywords or cls.decorator_list)
        return plain and all(
            isinstance(n.ctx, ast.Load) for n in walk(cls) if isinstance(n, (ast.Attribute, ast.Subscript))
        )

    def _is_list(self, value: ast.expr) -> bool:
        """Whether a value is an empty list, deque or dict."""
        if isinstance(value, (ast.List, ast.Dict)):
            return not ast.unparse(value).strip("[]{}")
        if not isinstance(value, ast.Call) or value.args:
            return False
        name = self._tree.names.builtin(value.func)
        return name in LISTS or self._tree.calls(value, "collections.deque")

    def _is_new_tensor(self, value: ast.expr) -> bool:
        """Whether a value is a new tensor, perhaps moved or cast."""
        while calls_method(value, *names("tensor", copies=True, dtype="cast"), *names("tensor", moves=True)):
            value = value.func.value
        module, _, function = self._made_by(value)
        return module == "torch" and function in TENSORS

    def _is_array(self, value: ast.expr) -> bool:
        """Whether a value is a new numpy array of numbers."""
        while calls_method(value, "astype", "copy"):
            value = value.func.value
        module, _, function = self._made_by(value)
        made = module == "numpy" and function in ARRAYS
        return made and not any(isinstance(n, (ast.Constant, ast.Name)) and unparse(n) in OBJECTS for n in walk(value))

    def _made_by(self, value: ast.expr) -> tuple[str, str, str]:
        qualified = self._tree.qualified(value.func) if isinstance(value, ast.Call) else None
        return (qualified or "").rpartition(".")

    def _left_alone(self, name: str) -> str | None:
        """Why training may change an object that each run makes in the same way; None if it does not."""
        use = self._unchanged.name(name)
        return None if use is None else f"line {use.lineno} may change {name}, which is not saved"  # type: ignore[attr-defined]

    def _place_list(self, name: str) -> str | None:
        """Classify a list or a deque: one of numbers is saved; one that is only reported may start empty."""
        added = [n for n in self._roles.run_by_training if isinstance(n, ast.Expr) and fills(n, name) and _adds(n)]
        names = [
            n.func.value for e in added if isinstance(n := e.value, ast.Call) and isinstance(n.func, ast.Attribute)
        ]
        emptied = [
            n.func.value
            for n in self._roles.run_by_training
            if calls_method(n, "clear", "pop", "popleft") and unparse(n.func.value) == name
        ]
        numbers = all(
            self._is_number(e.value.args[-1], frozenset({name})) for e in added if isinstance(e.value, ast.Call)
        )
        dicts = any(
            isinstance(v, ast.Dict) or "dict" in unparse(v) for _, v in self._bound_outside_loop[name] if v is not None
        )
        if numbers and not dicts and self._unchanged.name(name, but=[*names, *emptied]) is None:
            if added or emptied:
                self.lists[name] = None
            return None
        use = only_reported(self._roles, name)
        if use is None:
            self.reported[name] = dicts
            return None
        return f"{name} is not saved, and line {use.lineno} may depend on its contents"  # type: ignore[attr-defined]

    def _is_filled_anew(self, name: str, value: ast.expr) -> bool:
        """Whether each rollout overwrites all rows of a buffer, and nothing else writes to it: old contents are never
        read."""
        stores = [
            n
            for n in self._roles.run_by_training
            if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and unparse(n.value) == name
        ]
        filled = bool(stores) and all(self._is_step(n) and self._in_all_rows(n, value) for n in stores)
        if stores and not filled:
            return False
        return self._unchanged.name(name, but=[n.value for n in stores]) is None

    def _in_all_rows(self, node: ast.Subscript, value: ast.expr) -> bool:
        """Whether each step of the rollout assigns one row, and there are as many steps as rows."""
        loop = next(x for x in self._tree.loops_around(node) if isinstance(x, ast.For))
        stmt = next(a for a in self._tree.ancestors(node) if isinstance(a, ast.stmt))
        whole = stmt in loop.body and not any(isinstance(n, (ast.Break, ast.Continue, ast.Return)) for n in walk(loop))
        if not (whole and isinstance(loop.iter, ast.Call) and self._tree.names.builtin(loop.iter.func) == "range"):
            return False
        bounds = loop.iter.args
        size = value
        while calls_method(size):
            if self._tree.qualified(size.func) is not None:
                break
            size = size.func.value
        if len(bounds) > 2 or (len(bounds) == 2 and unparse(bounds[0]) != "0") or not isinstance(size, ast.Call):
            return False
        shape = size.args[0] if size.args else None
        while isinstance(shape, ast.BinOp) and isinstance(shape.op, ast.Add):
            shape = shape.left
        rows = shape.elts[0] if isinstance(shape, ast.Tuple) and shape.elts else shape
        return rows is not None and unparse(rows) == unparse(bounds[-1])

    def _is_step(self, node: ast.Subscript) -> bool:
        """Whether a subscript selects the row of a rollout's step: `obs[step]`."""
        index = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
        loops = (x for x in self._tree.loops_around(node) if isinstance(x, ast.For) and x is not self._roles.outermost)
        return any(unparse(x.target) == unparse(index) for x in loops if any(map(self._is_env_step, walk(x))))

    def _is_env_step(self, node: ast.AST) -> bool:
        return self._roles.is_step(node) and root(node.func.value) in self._environments

    def _attributes(self) -> Iterator[tuple[ast.AST, str]]:
        """Attributes that training sets and no checkpoint saves, and names that functions set."""
        functions = {f.name for f in self._tree.of(ast.FunctionDef) if f in self._tree.root.body}
        fixed = {*self._tree.classes, *self._tree.imports, *functions}
        for node in self._roles.run_by_training:
            if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
                if isinstance(node, ast.Subscript):
                    if root(node) in fixed:
                        yield node, f"{unparse(node)} is set in training"
                elif node.attr not in SAVED and not self._is_of_own(node):
                    yield node, f"{unparse(node)} is set in training"
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in functions:
                if not node.attr.startswith("__") and self._roles.is_ours(node.value):
                    yield node, f"{unparse(node)} is kept by a function and is not saved"
            if isinstance(node, ast.Call) and self._tree.names.builtin(node.func) in VARIABLES | SETS:
                yield node, f"{unparse(node.func)}() may change what is not saved"
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                yield node, f"{', '.join(node.names)} are set in a function"

    def _is_of_own(self, node: ast.Attribute) -> bool:
        """Whether a method sets an attribute of its own object, which is judged as a whole."""
        method = next((a for a in self._tree.ancestors(node) if isinstance(a, ast.FunctionDef)), None)
        inside = method is not None and isinstance(self._tree.parents[method], ast.ClassDef)
        return inside and method is not None and root(node) == first_parameter(method)


def _adds(stmt: ast.Expr) -> bool:
    """Whether a statement appends one value to a list."""
    return calls_method(stmt.value, "append", "appendleft", "insert") and bool(stmt.value.args)


def access_of(body: list[ast.stmt]) -> frozenset[str]:
    """The names that statements bind, except definitions and imports."""
    kinds = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    return frozenset(n for s in statements(body) if not isinstance(s, kinds) for n in access(s).binds)


def _told(stmt: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """The names that a statement binds to a single value, with that value."""
    if isinstance(stmt, ast.Assign):
        for target, value in pairwise(stmt):
            if isinstance(target, ast.Name):
                yield target.id, value
            elif isinstance(target, ast.Tuple) and calls_method(value, "reset", "step"):
                yield from ((n.id, value) for n in target.elts if isinstance(n, ast.Name))
    elif isinstance(stmt, (ast.AnnAssign, ast.AugAssign)) and isinstance(stmt.target, ast.Name):
        if stmt.value is not None:
            yield stmt.target.id, stmt.value
