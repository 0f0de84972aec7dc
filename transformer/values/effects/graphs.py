"""Where code may distinguish a tensor with an autograd graph from the same values without one.

It may ask for the graph (`x.grad_fn`, `x.requires_grad`), show it (`print(x)` names the grad_fn), or pass the tensor to
unknown code.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from transformer.facts import libraries, python, torch_api
from transformer.facts.torch_api import DISTRIBUTIONS
from transformer.recognition.roles import Roles
from transformer.syntax.diagnostics import SHOWN
from transformer.syntax.query import parameters, walk
from transformer.values.effects.interpreter import MEMORY, Frame, Interpreter, is_class, is_distribution
from transformer.values.effects.objects import NOTHING, UNKNOWN, Context, Thing, Things, Variable
from transformer.values.effects.world import Held
from transformer.values.reports import is_report
from transformer.values.shapes import Shapes

LEAVES = torch_api.names("tensor", graph=False)
"""Methods whose results have no graph."""
STAYS = torch_api.names("tensor", memory=("new", "shared")) - LEAVES
"""Methods whose results belong to the graph of their object."""


FLOWS = (
    *(ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.For, ast.comprehension, ast.Return, ast.Lambda),
    *(ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    *(ast.Subscript, ast.IfExp, ast.BoolOp, ast.BinOp, ast.UnaryOp),
    *(ast.Compare, ast.If, ast.While, ast.Assert, ast.Expr, ast.Delete),
)
"""Nodes that pass their parts on, which are followed from there, or only test them for truth."""
HOLD = (*python.CONTAINERS, "instance")
"""Kinds of things that hold tensors, as items or attributes."""
WITHOUT = "without its graph"
SHOWS, ASKS = "shows {} with its grad_fn", "may ask whether {} has a gradient"
GOES_BACK = "may compute gradients back through {}"
SHOWS_INSIDE = "may show a tensor inside {} with its grad_fn"
TAKES_ON = "keeps {} where later uses are not known"


class _Flow(Interpreter):
    """A run of the file in which a tensor detached from its graph counts as another object."""

    def _evaluate(self, node: ast.expr) -> Things:
        found = super()._evaluate(node)
        if not found or not (_leaves_graph(node) or self._draws_without_graph(node)):
            return found
        named = node.func if isinstance(node, ast.Call) else node
        holders = self.values.get((getattr(named, "value", named), self._frame.context), NOTHING)
        own = [thing.kind == "instance" for thing in holders]  # `x.data`, `x.numpy()` of a class of this file
        if own and all(own):
            return found
        return (found if any(own) else NOTHING) | {self.heap.thing("tensor", node, self._frame.context, WITHOUT)}

    def _draws_without_graph(self, node: ast.expr) -> bool:
        """Whether an expression draws from a distribution without a graph."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return False
        drawn = node.func.attr in torch_api.names("distribution", graph=False)
        return drawn and _all_distributions(self.values.get((node.func.value, self._frame.context), NOTHING))


class Graphs:
    """Follows tensors that have a graph. `roles.get(Graphs)` makes it once."""

    def __init__(self, roles: Roles) -> None:
        self._roles, self._tree, self._shapes = roles, roles.tree, roles.get(Shapes)
        self._run: _Flow | None = None
        self._inside: set[ast.AST] = set()
        """The nodes of the region in question."""
        self._frames: set[Frame] = set()
        """The bodies that the region runs."""

    @property
    def _flow(self) -> _Flow:
        if self._run is None:
            self._run = _Flow(self._roles)
        return self._run

    def seen(self, names: Collection[str], region: Sequence[ast.stmt], *, in_place: bool = False) -> Held | None:
        """Where code outside a region may notice whether tensors that the region binds have a graph; None if nowhere.

        Args:
            names: the training scope's variables that hold the tensors, or lists of them.
            region: the statements that compute them.
            in_place: whether to also include tensors made elsewhere that the region changes in place.
        """
        self._inside = {n for stmt in region for n in walk(stmt)}
        loads = (n for n in self._tree.of(ast.Name) if n.id in names and isinstance(n.ctx, ast.Load))
        reads = [n for n in loads if n not in self._inside]
        if not in_place and all(self._takes_only_values(read) for read in reads):
            return None
        if self._flow.gave_up:
            return Held(
                next((n for n in reads if not self._takes_only_values(n)), region[0]), "may do anything with it"
            )
        self._frames = self._frames_run()
        held = {t for name in names for t in self._things_named(name)}
        held |= {t for whole in held if whole.kind in python.CONTAINERS for t in self._flow.heap.below(whole)}
        held = {t for t in held if t.kind not in python.CONTAINERS}  # containers have no graph of their own
        done = self._changed_things()
        things = {t for t in held if t.name != WITHOUT and (self._made_in(t) or t in done)}
        changed = {t for t in done if t is UNKNOWN or t.kind in MEMORY}
        things |= {t for t in changed if t.name == WITHOUT and self._made_in(t)}  # writing in place gives it one
        if UNKNOWN in held or (in_place and UNKNOWN in changed):
            return Held(region[0], "creates or changes objects that cannot be followed")
        if in_place:
            things |= {t for t in changed if not self._made_in(t)}
        while True:
            more: set[Thing] = set()
            for node, context, direct in self._uses_outside(things):
                found = self._use(node, context, direct)
                if isinstance(found, Held):
                    return found
                more |= found
            if more <= things:
                return None
            things |= more

    def _things_named(self, name: str) -> Things:
        return frozenset(
            t
            for place, held in self._flow.heap.held.items()
            if isinstance(place, Variable) and place.name == name and place.owner is self._roles.scope
            for t in held
        )

    def _frames_run(self) -> set[Frame]:
        """The function bodies that calls in the region run, directly or indirectly."""
        calls = self._flow.calls
        found = {f for by_node in calls.values() for node, run in by_node.items() if node in self._inside for f in run}
        stack = [*found]
        while stack:
            more = {f for run in calls.get(stack.pop(), {}).values() for f in run} - found
            found |= more
            stack += more
        return found

    def _made_in(self, thing: Thing) -> bool:
        if thing is UNKNOWN or thing.node is None:
            return False
        around = {thing.node, *self._tree.ancestors(thing.node)}
        return thing.node in self._inside or any(f.context == thing.context and f.owner in around for f in self._frames)

    def _changed_things(self) -> set[Thing]:
        """What the region changes in place; includes UNKNOWN if not all of it is known."""
        effects = self._flow.effects
        done = [e for by_node in effects.values() for node, es in by_node.items() if node in self._inside for e in es]
        done += [e for frame in self._frames for es in effects.get(frame, {}).values() for e in es]
        return {e.thing for e in done if e.kind in ("changes", "changes all", "stores") and e.thing is not None}

    def _uses_outside(self, things: Collection[Thing]) -> Iterator[tuple[ast.expr, Context, bool]]:
        """Expressions outside the region that may be one of the things (True) or only hold one (False)."""
        holders = {t for t in self._flow.heap.attributes if t.kind in HOLD and self._holds(t, things)}
        for (node, context), values in [*self._flow.values.items()]:
            if node in self._inside or not isinstance(node, ast.expr) or any(c in self._inside for c in context):
                continue
            if not values.isdisjoint(things):
                yield node, context, True
            elif not values.isdisjoint(holders):
                yield node, context, False

    def _is_key(self, name: ast.Name) -> bool:
        """Whether a name is bound to keys or indices: `for name, x in items.items()`, `enumerate`."""
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

    def _holds(self, holder: Thing, things: Collection[Thing]) -> bool:
        found, stack = {holder}, [holder]
        while stack:
            for below in self._flow.heap.below(stack.pop()):
                if below in things:
                    return True
                if below not in found and below.kind in HOLD:
                    found.add(below)
                    stack.append(below)
        return False

    # --- one use ---------------------------------------------------------------------------------------------

    def _takes_only_values(self, read: ast.Name) -> bool:
        """Whether a read takes only the values or passes them to a logger, as almost all reads do."""
        parent = self._tree.parents[read]
        if self.is_caught(read):
            return False
        if isinstance(parent, ast.Attribute):
            return self._leaves_graph_by(parent) or parent.attr in torch_api.PLAIN
        return isinstance(parent, ast.Call) and read in parent.args and self._takes_values(parent)

    def _takes_values(self, call: ast.Call) -> bool:
        """Whether a call uses only the values of tensors."""
        name = self._tree.names.builtin(call.func)
        if name is not None:
            return name in python.TAKES_VALUES
        qualified = self._tree.qualified(call.func) or ""
        if qualified.startswith("numpy."):
            return True  # raises an error for a tensor with a graph
        last = qualified.removeprefix("torch.")
        if last in torch_api.names("torch", graph=False):
            return True
        reports = is_report(self._tree, call) or libraries.role(qualified) == "reports"
        return reports and not libraries.LOGS_VALUES.isdisjoint((qualified, self._tree.last_name(call.func)))

    def _use(self, node: ast.expr, context: Context, direct: bool) -> Things | Held:
        """What else has the graph after a use of a tensor with a graph; or why the use may reveal the graph."""
        parent = self._tree.parents[node]
        if isinstance(node, ast.Name) and self._is_key(node):
            return NOTHING
        if self.is_caught(node):
            return _held(parent, "takes numpy's array of {}, where an error is caught", node)
        if isinstance(parent, ast.Attribute):
            return self._taken_from(parent, node, context, direct)
        if isinstance(parent, (ast.keyword, ast.Starred)):
            parent = self._tree.parents[parent]
        if isinstance(parent, ast.Call):
            return NOTHING if parent.func is node else self._argument(parent, node, context, direct)
        if isinstance(parent, ast.FormattedValue):
            if self._is_shown_by_its_layers(node, context):
                return NOTHING
            number = parent.format_spec is not None or self._shapes.rank(node) == 0  # formatting needs a single number
            number = number and direct and parent.conversion == -1
            return NOTHING if number else _held(parent, SHOWS if direct else SHOWS_INSIDE, node)
        if isinstance(parent, ast.BinOp) and _is_text(parent.left):
            return _held(parent, SHOWS, node)
        computes = isinstance(parent, (ast.BinOp, ast.UnaryOp, ast.AugAssign))
        if direct and (computes or (isinstance(parent, ast.Subscript) and parent.value is node)):
            return self._made_at(parent, context)
        if isinstance(parent, ast.Assign):
            places = [
                p.value for t in parent.targets for p in _parts(t) if isinstance(p, (ast.Subscript, ast.Attribute))
            ]
            holders = frozenset(t for place in places for t in self._things(place, context))
            if any(t.kind not in (*MEMORY, *python.CONTAINERS, "instance") for t in holders):
                return _held(parent, TAKES_ON, node)
            written = frozenset(t for t in holders if t.kind in MEMORY)  # these have the graph from now on
            return written if direct else NOTHING
        if isinstance(parent, FLOWS):
            return NOTHING
        return _held(parent, ASKS, node)

    def is_caught(self, node: ast.AST) -> bool:
        """Whether numpy converts a tensor inside a `try` that may catch the error for a tensor with a graph."""
        parent = self._tree.parents[node]
        call = self._tree.parents[parent] if isinstance(parent, ast.Attribute) else parent
        name = parent.attr if isinstance(parent, ast.Attribute) else ""
        if name != "numpy" and not (isinstance(call, ast.Call) and "numpy." in (self._tree.qualified(call.func) or "")):
            return False
        around = [*self._tree.ancestors(node)]
        tried = [t for t in around if isinstance(t, ast.Try) and any(s in around for s in t.body)]
        caught = any(ast.unparse(h.type or node) != "KeyboardInterrupt" for t in tried for h in t.handlers)
        return caught or any(isinstance(w, ast.With) and "suppress" in ast.unparse(w.items[0]) for w in around)

    def _taken_from(self, parent: ast.Attribute, node: ast.expr, context: Context, direct: bool) -> Things | Held:
        call = self._tree.parents[parent]
        called = isinstance(call, ast.Call) and call.func is parent
        values = self._things(node, context)
        if any(map(is_distribution, values)):
            known = called and parent.attr in torch_api.OF["distribution"] and _all_distributions(values)
            if not known:
                return _held(parent, ASKS, node)
            return self._made_at(call, context) if torch_api.OF["distribution"][parent.attr].graph else NOTHING
        if not direct and all(t.kind == "instance" for t in values):
            return NOTHING  # reading the attribute is a use of its own; a method is followed
        if not direct:
            known = any(python.does(kind, parent.attr) for kind in python.CONTAINERS)
            return NOTHING if called and known else _held(parent, ASKS, node)
        if self._leaves_graph_by(parent) or (not called and parent.attr in torch_api.PLAIN):
            return NOTHING
        if called and parent.attr in STAYS:
            return self._made_at(call, context)
        return _held(parent, GOES_BACK if called and parent.attr == "backward" else ASKS, node)

    def _is_shown_by_its_layers(self, node: ast.expr, context: Context) -> bool:
        """Whether an expression is a module that prints as the names and options of its layers, without tensors."""
        modules = list(self._things(node, context))
        if not modules or not all(map(self._flow.is_module_object, modules)):
            return False
        shown_by = (*python.SHOWN_BY, "extra_repr", "_get_name")
        for module in modules:  # grows during the loop
            if module.kind == "instance" and any(self._flow.found_in_class(module, name) for name in shown_by):
                return False
            for part in self._flow.heap.below(module):
                if self._flow.is_module_object(part):
                    modules += [part] if part not in modules else []
                elif part.kind not in (*MEMORY, *python.CONTAINERS):  # perhaps a module of another library
                    return False
        return True

    def _leaves_graph_by(self, attribute: ast.Attribute) -> bool:
        """Whether an attribute of a tensor is `data` or a call of a method whose result has no graph."""
        call = self._tree.parents[attribute]
        return _leaves_graph(call if isinstance(call, ast.Call) and call.func is attribute else attribute)

    def _argument(self, call: ast.Call, node: ast.expr, context: Context, direct: bool) -> Things | Held:
        """What a call returns if a tensor with a graph, or a container of one, is an argument."""
        if self._takes_values(call):
            return NOTHING
        name = self._tree.names.builtin(call.func)
        if name is not None:
            row = python.does("builtin", name)
            shown = name in python.SHOWS and self._is_shown_by_its_layers(node, context)
            if shown or name == "super":  # `super()` is the same object, whose methods are followed
                return NOTHING
            if name in python.SHOWS or row is None or row.gives == "nothing" or row.calls:
                shows = SHOWS if direct else SHOWS_INSIDE
                return _held(call, shows if name in python.SHOWS else ASKS, node)
            return self._made_at(call, context)
        callees = self._things(call.func, context)
        if callees and all(t.kind in ("function", "bound", "class") for t in callees):
            return NOTHING  # the function is followed
        if isinstance(call.func, ast.Attribute):
            receivers = self._things(call.func.value, context)
            kinds = {t.kind for t in receivers}
            if kinds and all(kind in python.CONTAINERS and python.does(kind, call.func.attr) for kind in kinds):
                return NOTHING
            if kinds and kinds <= {*MEMORY} and call.func.attr in torch_api.OF["tensor"]:
                changes = torch_api.OF["tensor"][call.func.attr].memory == "in place"
                return receivers if changes else self._made_at(call, context)
        module, _, function = (self._tree.qualified(call.func) or "").rpartition(".")
        if f"{module}.".startswith(DISTRIBUTIONS) and is_class(function):
            return self._made_at(call, context)
        of_torch = module == "torch" and function in torch_api.OF["torch"]
        if of_torch or (module == "torch.nn.functional" and function in torch_api.OF["functional"]):
            return self._made_at(call, context)
        return _held(call, "passes {} to code that may ask whether it has a gradient", node)

    def _things(self, node: ast.AST, context: Context) -> Things:
        return self._flow.values.get((node, context), NOTHING)

    def _made_at(self, node: ast.AST, context: Context) -> Things | Held:
        """What an expression or an augmented assignment makes."""
        found = self._things(node, context) | self._flow.heap.made_at(node, context)
        return _held(node, TAKES_ON, node) if UNKNOWN in found else found


def _held(at: ast.AST, what: str, node: ast.AST) -> Held:
    text = ast.unparse(node)
    return Held(at, what.format(text if len(text) <= SHOWN else "a tensor"))


def _all_distributions(things: Things) -> bool:
    return bool(things) and all(map(is_distribution, things))


def _leaves_graph(node: ast.AST) -> bool:
    """Whether an expression drops the graph: `x.detach()`, `x.item()`, `x.data`, `x > y`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in LEAVES
    return isinstance(node, ast.Compare) or (isinstance(node, ast.Attribute) and node.attr == "data")


def _parts(target: ast.expr) -> list[ast.expr]:
    """The targets that a tuple or list target consists of."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return [part for element in target.elts for part in _parts(element)]
    return [target]


def _is_text(node: ast.expr) -> bool:
    """Whether an expression is a string, so that `%` formats."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
