"""Whether each backward pass of an update reaches every parameter that its loss is computed with, in every minibatch.

If a loss does not reach a parameter, eager code leaves its gradient None. Compiled code sets it to zeros if the
parameter took part in the computation, and the optimizer then takes a step. So code may be compiled only if all
parameters are shown to be reached. The update is analysed once for each path through its conditions. Each value has two
sets of parameters: those that certainly get a gradient through it (`must`), and those that may (`may`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from transformer.dataflow.access import scope_access
from transformer.dataflow.grad_mode import disabled
from transformer.facts.libraries import module_methods
from transformer.facts.python import ACCESS, builtin_names
from transformer.facts.torch_api import MADE, OF, attributes, holders, names, of_optimizers
from transformer.recognition.optimizers import Optimizer
from transformer.recognition.roles import Roles
from transformer.syntax.options import holds_options
from transformer.syntax.query import (
    bind_arguments,
    calls_method,
    first_parameter,
    is_none,
    last_written,
    names_in,
    parameters,
    root,
    statements,
    unparse,
    walk,
)
from transformer.values.effects.interpreter import is_class
from transformer.values.effects.world import World
from transformer.values.networks.computing import in_constructor
from transformer.values.networks.results import loss_called

WAYS = 64
"""The maximum number of paths through the conditions of an update."""
DEEP = 12
"""The maximum depth of nested calls."""
FAR = 1000
"""Column offset that distinguishes the calls of layers inside one call of a `Sequential`."""

Found = frozenset[str]
NOTHING: Found = frozenset()

_STOPPED = names("tensor", "torch", "functional", "distribution", graph=False) | names(
    "tensor", "torch", memory="number"
)
"""Functions and methods whose results pass no gradient on."""
_FLOWS = names("tensor", "torch", "functional", "linalg", memory=("new", "shared"), graph=True, draws=False)
"""Functions and methods whose results pass gradients on to every float tensor among the arguments."""
_KEEPS = attributes(graph=True) | attributes("pair", graph=True)
"""Attributes that pass gradients on."""
_METHODS = names("tensor", "array", "distribution") | frozenset(dir(list)) | frozenset(dir(dict))
"""Methods of tensors, arrays, distributions and containers."""
TENSORS = MADE | holders("itself")
"""Functions that make a tensor which may be given to an optimizer by name."""
COMPILED = ("torch.compiler.is_compiling", "torch.is_tensor")
"""Conditions that are true when an update is compiled, or whose other branch computes no gradients."""
_NUMBERS = (
    attributes(memory="number") | attributes(memory="shared", graph=False) | module_methods(sets="mode", attribute=True)
)
_SPREADING = builtin_names(gives="of contents", calls=("", "key", "first of two"), pairs=False)
_USES = of_optimizers("stepping") | attributes(method="runs")
"""Methods that compute, clear or use gradients."""
_HOST = builtin_names(gives="nothing") | ACCESS


class _Unknown(Exception):
    """What the analysis does not follow; the message is a clause."""


class _Fork(Exception):
    """A condition that may be true or false."""


class _Return(Exception):
    def __init__(self, value: _Value) -> None:
        self.value = value


class _LeaveLoop(Exception):
    pass


class _Done(Exception):
    """The last pass is complete."""


@dataclass(frozen=True)
class _Value:
    """The parameters to which gradients flow through a value."""

    must: Found = NOTHING
    may: Found = NOTHING
    parts: tuple[_Value, ...] | None = None
    """For a tuple or list of known length: its elements. For layers called one after another: the layers."""
    path: str = ""
    """For a network: its expression in the training scope."""
    cls: ast.ClassDef | None = None
    """For an object, such as a network: its class in this file."""
    layer: bool = False
    """Whether the network is made only of torch's modules, so that every call uses all of its parameters."""
    opaque: str = ""
    """For a result of unknown code: each of its parts may come from different parameters."""
    none: bool = False
    truth: bool | None = None
    """For a constant, its truth value."""
    through: frozenset[tuple[str, ast.expr]] = field(default=frozenset(), compare=False)
    """Parameters that gradients may flow to, each with the expression for which this is not known."""

    def part(self, index: int | None) -> _Value:
        """An element of a sequence; if the index is unknown, what holds for all elements."""
        found = self._part(index)
        return replace(found, through=self.through | found.through) if self.through else found

    def _part(self, index: int | None) -> _Value:
        if self.parts is not None and index is not None and -len(self.parts) <= index < len(self.parts):
            return self.parts[index]
        if self.path:
            return replace(self, path=f"{self.path}[{'' if index is None else index}]", parts=None)
        if self.parts is not None:
            return _any_of(self.parts)
        if self.opaque and index is not None:
            one = frozenset((f"{self.opaque}[{index}]",))
            return _Value(one, one)
        return replace(self, none=False)


ANY = "*"
"""Stands for any optimizer, in a call that clears gradients but is not a method of an optimizer."""
NONE = _Value(none=True)
PLAIN = _Value()


def _joined(values: Iterable[_Value]) -> _Value:
    """A value computed from all of these values."""
    found = list(values)
    through = frozenset[tuple[str, ast.expr]]().union(*(v.through for v in found))
    return _Value(NOTHING.union(*(v.must for v in found)), NOTHING.union(*(v.may for v in found)), through=through)


def _any_of(values: Sequence[_Value]) -> _Value:
    """One of these values; which one is unknown."""
    if not values:
        return PLAIN
    return _Value(values[0].must.intersection(*(v.must for v in values)), NOTHING.union(*(v.may for v in values)))


def _perhaps(values: Iterable[_Value]) -> _Value:
    """A value that may be computed from some of these values."""
    return _Value(NOTHING, _joined(values).may)


@dataclass(frozen=True)
class Missed:
    """A parameter that a loss may not reach."""

    why: str
    advice: str


KNOWN = "write it with torch's layers and functions"


def unreached(
    roles: Roles, update: ast.FunctionDef, backward: Callable[[ast.Call], Sequence[ast.expr] | None]
) -> Missed | None:
    """Why the passes of an update may not reach a parameter that they compute with; None if they reach all.

    Args:
        roles: the script.
        update: the function.
        backward: for a call that computes gradients of an update, its losses; None for other calls.
    """
    if (other := _other_network(roles, update)) is not None:
        sets = f"line {other.lineno} sets {last_written(other)}"
        why = f"{sets}, so the loss may reach another network than its optimizer holds"
        return Missed(why, "keep each network under one name")
    open_ways: list[dict[str, bool]] = [{}]
    reaching, empty = set[ast.Call](), set[ast.Call]()
    for _ in range(WAYS):
        if not open_ways:
            never = min(empty - reaching, key=lambda c: c.lineno, default=None)
            loss = "" if never is None else f"the loss on line {never.lineno}"
            return Missed(f"it is not known which parameters {loss} reaches", KNOWN) if loss else None
        way = _Way(roles, update, backward, open_ways.pop())
        try:
            found = way.fault()
        except _Fork as fork:
            open_ways += [{**way.choices, str(fork): outcome} for outcome in (False, True)]
            continue
        except _Unknown as why:
            return Missed(f"it is not known which parameters the loss reaches: {why}", KNOWN)
        except RecursionError:
            return Missed("it is not known which parameters the loss reaches", KNOWN)
        if found is not None:
            return found
        reaching |= way.reaching
        empty |= way.empty
    return Missed("it has too many conditions to tell which parameters the loss reaches", "use fewer conditions")


def _other_network(roles: Roles, update: ast.FunctionDef) -> ast.Name | ast.Attribute | None:
    """Where training rebinds a name or attribute that may then be one of several networks, some held by an optimizer.

    Attributes set in a constructor do not count: they belong to a new object, not to the one that trains.
    """
    tree, world, stored = roles.tree, roles.get(World), dict[str, ast.Name | ast.Attribute]()
    called = [n for n in tree.of(ast.Call) if getattr(n.func, "id", "") == update.name]
    used = names_in([*called, update])
    for node in roles.run_by_training:
        if not isinstance(node, (ast.Name, ast.Attribute)) or isinstance(node.ctx, ast.Load):
            continue
        if isinstance(node, ast.Name):
            ours = tree.scope_of(node) is roles.scope
            if node.id in used and ours and isinstance(tree.statement(node), ast.Assign):
                stored.setdefault(node.id, node)
        elif not in_constructor(roles, node):
            stored.setdefault(f".{node.attr}", node)
    held = world.reach({t for o in roles.optimizers for t in world.of(o.call)}) if stored else frozenset()
    named = {f".{name.rpartition('.')[2]}" for name in roles.networks if "." in name}
    reads: tuple[ast.Name | ast.Attribute, ...] = (*tree.of(ast.Name), *tree.of(ast.Attribute)) if stored else ()
    for read in reads:
        key = read.id if isinstance(read, ast.Name) else f".{read.attr}"
        if key not in stored or not isinstance(read.ctx, ast.Load):
            continue
        if isinstance(read, ast.Name) and not roles.is_ours(read):
            continue
        found = world.of(read)
        if len(found) == 1 and all(map(world.is_single, found)):
            continue
        networks = all(world.is_module_object(t) and (t.kind == "instance" or is_class(t.name)) for t in found)
        if (networks and found & held) or (key in named and not world.is_known(found)):
            return stored[key]
    return None


def computed_back(call: ast.Call) -> list[ast.expr] | None:
    """The losses of a call of `backward()`; None for other calls."""
    return [call.func.value] if calls_method(call, "backward") else None


@dataclass
class _Frame:
    """A running function."""

    function: ast.FunctionDef
    key: str
    values: dict[str, _Value]
    bound: frozenset[str] = NOTHING


@dataclass
class _Pass:
    """A backward pass."""

    call: ast.Call
    loss: _Value
    values: dict[str, _Value]
    """All variables at that point."""
    steps: list[str] = field(default_factory=list)
    """The optimizers that step before the next pass."""
    cleared: list[str] = field(default_factory=list)
    """The optimizers whose gradients are cleared before the next pass, and before they are used."""

    def ends(self, optimizers: Sequence[Optimizer]) -> bool:
        """Whether gradients of these optimizers (if empty: any) are used or cleared before the next pass."""
        names = {o.name for o in optimizers}
        return bool(names.intersection((*self.steps, *self.cleared)) if names else self.steps) or ANY in self.cleared


class _Way:
    """One path through an update."""

    def __init__(
        self,
        roles: Roles,
        update: ast.FunctionDef,
        backward: Callable[[ast.Call], Sequence[ast.expr] | None],
        choices: dict[str, bool],
    ) -> None:
        self._roles, self._tree = roles, roles.tree
        self._update, self._backward = update, backward
        self.choices = choices
        self._passes: list[_Pass] = []
        self.reaching: set[ast.Call] = set()
        self.empty: set[ast.Call] = set()
        """The passes whose losses reach no parameters; `reaching` are the others."""
        calls = [n for n in walk(update) if isinstance(n, ast.Call)]
        self._last = max((c for c in calls if backward(c) is not None), key=lambda c: c.lineno, default=None)
        self._steps = [
            unparse(c.func.value)
            for c in calls
            if roles.is_step(c) and self._last is not None and c.lineno > self._last.lineno
        ]
        self._read = {unparse(n) for n in walk(update) if isinstance(getattr(n, "ctx", None), ast.Load)}
        self._off = False
        self._parts: list[list[_Value]] = [[]]
        """Parts of the expressions that are being evaluated, innermost last, with their values."""

    def fault(self) -> Missed | None:
        """A parameter that a pass does not reach on this path."""
        frame = _Frame(self._update, "", {}, scope_access(self._update.body).binds)
        with suppress(_Return, _Done):
            self._follow_block(frame, self._update.body, 0)
        for summed, optimizers in self._sums():
            call = summed[-1].call
            must = NOTHING.union(*(p.loss.must for p in summed))
            if not must and not any(p.loss.may for p in summed):  # a sum of no losses, an error in eager code too
                self.empty.add(call)
                continue
            self.reaching.add(call)
            used = NOTHING.union(*(v.may for p in summed for n, v in p.values.items() if n in self._read))
            used = used.union(*(p.loss.may for p in summed))
            missed = sorted(t for t in used - must if self._is_held(t, optimizers))
            through = [one for p in summed for one in p.loss.through if one[0] in missed]
            if through:
                token, unclear = min(through, key=lambda one: (one[0], one[1].lineno, one[1].col_offset))
                text = f"{unparse(unclear.func)}()" if isinstance(unclear, ast.Call) else unparse(unclear)
                reaches = f"the loss on line {call.lineno} reaches {token} through {text} on line {unclear.lineno}"
                return Missed(f"it is not known whether {reaches}", KNOWN)
            if missed:
                return Missed(
                    f"the loss on line {call.lineno} does not always reach {missed[0]}, with which it is computed",
                    "use a network only for what the loss needs",
                )
        return None

    def _sums(self) -> Iterator[tuple[list[_Pass], list[Optimizer]]]:
        """The passes whose gradients are summed before optimizers step, and the optimizers ([] if unknown)."""
        last = len(self._passes) - 1
        for end in (i for i, one in enumerate(self._passes) if one.steps or i == last):
            steps = dict.fromkeys(self._passes[end].steps)
            # an optimizer made in several places may hold the arguments of any of them
            by_name = {name: [o for o in self._roles.optimizers if o.name == name] for name in steps}
            for optimizers in by_name.values() if by_name and all(by_name.values()) else [list[Optimizer]()]:
                begins = end
                while begins and not self._passes[begins - 1].ends(optimizers):
                    begins -= 1
                yield self._passes[begins : end + 1], optimizers

    def _is_held(self, token: str, optimizers: Sequence[Optimizer]) -> bool:
        """Whether some optimizers may hold a parameter; true if the optimizers are unknown."""
        path = token.partition("(")[0]
        start = re.split(r"[.\[]", path)[0]
        if not optimizers:
            return True
        held = {p for o in optimizers for v in o.params for p in self._prefixes(o, v)}
        if None in held or not held:
            return True
        if any(re.split(r"[.\[]", p)[0] == start for p in held if p is not None):
            return any(p is not None and (_is_path_in(path, p) or _is_path_in(p, path)) for p in held)
        if start in self._roles.modules or start == "self":
            return False
        world = self._roles.get(World)
        given = [n for o in optimizers for v in o.params for n in walk(v) if isinstance(n, ast.expr)]
        roots = {t for p in held if p is not None for t in world.named(re.split(r"[.\[]", p)[0])}
        own, theirs = world.reach(world.named(start)), world.reach(roots.union(*map(world.of, given)))
        if theirs and world.is_known(own) and own.isdisjoint(theirs):
            return False  # another network, such as a copy that a function of the file makes
        made = [value for _, value in self._roles.assignments(start)]
        ours = {*self._roles.modules, *(p for p in held if p is not None)}
        return not made or not all(
            self._tree.qualified(_innermost_callee(v)) and not {n.id for n in walk(v) if isinstance(n, ast.Name)} & ours
            for v in made
        )

    def _prefixes(self, optimizer: Optimizer, value: ast.expr, depth: int = 4) -> list[str | None]:
        """The objects whose parameters an argument holds: `agent` in `agent.parameters()`; None if unknown."""
        if isinstance(value, ast.Name) and depth:
            made = self._roles.only_value(value.id)
            if made is None:
                return [None]
            return [value.id] if self._tree.calls(made, *TENSORS) else self._prefixes(optimizer, made, depth - 1)
        if isinstance(value, ast.Attribute):
            cls = self._tree.class_of_self(value.value, self._tree.scope_of(optimizer.stmt))
            kept = _values_of_own(cls, value.attr) if cls is not None else []
            holder = optimizer.name.rpartition(".")[0]
            stored = [n for n in self._tree.of(ast.Attribute) if n.attr == value.attr and isinstance(n.ctx, ast.Store)]
            if not holder or len(stored) != 1 or len(kept) != 1:
                return [None]
            if depth and self._is_list_of(value, kept[0]):
                return self._prefixes(optimizer, kept[0], depth - 1)
            return [f"{holder}.{value.attr}" if self._tree.calls(kept[0], *TENSORS) else None]
        if isinstance(value, (ast.List, ast.Tuple)):
            return [p for part in value.elts for p in self._prefixes(optimizer, part, depth)]
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
            return [p for part in (value.left, value.right) for p in self._prefixes(optimizer, part, depth)]
        if isinstance(value, ast.Dict):
            found = [v for k, v in zip(value.keys, value.values, strict=True) if k and unparse(k) == "'params'"]
            return [p for part in found for p in self._prefixes(optimizer, part, depth)] or [None]
        if isinstance(value, ast.Call):
            if unparse(value.func) in ("list", "tuple") or self._tree.calls(value, "itertools.chain"):
                return [p for part in value.args for p in self._prefixes(optimizer, part, depth)]
            if isinstance(value.func, ast.Attribute) and value.func.attr == "parameters" and not value.args:
                path = unparse(value.func.value)
                if path.partition(".")[0] == "self":  # the name in the training scope
                    owner = optimizer.name.rpartition(".")[0]
                    path = f"{owner}{path.removeprefix('self')}" if owner else path
                return [path]
        return [None]

    def _is_list_of(self, value: ast.expr, made: ast.expr) -> bool:
        """Whether a value is a list that an expression makes and that never changes."""
        world = self._roles.get(World)
        lists, inside = world.of(value), {*walk(made)}
        named = {n.id for n in inside if isinstance(n, ast.Name) and not self._tree.names.builtin(n)}
        made_there = bool(lists) and all(t.kind == "list" and t.node in inside for t in lists)
        known = made_there and world.is_known(lists) and named <= {"self", *self._tree.only_imported}
        return known and lists.isdisjoint(thing for _, _, thing in world.changed())

    # statements

    def _follow_block(self, frame: _Frame, body: Sequence[ast.stmt], depth: int) -> None:
        for stmt in body:
            self._follow_statement(frame, stmt, depth)

    def _follow_statement(self, frame: _Frame, stmt: ast.stmt, depth: int) -> None:
        if isinstance(stmt, ast.Assign):
            value = self._value(frame, stmt.value, depth)
            for target in stmt.targets:
                self._bind_value(frame, target, value, depth)
        elif isinstance(stmt, ast.AnnAssign):
            if stmt.value is not None:
                self._bind_value(frame, stmt.target, self._value(frame, stmt.value, depth), depth)
        elif isinstance(stmt, ast.AugAssign):
            loaded = ast.copy_location(ast.parse(unparse(stmt.target), mode="eval").body, stmt.target)
            before, after = self._value(frame, loaded, depth), self._value(frame, stmt.value, depth)
            if before.parts is not None and after.parts is not None:
                value = _Value(
                    parts=before.parts + after.parts, may=before.may | after.may, must=before.must | after.must
                )
            else:
                value = _joined((before, after))
            self._bind_value(frame, stmt.target, value, depth)
        elif isinstance(stmt, ast.Expr):
            self._value(frame, stmt.value, depth)
        elif isinstance(stmt, ast.Return):
            raise _Return(PLAIN if stmt.value is None else self._value(frame, stmt.value, depth))
        elif isinstance(stmt, ast.If):
            self._follow_branch(frame, stmt, depth)
        elif isinstance(stmt, ast.For):
            self._loop(frame, stmt, depth)
        elif isinstance(stmt, ast.With):
            self._with(frame, stmt, depth)
        elif isinstance(stmt, (ast.Break, ast.Continue)):
            raise _LeaveLoop
        elif isinstance(stmt, ast.Delete):
            for target in stmt.targets:
                frame.values.pop(unparse(target), None)
        elif isinstance(stmt, ast.Assert):
            self._value(frame, stmt.test, depth)
        elif not isinstance(stmt, (ast.Pass, ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom, ast.Raise)):
            raise _Unknown(f"line {stmt.lineno} is a statement that the analysis does not follow")

    def _follow_branch(self, frame: _Frame, stmt: ast.If, depth: int) -> None:
        try:
            holds = self._holds(frame, stmt.test, depth)
        except _Fork:
            if self._makes_no_difference(frame, stmt, depth):
                return
            raise
        self._follow_block(frame, stmt.body if holds else stmt.orelse, depth)

    def _makes_no_difference(self, frame: _Frame, stmt: ast.If, depth: int) -> bool:
        """Whether both branches leave the same values; if so, the frame keeps them and the path does not fork."""
        if any(isinstance(n, ast.NamedExpr) for n in walk(stmt.test)):
            return False
        before, passes = frame.values, [replace(p, steps=[*p.steps], cleared=[*p.cleared]) for p in self._passes]
        left: list[dict[str, _Value]] = []
        for body in (stmt.body, stmt.orelse):
            frame.values = dict(before)
            try:
                self._follow_block(frame, body, depth)
            except (_Return, _LeaveLoop, _Done):
                break
            if self._passes != passes:
                break
            left.append(frame.values)
        frame.values, self._passes = before, passes
        if len(left) != 2:
            return False
        one, other = left
        inside = set(walk(stmt))
        alone = one.keys() ^ other.keys()
        read = {unparse(n) for n in walk(frame.function) if n not in inside and hasattr(n, "ctx")} if alone else set()
        if alone & read or any(one[name] != other[name] for name in one.keys() & other.keys()):
            return False
        frame.values = {**one, **other}
        return True

    def _loop(self, frame: _Frame, loop: ast.For, depth: int) -> None:
        items = self._value(frame, loop.iter, depth)
        listed = items.path if "[" not in items.path else ""  # a list of layers that an object keeps
        if not self._chosen(f"{listed or f'{frame.key}{loop.lineno}'}: runs"):
            self._follow_block(frame, loop.orelse, depth)
            return
        for _ in range(2):  # the second iteration sees what the first leaves
            self._bind_value(frame, loop.target, items.part(None), depth)
            try:
                self._follow_block(frame, loop.body, depth)
            except _LeaveLoop:
                continue
        self._follow_block(frame, loop.orelse, depth)

    def _with(self, frame: _Frame, block: ast.With, depth: int) -> None:
        before, off = self._off, disabled(self._tree, [item.context_expr for item in block.items])
        self._off = before if off is None else off
        try:
            self._follow_block(frame, block.body, depth)
        finally:
            self._off = before

    def _holds(self, frame: _Frame, test: ast.expr, depth: int) -> bool:
        """The value of a condition on this path."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return not self._holds(frame, test.operand, depth)
        if isinstance(test, ast.Constant):
            return bool(test.value)
        value = self._value(frame, test, depth)
        if value.truth is not None and frame.key:
            return value.truth
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
            other = test.comparators[0]
            if isinstance(other, ast.Constant) and other.value is None and isinstance(test.left, ast.Name):
                known = frame.values.get(test.left.id)
                if known is not None and frame.key and test.left.id in parameters(frame.function):
                    return known.none == isinstance(test.ops[0], ast.Is)
        if self._tree.calls(test, *COMPILED):
            return True
        used = {n.id for n in walk(test) if isinstance(n, ast.Name)}
        calls = any(isinstance(n, (ast.Call, ast.Await)) for n in walk(test))
        same = not calls and not used & frame.bound
        where = "" if same else f"{test.lineno}:{test.col_offset} "
        return self._chosen(f"{frame.key}{where}{unparse(test)}")

    def _chosen(self, key: str) -> bool:
        if key not in self.choices:
            raise _Fork(key)
        return self.choices[key]

    def _bind_value(self, frame: _Frame, target: ast.expr, value: _Value, depth: int) -> None:
        if isinstance(target, ast.Starred):
            self._bind_value(frame, target.value, _perhaps([value]), depth)
        elif isinstance(target, (ast.Tuple, ast.List)):
            starred = any(isinstance(e, ast.Starred) for e in target.elts)
            for i, element in enumerate(target.elts):
                self._bind_value(frame, element, value.part(None if starred else i), depth)
        elif isinstance(target, (ast.Name, ast.Attribute)):
            frame.values[unparse(target)] = value
        else:  # an entry of something
            owner: ast.expr = target
            while isinstance(owner, (ast.Subscript, ast.Attribute)):
                owner = owner.value
            held = frame.values.get(unparse(owner), PLAIN)
            frame.values[unparse(owner)] = _Value(held.must, held.may | value.may)

    # expressions

    def _value(self, frame: _Frame, node: ast.expr, depth: int) -> _Value:
        self._parts.append([])
        try:
            value = self._computed(frame, node, depth)
        finally:
            parts = _joined(self._parts.pop())
        unclear = {(t, node) for t in (parts.must & value.may) - value.must}
        unclear.update(one for one in parts.through if one[0] in value.may)
        if unclear:
            value = replace(value, through=value.through | unclear)
        self._parts[-1].append(value)
        if self._off and (value.must or value.may):
            return replace(value, must=NOTHING, may=NOTHING, parts=None, opaque="")
        return value

    def _computed(self, frame: _Frame, node: ast.expr, depth: int) -> _Value:
        def of(part: ast.expr) -> _Value:
            return self._value(frame, part, depth)

        if isinstance(node, ast.Constant):
            return NONE if node.value is None else _Value(truth=bool(node.value))
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self._value_of_name(frame, node, depth)
        if isinstance(node, ast.Call):
            return self._value_of_call(frame, node, depth)
        if isinstance(node, ast.BinOp):
            left, right = of(node.left), of(node.right)
            if isinstance(node.op, ast.Add) and left.parts is not None and right.parts is not None:
                both = _joined((left, right))
                return _Value(both.must, both.may, left.parts + right.parts)
            return PLAIN if isinstance(node.op, (ast.BitAnd, ast.BitOr, ast.BitXor)) else _joined((left, right))
        if isinstance(node, ast.UnaryOp):
            value = of(node.operand)
            return _joined((value,)) if isinstance(node.op, (ast.USub, ast.UAdd)) else PLAIN
        if isinstance(node, ast.Compare):
            for part in (node.left, *node.comparators):
                of(part)
            return PLAIN
        if isinstance(node, ast.BoolOp):
            return _perhaps([of(v) for v in node.values])
        if isinstance(node, ast.IfExp):
            try:
                return of(node.body if self._holds(frame, node.test, depth) else node.orelse)
            except _Fork:
                if any(isinstance(n, ast.NamedExpr) for n in walk(node)):
                    raise
                value = of(node.body)
                if value != of(node.orelse):
                    raise
                return value
        if isinstance(node, ast.Subscript):
            value, index = of(node.value), node.slice
            of(index)
            if (
                isinstance(index, ast.UnaryOp)
                and isinstance(index.op, ast.USub)
                and isinstance(index.operand, ast.Constant)
            ):
                return value.part(-index.operand.value) if isinstance(index.operand.value, int) else value.part(None)
            at = index.value if isinstance(index, ast.Constant) and isinstance(index.value, int) else None
            return value.part(at)
        if isinstance(node, (ast.Tuple, ast.List)):
            parts = [of(e.value if isinstance(e, ast.Starred) else e) for e in node.elts]
            whole = _joined(parts)
            starred = any(isinstance(e, ast.Starred) for e in node.elts)
            return _Value(whole.must, whole.may, None if starred else tuple(parts))
        if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
            return self._comprehension(frame, node, depth)
        if isinstance(node, ast.Starred):
            return of(node.value)
        if isinstance(node, ast.NamedExpr):
            value = of(node.value)
            self._bind_value(frame, node.target, value, depth)
            return value
        if isinstance(node, ast.Slice):
            for bound in (node.lower, node.upper, node.step):
                if bound is not None:
                    of(bound)
            return PLAIN
        if isinstance(node, (ast.Dict, ast.Set, ast.JoinedStr, ast.FormattedValue, ast.DictComp, ast.SetComp)):
            held = [self._value(frame, n, depth) for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
            return _perhaps(held) if isinstance(node, (ast.Dict, ast.Set)) else PLAIN
        if isinstance(node, ast.Lambda):
            return PLAIN
        raise _Unknown(f"line {node.lineno} is an expression that the analysis does not follow")

    def _comprehension(self, frame: _Frame, node: ast.GeneratorExp | ast.ListComp, depth: int) -> _Value:
        inner = replace(frame, values=dict(frame.values))
        for generator in node.generators:
            items = self._value(inner, generator.iter, depth)
            self._bind_value(inner, generator.target, items.part(None), depth)
        if not self._chosen(f"{frame.key}{node.lineno}:{node.col_offset} runs"):
            return PLAIN
        element = self._value(inner, node.elt, depth)
        chosen = any(g.ifs for g in node.generators)
        return _perhaps([element]) if chosen else _Value(element.must, element.may)

    def _value_of_name(self, frame: _Frame, node: ast.Name | ast.Attribute, depth: int) -> _Value:
        text = unparse(node)
        if text in frame.values:
            return frame.values[text]
        if isinstance(node, ast.Name):
            if text in frame.bound or (frame.key and text in parameters(frame.function)):
                return PLAIN
            return (None if text == "self" else self._object(node, text)) or self._training_name(text)
        if self._tree.qualified(node) is not None:
            return PLAIN
        owner = self._value(frame, node.value, depth)
        if node.attr in _NUMBERS:
            return PLAIN
        if owner.path:
            return self._value_of_attribute(owner, node)
        return _joined((owner,)) if node.attr in _KEEPS else _perhaps((owner,))

    def _object(self, node: ast.expr, path: str) -> _Value | None:
        """An expression as an object of a class of this file: of the class that it has on this path."""
        cls = self._one_of(path, self._roles.get(World).classes(node), {})
        return None if cls is None else _Value(path=path, cls=cls)

    def _one_of(
        self, path: str, classes: Sequence[ast.ClassDef], made: Mapping[ast.expr, ast.ClassDef | None]
    ) -> ast.ClassDef | None:
        """The class that an object has on this path of the update; None if something else may have made it.

        Args:
            path: the object.
            classes: the classes that it may have.
            made: the expressions that make it, each with its class, if known.
        """
        each = list(dict.fromkeys(classes))
        last = None if None in made.values() else each[-1:]
        for cls in each:
            some, rest = ([v for v, c in made.items() if (c is cls) == own] for own in (True, False))
            if [cls] == last or self._is_made_by(path, cls, some, rest):
                return cls
        return None

    def _is_made_by(self, path: str, cls: ast.ClassDef, some: Sequence[ast.expr], rest: Sequence[ast.expr]) -> bool:
        """Whether, on this path, some of several values make an object; all choices of one `if` go the same way."""
        test = next((n for v in some[:1] for n in self._tree.ancestors(v) if isinstance(n, ast.If)), None)
        if test is not None and rest:
            holds = f"{path.rpartition('.')[0]}: line {test.lineno} holds"
            body, orelse = ({n for s in block for n in walk(s)} for block in (test.body, test.orelse))
            if body.issuperset(some) and orelse.issuperset(rest):
                return self._chosen(holds)
            if orelse.issuperset(some) and body.issuperset(rest):
                return not self._chosen(holds)
        return self._chosen(f"{path} is a {cls.name}")

    def _training_name(self, name: str) -> _Value:
        """The value of a name of the training scope: a network, a single parameter, or something without parameters."""
        cls = None
        if name == "self":
            owner = next((n for n in self._tree.ancestors(self._update) if isinstance(n, ast.ClassDef)), None)
            return _Value(path="self", cls=owner) if owner is not None else PLAIN
        made = [value for _, value in self._roles.assignments(name)]
        new = [value for value in made if not is_none(value) and name not in names_in([value])]
        calls_of = {value: self._tree.constructor(value) for value in new}
        class_of = {v: self._tree.classes[unparse(c.func)] if c else None for v, c in calls_of.items()}
        if cls := self._one_of(name, [c for c in class_of.values() if c], class_of):
            return _Value(path=name, cls=cls)
        if any("requires_grad" in unparse(v) or "Parameter" in unparse(v) for v in made) or self._is_optimized(name):
            one = frozenset((name,))
            return _Value(one, one)
        if name in self._roles.modules:
            layer = bool(made) and all(
                (self._tree.qualified(_innermost_callee(v)) or "").startswith("torch.nn.") for v in made
            )
            return _Value(path=name, layer=layer)
        held = [self._tree.constructor(e) for v in made if isinstance(v, (ast.List, ast.Tuple)) for e in v.elts]
        if any(c is not None for c in held):
            classes = {unparse(c.func) for c in held if c is not None}
            cls = self._tree.classes[min(classes)] if len(classes) == 1 and all(held) else None
            return _Value(path=name, cls=cls)
        if len(made) == 1 and isinstance(made[0], (ast.Name, ast.Attribute)) and name not in names_in(made):
            frame = _Frame(self._update, "", {})
            return self._value_of_name(frame, made[0], 0)
        if any(isinstance(n, ast.Name) and self._is_handed_on(n) for v in made for n in walk(v)):
            return _Value(path=name)  # the value may hold parameters
        return PLAIN

    def _is_handed_on(self, name: ast.Name) -> bool:
        """Whether an expression stores or passes on a network, rather than only calls it."""
        node: ast.AST = name
        while isinstance(parent := self._tree.parents.get(node), ast.Attribute):
            node = parent
        path = unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
        network = any(_is_path_in(path, held) or _is_path_in(held, path) for held in self._roles.networks)
        return network and not (isinstance(parent, ast.Call) and parent.func is node)

    def _is_optimized(self, name: str) -> bool:
        """Whether a tensor is given to an optimizer by this name."""
        return any(
            isinstance(n, ast.Name) and n.id == name and isinstance(self._tree.parents[n], (ast.List, ast.Tuple))
            for o in self._roles.optimizers
            for a in o.params
            for n in walk(a)
        )

    def _value_of_attribute(self, owner: _Value, node: ast.Attribute) -> _Value:
        """An attribute of an object: a part of a network, a parameter, or something without parameters."""
        name, path = node.attr, f"{owner.path}.{node.attr}"
        if owner.cls is None:
            return _Value(path=path, layer=owner.layer)
        if (known := self._object(node, path)) is not None:
            return known
        made = [v for c in self._tree.lineage(owner.cls) for v in _values_of_own(c, name)]
        if not made:
            return PLAIN
        for value in made:
            calls = [n for n in walk(value) if isinstance(n, ast.Call)]
            if any("Parameter" in unparse(_innermost_callee(n)) or "requires_grad" in unparse(n) for n in calls):
                one = frozenset((path,))
                return _Value(one, one)
        if len(made) == 1 and (sequence := self._sequence(path, made[0])) is not None:
            return sequence
        calls_of = {v: self._tree.constructor(v) for v in made if not is_none(v)}
        class_of = {v: self._tree.classes[unparse(c.func)] if c else None for v, c in calls_of.items()}
        if inner := self._one_of(path, [c for c in class_of.values() if c], class_of):
            return _Value(path=path, cls=inner)
        made = [v for v, cls in class_of.items() if cls is None] or made
        if all(isinstance(v, (ast.Constant, ast.Name, ast.BinOp)) for v in made):
            given = any(isinstance(v, ast.Name) for v in made)
            network = any(path in unparse(given) for o in self._roles.optimizers for given in o.params)
            return _Value(path=path) if given and (network or path in self._roles.networks) else PLAIN
        if all(map(self._is_constant, made)):
            return PLAIN
        return _Value(path=path, layer=all(map(self._is_of_torch, made)))

    def _sequence(self, path: str, value: ast.expr) -> _Value | None:
        """Layers in an `nn.Sequential`, some of which are of classes of this file; None for anything else."""
        if not isinstance(value, ast.Call) or self._tree.qualified(value.func) != "torch.nn.Sequential":
            return None
        made = [part for part in value.args if isinstance(part, ast.Call)]
        classes = [self._tree.classes.get(unparse(part.func)) for part in made]
        inner = [self._sequence(f"{path}[{i}]", part) for i, part in enumerate(made)]
        others = [part for part, cls, one in zip(made, classes, inner, strict=True) if not (cls or one)]
        if len(made) < len(value.args) or value.keywords or not all(map(self._is_of_torch, others)):
            return None
        plain = (_Value(path=f"{path}[{i}]", cls=cls, layer=cls is None) for i, cls in enumerate(classes))
        parts = tuple(known or one for known, one in zip(inner, plain, strict=True))
        return _Value(path=path, parts=parts) if len(others) < len(made) else None

    def _is_constant(self, value: ast.expr) -> bool:
        """Whether a value is made by tensor functions of torch, and is not a parameter."""
        calls = [n for n in walk(value) if isinstance(n, ast.Call)]
        made = [(self._tree.qualified(_innermost_callee(c)) or "").rpartition(".") for c in calls]
        tensors = all(module == "torch" and name in names("torch", memory="new") for module, _, name in made)
        return bool(calls) and tensors and "requires_grad" not in unparse(value)

    def _is_of_torch(self, value: ast.expr) -> bool:
        """Whether a module is made of torch's layers and of classes of this file without conditions."""
        calls = [n for n in walk(value) if isinstance(n, ast.Call)]
        if not calls:
            return False
        for call in calls:
            if any(isinstance(n, ast.Starred) for n in call.args) and not self._spreads_layers(call):
                return False
            cls = self._tree.classes.get(unparse(call.func))
            if cls is not None and not self._is_unconditional(cls):
                return False
        names_of = [self._tree.qualified(c.func) or "" for c in calls]
        if any(name.startswith("torch.nn.") for name in names_of):
            return True
        # a function of this file that makes a module
        made = [self._tree.helper_called(c) for c in calls]
        inner = [n for f in made if f is not None for n in walk(f) if isinstance(n, ast.Call)]
        return any((self._tree.qualified(c.func) or "").startswith("torch.nn.") for c in inner) and all(
            self._is_unconditional(cls) for c in inner if (cls := self._tree.classes.get(unparse(c.func))) is not None
        )

    def _spreads_layers(self, call: ast.Call) -> bool:
        return (self._tree.qualified(call.func) or "").startswith("torch.nn.")

    def _is_unconditional(self, cls: ast.ClassDef) -> bool:
        """Whether a module's methods contain no branches and record all gradients."""
        methods = [m for m in cls.body if isinstance(m, ast.FunctionDef) and m.name != "__init__"]
        return not any(
            isinstance(n, (ast.If, ast.IfExp, ast.While, ast.Try, ast.With))
            or (isinstance(n, ast.Attribute) and n.attr in ("detach", "data", "no_grad"))
            for m in methods
            for n in walk(m)
        )

    def _method_named(self, cls: ast.ClassDef, name: str) -> ast.FunctionDef | None:
        for one in self._tree.lineage(cls):
            for stmt in one.body:
                if isinstance(stmt, ast.FunctionDef) and stmt.name == name:
                    return stmt
        return None

    # calls

    def _value_of_call(self, frame: _Frame, call: ast.Call, depth: int) -> _Value:
        losses = self._backward(call)
        if losses is not None and not frame.key:
            found = _joined([self._value(frame, loss, depth) for loss in losses])
            self._passes.append(_Pass(call, found, dict(frame.values)))
            if call is self._last:
                self._passes[-1].steps += self._steps
                raise _Done
            return PLAIN
        func = call.func
        history = self._roles.history
        if isinstance(func, ast.Attribute) and (self._roles.is_step(call) or func.attr == "zero_grad"):
            name = unparse(func.value)
            if self._passes and func.attr == "step":
                self._passes[-1].steps.append(name)
            elif self._passes and name not in self._passes[-1].steps:
                known = any(o.name == name for o in self._roles.optimizers)
                self._passes[-1].cleared.append(name if known else ANY)
            return PLAIN
        if isinstance(func, ast.Name) and func.id == history.policy and history.policy_target is not None:
            func = ast.copy_location(ast.parse(history.policy_target, mode="eval").body, func)
            call = ast.copy_location(ast.Call(func, call.args, call.keywords), call)
        given = [self._value(frame, a, depth) for a in call.args]
        given += [self._value(frame, k.value, depth) for k in call.keywords]
        called = self._tree.qualified(func) or loss_called(self._tree, func)
        if called:
            return self._of_library(called, call, given)
        if isinstance(func, ast.Name) and func.id not in frame.values:
            own = self._distribution_of(frame) if func.id == "super" and not given else None
            if own is not None:
                return replace(own, cls=None)  # the methods of torch's class
            if self._tree.names.builtin(func):
                return self._builtin(func.id, given)
            if (cls := self._tree.classes.get(func.id)) is not None and self._is_distribution(cls):
                return replace(_joined(given), cls=cls)
            if func.id == history.sampler:
                return PLAIN
            function = self._tree.helper_called(call)
            if function is not None and function is not self._update:
                if self._tree.parents[function] not in (self._tree.root, self._roles.scope):
                    raise _Unknown(f"line {call.lineno} calls {func.id}(), which a function defines for itself")
                return self._followed(frame, function, call, None, depth)
            around = {*self._tree.ancestors(call)}
            if function is None and any(self._tree.parents[f] in around for f in self._tree.functions(func.id)):
                raise _Unknown(f"it is not known which function {func.id}() is on line {call.lineno}")
        if isinstance(func, ast.Attribute):
            if (above := self._method_above(frame, func)) is not None:
                return self._followed(frame, above[0], call, above[1], depth)
            owner = self._value(frame, func.value, depth)
            own_method = self._method_named(owner.cls, func.attr) if owner.cls and not owner.path else None
            if own_method is not None:
                return self._followed(frame, own_method, call, owner, depth)
            if not owner.path:
                return self._of_value(frame, owner, func, given)
            if func.attr in ("parameters", "named_parameters", "state_dict", "train", "eval", "size", "children"):
                return PLAIN
            method = self._method_named(owner.cls, func.attr) if owner.cls is not None else None
            if method is not None:
                return self._followed(frame, method, call, owner, depth)
            kept = None if func.attr == "forward" else self._of_kept(frame, owner, func, call, given, depth)
            if kept is not None:
                return kept
            target = owner if func.attr == "forward" else self._value_of_attribute(owner, func)
            if not target.path:  # a function that was passed to the object
                target = _Value(path=f"{owner.path}.{func.attr}")
        elif isinstance(func, ast.Call) and (self._tree.qualified(func.func) or "").startswith("torch.nn."):
            return _joined(given)  # a layer made here is in no optimizer
        else:
            target = self._value(frame, func, depth)
        return self._of_object(frame, target, call, given, depth)

    def _method_above(self, frame: _Frame, func: ast.Attribute) -> tuple[ast.FunctionDef, _Value] | None:
        """The method that `super().forward` is, and its object; None if a class has more than one base."""
        asked, cls, own = func.value, self._tree.parents[frame.function], first_parameter(frame.function) or ""
        if not isinstance(asked, ast.Call) or self._tree.names.builtin(asked.func) != "super" or asked.keywords:
            return None
        owner = frame.values.get(own)
        if not isinstance(cls, ast.ClassDef) or owner is None or owner.cls is None or own in frame.bound:
            return None
        if asked.args and list(map(unparse, asked.args)) != [cls.name, own]:
            return None
        lineage = self._tree.lineage(owner.cls)
        if cls not in lineage or any(len(one.bases) != 1 for one in lineage):
            return None
        base = next((one for one in lineage if unparse(cls.bases[0]) == one.name), None)
        method = None if base is None else self._method_named(base, func.attr)
        return None if method is None else (method, owner)

    def _distribution_of(self, frame: _Frame) -> _Value | None:
        """The object of the running method, if it is a distribution of a class of this file."""
        own = frame.values.get(first_parameter(frame.function) or "")
        return own if own is not None and own.cls is not None and not own.path else None

    def _is_distribution(self, cls: ast.ClassDef) -> bool:
        """Whether a class only adds plain methods to distributions of torch, as policies often do."""
        tree, lineage = self._tree, self._tree.lineage(cls)
        bases = [
            tree.qualified(base) or "" for one in lineage for base in one.bases if unparse(base) not in tree.classes
        ]
        plain = all(
            isinstance(stmt, ast.FunctionDef) and not (stmt.decorator_list or stmt.name.startswith("_"))
            for one in lineage
            for stmt in one.body
            if not isinstance(stmt, (ast.Pass, ast.Expr))
        )
        names = {one.name for one in lineage}
        replaced = any(unparse(node.value) in names for node in tree.attributes_set()) or names & tree.rebound
        found = bool(bases) and all(base.startswith("torch.distributions.") for base in bases)
        return found and plain and not replaced and not any(one.keywords or one.decorator_list for one in lineage)

    def _of_kept(
        self, frame: _Frame, owner: _Value, func: ast.Attribute, call: ast.Call, given: list[_Value], depth: int
    ) -> _Value | None:
        """The result of calling a function stored in an object, or a layer stored in its place; None for other calls.

        An object keeps what is stored, so all its calls take the same path.
        """
        made = [self._tree.assigned.get(target) for target in self._tree.attributes_set(func.attr)]
        if all(isinstance(value, ast.Call) and self._makes_module(value) for value in made):
            return None
        world = self._roles.get(World)
        things = world.of(func)
        layers = {t for t in things if t.kind == "made" and t.name.startswith("torch.nn.")}
        functions = {(t.name, t.node) for t in things - layers if t.kind in ("library", "function")}
        others = {t for t in things - layers if t.kind not in ("library", "function")}
        if others or len(functions) != 1 or not world.is_known(things):
            return None
        ((name, function),) = functions
        if function is None:
            computed = self._of_library(name, call, given)
        elif isinstance(function, ast.FunctionDef) and function in self._tree.root.body:
            computed = self._followed(frame, function, call, None, depth)
        else:
            return None
        if not layers:
            return computed
        path = f"{owner.path}.{func.attr}"
        through = self._of_object(frame, _Value(path=path, layer=True), call, given, depth)
        if (computed.must | {path}, computed.may | {path}) == (through.must, through.may):
            return through  # there are no other parameters without the layer
        return through if self._chosen(f"{path} is a layer") else computed

    def _makes_module(self, call: ast.Call) -> bool:
        made = self._tree.constructor(call) is not None
        return made or (self._tree.qualified(call.func) or "").startswith("torch.nn.")

    def _of_object(self, frame: _Frame, target: _Value, call: ast.Call, given: list[_Value], depth: int) -> _Value:
        """The result of calling a network or unknown code."""
        everything = _joined(given)
        if target.path and target.parts is not None:
            for i, part in enumerate(target.parts):  # each layer gets the result of the one before
                between = ast.copy_location(ast.Name(f"{target.path} {i}", ast.Load()), call)
                frame.values[between.id] = everything
                own_call = ast.copy_location(ast.Call(call.func, [between], []), call)
                own_call.col_offset += FAR * (i + 1)
                everything = self._of_object(frame, part, own_call, [everything], depth)
            return everything
        if target.path and target.cls is not None:
            for name in ("forward", "__call__"):
                method = self._method_named(target.cls, name)
                if method is not None:
                    return self._followed(frame, method, call, target, depth)
            torch_base = any(
                (self._tree.qualified(b) or "").startswith("torch.nn.")
                for c in self._tree.lineage(target.cls)
                for b in c.bases
                if not (self._tree.qualified(b) or "").endswith("nn.Module")
            )
            target = replace(target, cls=None, layer=torch_base)
        if target.path:
            one = frozenset((target.path,))
            if target.layer:
                return _Value(everything.must | one, everything.may | one)
            name = f"{target.path}(...)"
            own = frozenset((name,))
            return _Value(own, everything.may | own, opaque=name)
        if any(v.path for v in given) or everything.may:
            name = f"what line {call.lineno} calls"
            own = frozenset((name,)) if any(v.path for v in given) else NOTHING
            return _Value(own, everything.may | own, opaque=name if own else "")
        if isinstance(call.func, ast.Name) and call.func.id in frame.values:  # one of several networks
            own = frozenset((f"{call.func.id}(...) on line {call.lineno}",))
            return _Value(own, own)
        return PLAIN

    def _of_library(self, called: str, call: ast.Call, given: list[_Value]) -> _Value:
        module, _, name = called.rpartition(".")
        everything = _joined(given)
        if not called.startswith("torch."):
            own = any(v.path for v in given)
            return _Value(NOTHING, everything.may, opaque=f"what line {call.lineno} calls") if own else _perhaps(given)
        if called.startswith("torch.distributions") and (name[:1].isupper() or name == "kl_divergence"):
            return everything
        if name in _STOPPED or called.startswith(("torch.nn.utils.", "torch.optim.", "torch.cuda.", "torch.random.")):
            return PLAIN
        if module in ("torch", "torch.nn.functional", "torch.special", "torch.linalg") and name in _FLOWS:
            if name == "where":
                return _joined(given[1:])
            if name in ("max", "min", "median", "sort", "topk", "kthvalue") and not _is_of_two(call):
                return (
                    _Value(everything.must, everything.may, (_joined(given), PLAIN)) if len(given) > 1 else everything
                )
            return everything
        return _perhaps(given)

    def _of_value(self, frame: _Frame, owner: _Value, func: ast.Attribute, given: list[_Value]) -> _Value:
        """The result of a method of a tensor, a distribution, a list, or anything but a network."""
        name, everything = func.attr, _joined([owner, *given])
        if name in _STOPPED:
            return PLAIN
        if name in ("append", "extend", "insert", "update", "setdefault"):
            held = _joined([owner, *given])
            self._bind_owner(frame, func.value, _Value(held.must, held.may))
            return PLAIN
        if name in ("add_", "sub_", "mul_", "div_", "clamp_", "addcmul_", "copy_", "squeeze_", "unsqueeze_"):
            base = PLAIN if name == "copy_" else owner
            changed = _joined([base, *given])
            self._bind_owner(frame, func.value, changed)
            return changed
        if name in ("log_prob", "rsample"):
            return _Value(owner.must, everything.may)
        if name in ("to", "float", "double", "half", "type_as", "view_as", "reshape_as", "expand_as", "clone"):
            return _Value(owner.must, everything.may)
        if name in _FLOWS:
            row = OF["tensor"].get(name)
            every = row is not None and row.rows == "broadcast"
            must = everything.must if every or name in ("maximum", "minimum", "max", "min", "matmul") else owner.must
            pair = name in ("max", "min", "median", "sort", "topk") and given and not everything.may - owner.may
            return _Value(must, everything.may, (_Value(must, everything.may), PLAIN) if pair else None)
        if name not in _METHODS and not owner.may and not self._is_data(root(func)):
            token = f"{unparse(func)}(...)"
            own = frozenset((token,))
            return _Value(own, everything.may | own, opaque=token)
        return _perhaps([owner, *given])

    def _is_data(self, name: str) -> bool:
        """Whether a name holds the script's options, or something that a library made without any network."""
        made = [value for _, value in self._roles.assignments(name)]
        known = [self._tree.qualified(_innermost_callee(v)) or isinstance(v, ast.Constant) for v in made]
        apart = not names_in(made) & {*self._roles.modules}
        return holds_options(self._tree, ast.Name(name, ast.Load()), self._roles.scope) or (
            bool(made) and all(known) and apart
        )

    def _bind_owner(self, frame: _Frame, owner: ast.expr, value: _Value) -> None:
        while isinstance(owner, ast.Subscript):
            owner = owner.value
            value = _perhaps([value])
        if isinstance(owner, (ast.Name, ast.Attribute)):
            frame.values[unparse(owner)] = value

    def _builtin(self, name: str, given: list[_Value]) -> _Value:
        if name in _HOST:
            return PLAIN
        if name in ("zip", "enumerate"):
            elements = [v.part(None) for v in given]
            if name == "enumerate":
                elements = [PLAIN, *elements[:1]]
            whole = _joined(elements)
            return _Items(whole.must, whole.may, each=tuple(elements))
        if name in _SPREADING and len(given) == 1:
            return given[0]
        if name in ("abs", "pow", "sum"):
            return _joined(given)
        return _perhaps(given)

    def _followed(
        self, frame: _Frame, function: ast.FunctionDef, call: ast.Call, owner: _Value | None, depth: int
    ) -> _Value:
        """The result of a function or method of this file."""
        if depth >= DEEP:
            raise _Unknown(f"line {call.lineno} nests calls too deep")
        bound = bind_arguments(function, call, ast.Name("self", ast.Load()) if owner is not None else None)
        if bound is None or any(isinstance(n, (ast.Yield, ast.YieldFrom, ast.Await)) for n in walk(function)):
            raise _Unknown(f"it is not known what line {call.lineno} gives {function.name}()")
        values: dict[str, _Value] = {}
        for name, value in bound.given.items():
            is_owner = owner is not None and isinstance(value, ast.Name) and not hasattr(value, "lineno")
            values[name] = owner if is_owner and owner is not None else self._value(frame, value, depth)
        for name, value in bound.defaults.items():
            values[name] = self._value(frame, value, depth) if isinstance(value, ast.Constant) else PLAIN
        before, off = self._off, disabled(self._tree, function.decorator_list)
        self._off = before if off is None else off
        key = f"{frame.key}{call.lineno}:{call.col_offset}/"
        inner = _Frame(function, key, values, scope_access(function.body).binds)
        try:
            self._follow_block(inner, function.body, depth + 1)
        except _Return as returned:
            return returned.value
        except _LeaveLoop:
            raise _Unknown(f"{function.name}() leaves a loop that it did not enter") from None
        except _Fork:
            if self._off and self._only_computes(function, call):
                return PLAIN  # the same on every path
            raise
        finally:
            self._off = before
        return NONE

    def _only_computes(self, function: ast.FunctionDef, call: ast.Call) -> bool:
        """Whether a call returns neither networks nor what holds them, and computes, clears and uses no gradients."""
        world = self._roles.get(World)
        found = world.reach(world.of(call))
        if not world.is_known(found) or any(map(world.is_module_object, found)):
            return False
        return not any(
            last_written(n) in _USES or (isinstance(n, ast.expr) and disabled(self._tree, [n]) is False)
            for n in self._roles.reached([function])
        )


@dataclass(frozen=True)
class _Items(_Value):
    """The elements of a loop over several sequences at once."""

    each: tuple[_Value, ...] = ()

    def part(self, index: int | None) -> _Value:
        """The elements of one iteration."""
        return _Value(self.must, self.may, self.each)


def _is_path_in(path: str, with_this: str) -> bool:
    return path == with_this or path.startswith((f"{with_this}.", f"{with_this}["))


def _innermost_callee(node: ast.expr) -> ast.expr:
    """The callee at the root of a chain of method calls."""
    while isinstance(node, ast.Call):
        func = node.func
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Call):
            node = func.value
        else:
            return func
    return node


def _values_of_own(cls: ast.ClassDef, name: str) -> list[ast.expr]:
    """The values that methods of a class assign to an attribute of `self`."""
    found: list[ast.expr] = []
    for method in (m for m in cls.body if isinstance(m, ast.FunctionDef) and m.args.args):
        own = method.args.args[0].arg
        for stmt in statements(method.body):
            if isinstance(stmt, (ast.Assign, ast.AnnAssign)) and stmt.value is not None:
                targets = stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target]
                for target in targets:
                    pairs = [(target, stmt.value)]
                    if isinstance(target, ast.Tuple) and isinstance(stmt.value, ast.Tuple):
                        pairs = list(zip(target.elts, stmt.value.elts, strict=False))
                    found += [v for t, v in pairs if unparse(t) == f"{own}.{name}"]
    return found


def _is_of_two(call: ast.Call) -> bool:
    """Whether `torch.max(a, b)` is the elementwise maximum of two tensors, judged by its text."""
    if len(call.args) != 2 or call.keywords:
        return False
    second = call.args[1]
    if isinstance(second, ast.UnaryOp):
        second = second.operand
    return not isinstance(second, ast.Constant)
