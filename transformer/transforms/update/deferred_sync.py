"""Move reads of tensors on the host, and logging, out of the computing part of the minibatch loop."""

from __future__ import annotations

import ast
from functools import cached_property
from itertools import takewhile

from transformer.dataflow.access import access
from transformer.dataflow.closures import runs_elsewhere
from transformer.dataflow.grad_mode import without_gradients
from transformer.facts.libraries import REPORTS, library_does
from transformer.facts.python import HARMLESS
from transformer.facts.torch_api import OF, REDUCES, may_be_given, names
from transformer.recognition.off_policy import Region
from transformer.state import State
from transformer.syntax.diagnostics import Diagnostic
from transformer.syntax.names import singular
from transformer.syntax.query import TRY, calls_method, children, statements, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.tree import Loop
from transformer.transforms.base import ALL, NotNeeded, Rewrite, Skip, Transform, TransformInfo, each_region
from transformer.values.dtypes import Dtypes
from transformer.values.effects.moves import changes_anything, reads_otherwise
from transformer.values.effects.world import World
from transformer.values.minibatch import first_computation, last_step
from transformer.values.reports import is_report
from transformer.values.tensors import Tensors, values

INFO = TransformInfo(
    name="deferred-sync",
    brief=".item() and logging below the update",
    summary="move .item() and logging out of the computation of a minibatch",
    applies=(
        "to numbers read from a minibatch's tensors that nothing needs before the optimizer's step: collected in a "
        "list, kept under a name, printed, or logged by a library. The tensor must be new and passed to nothing that "
        "may change it. What is moved may only call known functions that change nothing and draw no random numbers"
    ),
    safety=(
        "The same values are read, after the optimizer's step instead of before it; nothing in between changes them. "
        "A list of numbers becomes a list of tensors, which is turned into the same Python floats where it is used, "
        "so its mean is the mean of the same floats."
    ),
    costs="The host waits for the device in each minibatch: read numbers below the minibatch loop.",
    needs=(),
    before="clipfracs += [clipped.float().mean().item()]\n...\noptimizer.step()\n...\nnp.mean(clipfracs)",
    after=(
        "clipfrac = clipped.float().mean()\n...\noptimizer.step()\nclipfracs += [clipfrac]\n...\n"
        "np.mean(torch.stack(clipfracs).tolist())"
    ),
)

NOTHING = "no tensor is read as a number before the optimizer's step that could be read after it"


def apply(state: State) -> Rewrite:
    """Rewrite the body of the minibatch loop.

    Raises:
        Skip: nothing in it reads a tensor on the host, or the loop may leave a minibatch before its step.
    """
    if state.roles.kind == "off-policy":
        return _each_region(state)
    loop, last = state.roles.minibatch_loop, last_step(state.roles)
    assert last is not None, "the minibatch loop is the one that steps the optimizer"
    work = Deferral(state, loop, loop.body, last)
    for stmt in statements(work.computing[first_computation(state.roles) or 0 :]):
        if isinstance(stmt, (ast.Break, ast.Continue, ast.Return)):
            reads = any(_item(n) is not None for s in work.loop.body for n in walk(s))
            kind = Skip if reads else NotNeeded
            raise kind(f"line {stmt.lineno} may leave a minibatch before the optimizer's step")
    for stmt in work.computing:
        work.visit(stmt)
    work.visit_below()
    if work.edits:
        return Rewrite(work.edits, left=tuple(dict.fromkeys(work.waiting)), warnings=tuple(work.warnings))
    if reasons := [*work.reasons, *work.waiting]:
        raise Skip(reasons[0], warnings=work.warnings)
    raise NotNeeded(NOTHING)


def _each_region(state: State) -> Rewrite:
    """Move logging out of each update region of a loop over environment steps.

    Raises:
        Skip: nothing in them logs or reads a tensor on the host, or it must stay.
    """
    reasons: list[str] = []
    warnings: list[Diagnostic] = []

    def defer(state: State, region: Region) -> State:
        work = Deferral(state, state.roles.phases.loop, region.block, region.last)
        for stmt in region.statements:
            work.visit(stmt, collected=False)
        reasons.extend(map(state.recorded, work.reasons))
        warnings.extend(work.warnings)
        return state.after(work.edits)

    made = each_region(state, defer)
    if made is not state:
        return Rewrite(made, warnings=tuple(warnings))
    if reasons:
        raise Skip(reasons[0], warnings=warnings)
    raise NotNeeded(NOTHING)


LEAVES = (ast.Break, ast.Continue, ast.Return)


class Deferral:
    """The edits of one minibatch loop, or of one update region of a loop over environment steps."""

    def __init__(self, state: State, loop: Loop, block: list[ast.stmt], last: int) -> None:
        """The computation ends with the statement at index `last` of the block, which contains the optimizer's step."""
        roles = state.roles
        self.state, self.tree = state, state.tree
        self.edits = Edits(state.source)
        self.tensors = roles.get(Tensors)
        self.reasons: list[str] = []
        self.warnings: list[Diagnostic] = []
        self.waiting: list[str] = []
        """Messages on reads of tensors below the optimizer's step that stay."""
        self.loop, self.last = loop, block[last]
        self.computing = block[: last + 1]
        self.below = block[last + 1 :]
        self._above, self._inside = set(statements(self.computing)), set(statements(block))
        self._turn = set(statements(self.state.roles.phases.block))
        stores = (n for n in self.tree.nodes if isinstance(n, ast.Attribute) and not isinstance(n.ctx, ast.Load))
        self._stored = {self.tree.text(n) for n in stores if self.tree.statement(n) in self._turn}
        self._world = roles.get(World)
        self._stacked: set[str] = set()
        self._sinking = self._sinkable()

    def visit(self, stmt: ast.stmt, *, collected: bool = True) -> None:
        """Defer what can be deferred in a statement, also in `with` blocks; appends to lists only if `collected`."""
        if isinstance(stmt, ast.With):
            for inner in stmt.body:
                self.visit(inner, collected=collected)
            return
        if not ((collected and self._collects(stmt)) or self._reads_number(stmt) or self._sinks(stmt)):
            reads = (n for n in walk(stmt) if (t := _item(n)) is not None and not self._is_of_numpy(t))
            if (read := next(reads, None)) is not None:
                place = self.tree.statement(read)
                self.reasons.append(f"line {place.lineno} still reads a tensor on the host")
                waits = "a tensor is read on the host in every minibatch"
                self.warnings.append(self.state.warning(place, "LC101", waits))

    def visit_below(self) -> None:
        """Keep numbers that are collected below the optimizer's step as tensors."""
        leaves = any(isinstance(s, (ast.Break, ast.Continue, ast.Return)) for s in statements(self.below))
        for stmt in statements(self.below):
            if isinstance(stmt, ast.With) or (not leaves and self._collects(stmt)):
                continue
            read = next((t for n in walk(stmt) if (t := _item(n)) is not None and self.tensors.tensor(t)), None)
            if read is not None and self._unconditional(stmt):
                what = self._why_it_stays(stmt)
                self.waiting.append(f"line {read.lineno} waits for the device in each minibatch: {what}")

    def _why_it_stays(self, stmt: ast.stmt) -> str:
        """Why a read of a tensor below the optimizer's step stays, and what to write instead."""
        if isinstance(stmt, ast.Assign):
            return f"let {self.tree.text(stmt.targets[0])} be the tensor, and read its number below the minibatches"
        if (found := _appended(stmt)) is not None:
            return self._why_not_plain(found[0]) or "a minibatch may end above it"
        return "append the number to a list in a variable, and read the list below the minibatches"

    def _is_of_numpy(self, node: ast.expr) -> bool:
        called = node.func if isinstance(node, ast.Call) else node
        return (self.tree.qualified(called) or "").startswith("numpy.")

    def _stays(self, tensor: ast.expr) -> bool:
        """Whether nothing in a turn of the training loop changes a tensor."""
        return self._world.is_left_alone(tensor, self.state.roles.phases.loop.body)

    # numbers collected in a list

    def _collects(self, stmt: ast.stmt) -> bool:
        found = _appended(stmt)
        if found is None:
            return False
        name, value = found
        tensor = _item(value)
        if tensor is None or not self._is_plain_list(name):
            return False
        text = self.tree.text(tensor)
        if not _is_scalar(tensor):
            text = f"{text}.reshape(())"
        if not without_gradients(self.tree, stmt):
            text = f"{text}.detach()"
        if stmt in statements(self.below):
            self.edits.substitute(value, text)
        else:
            single = self.tree.names.fresh(singular(name))
            self.edits.replace(stmt, f"{single} = {text}")
            self.edits.after(self.last, self.tree.splice(stmt, [(value, single)]))
        if name not in self._stacked:
            self._stacked.add(name)
            uses = self._reads_of_list(name)
            learn = self.state.roles.phases.learn
            if any(self._is_quoted(use) for use in uses):  # convert the list once, and not inside f-strings
                self.edits.after(learn, f"{name} = {self._numbers(name, learn)}")
                uses = [use for use in uses if not self._is_below(use)]
            for use in (use for use in uses if not self._is_tested(use)):
                self.edits.substitute(use, self._numbers(name, self.tree.statement(use)))
        return True

    def _is_plain_list(self, name: str) -> bool:
        """Whether a list starts empty, grows only by numbers of new tensors, and is read only after the minibatches."""
        return self._why_not_plain(name) is None

    def _why_not_plain(self, name: str) -> str | None:
        """Why a list is not like that, for a message; None if it is."""
        definitions = list(self.state.roles.assignments(name))
        if not definitions or not all(isinstance(v, ast.List) and not v.elts for _, v in definitions):
            return f"{name} is not only made as an empty list, `{name} = []`"
        world = self.state.roles.get(World)
        others = (world.other_names(world.of(value), name) for _, value in definitions)
        if (held := next(filter(None, others), None)) is not None:
            return f"{name} may have another name (line {held.lineno}): read the list itself, below the minibatches"
        growing = list[ast.expr]()
        known: set[ast.stmt] = {stmt for stmt, _ in definitions}
        for stmt in statements(self.state.roles.scope.body):
            grown = _appended(stmt)
            if grown and grown[0] == name:
                known.add(stmt)
                tensor = _item(grown[1])
                if tensor is None or stmt not in self._inside or not self._unconditional(stmt):
                    return f"line {stmt.lineno} may add something else to {name}, or not in each minibatch"
                if not self.tensors.tensor(tensor) or not self._stays(tensor):
                    return f"line {stmt.lineno} adds {self.tree.text(tensor)}, which is not known to be a new tensor"
                growing.append(tensor)
        bound = (n for n in self.tree.of(ast.Name) if n.id == name and not isinstance(n.ctx, ast.Load))
        other = (n for n in bound if self.tree.statement(n) not in known and self.state.roles.is_ours(n))
        if (one := next(other, None)) is not None:
            return f"line {one.lineno} may add to {name}, too"
        floats = all(self._is_floating(tensor, self.tree.statement(tensor)) for tensor in growing)
        in_one_way = (self._is_computed_in_one_way(tensor, self.tree.statement(tensor)) for tensor in growing)
        one_dtype = floats or (len(growing) == 1 and all(in_one_way))
        kept, uses = any(stmt not in self._turn for stmt, _ in definitions), self._reads_of_list(name)
        early = next((use for use in uses if self._is_tested(use) and not self._is_after_loop(use)), None)
        if early is not None:
            return f"line {early.lineno} reads {name} before all minibatches are done"
        quoted = [use for use in uses if self._is_quoted(use)]
        if quoted:  # then the list is converted below the minibatches, and later reads get floats
            ours = (self._is_below(use) and self.tree.scope_of(use) is self.state.roles.scope for use in quoted)
            if kept or not all(ours):
                return f"line {quoted[0].lineno} shows {name} as a text, perhaps before all minibatches are done"
            uses = [use for use in uses if use not in quoted]
        uses = [use for use in uses if not self._is_tested(use)]
        harmful = next((use for use in uses if not self._is_harmless(self.tree.parents[use])), None)
        if not quoted and len(uses) > 1 and harmful is not None:
            return f"line {harmful.lineno} may change {name}, which is read more than once"
        if not one_dtype:
            return f"{name} may hold numbers of several dtypes"
        if not self._always_runs():
            return f"{name} may stay empty"
        unstacked = next((use for use in uses if not self._may_be_stacked(use, kept)), None)
        return None if unstacked is None else f"line {unstacked.lineno} uses {name} for more than its numbers"

    def _is_computed_in_one_way(self, node: ast.expr, stmt: ast.stmt, depth: int = 8) -> bool:
        """Whether a tensor has the same dtype each time, because it has one definition: not `x if first else y`."""
        if not depth or self._is_floating(node, stmt):
            return depth > 0
        inside = {*walk(node)} - {n for s in walk(node) if isinstance(s, ast.Subscript) for n in walk(s.slice)}
        if any(isinstance(n, (ast.IfExp, ast.BoolOp, ast.NamedExpr)) for n in inside):
            return False
        for name in (n for n in inside if isinstance(n, ast.Name)):
            bound = [b for b in self.tensors.bindings(name.id, stmt) if b is not None]
            if len(bound) > 1 and not self._is_floating(name, stmt):
                return False
            for one in bound:
                if not isinstance(one, ast.Assign) or not isinstance(one.targets[0], ast.Name) or one is stmt:
                    continue
                if not self._is_computed_in_one_way(one.value, one, depth - 1):
                    return False
        return True

    def _is_floating(self, node: ast.expr, stmt: ast.stmt, depth: int = 4) -> bool:
        """Whether a tensor or a number is surely of a floating-point type."""
        if isinstance(node, ast.Constant):
            return isinstance(node.value, float)
        if isinstance(node, ast.UnaryOp):
            return self._is_floating(node.operand, stmt, depth)
        if isinstance(node, ast.BinOp):
            sides = (node.left, node.right)
            return isinstance(node.op, ast.Div) or any(self._is_floating(side, stmt, depth) for side in sides)
        if isinstance(node, ast.Name) and depth:
            bound = list(self.tensors.bindings(node.id, stmt))
            plain = [b for b in bound if isinstance(b, ast.Assign) and isinstance(b.targets[0], ast.Name)]
            return len(plain) == len(bound) > 0 and all(self._is_floating(b.value, b, depth - 1) for b in plain)
        return _is_mean(node) or self.state.roles.get(Dtypes).float32(node)

    def _is_below(self, use: ast.Name) -> bool:
        """Whether a use is below all minibatches of an iteration."""
        return use.lineno > (self.state.roles.phases.learn.end_lineno or 0)

    def _is_quoted(self, node: ast.expr) -> bool:
        """Whether a node is inside an f-string."""
        return any(isinstance(n, ast.JoinedStr) for n in self.tree.ancestors(node))

    def _numbers(self, name: str, stmt: ast.stmt) -> str:
        """The text that turns a list of tensors into numbers for a statement: all at once, or one by one.

        torch.stack needs at least one tensor. Without any minibatch (`--update-epochs 0`) the original may continue,
        with a mean of nan. It stops if every way through the statement reads a name that only minibatches bind. If the
        loops run equally often in each turn, a turn without minibatches means that the first turn had none either.
        """
        full = self._has_as_many_each_turn and self._surely_reads_result(stmt)
        return f"torch.stack({name}).tolist()" if full else f"[x.item() for x in {name}]"

    @cached_property
    def _has_as_many_each_turn(self) -> bool:
        """Whether each turn has the same number of minibatches, all of which reach the optimizer's step."""
        if any(isinstance(s, (ast.Break, ast.Continue, ast.Return)) for s in statements(self.computing)):
            return False
        loops = [self.loop, *self.tree.loops_around(self.loop)]
        loops = loops[: loops.index(self.state.roles.phases.loop)]
        return all(
            isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) and self._same_each_turn(loop.iter, loop)
            for loop in loops
        )

    def _surely_reads_result(self, stmt: ast.stmt) -> bool:
        """Whether every turn that runs a statement also reads a name that only minibatches bind, before it or after."""
        phases = self.state.roles.phases
        around = [*takewhile(lambda n: n is not phases.loop, self.tree.ancestors(stmt))]
        if any(isinstance(n, TRY) for n in around):  # the error may be caught
            return False
        for outer in (stmt, *(n for n in around if isinstance(n, ast.stmt))):
            block = self.tree.block(outer)
            begin = block.index(phases.learn) + 1 if phases.learn in block else 0
            place = block.index(outer)
            after = takewhile(lambda s: not any(isinstance(x, _LEAVES) for x in statements([s])), block[place + 1 :])
            read = (*block[begin:place], *([] if outer is phases.learn else [outer]), *after)
            if any(self._is_bound_by_minibatches(name, s) for s in read for name in _always_read(s)):
                return True
        return False

    def _same_each_turn(self, node: ast.expr, where: ast.stmt, depth: int = 4) -> bool:
        """Whether a number, or the length of a known function's result, is the same in each turn."""
        for part in walk(node):
            if isinstance(part, ast.Call) and not (
                (isinstance(part.func, ast.Name) and part.func.id in ("range", "enumerate", "int"))
                or (self.tree.qualified(part.func) or "").startswith(("torch.", "numpy."))
                or (isinstance(part.func, ast.Attribute) and part.func.attr in ("split", "chunk"))
            ):
                return False
            if isinstance(part, ast.Attribute) and self.tree.text(part) in self._stored:
                return False
            if isinstance(part, ast.Name) and part.id not in self.tree.imports:
                for bound in self.tensors.bindings(part.id, where):
                    if bound is None:
                        continue
                    if isinstance(bound, ast.For) or not (made := [*values(bound, part.id)]) or not depth:
                        return False
                    if self.tree.loops_around(bound) and not all(
                        self._same_each_turn(v, bound, depth - 1) for v in made
                    ):
                        return False
        return True

    def _is_bound_by_minibatches(self, name: str, stmt: ast.stmt) -> bool:
        """Whether only the minibatches can have bound a name that a statement reads."""
        bindings = [b for b in self.tensors.bindings(name, stmt) if b is not None]
        return bool(bindings) and self._inside.issuperset(bindings)

    def _always_runs(self) -> bool:
        """Whether each turn of the minibatch loop fills a list."""
        inner: ast.stmt = self.loop
        while inner is not self.state.roles.phases.learn:
            outer = self.tree.parents[inner]
            if not isinstance(outer, (ast.For, ast.With)):
                return False
            for stmt in statements(outer.body[: outer.body.index(inner)]):
                if isinstance(stmt, (ast.Break, ast.Continue)) and self.tree.loops_around(stmt)[0] is outer:
                    return False
            inner = outer
        return True

    def _may_be_stacked(self, use: ast.Name, kept: bool) -> bool:
        """Whether a use of a list below the minibatch loop, as an argument or by an index, also works with a new list.

        If the list is `kept` from turn to turn, or used between minibatches, the use must not keep it and see it grow.
        """
        parent = self.tree.parents[use]
        grows = use.lineno <= (self.state.roles.phases.learn.end_lineno or 0)
        if self.tree.statement(use) not in self._turn or ((kept or grows) and not self._is_harmless(parent)):
            return False
        plain = (isinstance(parent, ast.Call) and use in parent.args) or (
            isinstance(parent, ast.Subscript) and parent.value is use and isinstance(parent.ctx, ast.Load)
        )
        return plain and self._is_after_loop(use)

    def _is_after_loop(self, use: ast.Name) -> bool:
        """Whether a use is in the scope of the minibatch loop, below it."""
        return self.tree.scope_of(use) is self.state.roles.scope and use.lineno > (self.loop.end_lineno or 0)

    def _is_tested(self, use: ast.AST) -> bool:
        """Whether a use only reads a list's length, or whether it is empty, as in `np.mean(x) if x else 0`."""
        parent = self.tree.parents[use]
        if isinstance(parent, ast.Call):
            return self.tree.names.builtin(parent.func) == "len"
        while isinstance(parent, ast.BoolOp):
            use, parent = parent, self.tree.parents[parent]
        if isinstance(parent, ast.UnaryOp):
            return isinstance(parent.op, ast.Not)
        return isinstance(parent, (ast.If, ast.IfExp, ast.While, ast.Assert)) and parent.test is use

    def _unconditional(self, stmt: ast.stmt) -> bool:
        for outer in self.tree.ancestors(stmt):
            if outer is self.loop:
                return True
            if not isinstance(outer, ast.With):
                return False
        return False

    def _reads_of_list(self, name: str) -> list[ast.Name]:
        """Reads of a list, except to append to it."""
        growing = {n for s in statements(self.state.roles.scope.body) if _appended(s) for n in walk(_grown(s))}
        return [
            n
            for n in self.tree.nodes
            if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) and n not in growing
            if self.state.roles.is_ours(n)
        ]

    # a number kept under a name

    def _reads_number(self, stmt: ast.stmt) -> bool:
        if not isinstance(stmt, ast.Assign) or len(stmt.targets) != 1 or not isinstance(stmt.targets[0], ast.Name):
            return False
        tensor, name = _item(stmt.value), stmt.targets[0].id
        if tensor is None or not self.tensors.tensor(tensor) or not self._stays(tensor):
            return False
        reads = []
        for node in self.tree.of(ast.Name):
            if node.id != name or not isinstance(node.ctx, ast.Load):
                continue
            if runs_elsewhere(self.tree, node, self.state.roles.scope):
                if self.state.roles.is_ours(node):
                    return False
                continue
            where = self.tree.statement(node)
            bindings = set(self.tensors.bindings(name, where))
            if stmt not in bindings:
                continue
            if bindings - {None} != {stmt} or where in self._above or self._is_quoted(node):
                return False
            reads.append(node)
        text = self.tree.text(tensor)
        self.edits.replace(
            stmt, f"{name} = {text}" if without_gradients(self.tree, stmt) else f"{name} = {text}.detach()"
        )
        for read in reads:
            self.edits.substitute(read, f"{name}.item()")
        return True

    # logging

    def _sinks(self, stmt: ast.stmt) -> bool:
        """Move a statement that only reports below the optimizer's step, if it reads the same values there."""
        if stmt not in self._sinking:
            return False
        self.edits.after(self.last, [self.edits.move(stmt)])
        return True

    def _sinkable(self) -> set[ast.stmt]:
        """The reports that may be moved. Statements that they move past must neither report nor stop the script."""
        found: set[ast.stmt] = set()
        rebound: set[str] = set()
        roles = self.state.roles
        if roles.hook(r"\w*") is not None:  # a hook may run in between
            return found
        for stmt in reversed(self.computing):
            if stmt is not self.last and self._reports(stmt) and self._may_sink(stmt, rebound):
                found.add(stmt)
            elif any(isinstance(n, LEAVES) for n in walk(stmt)) or self._may_report_or_stop(stmt):
                break
            rebound |= {n for s in statements([stmt]) for n in access(s).binds}
        return found

    def _may_sink(self, stmt: ast.stmt, rebound: set[str]) -> bool:
        rebound = rebound | {n for s in statements([self.last]) for n in access(s).binds}
        calls, own = [n for n in walk(stmt) if isinstance(n, ast.Call)], self._names_of_condition(stmt)
        if any(isinstance(n, ast.Name) and n.id in rebound - own for n in walk(stmt)):
            return False
        reports = {c for c in calls if is_report(self.tree, c)}
        if changes_anything(self.state.roles, stmt, own, reports) is not None:
            return False
        besides = {c.func for c in reports}
        past = self.computing[self.computing.index(stmt) + 1 :]
        return all(map(self._is_harmless, calls)) and not reads_otherwise(self.state.roles, stmt, past, besides)

    def _is_harmless(self, node: ast.AST) -> bool:
        """Whether a node is no call, or a call known only to compute or report, without drawing random numbers."""
        if not isinstance(node, ast.Call):
            return True
        if is_report(self.tree, node):
            return True
        if isinstance(node.func, ast.Name) and node.func.id not in self.tree.imports:
            return self.tree.names.builtin(node.func) in HARMLESS
        qualified = self.tree.qualified(node.func) or ""
        if qualified:
            if may_be_given(node):
                return False
            computes = library_does(qualified) == "computes" and qualified.rpartition(".")[2] in COMPUTES
            return computes or library_does(qualified) == "clock"
        return isinstance(node.func, ast.Attribute) and (
            (node.func.attr in COMPUTES and self.tensors.tensor(node.func.value))
            or node.func.attr in ("item", "format", "join", "items")
        )

    def _may_report_or_stop(self, stmt: ast.stmt) -> bool:
        """Whether a statement, or a function that it may call, reports or raises an exception."""
        nodes = self.state.roles.reached([stmt])
        return any(isinstance(n, (ast.Raise, ast.Assert)) or self._may_report(n) for n in nodes)

    def _may_report(self, node: ast.AST) -> bool:
        """Whether a node prints or logs, judged by its name; `ratio.log()` does not."""
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Name):
            return node.func.id == "print"
        computes = (self.tree.qualified(node.func) or "").startswith(("torch.", "numpy.", "math."))
        return isinstance(node.func, ast.Attribute) and (
            node.func.attr in REPORTS and not computes and not self.tensors.tensor(node.func.value)
        )

    def _names_of_condition(self, stmt: ast.stmt) -> set[str]:
        """Names that only the statements of an `if` use, and that they bind to new tensors."""
        if not isinstance(stmt, ast.If) or self.state.roles.kind != "off-policy":
            return set()
        inside = set(walk(stmt))
        bound = [s for s in stmt.body if isinstance(s, ast.Assign)]
        names = {n for s in bound for n in access(s).binds}
        uses = [n for n in self.tree.nodes if isinstance(n, ast.Name) and n.id in names and n not in inside]
        elsewhere = {n.id for n in uses if self.state.roles.is_ours(n)}
        new = (s for s in bound if self._stays(s.value))
        return {n for s in new for n in access(s).binds - elsewhere}

    def _reports(self, stmt: ast.stmt) -> bool:
        if isinstance(stmt, ast.If):
            own = self._names_of_condition(stmt)
            plain = (s for s in stmt.body if not (isinstance(s, ast.Assign) and access(s).binds <= own))
            return all(self._reports(s) for s in (*plain, *stmt.orelse)) and not any(
                self.tensors.tensor(n) for n in walk(stmt.test) if isinstance(n, ast.expr)
            )
        return isinstance(stmt, ast.Expr) and is_report(self.tree, stmt.value)


_LEAVES = (ast.Break, ast.Continue, ast.Return)
_MAYBE_LEFT_OUT = (ast.IfExp, ast.BoolOp, ast.Compare, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _always_read(stmt: ast.stmt) -> set[str]:
    """Names that a statement reads before any part of it may be skipped."""
    if isinstance(stmt, (*TRY, ast.FunctionDef, ast.ClassDef)):
        return set()
    found, left = set(), [*children(stmt)]
    while left:
        node = left.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.add(node.id)
        if not isinstance(node, (ast.stmt, ast.Lambda, *_MAYBE_LEFT_OUT)):
            left += children(node)
    return found


def _is_mean(node: ast.expr) -> bool:
    return calls_method(node, "mean")


COMPUTES = names(*OF, memory=("new", "shared", "number"), draws=False) - names(*OF, draws=True)
"""Functions of torch and numpy, and methods of tensors, that change nothing and draw no random numbers."""


def _item(node: ast.AST) -> ast.expr | None:
    """The tensor in `tensor.item()`."""
    if calls_method(node, "item") and not node.args:
        return node.func.value
    return None


def _appended(stmt: ast.stmt) -> tuple[str, ast.expr] | None:
    """List and element of `xs += [x]` or `xs.append(x)`."""
    if isinstance(stmt, ast.AugAssign) and isinstance(stmt.op, ast.Add) and isinstance(stmt.target, ast.Name):
        if isinstance(stmt.value, ast.List) and len(stmt.value.elts) == 1:
            return stmt.target.id, stmt.value.elts[0]
    if isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Call) and isinstance(stmt.value.func, ast.Attribute):
        func = stmt.value.func
        if func.attr == "append" and isinstance(func.value, ast.Name) and len(stmt.value.args) == 1:
            return func.value.id, stmt.value.args[0]
    return None


def _grown(stmt: ast.stmt) -> ast.AST:
    if isinstance(stmt, ast.AugAssign):
        return stmt.target
    assert isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Call)
    return stmt.value.func


def _is_scalar(node: ast.expr) -> bool:
    """Whether a tensor has no dimensions: the expression ends in a full reduction."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in REDUCES and not node.args and not node.keywords
    return False


TRANSFORM = Transform(INFO, apply, ALL)
