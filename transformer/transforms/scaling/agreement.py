"""Decisions that all processes must make alike: which values are the same in all, and which are averaged to be so."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from transformer.facts.libraries import library_does
from transformer.facts.python import SAME
from transformer.facts.torch_api import is_constant
from transformer.recognition.roles import Roles
from transformer.syntax.options import holds_options
from transformer.syntax.query import calls_method, method, root, statements, unparse, walk
from transformer.syntax.rewrite import Edits
from transformer.transforms.base import Skip
from transformer.values.reports import is_logger, is_report

KINDS = frozenset("device dtype is_cuda ndim dim".split())
"""Attributes and methods of tensors that give the same in all processes, except for a device's index."""
LIMITS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


class Common:
    """Which expressions of the training scope have the same value in all processes."""

    def __init__(self, roles: Roles) -> None:
        self._roles = roles
        self._bound: dict[str, list[ast.expr | None]] = {}
        for stmt in statements(roles.scope.body):
            for name, value in _bound_with_values(stmt):
                self._bound.setdefault(name, []).append(value)
        self._open: set[str] = set()

    def is_common(self, node: ast.AST, *, clock: bool = False) -> bool:
        """Whether a value depends only on options, counters and the optimizer, and, if `clock`, the time."""
        tree = self._roles.tree
        if isinstance(node, ast.Call):
            parts = [*node.args, *(k.value for k in node.keywords)]
            qualified = tree.qualified(node.func) or ""
            if library_does(qualified) == "clock" or qualified.startswith("datetime."):
                return clock
            if method(node) == "dim":
                return True
            pure = tree.names.builtin(node.func) in SAME | {"enumerate"} or qualified in (
                "torch.is_tensor",
                "torch.device",
                "torch.cuda.is_available",
            )
            pure = pure or qualified.startswith("math.")
            if not pure and isinstance(node.func, ast.Attribute) and node.func.attr in ("fill_", "item"):
                parts, pure = [*parts, node.func.value], True
            return pure and all(self.is_common(part, clock=clock) for part in parts)
        if isinstance(node, ast.Name):
            return self._is_common_name(node, clock)
        if isinstance(node, (ast.Lambda, ast.Await, ast.Yield, ast.NamedExpr, ast.GeneratorExp)):
            return False
        if isinstance(node, ast.Attribute) and (is_constant(tree.qualified(node) or "") or node.attr in KINDS):
            return True
        operands = (n for n in ast.iter_child_nodes(node) if isinstance(n, (ast.expr, ast.keyword, ast.comprehension)))
        return all(self.is_common(n, clock=clock) for n in operands)

    def _is_common_name(self, node: ast.Name, clock: bool) -> bool:
        roles, name = self._roles, node.id
        if name in self._open or name == roles.step_counter or name in {o.name for o in roles.optimizers}:
            return True
        if holds_options(roles.tree, node, roles.scope) or is_logger(roles.tree, node):
            return True
        values = self._bound.get(name)
        if values is None:
            made = [s for s in roles.tree.root.body if isinstance(s, ast.Assign) and unparse(s.targets[0]) == name]
            return len(made) == 1 and isinstance(made[0].value, ast.Constant)
        self._open.add(name)
        try:
            return all(value is not None and self.is_common(value, clock=clock) for value in values)
        finally:
            self._open.discard(name)


def _bound_with_values(stmt: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    """The names that a statement binds, each with the expression that gives its value; None if that is not known."""
    if isinstance(stmt, ast.Assign):
        for target in stmt.targets:
            parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
            values = [stmt.value] * len(parts)
            if isinstance(stmt.value, (ast.Tuple, ast.List)) and len(stmt.value.elts) == len(parts):
                values = stmt.value.elts
            yield from ((p.id, v) for p, v in zip(parts, values, strict=True) if isinstance(p, ast.Name))
    elif isinstance(stmt, (ast.AugAssign, ast.AnnAssign)) and isinstance(stmt.target, ast.Name):
        yield stmt.target.id, stmt.value
    elif isinstance(stmt, (ast.For, ast.AsyncFor)):
        yield from ((n.id, stmt.iter) for n in walk(stmt.target) if isinstance(n, ast.Name))
    elif isinstance(stmt, ast.With):
        made = (i.optional_vars for i in stmt.items if i.optional_vars is not None)
        yield from ((n.id, None) for v in made for n in walk(v) if isinstance(n, ast.Name))
    if not isinstance(stmt, (ast.FunctionDef, ast.ClassDef)):
        headers = [n for n in ast.iter_child_nodes(stmt) if isinstance(n, ast.expr)]
        yield from ((n.target.id, None) for h in headers for n in walk(h) if isinstance(n, ast.NamedExpr))


class Agreement:
    """Makes all processes decide alike, and log the values of all."""

    def __init__(self, roles: Roles, edits: Edits, mean: str) -> None:
        self._roles = roles
        self._edits = edits
        self._mean = mean
        self._common = Common(roles)
        self.used = False
        """Whether some number is averaged."""

    def decide_together(self) -> None:
        """Average the numbers that decisions depend on, so that loops around the update run equally often everywhere.

        Raises:
            Skip: it is not known how to make a decision the same in all processes.
        """
        for stmt in self._statements(self._roles.outermost):
            if isinstance(stmt, (ast.If, ast.While)):
                self._agree(stmt.test)
            elif isinstance(stmt, ast.For) and self._updates(stmt) and not self._is_counted(stmt.iter):
                raise Skip(f"line {stmt.lineno}: processes may run this loop a different number of times")
            elif isinstance(stmt, ast.Try) and self._updates(stmt):
                raise Skip(f"line {stmt.lineno}: an exception in only one process would separate it from the others")
            self._check_settings(stmt)
        update = self._roles.history.functions.get("update")
        if update is not None:
            self._check_update(update.name, update.others)

    def log_of_all(self) -> None:
        """Average the numbers that are logged once per iteration."""
        for stmt in self._statements(self._roles.outermost, reports=False):
            call = stmt.value if isinstance(stmt, ast.Expr) else None
            if not isinstance(call, ast.Call) or method(call) != "add_scalar" or not is_report(self._roles.tree, call):
                continue
            values = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "scalar_value")]
            for value in values:
                if not self._common.is_common(value, clock=True):
                    self._average(value)

    def _average(self, node: ast.expr) -> None:
        self.used = True
        self._edits.substitute(node, f"{self._mean}({self._roles.tree.text(node)})")

    def _statements(self, outermost: ast.stmt, *, reports: bool = True) -> Iterator[ast.stmt]:
        """The statements of the outermost training loop, except those of the rollout, the advantages and functions.

        An `if` that may differ between processes is excluded if it only reports. If `reports` is false, so are loops
        that may differ between processes.
        """
        phases = self._roles.phases
        apart: list[ast.stmt] = [*self._roles.gae_loops]
        if phases.steps:
            apart.append(phases.collect)
        waiting: list[ast.stmt] = [outermost]
        while waiting:
            stmt = waiting.pop(0)
            if stmt in apart or isinstance(stmt, (ast.FunctionDef, ast.ClassDef)):
                continue
            local = isinstance(stmt, ast.If) and not self._common.is_common(stmt.test)
            if local and isinstance(stmt, ast.If) and self._only_reports([*stmt.body, *stmt.orelse]):
                continue
            if isinstance(stmt, ast.For) and not reports and not self._is_counted(stmt.iter):
                continue
            yield stmt
            for part in ("body", "orelse", "finalbody"):
                waiting += getattr(stmt, part, [])
            for handler in getattr(stmt, "handlers", []):
                waiting += handler.body

    def _only_reports(self, body: Sequence[ast.stmt]) -> bool:
        """Whether statements only print and log."""
        for stmt in body:
            if isinstance(stmt, (ast.If, ast.For)):
                if not self._only_reports([*stmt.body, *stmt.orelse]):
                    return False
            elif not isinstance(stmt, ast.Pass) and not (
                isinstance(stmt, ast.Expr) and is_report(self._roles.tree, stmt.value)
            ):
                return False
        return True

    def _updates(self, stmt: ast.stmt) -> bool:
        return any(step in walk(stmt) for step in self._roles.optimizer_steps)

    def _is_counted(self, iterable: ast.expr) -> bool:
        """Whether a loop runs equally often in all processes: over a range, or over parts of a permutation."""
        tree = self._roles.tree
        if self._common.is_common(iterable):
            return True
        if not isinstance(iterable, ast.Call):
            return False
        if tree.calls(iterable, "torch.randperm", "torch.arange", "numpy.arange", "numpy.random.permutation"):
            return all(self._common.is_common(a) for a in iterable.args)
        if unparse(iterable.func) in ("enumerate", "list", "reversed", "tqdm.tqdm") and iterable.args:
            return self._is_counted(iterable.args[0])
        if calls_method(iterable, "split", "chunk") and isinstance(iterable.func, ast.Attribute):
            return self._is_counted(iterable.func.value) and all(self._common.is_common(a) for a in iterable.args)
        return False

    def _agree(self, test: ast.expr) -> None:
        """Make a condition hold in all processes or in none.

        Raises:
            Skip: it is not a comparison of numbers.
        """
        if self._common.is_common(test):
            return
        parts: Iterable[ast.expr] = ()
        if isinstance(test, ast.BoolOp):
            parts = test.values
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            parts = [test.operand]
        elif isinstance(test, ast.Compare) and all(isinstance(op, LIMITS) for op in test.ops):
            for operand in (test.left, *test.comparators):
                if not self._common.is_common(operand):
                    self._average(operand)
            return
        else:
            raise Skip(
                f"line {test.lineno}: {unparse(test)} may hold in only one process; compare a number with a limit"
            )
        for part in parts:
            self._agree(part)

    def _check_settings(self, stmt: ast.stmt) -> None:
        """Check that values set on options, networks or optimizers are the same in all processes.

        Raises:
            Skip: one may differ.
        """
        if isinstance(stmt, (ast.Assign, ast.AugAssign)):
            targets = stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target]
            for target in targets:
                held = isinstance(target, (ast.Attribute, ast.Subscript)) and self._is_setting(target)
                if held and not self._common.is_common(stmt.value):
                    raise Skip(f"line {stmt.lineno}: {unparse(target)} may get a different value in each process")
        call = stmt.value if isinstance(stmt, ast.Expr) else None
        if isinstance(call, ast.Call) and self._roles.is_step(call) and (call.args or call.keywords):
            if not all(self._common.is_common(a) for a in (*call.args, *(k.value for k in call.keywords))):
                raise Skip(f"line {stmt.lineno}: the arguments of {unparse(call.func)} differ between processes")

    def _is_setting(self, target: ast.expr) -> bool:
        name = root(target)
        networks = name in self._roles.modules
        return networks or self._common.is_common(ast.copy_location(ast.Name(name, ast.Load()), target))

    def _check_update(self, name: str, others: Sequence[str]) -> None:
        """Check that update() takes the same branches in all processes.

        Raises:
            Skip: it may not.
        """
        definition = self._roles.tree.definition(name)
        given = {a.arg for a in definition.args.args}
        for node in walk(definition):
            if isinstance(node, (ast.If, ast.While)):
                kinds = {
                    n for k in walk(node.test) if isinstance(k, ast.Attribute) and k.attr in KINDS for n in walk(k)
                }
                read = {n.id for n in walk(node.test) if isinstance(n, ast.Name) and n not in kinds}
                local = read & (given | _bound_in(definition))
                if local:
                    raise Skip(f"line {node.lineno}: {unparse(node.test)} may hold in only one process")
            elif isinstance(node, (ast.Return, ast.Break, ast.Continue)) and node is not definition.body[-1]:
                raise Skip(f"line {node.lineno} leaves the update early")
        for call in self._roles.tree.of(ast.Call):
            if unparse(call.func) == name:
                for parameter, value in zip(definition.args.args, call.args, strict=False):
                    if parameter.arg in others and not self._common.is_common(value):
                        raise Skip(f"line {call.lineno}: {unparse(value)} may differ between processes")


def _bound_in(function: ast.FunctionDef) -> set[str]:
    return {n.id for n in walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
