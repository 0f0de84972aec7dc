"""Where code may tell a tensor that is part of an autograd graph from the same values without one.

It may ask (`x.grad_fn`, `x.requires_grad`), show (`print(x)` names the grad_fn), or hand it to what is not known.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from transformer.facts import libraries, python, torch_api
from transformer.recognition.roles import Roles
from transformer.syntax.diagnostics import SHOWN
from transformer.syntax.query import parameters, walk
from transformer.values.effects.interpreter import MEMORY, Interpreter
from transformer.values.effects.objects import NOTHING, UNKNOWN, Context, Thing, Things, Variable
from transformer.values.effects.world import Held
from transformer.values.reports import is_report
from transformer.values.shapes import Shapes

LEAVES = torch_api.names("tensor", memory="number") | torch_api.names("tensor", dtype="bool") | {"detach", "numpy"}
"""Methods whose results have no graph."""
STAYS = torch_api.names("tensor", memory=("new", "shared")) - LEAVES
"""Methods whose results are part of the graph of what they are called on."""

FLOWS = (
    *(ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.For, ast.comprehension, ast.Return, ast.Lambda),
    *(ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    *(ast.Subscript, ast.IfExp, ast.BoolOp, ast.BinOp, ast.UnaryOp),
    *(ast.Compare, ast.If, ast.While, ast.Assert, ast.Expr, ast.Delete),
)
"""What hands on what stands in it, which is followed from there, or takes no more of it than whether it is true."""
SHOWS, ASKS = "shows {} with its grad_fn", "may ask whether {} has a gradient"


class _Flow(Interpreter):
    """A run of the file in which a tensor without its graph is another object than the tensor."""

    def _evaluate(self, node: ast.expr) -> Things:
        found = super()._evaluate(node)
        if found and _leaves_graph(node):
            return frozenset([self.heap.thing("tensor", node, self._frame.context, "without its graph")])
        return found


class Graphs:
    """What becomes of tensors with a graph. `roles.get(Graphs)` makes it once."""

    def __init__(self, roles: Roles) -> None:
        self._roles, self._tree, self._shapes = roles, roles.tree, roles.get(Shapes)
        self._run: _Flow | None = None

    @property
    def _flow(self) -> _Flow:
        if self._run is None:
            self._run = _Flow(self._roles)
        return self._run

    def seen(self, names: Collection[str], region: Sequence[ast.stmt]) -> Held | None:
        """Where code outside a region may tell whether tensors that the region binds have a graph; None if nowhere.

        Args:
            names: the training scope's variables that hold the tensors.
            region: the statements that compute them.
        """
        inside = {n for stmt in region for n in walk(stmt)}
        loads = (n for n in self._tree.of(ast.Name) if n.id in names and isinstance(n.ctx, ast.Load))
        reads = [n for n in loads if n not in inside]
        if all(self._is_plain(read) for read in reads):
            return None
        if self._flow.gave_up:
            return Held(next(n for n in reads if not self._is_plain(n)), "may do anything with it")
        held = {name: self._named(name) for name in names}
        things = {t for of_name in held.values() for t in of_name if self._made_in(t, inside)}
        blind = {name for name, of_name in held.items() if UNKNOWN in of_name}
        while True:
            more: set[Thing] = set()
            for node, context, direct in self._uses(things, blind, inside):
                found = self._use(node, context, direct)
                if isinstance(found, Held):
                    return found
                more |= found
            if more <= things:
                return None
            things |= more

    def _named(self, name: str) -> Things:
        return frozenset(
            t
            for place, held in self._flow.heap.held.items()
            if isinstance(place, Variable) and place.name == name and place.owner is self._roles.scope
            for t in held
        )

    @staticmethod
    def _made_in(thing: Thing, inside: Collection[ast.AST]) -> bool:
        return thing is not UNKNOWN and (thing.node in inside or any(call in inside for call in thing.context))

    def _uses(
        self, things: Collection[Thing], blind: Collection[str], inside: Collection[ast.AST]
    ) -> Iterator[tuple[ast.expr, Context, bool]]:
        """The expressions outside that may be one of the things, or (not directly) containers that hold one."""
        containers = {t for t in self._flow.heap.attributes if t.kind in python.CONTAINERS and self._holds(t, things)}
        for (node, context), values in [*self._flow.values.items()]:
            if node in inside or any(call in inside for call in context) or not isinstance(node, ast.expr):
                continue
            unseen = False
            if isinstance(node, ast.Name) and self._owner(node) is self._roles.scope:
                unseen = node.id in blind
                values = self._there(node, context, values)
            if unseen or not values.isdisjoint(things):
                yield node, context, True
            elif not values.isdisjoint(containers):
                yield node, context, False

    def _there(self, read: ast.Name, context: Context, values: Things) -> Things:
        """What of a variable's values it may hold where it is read: `loss = loss.item()` leaves it a number."""
        if self._tree.scope_of(read) is not self._roles.scope or not isinstance(read.ctx, ast.Load):
            return values
        found: set[Thing] = set()
        for binding in self._roles.reaching(self._roles.scope).before(read.id, self._tree.statement(read)):
            if not isinstance(binding, ast.Assign) or not all(isinstance(t, ast.Name) for t in binding.targets):
                return values
            given = self._flow.values.get((binding.value, context))
            if given is None or UNKNOWN in given:
                return values
            found |= given
        return values & found if found else NOTHING

    def _is_key(self, name: ast.Name) -> bool:
        """Whether a name is a key or a number of what it stands beside: `for name, x in items.items()`, `enumerate`."""
        owner = self._owner(name)
        if isinstance(owner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and name.id in parameters(owner):
            return False
        named = (n for n in self._tree.of(ast.Name) if n.id == name.id and isinstance(n.ctx, ast.Store))
        stores = [n for n in named if self._owner(n) is owner]
        return bool(stores) and all(self._binds_key(n) for n in stores)

    def _binds_key(self, target: ast.Name) -> bool:
        pair = self._tree.parents[target]
        loop = self._tree.parents[pair] if isinstance(pair, ast.Tuple) and pair.elts[0] is target else None
        if not isinstance(loop, (ast.For, ast.comprehension)) or not isinstance(loop.iter, ast.Call):
            return False
        called = loop.iter.func
        if self._tree.names.builtin(called) == "enumerate":
            return True
        return isinstance(called, ast.Attribute) and called.attr == "items" and not loop.iter.args

    def _owner(self, node: ast.Name) -> ast.AST | None:
        return self._flow.variables.owner_of(node)

    def _holds(self, container: Thing, things: Collection[Thing]) -> bool:
        found, stack = {container}, [container]
        while stack:
            for below in self._flow.heap.below(stack.pop()):
                if below in things:
                    return True
                if below not in found and below.kind in python.CONTAINERS:
                    found.add(below)
                    stack.append(below)
        return False

    # --- one use ---------------------------------------------------------------------------------------------

    def _is_plain(self, read: ast.Name) -> bool:
        """Whether a read takes values alone, or hands them to a log: what nearly all do."""
        parent = self._tree.parents[read]
        if isinstance(parent, ast.Attribute):
            return self._leaves_graph_by(parent) or parent.attr in torch_api.PLAIN
        return isinstance(parent, ast.Call) and read in parent.args and self._takes_values(parent)

    def _takes_values(self, call: ast.Call) -> bool:
        """Whether a call takes nothing of tensors but their values."""
        name = self._tree.names.builtin(call.func)
        if name is not None:
            return name in python.TAKES_VALUES
        qualified = self._tree.qualified(call.func) or ""
        if qualified.startswith("numpy."):
            return True  # of a tensor with a graph it would take none
        last = qualified.removeprefix("torch.")
        if qualified in torch_api.OF_HOST or last in torch_api.names("torch", dtype="bool"):
            return True
        if last in torch_api.names("torch", memory="number"):
            return True
        reports = is_report(self._tree, call) or libraries.role(qualified) == "reports"
        return reports and not libraries.LOGS_VALUES.isdisjoint((qualified, self._tree.last_name(call.func)))

    def _use(self, node: ast.expr, context: Context, direct: bool) -> Things | Held:
        """What has the graph, too, by a use of what has it; or that the use may tell that there is one."""
        parent = self._tree.parents[node]
        if isinstance(node, ast.Name) and self._is_key(node):
            return NOTHING
        if isinstance(parent, ast.Attribute):
            return self._attribute(parent, node, context, direct)
        if isinstance(parent, (ast.keyword, ast.Starred)):
            parent = self._tree.parents[parent]
        if isinstance(parent, ast.Call):
            return NOTHING if parent.func is node else self._argument(parent, node, context)
        if isinstance(parent, ast.FormattedValue):
            number = parent.format_spec is not None or self._shapes.rank(node) == 0  # a format needs a number
            number = number and direct and parent.conversion == -1
            return NOTHING if number else _held(parent, SHOWS, node)
        if isinstance(parent, ast.BinOp) and _is_text(parent.left):
            return _held(parent, SHOWS, node)
        if isinstance(parent, (ast.BinOp, ast.UnaryOp, ast.AugAssign)) and direct:
            return self._made_at(parent, context)
        if isinstance(parent, ast.Assign) and direct:  # written into another tensor, which then is part of the graph
            written = [t.value for t in parent.targets if isinstance(t, ast.Subscript)]
            return frozenset(t for w in written for t in self._values(w, context) if t.kind in MEMORY)
        if isinstance(parent, FLOWS):
            return NOTHING
        return _held(parent, ASKS, node)

    def _attribute(self, parent: ast.Attribute, node: ast.expr, context: Context, direct: bool) -> Things | Held:
        call = self._tree.parents[parent]
        called = isinstance(call, ast.Call) and call.func is parent
        if not direct:
            known = any(python.does(kind, parent.attr) for kind in python.CONTAINERS)
            return NOTHING if called and known else _held(parent, ASKS, node)
        if self._leaves_graph_by(parent) or (not called and parent.attr in torch_api.PLAIN):
            return NOTHING
        if called and parent.attr in STAYS:
            return self._made_at(call, context)
        return _held(parent, ASKS, node)

    def _leaves_graph_by(self, attribute: ast.Attribute) -> bool:
        """Whether an attribute of a tensor is `data`, or a method that is called and gives values alone."""
        call = self._tree.parents[attribute]
        return _leaves_graph(call if isinstance(call, ast.Call) and call.func is attribute else attribute)

    def _argument(self, call: ast.Call, node: ast.expr, context: Context) -> Things | Held:
        """What a call makes of a tensor with a graph, or of a container that holds one."""
        if self._takes_values(call):
            return NOTHING
        name = self._tree.names.builtin(call.func)
        if name is not None:
            row = python.does("builtin", name)
            if name in python.SHOWS or row is None or row.gives == "nothing" or row.calls:
                return _held(call, SHOWS if name in python.SHOWS else ASKS, node)
            return self._made_at(call, context)
        callees = self._values(call.func, context)
        if callees and all(t.kind in ("function", "bound", "class") for t in callees):
            return NOTHING  # it is followed there
        if isinstance(call.func, ast.Attribute):
            receivers = self._values(call.func.value, context)
            kinds = {t.kind for t in receivers}
            if kinds and all(kind in python.CONTAINERS and python.does(kind, call.func.attr) for kind in kinds):
                return NOTHING
            if kinds and kinds <= {*MEMORY} and call.func.attr in torch_api.OF["tensor"]:
                changes = torch_api.OF["tensor"][call.func.attr].memory == "in place"
                return receivers if changes else self._made_at(call, context)
        module, _, function = (self._tree.qualified(call.func) or "").rpartition(".")
        of_torch = module == "torch" and function in torch_api.OF["torch"]
        if of_torch or (module == "torch.nn.functional" and function in torch_api.OF["functional"]):
            return self._made_at(call, context)
        return _held(call, "hands {} to what may ask whether it has a gradient", node)

    def _values(self, node: ast.AST, context: Context) -> Things:
        return self._flow.values.get((node, context), NOTHING)

    def _made_at(self, node: ast.AST, context: Context) -> Things | Held:
        """The tensors that an expression or an augmented assignment makes."""
        found = self._values(node, context) | self._flow.heap.made_at(node, context)
        made = frozenset(t for t in found if t.kind in MEMORY)
        if UNKNOWN not in found or not isinstance(node, ast.expr):
            return made
        used = self._use(node, context, True)  # what it is cannot be followed: only here
        return used if isinstance(used, Held) else made | used


def _held(at: ast.AST, what: str, node: ast.expr) -> Held:
    text = ast.unparse(node)
    return Held(at, what.format(text if len(text) <= SHOWN else "a tensor"))


def _leaves_graph(node: ast.AST) -> bool:
    """Whether an expression takes values out of a graph: `x.detach()`, `x.item()`, `x.data`, `x > y`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in LEAVES
    return isinstance(node, ast.Compare) or (isinstance(node, ast.Attribute) and node.attr == "data")


def _is_text(node: ast.expr) -> bool:
    """Whether an expression is a text: what `%` puts values into."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
