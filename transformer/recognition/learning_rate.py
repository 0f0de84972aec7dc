"""Where an optimizer's learning rate is written and read, including through aliases of the optimizer."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from transformer.dataflow.access import access
from transformer.dataflow.bindings import is_same_variable
from transformer.dataflow.closures import runs_elsewhere
from transformer.dataflow.name_lookups import is_vars_of_options
from transformer.facts.lookups import EVERYTHING, lookups
from transformer.facts.python import SHOWS, TAKES_VALUES
from transformer.facts.torch_api import of_optimizers, schedulers
from transformer.recognition.before_training import runs_before_training
from transformer.recognition.roles import Roles
from transformer.syntax.query import (
    bind_arguments,
    calls_method,
    first_parameter,
    last_written,
    parameters,
    statements,
    unparse,
    walk,
)
from transformer.syntax.tree import Scope, Tree

REACHES_VARIABLES = EVERYTHING | {"_getframe"}
"""What may reach a variable other than by name."""
SCHEDULERS = "torch.optim.lr_scheduler."
RATES = frozenset(("lr", "initial_lr", "capturable"))
"""Entries of a parameter group that are handled elsewhere."""
UNRELATED = of_optimizers("stepping", "moments") | lookups(of="attribute", finds="methods", sets=False)
"""Attributes of an optimizer that do not reveal its rate."""


class RateUses:
    """All uses of an optimizer's learning rate, as far as the optimizer's name in a scope shows them.

    Aliases are followed in the same way: a parameter that the optimizer is passed for, or the variable of a loop over a
    tuple display of optimizers. Anything else that could hide the optimizer is an obstacle.
    """

    def __init__(self, roles: Roles, name: str, scope: Scope | None = None, seen: frozenset[str] = frozenset()) -> None:
        tree = roles.tree
        self.writes: list[tuple[ast.Assign, ast.Subscript]] = []
        self.others: list[tuple[ast.Assign, ast.Subscript]] = []
        """Writes through an alias, which may refer to several optimizers and be where no flag is available."""
        self.reads: list[ast.expr] = []
        self.in_text: list[ast.expr] = []
        """Reads in f-strings. These format a tensor like the float in it, but not a parameter."""
        self.formatted: list[ast.expr] = []
        """Those of them that would format an int differently."""
        self.loads: list[ast.stmt] = []
        """Statements that replace the parameter groups by those of a checkpoint."""
        self.shown: list[ast.stmt] = []
        """Statements above the training loop that print the optimizer."""
        self.scheduled = False
        self.obstacle: str | None = None
        self.kept_state: str | None = None
        """Where the state may be kept: a float in it stays the rate of that time, but a tensor becomes a later rate."""
        self._tree = tree
        self._roles, self._name, self._scope = roles, name, scope or roles.scope
        self._seen = seen
        nodes = list(walk(self._scope))
        self._members = {
            member for n in nodes if isinstance(n, ast.For) for member in members(n, f"{name}.param_groups")
        }
        self._schedulers: set[str] = set()
        for node in nodes:
            if isinstance(node, ast.Call) and (tree.qualified(node.func) or "").startswith(SCHEDULERS):
                self._scheduler(node)
        named = {scheduler.rpartition(".")[2] for scheduler in self._schedulers}
        for node in tree.nodes if named else ():
            if isinstance(node, (ast.Name, ast.Attribute)) and last_written(node) in named:
                self._check_scheduler(node)
        for node in nodes:
            if calls_method(node, "get_last_lr"):
                self._last_rate(node, node.func)
            elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == "lr":
                if self._is_group(node.value):
                    self._use(node)
            elif isinstance(node, ast.Name) and node.id in self._members and self._is_passed_on(node):
                self.obstacle = f"line {node.lineno} uses a parameter group in a way that is not understood"
            elif isinstance(node, (ast.Name, ast.Attribute)) and self._is_it(node) and isinstance(node.ctx, ast.Load):
                self._optimizer(node)

        if not self._seen and (entry := next((n for n in tree.of(ast.Constant) if n.value == "param_groups"), None)):
            self.kept_state = self.kept_state or f"line {entry.lineno} reads parameter groups from a state_dict()"
        owner, _, attribute = name.rpartition(".")
        own = [] if self._seen else self._of_methods(owner, attribute)
        for node in own:
            method = tree.scope_of(node)
            if isinstance(method, ast.FunctionDef):
                self._under(ast.unparse(node), method, node)
        for node in tree.nodes if owner and not (self._seen and owner == self._own_name(scope)) else ():
            if node in own:
                continue
            if isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Load):
                used = getattr(tree.parents[node], "attr", None)
                kept = used == "state_dict" and not self._is_saved(tree.parents[tree.parents[node]])
                if used == "load_state_dict" and runs_before_training(roles, tree.parents[tree.parents[node]]):
                    continue  # another float, before the first step
                if not self._is_it(node) and (kept or used not in ("zero_grad", "step", "state_dict")):
                    self.obstacle = f"line {node.lineno} may use the optimizer under another name"

    # --- names ---------------------------------------------------------------------------------------------

    def _of_methods(self, owner: str, attribute: str) -> list[ast.Attribute]:
        """Where methods of the class of the optimizer's owner access the parameter groups through `self`."""
        made = self._roles.only_value(owner)
        call = self._tree.constructor(made) if made is not None else None
        cls = self._tree.classes.get(ast.unparse(call.func)) if call is not None else None
        named = [n for n in self._tree.of(ast.Attribute) if n.attr == attribute and isinstance(n.ctx, ast.Load)]
        found = [n for n in named if getattr(self._tree.parents[n], "attr", "") == "param_groups"]
        return [n for n in found if cls and self._tree.class_of_self(n.value, self._tree.scope_of(n)) is cls]

    @staticmethod
    def _own_name(scope: Scope | None) -> str | None:
        """The name of a method's object."""
        return first_parameter(scope) if isinstance(scope, ast.FunctionDef) else None

    def _is_it(self, node: ast.expr) -> bool:
        """Whether an expression is the optimizer, rather than a nested function's local with the same name."""
        if unparse(node) != self._name:
            return False
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name):
            return self._roles.is_ours(root, self._scope)
        return isinstance(self._scope, ast.Module) or self._scope in self._tree.ancestors(node)

    def _is_groups(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Attribute) and node.attr == "param_groups" and self._is_it(node.value)

    def _is_group(self, node: ast.expr) -> bool:
        """Whether an expression is one of its parameter groups: `optimizer.param_groups[0]`, or a loop's variable."""
        if isinstance(node, ast.Subscript):
            return self._is_groups(node.value)
        if not isinstance(node, ast.Name):
            return False
        scope = self._tree.scope_of(node)
        loops = [
            n
            for n in walk(scope)
            if isinstance(n, ast.For) and node.id in access(n.target).binds and self._tree.scope_of(n) is scope
        ]
        around = [n for n in self._tree.ancestors(node) if n in loops]
        groups = f"{self._name}.param_groups"
        return any(node.id in members(n, groups) for n in around[:1] or loops)

    def _is_passed_on(self, node: ast.Name) -> bool:
        """Whether a parameter group is used other than by `group["key"]`."""
        parent = self._tree.parents[node]
        entry = isinstance(parent, ast.Subscript) and isinstance(parent.slice, ast.Constant)
        return isinstance(node.ctx, ast.Load) and not entry and self._is_group(node)

    # --- the optimizer -------------------------------------------------------------------------------------

    def _optimizer(self, node: ast.expr) -> None:
        """Check a use of the optimizer."""
        parents = self._tree.parents
        parent = parents[node]
        call = parents[parent] if isinstance(parent, ast.keyword) else parent
        if isinstance(parent, ast.Attribute):
            self._check_attribute(parent)
        elif isinstance(call, ast.Call) and call.func is not node:
            self._argument(call, node)
        elif isinstance(parent, (ast.Tuple, ast.List)) and isinstance(parents[parent], ast.For):
            self._looped(parents[parent], parent)
        elif isinstance(parent, ast.FormattedValue):
            self._show(node)
        elif not isinstance(parent, (ast.Expr, ast.Compare, ast.If)):
            if not isinstance(parent, ast.Return) or self._seen:  # the training has finished with what it returns
                self._lost(node)

    def _lost(self, node: ast.expr) -> None:
        self.obstacle = f"line {node.lineno} keeps the optimizer elsewhere, where its learning rate may change"

    def _check_attribute(self, node: ast.Attribute) -> None:
        """Check an attribute of the optimizer."""
        parent = self._tree.parents[node]
        called = isinstance(parent, ast.Call) and parent.func is node
        if not isinstance(node.ctx, ast.Load):
            self.obstacle = f"line {node.lineno} sets its {node.attr}"
        elif node.attr == "defaults":
            self.obstacle = f"line {node.lineno} reads its defaults"
        elif called and node.attr == "add_param_group":
            self.obstacle = f"{node.attr}() on line {node.lineno} replaces its parameter groups"
        elif called and node.attr == "state_dict":
            if not self._is_saved(parent):
                self.kept_state = f"line {node.lineno} reads its state, and may keep it while the rate changes"
        elif called and node.attr == "load_state_dict":
            self._note_load(node)
        elif node.attr == "param_groups":
            self._groups(node, parent)
        elif node.attr.startswith("register_"):
            self._lost(node)
        elif node.attr not in UNRELATED:
            self.obstacle = f"line {node.lineno} uses its {node.attr}, which may hold its rate"

    def _is_saved(self, node: ast.AST) -> bool:
        """Whether a value is only saved by torch, immediately or through a name without other uses."""
        for outer in self._tree.ancestors(node):
            if isinstance(outer, ast.Call):
                return self._tree.calls(outer, "torch.save") or self._saves(outer, node)
            if isinstance(outer, ast.Assign):
                target = outer.targets[0]
                if len(outer.targets) > 1 or not isinstance(target, ast.Name):
                    return False
                return self._is_for_saving(target.id, self._tree.scope_of(outer), outer)
            if not isinstance(outer, (ast.Dict, ast.Tuple, ast.List)):
                break
        return False

    def _saves(self, call: ast.Call, inside: ast.AST) -> bool:
        """Whether a call is of a function of the file that only saves its argument with torch."""
        function = self._tree.function_called(call)
        bound = bind_arguments(function, call) if function is not None and not function.decorator_list else None
        if function is None or bound is None or any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in walk(function)):
            return False
        taking = [p for p, value in bound.given.items() if any(n is inside for n in walk(value))]
        return bool(taking) and all(self._is_for_saving(p, function) for p in taking)

    def _is_for_saving(self, name: str, scope: Scope, bound: ast.stmt | None = None) -> bool:
        """Whether a variable of a scope, or the value that a statement gives it, is only passed to torch.save()."""
        tree, before = self._tree, self._roles.reaching(scope).before
        seeing = [n for n in tree.nodes if (getattr(n, "id", "") or getattr(n, "attr", "")) in REACHES_VARIABLES]
        if name in tree.declared or any(not is_vars_of_options(tree, n) for n in seeing):
            return False
        if any(n.attr in ("save", "__code__") and not isinstance(n.ctx, ast.Load) for n in tree.of(ast.Attribute)):
            return False
        same = [n for n in tree.of(ast.Name) if n.id == name and self._roles.is_ours(n, scope)]
        own = [n for n in same if isinstance(n.ctx, ast.Load)]
        # A binding in one of these blocks may not replace an earlier value, because the block may end before it
        left = any(isinstance(a, (ast.With, ast.Try)) for n in same if n not in own for a in tree.ancestors(n))
        if bound is not None and not left:
            own = [n for n in own if runs_elsewhere(tree, n, scope) or bound in before(name, tree.statement(n))]
        return all(tree.calls(tree.parents[n], "torch.save") for n in own)

    def _groups(self, node: ast.Attribute, parent: ast.AST) -> None:
        """Check a use of `optimizer.param_groups`."""
        if isinstance(parent, ast.Subscript) and parent.value is node:
            entry = self._tree.parents[parent]
            named = isinstance(entry, ast.Subscript) and isinstance(entry.slice, ast.Constant)
            if not (named and isinstance(entry, ast.Subscript) and entry.value is parent):
                self.obstacle = f"line {node.lineno} takes a parameter group by itself"
            return
        loop = parent if isinstance(parent, ast.For) else self._tree.parents.get(parent)
        understood = isinstance(loop, ast.For) and members(loop, unparse(node))
        counted = isinstance(parent, ast.Call) and unparse(parent.func) == "len"
        if not understood and not counted:
            self.obstacle = f"line {node.lineno} uses its parameter groups in a way that is not understood"

    def _note_load(self, node: ast.expr) -> None:
        stmt = self._tree.statement(node)
        if isinstance(stmt, (ast.Expr, ast.Assign)):
            self.loads.append(stmt)
        else:
            self.obstacle = f"line {node.lineno} replaces its parameter groups"

    def _show(self, node: ast.expr) -> None:
        stmt = self._tree.statement(node)
        if stmt in self._roles.setup:
            self.shown.append(stmt)
        else:
            self.obstacle = f"line {node.lineno} prints the optimizer"

    # --- other names of it ---------------------------------------------------------------------------------

    def _argument(self, call: ast.Call, node: ast.expr) -> None:
        """Check a call that takes the optimizer as an argument."""
        function, qualified = unparse(call.func), self._tree.qualified(call.func) or ""
        if qualified.startswith("torch."):
            if qualified == "torch.save":  # saves the whole object
                self.kept_state = f"line {node.lineno} saves the optimizer with its rate"
            return
        builtin = self._tree.names.builtin(call.func)
        if builtin in SHOWS:
            self._show(node)
            return
        if builtin in TAKES_VALUES:
            return
        name = call.func.attr if isinstance(call.func, ast.Attribute) else function
        named = [n for n in self._tree.nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name == name]
        if isinstance(call.func, ast.Name) and len(named) == 1 and isinstance(named[0], ast.FunctionDef):
            if self._tree.function_called(call) is named[0]:
                self._check_passed(call, node, named[0])
                return
        if any(self._mentions_rate(n) for made in named for n in walk(made)):
            self.obstacle = f"line {node.lineno} passes the optimizer to a function that may read its learning rate"
        elif not named and not (isinstance(call.func, ast.Attribute) and name in of_optimizers(of="scaler")):
            self.obstacle = f"line {node.lineno} passes the optimizer to {name}(), which may change its learning rate"
        elif any(self._is_kept(made) for made in named):
            self._lost(node)

    def _mentions_rate(self, node: ast.AST) -> bool:
        """Whether a class or method that takes an optimizer reads its rate, loads one, or schedules it."""
        if isinstance(node, ast.Attribute) and node.attr in ("param_groups", "defaults", "load_state_dict"):
            return True
        if isinstance(node, ast.Call) and (self._tree.qualified(node.func) or "").startswith(SCHEDULERS):
            return True
        return isinstance(node, ast.Constant) and node.value in ("lr", "param_groups")

    def _is_kept(self, made: ast.AST) -> bool:
        """Whether parameter groups are used other than through the optimizer's own name."""
        uses = [n for n in self._tree.of(ast.Attribute) if n.attr == "param_groups"]
        return isinstance(made, ast.ClassDef) and any(not self._is_it(n.value) for n in uses)

    def _check_passed(self, call: ast.Call, node: ast.expr, function: ast.FunctionDef) -> None:
        """Check a call that passes the optimizer to a function of this file."""
        bound = bind_arguments(function, call)
        taken = bound.parameter_of(node) if bound is not None else None
        if taken is None or function.decorator_list:
            self.obstacle = f"line {node.lineno} passes the optimizer to a function that may read its learning rate"
        else:
            self._under(taken, function, call)

    def _looped(self, loop: ast.AST, group: ast.Tuple | ast.List) -> None:
        """Check a loop over optimizers: `for one in (optimizer, other):`."""
        assert isinstance(loop, ast.For)
        target = loop.target
        loops = [n for n in walk(self._scope) if isinstance(n, ast.For) and unparse(n.target) == unparse(target)]
        written = all(isinstance(n.iter, (ast.Tuple, ast.List)) for n in loops)
        bound = [s for s in statements(self._scope.body) if unparse(target) in access(s).binds]
        if not isinstance(target, ast.Name) or loop.iter is not group or not written or len(bound) > len(loops):
            self._lost(group)
        else:
            self._under(target.id, self._scope, loop)

    def _under(self, name: str, scope: Scope, where: ast.expr | ast.stmt) -> None:
        """Collect the uses of an alias of the optimizer in a scope."""
        key = f"{name} {getattr(scope, 'name', '')}"
        if key in self._seen:
            return
        rebound = (
            isinstance(scope, ast.FunctionDef)
            and name in parameters(scope)
            and any(isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load) for n in walk(scope))
        )
        inner = RateUses(self._roles, name, scope, self._seen | {key})
        self.obstacle = inner.obstacle or self.obstacle
        self.kept_state = inner.kept_state or self.kept_state
        if rebound or inner.shown:
            self.obstacle = f"line {where.lineno} gives the optimizer another name, whose uses are not understood"
        # A function that is called twice is followed twice
        self.others += [write for write in (*inner.writes, *inner.others) if write not in self.others]
        self.reads += [read for read in inner.reads if read not in self.reads]
        self.formatted += [read for read in inner.formatted if read not in self.formatted]
        self.in_text += [read for read in inner.in_text if read not in self.in_text]
        self.scheduled |= inner.scheduled
        if inner.loads and isinstance(where, ast.Call):
            self._note_load(where)
        elif inner.loads:
            self.obstacle = f"line {where.lineno} replaces the parameter groups of several optimizers"

    # --- the rate ------------------------------------------------------------------------------------------

    def _scheduler(self, call: ast.Call) -> None:
        """Check a torch scheduler: it fills a tensor in place, so all reads of its rates must be known."""
        given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "optimizer")]
        if not any(self._is_it(g) for g in given):
            return
        self.scheduled = True
        stmt = self._tree.parents[call]
        if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 and not isinstance(stmt.targets[0], ast.Tuple):
            self._schedulers.add(unparse(stmt.targets[0]))
        if self._seen or not isinstance(stmt, ast.Assign):
            if any(isinstance(n, ast.Attribute) and n.attr in ("get_last_lr", "get_lr") for n in self._tree.nodes):
                self.obstacle = f"line {call.lineno} makes a scheduler whose rates may be read elsewhere"

    def _check_scheduler(self, node: ast.Name | ast.Attribute) -> None:
        """Check a scheduler's uses: it holds the rates, tensors if the optimizer's are; it may be stepped, saved or
        tested.

        The results of `get_last_lr()` are checked elsewhere.
        """
        if isinstance(node.ctx, ast.Store):
            return
        parents = self._tree.parents
        user = parents[node]
        if isinstance(user, ast.Attribute):
            saved = user.attr == "state_dict" and self._is_saved(parents[user])
            if not saved and user.attr not in ("step", "get_last_lr", "load_state_dict"):
                self.obstacle = f"line {node.lineno} uses {user.attr} of a scheduler, which may hold the rate"
        elif not isinstance(user, (ast.Expr, ast.Compare, ast.If, ast.IfExp, ast.BoolOp, ast.UnaryOp)):
            self.obstacle = f"line {node.lineno} passes on a scheduler, which holds the rate"

    def _last_rate(self, node: ast.Call, func: ast.Attribute) -> None:
        if unparse(func.value) not in self._schedulers:
            return
        parent = self._tree.parents[node]
        if isinstance(parent, ast.Subscript) and parent.value is node:
            self._read(parent)
        else:
            self.obstacle = f"line {node.lineno} reads the rates as a list"

    def _use(self, node: ast.Subscript) -> None:
        parent = self._tree.parents[node]
        if isinstance(node.ctx, ast.Load):
            self._read(node)
        elif isinstance(parent, ast.Assign) and len(parent.targets) == 1 and parent.targets[0] is node:
            self.writes.append((parent, node))
        elif isinstance(parent, ast.AugAssign):
            self.scheduled = True  # `tensor *= x` already works in place
        else:
            self.obstacle = f"line {node.lineno} assigns it together with other targets"

    def _read(self, node: ast.expr) -> None:
        if any(isinstance(n, ast.JoinedStr) for n in self._tree.ancestors(node)):
            parent = self._tree.parents[node]
            if not isinstance(parent, ast.FormattedValue) or parent.conversion != -1:
                self.obstacle = f"line {node.lineno} computes with it inside an f-string"
            else:
                self.in_text.append(node)
                if not _formats_as_float(parent):
                    self.formatted.append(node)
        else:
            self.reads.append(node)


def _formats_as_float(node: ast.FormattedValue) -> bool:
    """Whether a format shows an int in the same way as a float: `{lr:.2e}`."""
    return node.format_spec is not None and unparse(node.format_spec).rstrip("\"'").endswith(tuple("eEfFgG%"))


def changed_options(roles: Roles) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Where training may change options of optimizers other than the rate, each with an expression for the optimizers.

    Compiled code treats these options as constants, and is recompiled for each value.
    """
    tree = roles.tree
    for call in tree.of(ast.Call):
        if tree.calls(call, *schedulers(momentum=True)):
            kept = [k.value for k in call.keywords if k.arg == "cycle_momentum"]
            if [getattr(value, "value", None) for value in kept] != [False]:
                yield call, [*call.args, *(k.value for k in call.keywords if k.arg == "optimizer"), call][0]
    groups: list[ast.Name] = []  # variables, of any function, that hold one or several groups
    for node in tree.nodes:
        if isinstance(node, (ast.For, ast.comprehension)) and _of_groups(tree, node.iter, groups):
            counted = isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Tuple)
            numbers = node.target.elts[:1] if counted and unparse(node.iter).startswith("enumerate(") else []  # type: ignore[attr-defined]
            if not _is_entry(node.iter):  # otherwise, it loops over the parameters of one group
                groups += (n for n in walk(node.target) if isinstance(n, ast.Name) and n not in numbers)
        elif isinstance(node, ast.Assign) and _of_groups(tree, node.value, []) and not _is_entry(node.value):
            groups += (t for t in node.targets if isinstance(t, ast.Name))
    for node in roles.run_by_training:
        if (
            isinstance(node, ast.Subscript)
            and not isinstance(node.ctx, ast.Load)
            and _of_groups(tree, node.value, groups)
        ):
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            if key not in RATES and not isinstance(tree.parents[node], ast.For):
                yield node, node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("update", "setdefault") and _of_groups(tree, node.func.value, groups):
                yield node, node.func.value
        if isinstance(node, ast.Call) and not tree.names.builtin(node.func):
            yield from ((node, a) for a in node.args if _of_groups(tree, a, groups) and not _is_entry(a))


def _is_entry(node: ast.expr) -> bool:
    """Whether an expression is one entry of a group, by its key."""
    return isinstance(node, ast.Subscript) and isinstance(getattr(node.slice, "value", None), str)


def _of_groups(tree: Tree, node: ast.expr, groups: Sequence[ast.Name]) -> bool:
    """Whether an expression holds parameter groups: `param_groups`, variables for these, or builtins on them."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Call) and unparse(node.func) in ("enumerate", "zip", "list", "reversed"):
        return any(_of_groups(tree, a, groups) for a in node.args)
    if isinstance(node, ast.Name):
        return any(is_same_variable(tree, node, group) for group in groups)
    return isinstance(node, ast.Attribute) and node.attr == "param_groups"


def members(loop: ast.For, groups: str) -> set[str]:
    """The loop's names for a parameter group: over the groups, enumerate(groups), or zip(groups, ...)."""
    iterable, target = loop.iter, loop.target
    if unparse(iterable) == groups:
        return {unparse(target)}
    if not isinstance(iterable, ast.Call) or not isinstance(target, ast.Tuple):
        return set()
    args = [unparse(a) for a in iterable.args]
    if unparse(iterable.func) == "enumerate" and args[:1] == [groups] and len(target.elts) == 2:
        return {unparse(target.elts[1])}
    if unparse(iterable.func) == "zip" and len(args) == len(target.elts):
        return {unparse(t) for t, a in zip(target.elts, args, strict=True) if a == groups}
    return set()
