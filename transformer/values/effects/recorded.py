"""Which tensors may be part of an autograd graph: those computed from parameters while gradients are recorded."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cached_property

from transformer.dataflow.grad_mode import without_gradients
from transformer.facts.torch_api import OF_HOST, names
from transformer.recognition.roles import Roles
from transformer.syntax.query import walk
from transformer.values.effects.graphs import LEAVES
from transformer.values.effects.interpreter import is_distribution
from transformer.values.effects.objects import UNKNOWN, Context, Thing
from transformer.values.effects.world import World

DRAWS = names("distribution", draws=True, graph=False)
"""Methods of distributions whose results have no graph."""


class Recorded:
    """Finds the tensors that gradients are recorded for. `roles.get(Recorded)` makes it once.

    Memory has a graph if anything that it was computed from, or that was ever written into it, has one. A graph starts
    at a network's parameters, at anything unknown, and at tensors that may require gradients themselves.
    """

    def __init__(self, roles: Roles) -> None:
        self._tree, self._world = roles.tree, roles.get(World)
        self._behind: dict[Thing, frozenset[Thing]] = {}
        self._direct: dict[Thing, frozenset[Thing]] = {}
        self._read: dict[tuple[ast.AST, ast.AST | None], frozenset[Thing]] = {}

    def may_be(self, node: ast.expr) -> bool:
        """Whether an expression may be, or hold, a tensor with a graph."""
        return any(self.leaves(thing) for thing in self._world.of(node))

    def computed(self, node: ast.expr) -> frozenset[Thing]:
        """The tensors with a graph that an expression may be."""
        found = (t for t in self._world.meant(node) if t.kind == "tensor" and not self._starts(t))
        return frozenset(t for t in found if self.leaves(t))

    def held(self, node: ast.expr) -> frozenset[Thing]:
        """The computed tensors with a graph that an expression may be or hold; what modules hold is left out."""
        found, stack = set[Thing](), [*self._world.meant(node)]
        while stack:
            thing = stack.pop()
            if thing not in found and not self._world.is_module_object(thing):
                found.add(thing)
                foreign = thing.kind == "made" and not thing.name.startswith("torch.")  # such as an environment
                stack += () if foreign or thing.kind in ("tensor", "unknown") else self._world.parts(thing)
        return frozenset(t for t in found if t.kind == "tensor" and self.leaves(t) - {t})

    def leaves(self, thing: Thing) -> frozenset[Thing]:
        """Where the graphs of an object may start: parameters, modules, and unknown objects."""
        return frozenset(filter(self._starts, self.behind(thing)))

    def behind(self, thing: Thing) -> frozenset[Thing]:
        """An object and everything that its graph may go back to, as far as the leaves."""
        if thing not in self._behind:
            asked, stack = {thing}, [thing]
            while stack:
                one = stack.pop()
                if not self._starts(one):
                    if one not in self._direct:
                        self._direct[one] = self._world.contents(one).union(*self._sources(one))
                    stack += self._direct[one] - asked
                    asked |= self._direct[one]
            self._behind[thing] = frozenset(asked)
        return self._behind[thing]

    def _starts(self, thing: Thing) -> bool:
        """Whether a graph may start at an object: it holds parameters, may be one, or may be anything."""
        if thing is UNKNOWN or self._world.is_module_object(thing) or thing in self._switched:
            return True
        if thing.kind != "tensor":
            return False
        calls = [n for n in walk(thing.node) if isinstance(n, ast.Call)] if isinstance(thing.node, ast.expr) else []
        parameter = any((self._tree.qualified(c.func) or "").startswith("torch.nn.Parameter") for c in calls)
        asks = any(k.arg in ("requires_grad", None) for c in calls for k in c.keywords)
        return thing.node is None or parameter or asks or not self._world.is_known([thing])

    def _sources(self, thing: Thing) -> Iterator[frozenset[Thing]]:
        """What a tensor is computed from or overwritten with; nothing where no gradients are recorded."""
        if thing.kind != "tensor":
            return
        for node, calls in ((thing.node, thing.context), *self._written.get(thing, ())):
            if node is None or self._is_quiet(node, calls):
                continue
            if (node, thing.node) not in self._read:
                read = [(self._world.of(n), whole) for n, whole in self._inputs(node) if n is not thing.node]
                self._read[node, thing.node] = frozenset(
                    t for things, whole in read for t in things if whole or t is UNKNOWN or t.kind == "tensor"
                )
            yield self._read[node, thing.node]

    def _inputs(self, node: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
        """The expressions that a node reads along with their graph, including the node if it is an expression.

        Each with whether a container's contents count: they do not if a tensor is made from the numbers of a list.
        """
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in LEAVES or (node.func.attr in DRAWS and self._is_distribution(node.func.value)):
                return
        if isinstance(node, ast.expr):
            yield node, True
        if isinstance(node, ast.Call) and (self._tree.qualified(node.func) or "") in OF_HOST:
            yield from ((a, False) for a in node.args)
            return
        for part in ast.iter_child_nodes(node):
            yield from self._inputs(part)

    def _is_distribution(self, node: ast.expr) -> bool:
        """Whether an expression is a distribution of torch, whose samples have no graph."""
        found = self._world.of(node)
        return bool(found) and all(map(is_distribution, found))

    @cached_property
    def _switched(self) -> frozenset[Thing]:
        """The objects for which the script requests gradients."""
        asked = (n for n in self._tree.of(ast.Attribute) if n.attr in ("requires_grad", "requires_grad_"))
        return frozenset(t for n in asked for t in self._world.of(n.value))

    @cached_property
    def _written(self) -> Mapping[Thing, list[tuple[ast.stmt, Context]]]:
        """The statements that may write into each object, with the calls that lead to them."""
        found: dict[Thing, list[tuple[ast.stmt, Context]]] = {}
        for node, calls, thing in self._world.changed():
            if not isinstance(node, ast.Module) and not self._optimizes(self._tree.statement(node)):
                found.setdefault(thing, []).append((self._tree.statement(node), calls))
        return found

    def _optimizes(self, stmt: ast.stmt) -> bool:
        """Whether a statement is a call of a method of torch's optimizers, which write numbers without a graph."""
        call = stmt.value if isinstance(stmt, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.args or call.keywords:
            return False
        made = self._world.of(call.func.value)
        return bool(made) and all(
            t.name.startswith("torch.optim.")
            and isinstance(t.node, ast.Call)
            and all(k.arg not in ("differentiable", None) for k in t.node.keywords)
            for t in made
        )

    def _is_quiet(self, node: ast.AST, calls: Context) -> bool:
        """Whether gradients are disabled at a node, or at one of the calls that lead to it."""
        nodes = (node,) if self._switches_on else (node, *calls)
        return any(without_gradients(self._tree, n) for n in nodes)

    @cached_property
    def _switches_on(self) -> bool:
        """Whether a function may enable gradients that its caller has disabled."""
        names = ("enable_grad", "set_grad_enabled", "inference_mode")
        return any(self._tree.last_name(n) in names for n in (*self._tree.of(ast.Attribute), *self._tree.of(ast.Name)))
