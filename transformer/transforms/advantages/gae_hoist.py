"""Take the boundary branch and all elementwise work out of the loop backwards in time."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from transformer.dataflow.access import access
from transformer.dataflow.closures import runs_elsewhere
from transformer.dataflow.liveness import Liveness
from transformer.facts.python import CONVERTS
from transformer.facts.torch_api import OF, methods, names
from transformer.recognition.buffers import resized
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.options import holds_options
from transformer.syntax.query import backwards, calls_method, is_number, names_in, statements, walk
from transformer.syntax.rewrite import Edits
from transformer.transforms.advantages.rounding import exact_operands
from transformer.transforms.advantages.time_loop import WITH_ARRAYS, choices, is_one_more, tests_for_last_step
from transformer.transforms.base import NotNeeded, Rewrite, Skip, Transform, TransformInfo, skipped, still_left
from transformer.values.arrays import computes_with_arrays
from transformer.values.dtypes import Dtypes
from transformer.values.effects.world import Held, World
from transformer.values.shapes import Shapes
from transformer.values.tensors import Tensors

INFO = TransformInfo(
    name="gae-hoist",
    brief="advantages: all but the recurrence at once",
    summary=(
        "remove the boundary branch of the advantage loop and compute everything but the recurrence for all steps at "
        "once"
    ),
    applies=(
        "to a loop backwards over all steps, with a plain index, that computes with exactly rounded operations only: "
        "`+ - * /`, roots, squares and conditions, but no powers or exponentials. The hoisted part may read numbers, "
        "and tensors with one row per step that nothing in the loop may change"
    ),
    safety=(
        "Each element goes through the same operations in the same order as in the loop, and IEEE 754 fixes how they "
        "are rounded: the bits are the same on every processor, for one row or many. The values of the step after the "
        "last are appended in place of the branch that chose them. Only the recurrence, in which a step needs the "
        "next step's result, stays a loop, with the part of the branch that chooses that result."
    ),
    costs=(
        "A dozen small operations are launched per step, backwards in time: compute each step only by sums and "
        "products of the buffers' rows."
    ),
    needs=(),
    before=(
        "for t in reversed(range(args.num_steps)):\n    if t == args.num_steps - 1:\n        nextvalues = next_value\n"
        "    else:\n        nextvalues = values[t + 1]\n    delta = rewards[t] + args.gamma * nextvalues - values[t]\n"
        "    advantages[t] = lastgaelam = delta + args.gamma * args.gae_lambda * lastgaelam"
    ),
    after=(
        "nextvalues = torch.cat([values[1:], next_value.expand_as(values[:1])])\n"
        "delta = rewards + args.gamma * nextvalues - values\nfor t in reversed(range(args.num_steps)):\n"
        "    advantages[t] = lastgaelam = delta[t] + args.gamma * args.gae_lambda * lastgaelam"
    ),
)

MOVES = names("tensor", moves=True)
COPIES = names("tensor", memory="shared") | names("tensor", memory="number", waits="value")
"""Methods that return the elements of a tensor unchanged, for any shape and memory layout."""
PURE = methods(rows=("element", "broadcast")) - {*MOVES}
"""Methods that compute a tensor of the same or a larger shape, without side effects."""
OF_ALL_ELEMENTS = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp)
"""Expressions that do the same for a row with and without a leading dimension."""


def apply(state: State) -> Rewrite:
    """Rewrite each loop backwards in time.

    Raises:
        Skip: no loop has work that is shown to be elementwise in time.
    """
    roles = state.roles
    edits, reasons, done = Edits(state.source), list[Skip](), 0
    inside = [s for h in roles.gae_functions for s in statements(h.function.body)]
    loops = [*roles.gae_loops, *(s for s in inside if isinstance(s, ast.For) and backwards(s.iter))]
    on_device = [loop for loop in loops if not computes_with_arrays(roles, loop)]
    if loops and not on_device:
        raise NotNeeded(WITH_ARRAYS)
    for loop in on_device:
        try:
            Hoist(roles, loop).rewrite(edits)
            done += 1
        except Skip as skip:
            reasons.append(skip.at("the loop", [loop]))
    if not done:
        none = "no `for t in reversed(range(n))` over the rollout's steps was found"
        elsewhere = next((n for n in state.tree.of(ast.For) if backwards(n.iter) is not None), None)
        if elsewhere is not None and not reasons:
            raise Skip(f"the loop on line {elsewhere.lineno} is not known to go over the rollout's steps")
        raise skipped(reasons, none)
    return Rewrite(edits, left=still_left(reasons))


@dataclass(frozen=True)
class Boundary:
    """`if t == T - 1: a = last; else: a = inner`: the value of each name at the last step and at the others."""

    stmt: ast.If
    last: dict[str, ast.expr]
    inner: dict[str, ast.expr]


class Hoist:
    """The rewriting of one loop."""

    def __init__(self, roles: Roles, loop: ast.For) -> None:
        self.tree, self.roles, self.loop = roles.tree, roles, loop
        self.scope = self.tree.scope_of(loop)
        self.dtypes, self.tensors, self.shapes = roles.get(Dtypes), roles.get(Tensors), roles.get(Shapes)
        count = backwards(loop.iter)
        if count is None or not isinstance(loop.target, ast.Name) or loop.orelse:
            raise Skip("it does not run over all steps with a plain index")
        self.count, self.index = count, loop.target.id
        if (changed := resized(roles, count)) is not None:
            sets = f"line {changed.lineno} sets {ast.unparse(changed)}"
            raise Skip(f"{sets}, so the buffers may have another number of rows than {ast.unparse(count)}")
        all_but_last = isinstance(count, ast.BinOp) and isinstance(count.op, ast.Sub) and is_number(count.right, 1)
        self.one_more = (
            self.shapes.spelled(count.left)
            if all_but_last and isinstance(count, ast.BinOp)
            else f"{self.shapes.spelled(count)} + 1"
        )
        """The number of rows of an array with one row more than the loop has steps."""
        self.bound = {n.id for s in statements(loop.body) for n in ast.walk(s)
                      if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} - {self.index}  # fmt: skip
        self.written = {
            ast.unparse(n.value) for s in loop.body for n in ast.walk(s)
            if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)
        }  # fmt: skip
        self.computed = {
            name
            for c in self.tree.of(ast.ClassDef)
            for s in c.body
            if not self._is_field(s)
            for name in access(s).binds
        }
        """Names of methods and class attributes: an attribute of such a name may be computed, and differ each time."""
        self.world = roles.get(World)
        ranks = {rank for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Subscript)
                 if isinstance(n.ctx, ast.Store) and (rank := self.shapes.rank(n.value)) is not None}  # fmt: skip
        self.rank = ranks.pop() if len(ranks) == 1 else 2
        """The rank of the arrays over time, which is the same for all: they broadcast at one step as at all steps."""
        self.whole: set[str] = set()
        """Names whose values for all steps are computed before the loop."""
        self.other_shape = False
        """Whether the value chosen at the last step, and what is computed from it, may not have the shape of a row."""
        self.obstacle: str | None = None
        """Why a choice at the last step has to stay in the loop."""
        self.boundary = self._boundary()

    def _boundary(self) -> Boundary | None:
        ifs = [s for s in self.loop.body if isinstance(s, ast.If)]
        if not ifs:
            return None
        stmt = ifs[0]
        if len(ifs) > 1 or self.loop.body[0] is not stmt:
            raise Skip("its branch is not a single one at the top")
        first_is_last = tests_for_last_step(stmt.test, self.index, self.count, self.shapes)
        if first_is_last is None:
            raise Skip(f"the branch on line {stmt.lineno} does not test for the last step")
        sides = []
        for side in (stmt.body, stmt.orelse) if first_is_last else (stmt.orelse, stmt.body):
            values: dict[str, ast.expr] = {}
            for s in side:
                chosen = choices(s)
                if chosen is None:
                    raise Skip(f"line {s.lineno}: the branch does more than choose values")
                values |= chosen
            sides.append(values)
        if set(sides[0]) != set(sides[1]):
            raise Skip("the sides of its branch set different names")
        return Boundary(stmt, sides[0], sides[1])

    def rewrite(self, edits: Edits) -> None:
        """Record the edits of this loop."""
        self._check_scope()
        self._check_rounding()
        lines: list[str] = []
        kept = self._recurrent()
        if self.boundary:
            for name, inner in self.boundary.inner.items():
                if name in kept:
                    continue
                if isinstance(inner, ast.Constant) and ast.dump(inner) == ast.dump(self.boundary.last[name]):
                    lines.append(f"{name} = {self.tree.text(inner)}")
                    self.bound.discard(name)
                else:
                    lines.append(f"{name} = {self._joined(name, inner, self.boundary.last[name])}")
                    self.whole.add(name)
        body = [s for s in self.loop.body if not (self.boundary and s is self.boundary.stmt)]
        for name in sorted(self.whole):
            if any(_stores(stmt, name) for stmt in body):
                raise Skip(f"{name} is bound again below the branch")
        hoisted: list[ast.stmt] = []
        for stmt in body:
            if self._elementwise_assignment(stmt) and self._is_settled(stmt, body):
                assert isinstance(stmt, ast.Assign) and isinstance(stmt.targets[0], ast.Name)
                lines.append(f"{stmt.targets[0].id} = {self._at_all_steps(stmt.value)}")
                self.whole.add(stmt.targets[0].id)
                hoisted.append(stmt)
        left = [s for s in body if s not in hoisted]
        if not lines or not left:
            raise Skip(self.obstacle or self._unknown_row(body) or "each result in it depends on that of another step")
        for stmt in left:
            lines += self._hoist_from(edits, stmt)
        if self.other_shape and (node := self._seen_shape(left)) is not None:
            text = f"line {node.lineno}: {self.tree.text(node)}"
            raise Skip(f"{text} may depend on the shape of what follows the last step, which may be no row")
        for stmt in hoisted:
            edits.remove(stmt)
        if self.boundary:
            self._leave_choices(edits, self.boundary.stmt, kept)
        edits.before(self.loop, "\n".join(lines))

    def _unknown_row(self, body: Sequence[ast.stmt]) -> str | None:
        """The first read of a step's elements that are not known to be a row of a buffer."""
        for node in (n for stmt in body for n in walk(stmt) if isinstance(n, ast.Subscript)):
            read = isinstance(node.ctx, ast.Load) and self.index in names_in([node.slice])
            if read and ast.unparse(node.value) not in self.written and self._base(node, False) is None:
                return f"line {node.lineno}: {self.tree.text(node)} is not known to be a row of a buffer for each step"
        return None

    def _recurrent(self) -> set[str]:
        """Names for which the branch chooses a result of the next step, which the loop itself computes."""
        if not self.boundary:
            return set()
        names = set(self.boundary.inner)
        for side in (self.boundary.last, self.boundary.inner):
            for name, value in side.items():
                if also := sorted(names_in([value]) & names):
                    raise Skip(f"the branch chooses {name} by {also[0]}, which it also chooses")
        return {
            name
            for name, inner in self.boundary.inner.items()
            for n in ast.walk(inner)
            if isinstance(n, ast.Subscript) and ast.unparse(n.value) in self.written
        }

    def _leave_choices(self, edits: Edits, branch: ast.If, names: set[str]) -> None:
        """Leave in the branch only the choices of some names."""
        if not names:
            edits.remove(branch)
            return
        for stmt in (*branch.body, *branch.orelse):
            chosen = choices(stmt) or {}
            left = [n for n in chosen if n in names]
            if not left:
                edits.remove(stmt)
            elif len(left) < len(chosen):
                edits.replace(stmt, "\n".join(f"{n} = {self.tree.text(chosen[n])}" for n in left))

    def _check_scope(self) -> None:
        live = Liveness.of(self.tree.scope_of(self.loop).body).after[self.loop]
        if results := self.bound & live:
            raise Skip(f"{min(results)} of its last iteration is read after it")
        for node in (n for n in self.tree.of(ast.Name) if n.id in self.bound):
            if runs_elsewhere(self.tree, node, self.scope) and self.roles.is_ours(node, self.scope):
                raise Skip(f"line {node.lineno} uses {node.id} in a function")
        for stmt in statements(self.loop.body):
            if isinstance(stmt, (ast.For, ast.While, ast.Try, ast.With, ast.Break, ast.Continue, ast.Return)):
                raise Skip(f"line {stmt.lineno} has a {type(stmt).__name__.lower()} statement")

    def _check_rounding(self) -> None:
        """Check that the computations have the same bits for any memory layout of their operands.

        Raises:
            Skip: one may not, in the loop or hoisted out of it.
        """
        for node in (n for s in self.loop.body for n in ast.walk(s)):
            of_step = any(isinstance(n, ast.Subscript) for n in ast.walk(node)) or names_in([node]) & self.bound
            if not of_step:
                continue
            if isinstance(node, ast.Attribute) and not isinstance(self.tree.parents[node], ast.Call):
                if names_in([node]) & self.bound or self._of_step(node.value):
                    raise Skip(f"line {node.lineno}: {ast.unparse(node)} may have another value for all steps at once")
            if not isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Call)) or self._copies(node):
                continue
            if exact_operands(self.tree, node) is None:
                raise Skip(f"line {node.lineno}: {ast.unparse(node)} may be rounded differently for all steps at once")

    def _of_step(self, node: ast.expr) -> bool:
        """Whether an expression is an array at one step, or computed from one."""
        return any(isinstance(n, ast.Subscript) and self.index in names_in([n.slice]) for n in ast.walk(node))

    def _copies(self, node: ast.expr) -> bool:
        """Whether a node only copies its elements or converts one to a Python number."""
        if not isinstance(node, ast.Call):
            return isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.UAdd))
        if isinstance(node.func, ast.Name):
            return self.tree.names.builtin(node.func) in CONVERTS - {"complex"}
        return isinstance(node.func, ast.Attribute) and node.func.attr in COPIES and not self.tree.qualified(node.func)

    def _elementwise_assignment(self, stmt: ast.stmt) -> bool:
        return (
            isinstance(stmt, ast.Assign)
            and len(stmt.targets) == 1
            and isinstance(stmt.targets[0], ast.Name)
            and self._elementwise(stmt.value)
            and self._in_time(stmt.value)
        )

    def _is_settled(self, stmt: ast.stmt, body: Sequence[ast.stmt]) -> bool:
        """Whether only this statement binds its name in a turn, and nothing above it reads the previous value."""
        (name,) = (n.id for n in ast.walk(stmt) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        above = body[: body.index(stmt) + 1]
        return sum(_stores(s, name) for s in body) == 1 and not any(_reads(s, name) for s in above)

    def _changed(self, node: ast.expr) -> Held | None:
        """Where a turn may change what an expression reads, other than by binding a name."""
        for part in walk(node):
            if isinstance(part, (ast.Name, ast.Attribute, ast.Subscript)) and (things := self.world.of(part)):
                if (held := self.world.changes(things, self.loop.body)) is not None:
                    return held
        return None

    def _elementwise(self, node: ast.expr, shift: bool = False) -> bool:
        """Whether an expression's value at a step depends only on that step's elements, not on the recurrence."""
        if isinstance(node, ast.Constant):
            return True
        if isinstance(node, ast.Name):
            if node.id in self.whole:
                return True
            own = node.id in self.bound | self.written | {self.index} or self.tensors.tensor(node)
            return not own and self._changed(node) is None
        if isinstance(node, ast.Attribute):
            plain = isinstance(node.value, ast.Name) and node.value.id not in self.bound
            return (
                plain
                and self._changed(node) is None
                and (holds_options(self.tree, node.value, self.scope) or self._is_kept(node.attr))
            )
        if isinstance(node, ast.Subscript):
            return self._base(node, shift) is not None
        if isinstance(node, ast.IfExp):
            return not shift and self._choice(node) is not None
        operands = exact_operands(self.tree, node)
        if operands is None or not all(self._elementwise(operand, shift) for operand in operands):
            return False
        if isinstance(node, ast.Call) and self.tree.qualified(node.func) is None:  # a method of a known tensor
            return not calls_method(node, *MOVES) and self._in_time(operands[0])
        return True

    def _is_field(self, stmt: ast.stmt) -> bool:
        """Whether a statement of a class gives an attribute a plain value, or only declares it."""
        if not isinstance(stmt, (ast.Assign, ast.AnnAssign)):
            return False
        field = isinstance(stmt.value, ast.Call) and self.tree.calls(stmt.value, "dataclasses.field")
        return field or stmt.value is None or not any(isinstance(n, (ast.Call, ast.Name)) for n in ast.walk(stmt.value))

    def _is_kept(self, name: str) -> bool:
        """Whether an attribute of this name is stored in an object, and not computed by a class of the file."""
        return self.computed.isdisjoint({name, "__getattr__", "__getattribute__"})

    def _is_invariant(self, node: ast.expr) -> bool:
        """Whether an expression has the same value in all turns, and no side effects."""
        fine = (
            ast.Name,
            ast.Attribute,
            ast.Constant,
            ast.BinOp,
            ast.UnaryOp,
            ast.expr_context,
            ast.operator,
            ast.unaryop,
        )
        calls = (n for n in ast.walk(node) if isinstance(n, ast.Call))
        plain = all(isinstance(c.func, ast.Attribute) and c.func.attr in PURE for c in calls)
        if names_in([node]) & (self.bound | self.written | {self.index}) or self._changed(node) is not None:
            return False
        return plain and all(isinstance(n, (*fine, ast.Call)) for n in ast.walk(node))

    def _base(self, node: ast.Subscript, shift: bool) -> ast.expr | None:
        """`X` in `X[t]` (or in `X[t + 1]`, if `shift`), for an `X` that the loop does not write to."""
        ahead = is_one_more(node.slice, self.index)
        if not ahead and (shift or not isinstance(node.slice, ast.Name) or node.slice.id != self.index):
            return None
        if ast.unparse(node.value) in self.written or names_in([node.value]) & (self.bound | {self.index}):
            return None
        if self.shapes.rank(node.value) != self.rank or self._changed(node.value) is not None:
            return None
        if ahead and not shift and self.shapes.rows(node.value) != self.one_more:
            return None
        entry = isinstance(node.value, ast.Subscript) and isinstance(node.value.slice, ast.Constant)
        return node.value if entry or isinstance(node.value, (ast.Name, ast.Attribute)) else None

    def _in_time(self, node: ast.expr) -> bool:
        """Whether an elementwise expression depends on the step at all."""
        return any(
            not isinstance(n, ast.Name) or n.id in self.whole
            for n in _outermost(node, ast.Name, ast.Subscript, ast.IfExp)
        )

    def _at_all_steps(self, node: ast.expr) -> str:
        """The text of an elementwise expression for all steps at once."""
        edits: list[tuple[ast.expr, str]] = []
        for part in _outermost(node, ast.Subscript, ast.IfExp):
            if isinstance(part, ast.IfExp):
                edits.append((part, self._choice(part) or ""))
            elif isinstance(part, ast.Subscript) and (base := self._base(part, False)) is not None:
                edits.append((part, self.tree.text(base) + self._rows(base, is_one_more(part.slice, self.index))))
        text = self.tree.splice(node, edits)
        for part, new in edits:
            if isinstance(part, ast.IfExp):  # it needs no parentheses here
                text = re.sub(rf"(?<![\w\])])\({re.escape(new)}\)", new.replace("\\", r"\\"), text)
        return text

    def _rows(self, base: ast.expr, ahead: bool) -> str:
        """The slice of an array with one row per step: the step's own, or the next one."""
        rows, count, text = self.shapes.rows(base), self.shapes.spelled(self.count), self.tree.text(self.count)
        if rows == self.one_more:
            return "[1:]" if ahead else "[:-1]"
        return "" if rows == count else f"[:{text}]"

    def _choice(self, node: ast.IfExp) -> str | None:
        """The values of `last if t == T - 1 else X[t + 1]` at all steps; None if they cannot be determined."""
        body_is_last = tests_for_last_step(node.test, self.index, self.count, self.shapes)
        if body_is_last is None:
            return None
        last, inner = (node.body, node.orelse) if body_is_last else (node.orelse, node.body)
        try:
            return self._joined(ast.unparse(inner), inner, last)
        except Skip as skip:
            self.obstacle = self.obstacle or str(skip)
            return None

    def _joined(self, name: str, inner: ast.expr, last: ast.expr) -> str:
        """The chosen values of all steps: those of the next step, then the values after the last step."""
        bases = [b for n in ast.walk(inner) if isinstance(n, ast.Subscript) and (b := self._base(n, True)) is not None]
        if not bases or not self._elementwise(inner, shift=True):
            raise Skip(self._why_not_joined(name, inner))
        if not self._is_invariant(last):
            raise Skip(f"{name} at the last step is not a plain expression")
        for base in bases:
            if self.shapes.rows(base) != self.shapes.spelled(self.count):
                raise Skip(f"{ast.unparse(base)} is not known to have {ast.unparse(self.count)} rows")
        for part in (last, *bases):
            if not self.dtypes.float32(part):
                raise Skip(
                    f"{ast.unparse(part)} is not known to be float32 as the other steps are (line {part.lineno})"
                )
        edits = [
            (n, f"{self.tree.text(b)}[1:]")
            for n in ast.walk(inner)
            if isinstance(n, ast.Subscript) and (b := self._base(n, True)) is not None
        ]
        self.other_shape |= self.shapes.rank(last) != self.rank - 1
        ends = self.tree.text(last)
        ends = ends if isinstance(last, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)) else f"({ends})"
        whole = f"{ends}.expand_as({self.tree.text(bases[0])}[:1])"
        if self.rank == 1 and self.shapes.rank(last) not in (0, 1):  # one step has one element, of any shape
            whole = f"{ends}.reshape(1)"
        return f"torch.cat([{self.tree.splice(inner, edits)}, {whole}])"

    def _seen_shape(self, left: Sequence[ast.stmt]) -> ast.stmt | ast.expr | None:
        """The first part of the remaining statements that may distinguish the shapes `(n,)`, a row's, and `(1, n)`.

        Operations on all elements do not. A value that is stored in a tensor's row takes the shape of the row.
        """
        computed = self._computed_from_choices()
        for stmt in (stmt for stmt in left if names_in([stmt]) & computed):
            targets = stmt.targets if isinstance(stmt, ast.Assign) else []
            if not targets or not all(isinstance(target, (ast.Name, ast.Subscript)) for target in targets):
                return stmt  # an operation in place, or an unpacking
            for node in walk(stmt):
                if isinstance(node, ast.expr) and self._sees_shape(node, computed):
                    return node
        return None

    def _computed_from_choices(self) -> set[str]:
        """The names of the loop whose values depend on what follows the last step."""
        found = set(self.boundary.inner) if self.boundary else set[str]()
        while True:
            new = {
                name
                for stmt in statements(self.loop.body)
                if names_in([stmt]) & found or any(isinstance(node, ast.IfExp) for node in walk(stmt))
                for name in self.bound
                if _stores(stmt, name)
            }
            if new <= found:
                return found
            found |= new

    def _sees_shape(self, node: ast.expr, computed: set[str]) -> bool:
        """Whether an expression may distinguish them; `computed` are the names of values that may have either shape."""
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            is_tensor = self.tensors.tensor(node.value) or self.world.are_tensors(self.world.of(node.value))
            return not is_tensor  # a list keeps what it is given
        if not names_in([node]) & computed or isinstance(node, (ast.Name, *OF_ALL_ELEMENTS)):
            return False
        if isinstance(node, ast.Subscript):
            return bool(names_in([node.value]) & computed)
        if isinstance(node, ast.Attribute):
            return not isinstance(self.tree.parents[node], ast.Call)
        return not isinstance(node, ast.Call) or not self._any_shape(node)

    def _any_shape(self, call: ast.Call) -> bool:
        """Whether a call does the same for `(n,)` and `(1, n)`, except for the shape of its result."""
        if not self._copies(call) or isinstance(call.func, ast.Name):
            return True
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        row, given = OF["tensor"][method], call.args
        to_row = method in ("reshape", "view") and len(given) == 1 and is_number(given[0], -1)
        leading = method == "squeeze" and all(is_number(dim, 0) for dim in given)
        return row.rows == "element" or method == "item" or (row.flat and not given) or to_row or leading

    def _why_not_joined(self, name: str, inner: ast.expr) -> str:
        """Why the value of a name before the last step cannot be computed for all steps at once."""
        for node in (n for n in ast.walk(inner) if isinstance(n, ast.Subscript) and is_one_more(n.slice, self.index)):
            array = ast.unparse(node.value)
            if array in self.written:
                return f"line {node.lineno} reads {array}, which the loop writes"
            if (held := self._changed(node.value)) is not None:
                return f"line {held.lineno} {held.what.replace('it', array)}"
            if self.shapes.rank(node.value) is None:
                if isinstance(node.value, ast.Attribute):
                    return f"line {node.lineno} reads {array}, an attribute; only variables are followed"
                why = f"line {node.lineno} reads {array}, which is not known to be made by torch with a shape"
                return f"{why}: make it in an assignment of its own, `{array} = torch.zeros(...)`"
        return f"line {inner.lineno} computes {name} from more than the next step's rows"

    def _hoist_from(self, edits: Edits, stmt: ast.stmt) -> list[str]:
        """Compute the largest elementwise parts of a recurrence's statement for all steps before the loop."""
        if not isinstance(stmt, (ast.Assign, ast.AugAssign)):
            raise Skip(f"line {stmt.lineno} is neither elementwise nor a recurrence")
        lines: list[str] = []
        for part in self._largest(stmt.value):
            if isinstance(part, ast.Name):
                edits.substitute(part, f"{part.id}[{self.index}]")
            elif not (isinstance(part, ast.Subscript) and self._base(part, False) is not None):
                factor = isinstance(parent := self.tree.parents[part], ast.BinOp) and isinstance(parent.op, ast.Mult)
                name = self.tree.names.fresh("discount" if factor else "delta")
                lines.append(f"{name} = {self._at_all_steps(part)}")
                edits.substitute(part, f"{name}[{self.index}]")
        return lines

    def _largest(self, node: ast.expr) -> Sequence[ast.expr]:
        if self._elementwise(node) and self._in_time(node):
            return [node]
        children = [c for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr)]
        return [part for child in children for part in self._largest(child)]


def _outermost(node: ast.AST, *types: type[ast.expr]) -> Iterator[ast.expr]:
    """The outermost parts of an expression, or the expression itself, that are of some types."""
    if isinstance(node, types):
        yield node
    else:
        for child in ast.iter_child_nodes(node):
            yield from _outermost(child, *types)


def _stores(stmt: ast.stmt, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in ast.walk(stmt))


def _reads(stmt: ast.stmt, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in ast.walk(stmt))


TRANSFORM = Transform(INFO, apply)
