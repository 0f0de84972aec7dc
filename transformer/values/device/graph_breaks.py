"""Where compiled code leaves its graph: which code torch.compile is not known to trace.

Compiled code continues below a break in another graph. What is computed above the break and used below is then an
output of the first graph.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from transformer.dataflow.access import scope_access
from transformer.dataflow.variables import COMPREHENSIONS
from transformer.facts.libraries import library_does, role
from transformer.facts.python import CONTAINERS, CONVERTS, SHOWS, builtin_names
from transformer.facts.torch_api import DISTRIBUTIONS, OF, attributes, methods, names, of_parameters, works_on_host
from transformer.recognition.arguments import decided
from transformer.recognition.roles import Roles
from transformer.syntax.query import calls_method, children, pairwise, parameters, walk
from transformer.values.device.graph_capture import BUILTINS
from transformer.values.device.waits import KNOWN, VALUES, arguments, is_mask
from transformer.values.effects.world import Held, World
from transformer.values.networks.distributions import goes_on_checking
from transformer.values.reports import is_report
from transformer.values.tensors import Tensors

DEPENDS_ON_VALUES = names("tensor", waits="value") - names("tensor", moves=True) | names(
    "tensor", "torch", waits="size"
)
"""Methods and functions whose results, or the sizes of the results, depend on a tensor's values."""
SIZES = attributes(memory="number", tells=False)
GIVES_SIZES = methods(memory="number", waits="")
"""Attributes and methods of tensors that do not depend on the values."""
OF_TENSORS = OF["tensor"].keys() - OF["array"].keys()
"""Methods that only tensors have."""
VALUES_ASKED = CONVERTS | SHOWS | builtin_names(makes="number", takes=True)
"""Builtins that need a tensor's value."""
PRINTS = builtin_names(shows=True, acts=True)
TRACED = (BUILTINS | VALUES_ASKED | builtin_names(takes=True) | builtin_names(makes=("error", "foreign"))) - PRINTS
"""Builtins that are traced; those in VALUES_ASKED only for numbers."""


def graph_break(roles: Roles, function: ast.FunctionDef, nodes: Collection[ast.AST]) -> Held | None:
    """The first of some nodes of a function, or of the functions they call, where a graph may end; None if none may."""
    called, unknown = roles.get(World).run_at(function, nodes)
    ends = [FunctionCode(roles, function).end(nodes)]
    ends += [
        FunctionCode(roles, owner).end(nodes_run(owner)) for owner in called if not written_by_transform(roles, owner)
    ]
    found = [held for held in ends if held is not None]
    if unknown is not None:
        found.append(Held(unknown, "runs unknown code"))
    return min(found, key=lambda held: held.lineno, default=None)


def written_by_transform(roles: Roles, owner: ast.AST) -> bool:
    """Whether a transform has written a function, and so that it does not wait for the device."""
    return getattr(owner, "name", "") in roles.history.on_device


def nodes_run(owner: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function that run when it is called; annotations, errors and nested functions are left out."""
    body = getattr(owner, "body", [])
    stack: list[ast.AST] = [*body] if isinstance(body, list) else [body]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, ast.AnnAssign):
            stack += [n for n in (node.value, node.target) if n is not None]
        elif not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.Raise)):
            stack += children(node)


class FunctionCode:
    """The code of one function."""

    def __init__(self, roles: Roles, owner: ast.AST) -> None:
        self.roles, self.tree, self.world, self.owner = roles, roles.tree, roles.get(World), owner
        body = owner.body if isinstance(owner, ast.FunctionDef) else []
        given = parameters(owner) if isinstance(owner, (ast.FunctionDef, ast.Lambda)) else []
        self._local = scope_access(body).binds | frozenset(given)
        self._masks = {
            target.id
            for stmt in walk(owner)
            if isinstance(stmt, ast.Assign) and is_mask(stmt.value, frozenset())
            for target in stmt.targets
            if isinstance(target, ast.Name)
        }
        """Names of elementwise conditions."""

    def end(self, nodes: Iterable[ast.AST]) -> Held | None:
        """The first node where a graph may end."""
        ends = (Held(node, what) for node in nodes if (what := self._ends(node)))
        return min(ends, key=lambda held: held.lineno, default=None)

    def _ends(self, node: ast.AST) -> str | None:
        if isinstance(node, ast.Call):
            return self._of_call(node)
        if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)) and not self._is_known(node.test):
            return f"branches on {ast.unparse(node.test)}"
        if isinstance(node, COMPREHENSIONS):
            tests = [test for generator in node.generators for test in generator.ifs]
            return None if all(map(self._is_known, tests)) else f"branches on {ast.unparse(tests[0])}"
        if isinstance(node, ast.BoolOp) and not all(map(self._is_known, node.values[:-1])):
            return f"branches on {ast.unparse(node.values[0])}"
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and is_mask(node.slice, self._masks):
            return f"selects elements by a condition: {ast.unparse(node)}"
        if isinstance(node, ast.FormattedValue) and not self._is_number(node.value):
            return f"shows {ast.unparse(node.value)}"
        return None

    def _is_known(self, test: ast.expr) -> bool:
        """Whether a condition is known to depend on no tensor's value."""
        if isinstance(test, ast.BoolOp):
            return all(map(self._is_known, test.values))
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self._is_known(test.operand)
        things = self.world.of(test)
        holds = bool(things) and all(t.kind in CONTAINERS for t in things)
        return holds or self._is_number(test) or decided(self.roles, test, self._local)

    def _is_number(self, node: ast.expr) -> bool:
        """Whether an expression is known to be a number, a string or None that does not depend on a tensor's values."""
        if isinstance(node, (ast.Subscript, ast.Attribute)) and not self.world.are_numbers(node):
            if isinstance(node, ast.Subscript):
                return self._is_number(node.value)
            return node.attr in SIZES or self._is_set_to_numbers(node)
        asks = isinstance(node, ast.Call) and self.tree.calls(node, "torch.compiler.is_compiling")
        if asks or isinstance(node, ast.Constant) or self.world.are_numbers(node):
            return True
        if isinstance(node, (ast.Compare, ast.BinOp)):
            return all(self._is_number(part) for part in children(node) if isinstance(part, ast.expr))
        return calls_method(node, *GIVES_SIZES) and not self.tree.methods(node.func.attr)

    def _is_set_to_numbers(self, node: ast.Attribute) -> bool:
        """Whether an attribute that a base class may define too is always set to a number."""
        things = self.world.of(node)
        pairs = [pair for stmt in self.tree.of(ast.Assign) for pair in pairwise(stmt)]
        values = [v for target, v in pairs if isinstance(target, ast.Attribute) and target.attr == node.attr]
        stores = [n for n in self.tree.of(ast.Attribute) if n.attr == node.attr and not isinstance(n.ctx, ast.Load)]
        inherited = bool(things) and all(t.kind == "method" and t.of[0].kind == "instance" for t in things)
        return inherited and 0 < len(stores) == len(values) and all(map(self.world.are_numbers, values))

    def _of_call(self, call: ast.Call) -> str | None:
        text, name = ast.unparse(call.func), self.tree.qualified(call.func) or ""
        builtin = self.tree.names.builtin(call.func)
        if is_report(self.tree, call) or builtin in PRINTS:
            return f"calls {text}()"
        if name:
            return f"calls {text}()" if self._is_untraced(call, name) else None
        if builtin is not None:
            asked = builtin in VALUES_ASKED and not all(map(self.holds_numbers, call.args))
            return (
                f"reads {ast.unparse(call)} on the host" if asked else None if builtin in TRACED else f"calls {text}()"
            )
        if not calls_method(call):
            return None  # the functions it may run are checked separately
        things = self.world.of(call.func.value)
        if call.func.attr in DEPENDS_ON_VALUES and not (
            things and all(t.kind in ("instance", *CONTAINERS) for t in things)
        ):
            return f"reads {ast.unparse(call.func.value)} on the host"
        if self.roles.get(Tensors).tensor(call.func.value):  # a network's result may also hold its arguments
            return None
        made = {t.name for t in things if t.kind == "made"}
        if call.func.attr in OF_TENSORS and any(t.kind == "tensor" for t in things):
            made = {name for name in made if role(name) != "environments"}  # environments have no such method
        foreign = any(name.partition(".")[0] != "torch" or library_does(name) != "computes" for name in made)
        return f"calls {text}()" if foreign or any(t.kind == "array" for t in things) else None

    def holds_numbers(self, node: ast.expr) -> bool:
        """Whether an argument is a number, a string, None or a container of these."""
        things = self.world.of(node)
        kept = bool(things) and all(t.kind in CONTAINERS and not self.world.contents(t) for t in things)
        return kept or self._is_number(node)

    def _is_untraced(self, call: ast.Call, name: str) -> bool:
        """Whether a function of a library is not known to be traced."""
        module, _, last = name.rpartition(".")
        if name.startswith("einops."):
            return False
        if not name.startswith("torch."):
            return library_does(name) != "computes" or not all(map(self._is_number, arguments(call)))
        if module == "torch" and last.islower() and last not in KNOWN:
            return name not in of_parameters()
        if name.startswith(DISTRIBUTIONS) and goes_on_checking(self.roles) is not None:
            return True
        selects = name == "torch.where" and len(call.args) == 1
        asks = any(k.arg in ("generator", "error_if_nonfinite") for k in call.keywords)
        waits = last in DEPENDS_ON_VALUES | VALUES or selects or asks
        return waits or works_on_host(name) or library_does(name) == "processes"
