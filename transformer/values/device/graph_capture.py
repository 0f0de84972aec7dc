"""Whether a CUDA graph can capture a function: whether everything that the function runs works on the device alone.

A replay silently skips everything that Python does: prints, set attributes, reads of values that the loop changes. So
anything that is not known to run on the device is an obstacle.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from transformer.facts.libraries import module_methods
from transformer.facts.lookups import lookups
from transformer.facts.python import ACCESS, COMPUTES, CONTAINERS, CONVERTS, WRITES, builtin_names
from transformer.facts.torch_api import DISTRIBUTIONS, attributes, is_normal, of_optimizers
from transformer.recognition.changes import Changes, foreign_base
from transformer.recognition.roles import Roles
from transformer.syntax.query import (
    bind_arguments,
    calls_itself,
    calls_method,
    children,
    first_parameter,
    is_static,
    pairwise,
    root,
    statements,
    walk,
)
from transformer.syntax.tree import Tree
from transformer.values.device.waits import (
    SYNCHRONIZES,
    arguments,
    asks_tensor,
    computes_on_host,
    is_host,
    is_host_number,
    is_mask,
    makes_on_host,
    of_torch,
    of_torch_function,
    parts_of,
)
from transformer.values.effects.interpreter import MEMORY
from transformer.values.effects.world import World
from transformer.values.networks.attributes import MODULE, BoundScope, Unknown, Values, no_class
from transformer.values.networks.results import Results, loss_called

BUILTINS = (
    COMPUTES - CONVERTS - builtin_names(makes="text") | ACCESS | lookups(of="builtin", finds="attributes", sets=False)
)
OF_TENSORS = attributes(memory="shared", settable=True)
"""Attributes of tensors; setting one happens on the device."""
HANDED_OUT = module_methods(finds=("parameters", "parts"))
SAMPLED = frozenset("Normal Categorical Independent".split())
"""Distributions from which the transform `sampling` draws without waiting for the device."""


class Capture:
    """Looks for obstacles to capturing functions, following the functions and networks that they call."""

    def __init__(self, roles: Roles) -> None:
        facts = roles.history
        self._roles, self._tree = roles, roles.tree
        self._changes = Changes(roles)
        self._networks = {*roles.modules, *roles.target_networks, *([facts.policy] if facts.policy else [])}
        self._optimizers = {o.name for o in roles.optimizers}
        self._seen: set[tuple[ast.FunctionDef, frozenset[tuple[str, bool]]]] = set()
        self._draws: ast.Call | None = None
        self._unsampled: str | None = None

    def obstacle(self, function: ast.FunctionDef, call: ast.Call | None = None) -> str | None:
        """Why a function cannot be replayed, with a line of the script; None if it can be.

        Args:
            function: a function or a method of the file.
            call: the call; parameters that it omits have their defaults.
        """
        self._seen, self._draws, self._unsampled = set(), None, None
        if self._changes.by_text is not None:
            return f"line {self._changes.by_text} sets names or attributes that are known only at run time"
        why = self._search(function, call)
        if why is None and self._draws is not None and self._unsampled is not None:
            why = f"line {self._draws.lineno} draws from {self._unsampled}, which may synchronize with the device"
        return why

    def obstacle_of_call(self, call: ast.Call) -> str | None:
        """Why the call of a network cannot be replayed."""
        if (why := self._unsteady(call)) is not None:
            return why
        method = Results(self._roles, call).called[1]
        return self.obstacle(method, call) if method else self._call_of_network(call)

    def _search(self, function: ast.FunctionDef, call: ast.Call | None) -> str | None:
        known = _known(self._tree, function, call) if call is not None else {}
        if (function, frozenset(known.items())) in self._seen:
            return None
        self._seen.add((function, frozenset(known.items())))
        outer = self._tree.parents[function]
        part = _Part(self._tree, function, outer if isinstance(outer, ast.ClassDef) else None)
        if part.owner is not None and (why := self._unknown_class(part.owner)):
            return why
        for node in _may_run(function.body, known):
            why = self._left_out(node, part) or self._value(node, part)
            if isinstance(node, ast.Call):
                why = why or self._host_work_of(node, part)
            if why is not None:
                return f"line {getattr(node, 'lineno', function.lineno)} {why}"
            if isinstance(node, ast.Call):
                for inner in self._callees(node, part):
                    if (why := self._search(inner, node)) is not None:
                        return why
        return None

    def _unknown(self, text: str) -> str:
        return f"calls {text}(), which is not known to run only on the device"

    def _unknown_class(self, cls: ast.ClassDef) -> str | None:
        """A class or base class that a network uses and another file defines."""
        if (base := foreign_base(self._tree, cls)) is not None:
            return f"{cls.name} is derived from {base}, which is not in this file"
        return None

    @cached_property
    def _methods(self) -> dict[str, list[ast.FunctionDef]]:
        """The methods of the networks' classes, and of this file's distributions, by name."""
        distributions = (cls for cls in self._tree.classes.values() if self._roles.is_distribution(cls))
        found: dict[str, list[ast.FunctionDef]] = {}
        for cls in dict.fromkeys((*self._roles.network_classes, *distributions)):
            for stmt in cls.body:
                if isinstance(stmt, ast.FunctionDef):
                    found.setdefault(stmt.name, []).append(stmt)
        return found

    def _callees(self, call: ast.Call, part: _Part) -> Iterator[ast.FunctionDef]:
        """The functions of this file that a call may run; for an unknown object, any method of that name."""
        if isinstance(call.func, ast.Name) and call.func.id in self._roles.history.on_device:
            return
        function = self._tree.function_called(call) or Results(self._roles, call).called[1]
        if function is not None:
            yield function
        elif calls_itself(call, part.own):
            yield from (m for m in self._methods.get("forward", ()) if part.owner is not None and m in part.owner.body)
        elif isinstance(call.func, ast.Name):
            cls = self._tree.classes.get(call.func.id)
            yield from (m for m in self._methods.get("__init__", ()) if cls is not None and m in cls.body)
        elif isinstance(call.func, ast.Attribute) and call.func.attr in self._methods:
            if root(call.func) not in self._optimizers:
                yield from self._methods[call.func.attr]
        elif part.owner is not None and root(call.func) == part.own:  # a part of the network
            for cls in self._tree.used_classes(part.owner)[1:]:
                yield from (m for m in self._methods.get("forward", ()) if m in cls.body)

    def _left_out(self, node: ast.AST, part: _Part) -> str | None:
        """What a node does besides computing, which a replay would not repeat."""
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            return f"binds {node.names[0]} of an outer scope, which a replay would not"
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and node.attr not in OF_TENSORS:
            fresh = part.name == "__init__" and root(node) == part.own
            return None if fresh else f"sets {ast.unparse(node)}, which a replay would not"
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and root(node) not in part.made:
            if _is_entry(node):
                return f"sets {ast.unparse(node)}, which a replay would not"
        if calls_method(node, *(WRITES - {"add"})):
            if ast.unparse(node.func.value) not in part.made and node.func.attr not in self._methods:
                return f"calls {ast.unparse(node.func)}(), which a replay would not"
        return None

    def _value(self, node: ast.AST, part: _Part) -> str | None:
        """Why a node's value would differ in a replay: host values that change, or a wait for the device."""
        if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)) and asks_tensor(self._tree, node.test):
            return f"branches on {ast.unparse(node.test)}, which a capture fixes"
        if isinstance(node, ast.Subscript) and is_mask(node.slice, part.masks):
            return f"selects elements by a condition: {ast.unparse(node)}"
        if isinstance(node, ast.Subscript) and any(map(self._is_host_index, parts_of(node.slice))):
            return f"selects elements by indices copied from the host: {ast.unparse(node)}"
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.attr not in OF_TENSORS:
            line = self._changes.stored.get(node.attr) or self._changes.grown.get(node.attr)
            parent = self._tree.parents[node]
            method = isinstance(parent, ast.Call) and parent.func is node
            if line is not None and not method and self._tree.qualified(node) is None and not self._stays(node):
                return f"reads {ast.unparse(node)}, which line {line} changes"
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and self._is_of_host(node):
            holder = ast.unparse(node.value)
            line = self._changes.touched.get(holder.rpartition(".")[2])
            if line is not None and holder not in part.bound:
                return f"reads {ast.unparse(node)}, which line {line} may change"
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in part.bound:
            if node.id in self._roles.variant and self._roles.is_ours(node):
                return f"reads {node.id}, which the training loop binds"
            line = self._changes.bound.get(node.id) or self._changes.grown.get(node.id)
            if line is not None:
                return f"reads {node.id}, which line {line} changes"
        return None

    def _stays(self, node: ast.Attribute) -> bool:
        """Whether an attribute belongs to known objects and nothing in the training loop sets it."""
        world = self._roles.get(World)
        known = node.attr not in self._changes.grown and world.is_known(world.of(node.value))
        return known and world.resets(node, [self._roles.outermost]) is None

    def _is_of_host(self, node: ast.Subscript) -> bool:
        """Whether a node is known to be an entry of a dict, list or array on the host."""
        return _is_entry(node) or ast.unparse(node.value) in self._host_containers

    def _is_host_index(self, part: ast.expr) -> bool:
        """Whether a part of an index is a list or another host container."""
        return isinstance(part, ast.List) or ast.unparse(part) in self._host_indices

    @cached_property
    def _host_indices(self) -> frozenset[str]:
        """Names of containers, and of tensors made on the host and not moved to the device."""
        return self._host_containers | self._names_of(lambda value: makes_on_host(self._tree, value))

    @cached_property
    def _host_containers(self) -> frozenset[str]:
        """Names of dicts, lists and numpy arrays."""
        roles = self._roles
        return self._names_of(lambda v: _is_new_container(v) or (isinstance(v, ast.Call) and _of_numpy(roles.tree, v)))

    def _names_of(self, holds: Callable[[ast.expr], bool]) -> frozenset[str]:
        """The names to which such a value is assigned anywhere in the file."""
        return frozenset(
            ast.unparse(target)
            for stmt in self._tree.nodes
            if isinstance(stmt, ast.Assign)
            for target, value in pairwise(stmt)
            if holds(value)
        )

    def _host_work_of(self, call: ast.Call, part: _Part) -> str | None:
        """What a call does on the host, judged by its name and arguments."""
        text, name = ast.unparse(call.func), self._tree.qualified(call.func) or ""
        self._note_distribution(name, call)
        if name.startswith("torch."):
            return of_torch(self._tree, call, name)
        if name and not name.startswith("einops."):
            steady = computes_on_host(name)
            host = all(is_host_number(self._tree, a) for a in arguments(call))
            return None if steady and host else f"calls {text}(), which runs on the host"
        if isinstance(call.func, ast.Name):
            return self._call_of_name(call, call.func.id, part)
        return self._call_of_method(call, call.func, part) if isinstance(call.func, ast.Attribute) else None

    def _note_distribution(self, name: str, call: ast.Call) -> None:
        """Record the name of a distribution that the transform `sampling` does not rewrite."""
        cls = self._tree.classes.get(ast.unparse(call.func))
        own = cls is not None and self._roles.is_distribution(cls)
        bases = [self._tree.qualified(b) or "" for b in cls.bases] if own and cls is not None else [name]
        for base in bases:
            kind = base.rpartition(".")[2]
            if base.startswith(DISTRIBUTIONS) and kind[:1].isupper() and kind not in SAMPLED:
                self._unsampled = ast.unparse(call.func)

    def _call_of_name(self, call: ast.Call, name: str, part: _Part) -> str | None:
        if loss_called(self._tree, call.func):
            return None
        builtin = self._tree.names.builtin(call.func)
        if builtin in CONVERTS:
            host = all(is_host_number(self._tree, a) for a in call.args)
            return None if host else f"reads {ast.unparse(call)} on the host"
        if name in self._roles.history.on_device:
            self._draws = call if name == self._roles.history.sampler else self._draws
            return None
        ours = self._tree.function_called(call) is not None or name in self._tree.classes or name in part.functions
        if ours or builtin in BUILTINS or (calls_itself(call, part.own) and self._has_forward(part)):
            return None
        return self._call_of_network(call) if name in self._networks else self._unknown(name)

    def _has_forward(self, part: _Part) -> bool:
        """Whether the class of a method defines the forward() that runs when its object is called."""
        return part.owner is not None and any(m in part.owner.body for m in self._methods.get("forward", ()))

    def _call_of_method(self, call: ast.Call, func: ast.Attribute, part: _Part) -> str | None:
        method, owner, receiver = func.attr, root(func), ast.unparse(func.value)
        if loss_called(self._tree, func):
            return None
        if method in SYNCHRONIZES:
            return f"reads {receiver} on the host"
        if method in ("type", "to") and any(is_host(self._tree, a) for a in arguments(call)):
            return f"moves {receiver} to the host"
        if (
            method in ("to", "cuda")
            and isinstance(func.value, (ast.Name, ast.Attribute))
            and receiver not in part.bound
        ):
            return f"moves {receiver}, which may be on the host"
        if owner in self._optimizers and method in of_optimizers("stepping") and receiver == owner:
            return None
        if method == "rsample" and receiver in part.normals:
            return None
        if method == "rsample":
            drawn = ast.unparse(call)
            return f"draws with {drawn}, which is known to stay on the device only for a Normal made in its function"
        if method == "sample":
            drawn = ast.unparse(call)
            return f"draws with {drawn}, which may read the parameters on the host: draw in a method of the network"
        if owner in self._networks:
            return self._call_of_network(call) if method not in HANDED_OUT else self._unsteady(call)
        # A tensor, a distribution or a part of a network, or a result of one
        known = owner in part.bound or not owner or self._is_own_tensor(owner)
        return None if known else self._unknown(ast.unparse(func))

    def _is_own_tensor(self, name: str) -> bool:
        """Whether a name is a device tensor that is made once above the training loop and keeps its memory."""
        value, place = self._roles.only_value(name), self._roles.device
        if isinstance(value, ast.Call) and self._tree.calls(value, "torch.nn.Parameter") and len(value.args) == 1:
            value = value.args[0]
        if not isinstance(value, ast.Call) or not of_torch_function(self._tree, value):
            return False
        stored = (n for n in self._tree.of(ast.Attribute) if not isinstance(n.ctx, ast.Load) and root(n) == name)
        return any(k.arg == "device" and ast.unparse(k.value) == place for k in value.keywords) and not any(stored)

    def _unsteady(self, call: ast.Call) -> str | None:
        """Why a call may not run the same network each time."""
        facts, name = self._roles.history, root(call.func)
        network = (facts.policy_target or name).partition(".")[0] if name == facts.policy else name
        return facts.unsteady.get(network)

    def _call_of_network(self, call: ast.Call) -> str | None:
        if (why := self._unsteady(call)) is not None:
            return f"calls {ast.unparse(call.func)}(): {why}"
        if Results(self._roles, call).called[1] is not None:
            return None
        name = root(call.func)
        values = [value for _, value in self._roles.assignments(name)]
        plain = isinstance(call.func, ast.Name) and bool(values) and all(map(self._is_torch_module, values))
        return None if plain or self._is_of_layers(call.func) else self._unknown(ast.unparse(call.func))

    def _is_of_layers(self, network: ast.expr) -> bool:
        """Whether an expression is a module of torch that contains only modules of torch: `agent.actor`.

        That it stays the same module is another question: see :meth:`_unsteady`.
        """
        world = self._roles.get(World)
        things = world.of(network)
        held = world.reach(things)
        modules = [t for t in held if t.kind not in (*MEMORY, *CONTAINERS)]
        own = all(t.name.startswith("torch.nn.") and "parallel" not in t.name.lower() for t in modules)
        return bool(things) and not world.gave_up and all(t.kind == "made" for t in modules) and own

    def _is_torch_module(self, value: ast.expr) -> bool:
        """Whether a network is made only of torch's modules, possibly by a function of this file."""
        calls = [n for n in walk(value) if isinstance(n, ast.Call) and self._tree.qualified(n.func) is not None]
        names = [self._tree.qualified(c.func) or "" for c in calls]
        if names and all(n.startswith("torch.nn.") and "parallel" not in n.lower() for n in names):
            return True
        try:
            return Values(self._roles, no_class).leaves(value, BoundScope(self._roles.scope)) == MODULE
        except Unknown:
            return False


class _Part:
    """A function to replay, and what the names in it mean."""

    def __init__(self, tree: Tree, function: ast.FunctionDef, owner: ast.ClassDef | None) -> None:
        self.name, self.owner = function.name, owner
        self.own = first_parameter(function) if owner is not None else None
        """The method's name for `self`."""
        nodes = list(walk(function))
        stored = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        self.bound = stored | {n.arg for n in nodes if isinstance(n, ast.arg)}
        """Parameters and the names that the function binds."""
        self.functions = {n.name for n in nodes if isinstance(n, ast.FunctionDef)}
        """Functions that the function defines."""
        values: dict[str, list[ast.expr]] = {}
        for stmt in statements(function.body):
            for target, value in pairwise(stmt) if isinstance(stmt, ast.Assign) else ():
                values.setdefault(ast.unparse(target), []).append(value)
        self.made = {
            name
            for name, given in values.items()
            if any(map(_is_new_container, given)) and not any(isinstance(v, (ast.Name, ast.Attribute)) for v in given)
        }
        """Names of lists and dicts that the function makes."""
        self.normals = {
            name
            for name, given in values.items()
            if all(isinstance(v, ast.Call) and is_normal(tree.qualified(v.func) or "") for v in given)
            and sum(_binds_in(n, name) for n in nodes) == len(given)
        }
        """Names of normal distributions: rsample() does not synchronize, but sample() checks its parameters."""
        self.masks = {name for name, given in values.items() if any(is_mask(v, frozenset()) for v in given)}
        """Names of elementwise conditions."""


def _binds_in(node: ast.AST, name: str) -> bool:
    """Whether a node binds a name, as a parameter or another variable."""
    if isinstance(node, ast.arg):
        return node.arg == name
    return isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)


def _is_new_container(value: ast.expr) -> bool:
    made = isinstance(value, ast.Call) and ast.unparse(value.func) in ("list", "dict", "set", "deque")
    return made or isinstance(value, (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp))


def _is_entry(node: ast.Subscript) -> bool:
    """Whether a node is an entry of a dict: `config["clip_coef"]`."""
    return isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)


def _of_numpy(tree: Tree, call: ast.Call) -> bool:
    return (tree.qualified(call.func) or "").startswith("numpy.")


def _may_run(body: Iterable[ast.stmt], known: Mapping[str, bool]) -> Iterator[ast.AST]:
    """The nodes of a block that may run on a device.

    Branches that the call does not take, annotations, decorators and raised errors are left out.
    """
    stack: list[ast.AST] = []
    stack.extend(reversed(list(body)))
    while stack:
        node = stack.pop()
        asked = _value_of_none_test(node.test, known) if isinstance(node, ast.If) else None
        if isinstance(node, ast.If) and asked is not None:
            stack += reversed(node.body if asked else node.orelse)
            continue
        if isinstance(node, ast.Raise):
            continue
        yield node
        if isinstance(node, ast.FunctionDef):
            stack += reversed(node.body)
        elif isinstance(node, ast.AnnAssign):
            stack += [n for n in (node.value, node.target) if n is not None]
        else:
            stack += list(children(node))[::-1]


def _value_of_none_test(test: ast.expr, known: Mapping[str, bool]) -> bool | None:
    """The value of `x is None` or `x is not None` if it is known for parameter x; None for other conditions."""
    none = known.get(_asks_none(test))
    return None if none is None or not isinstance(test, ast.Compare) else none == isinstance(test.ops[0], ast.Is)


def _asks_none(test: ast.expr) -> str:
    """The name in `x is None` and in `x is not None`; "" for other conditions."""
    if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Name):
        return ""
    right = test.comparators[0]
    none = isinstance(right, ast.Constant) and right.value is None and isinstance(test.ops[0], (ast.Is, ast.IsNot))
    return test.left.id if none else ""


def _known(tree: Tree, function: ast.FunctionDef, call: ast.Call) -> dict[str, bool]:
    """Whether a call leaves parameters None, for parameters that exactly one condition tests.

    A second condition might see a value bound in the first one's branch.
    """
    method = isinstance(tree.parents[function], ast.ClassDef) and not is_static(function)
    bound = bind_arguments(function, call, call.func if method else None)
    if bound is None:
        return {}
    asked = [_asks_none(n.test) for n in walk(function) if isinstance(n, ast.If)]
    return {
        name: isinstance(value, ast.Constant)
        for name, value in bound.values.items()
        if asked.count(name) == 1
        and (isinstance(value, (ast.Subscript, ast.BinOp)) or (isinstance(value, ast.Constant) and value.value is None))
    }
