"""Learning rates that may be in tensors while an update runs, and are floats at all other times."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable

from transformer.dataflow.name_lookups import is_vars_of_options
from transformer.facts.libraries import module_methods
from transformer.facts.python import SHOWS, TAKES_VALUES
from transformer.facts.torch_api import of_optimizers, optimizers
from transformer.recognition.learning_rate import SCHEDULERS, SEEING, members
from transformer.recognition.roles import Optimizer, Roles
from transformer.syntax.query import bind_arguments, calls_method, walk

STEPPED = of_optimizers("stepping")
"""What an update may use of the optimizer while its rate is in a tensor."""
ASKED = of_optimizers("stepping", "saving")
"""What may be used of it at other times; none returns the optimizer or one of its groups."""
SCHEDULED = of_optimizers(of="scheduler")
"""Likewise for a torch scheduler."""
HELD = module_methods(finds="parameters")
"""Methods that return a network's parameters."""
TAKING = optimizers()
CHOOSING = frozenset(("foreach", "fused", "capturable", "differentiable", None))
"""Arguments with which an optimizer may reject a tensor as a rate, or one on the host."""


def obstacle(roles: Roles, optimizer: Optimizer, updates: Collection[ast.FunctionDef]) -> str | None:
    """Why the rate must not be in a tensor while updates run; None if nothing else sees the optimizer meanwhile.

    An optimizer that is a variable of the training, and is not passed to unknown code, is visible only to the functions
    that name it. None of these may run during an update, whether called there or, without its name, by a signal or in
    another thread; the update itself may clear its gradients and step it. All other code finds the floats it set.
    """
    tree, name = roles.tree, optimizer.name
    if optimizer.kind not in TAKING or any(k.arg in CHOOSING for k in optimizer.call.keywords):
        return "it is not known to accept a tensor as its rate"
    if not _is_above(roles, optimizer.stmt) or name in tree.declared or "." in name:
        return "it is not a variable bound above the training loop"
    if not _makes_its_groups(roles, optimizer):
        return "its groups may be in use elsewhere"
    for node in tree.nodes:
        word = node.id if isinstance(node, ast.Name) else tree.last_name(node)
        method = isinstance(node, ast.Attribute) and tree.qualified(node) is None and word != "_getframe"
        if word in SEEING and not method and not is_vars_of_options(tree, node):
            return f"line {_line(node)} uses {word}, which may see it"
    during = _During(roles, updates)
    return during.of_groups() or during.of_name(name, optimizer.stmt.targets[0])


def _is_above(roles: Roles, stmt: ast.stmt) -> bool:
    """Whether a statement of the training scope runs exactly once, before the training begins."""
    block, around = roles.tree.block(stmt), {roles.outermost, *roles.tree.ancestors(roles.outermost)}
    return roles.tree.scope_of(stmt) is roles.scope and any(s in around for s in block[block.index(stmt) + 1 :])


def _makes_its_groups(roles: Roles, optimizer: Optimizer) -> bool:
    """Whether its groups are written out with networks' parameters: an optimizer keeps the dictionaries it is given."""
    tree, call = roles.tree, optimizer.call
    given = [n for v in (*call.args[:1], *(k.value for k in call.keywords if k.arg == "params")) for n in walk(v)]
    asked = [n for n in given if calls_method(n, *HELD) and not any(map(tree.methods, HELD))]
    known = {n for one in asked for n in walk(one)}
    local = {n.id for n in given if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    names = [n for n in given if isinstance(n, ast.Name) and n not in known and n.id not in local]
    return bool(asked) and all(tree.names.builtin(n) for n in names)


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 1)


class _During:
    """What runs during an update, and what the rest of the script leaves it of an optimizer."""

    def __init__(self, roles: Roles, updates: Collection[ast.FunctionDef]) -> None:
        self._tree = roles.tree
        self._own = {node for update in updates for node in walk(update)}
        # Other files call methods of their arguments, and may instantiate or subclass a class
        methods = (m for c in roles.tree.of(ast.ClassDef) for m in c.body if m is not roles.scope)
        meanwhile = roles.reached([*updates, *roles.called_unseen, *roles.tree.of(ast.AsyncFunctionDef), *methods])
        self._meanwhile = dict.fromkeys(meanwhile)  # in order, so that the reported line is always the same
        self._understood = set[tuple[str, ast.FunctionDef | None]]()

    def of_groups(self) -> str | None:
        """Where a parameter group of an optimizer, or its rate, may be in use during an update."""
        for node in self._meanwhile:
            rate = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == "lr"
            if rate or (isinstance(node, ast.Attribute) and node.attr == "param_groups"):
                return f"line {_line(node)} may see it while an update runs"
        return None

    def of_name(self, name: str, made: ast.expr) -> str | None:
        """Where code that runs during an update sees the optimizer of this name, or may have a reference to it."""
        for node in self._tree.of(ast.Name):
            if node.id != name or node is made:
                continue
            if node in self._meanwhile:
                if not (node in self._own and self._is_asked(node, STEPPED)):
                    return f"line {node.lineno} may see it while an update runs"
            elif not isinstance(node.ctx, ast.Load):
                return f"line {node.lineno} binds its name to something else, or deletes it"
            elif not self._is_harmless(node, ASKED):
                return f"line {node.lineno} may leave it to code that runs during an update"
        return None

    def _is_asked(self, node: ast.expr, asked: Collection[str]) -> bool:
        """Whether one of these methods or attributes of it is used."""
        attribute = self._tree.parents[node]
        call = self._tree.parents[attribute]
        known = isinstance(attribute, ast.Attribute) and attribute.attr in asked
        return known and isinstance(call, ast.Call) and call.func is attribute

    def _is_harmless(self, node: ast.Name, asked: Collection[str]) -> bool:
        """Whether a use leaves no reference by which other code would reach an optimizer or its group."""
        parent = self._tree.parents[node]
        if isinstance(parent, ast.Attribute):
            groups = asked is ASKED and parent.attr == "param_groups" and isinstance(parent.ctx, ast.Load)
            return self._is_asked(node, asked) or (groups and self._reads_entries(parent))
        call = self._tree.parents[parent] if isinstance(parent, ast.keyword) else parent
        return isinstance(call, ast.Call) and call.func is not node and self._is_known_use(call, node, asked)

    def _reads_entries(self, groups: ast.Attribute) -> bool:
        """Whether `optimizer.param_groups` is only used for its length or entries: `[0]["lr"]`, or a loop over them."""
        user = self._tree.parents[groups]
        if isinstance(user, ast.Subscript) and user.value is groups and not isinstance(user.slice, ast.Slice):
            return self._is_entry(user)
        if isinstance(user, ast.Call) and self._tree.names.builtin(user.func) == "len":
            return True
        loop = user if isinstance(user, ast.For) else self._tree.parents[user]
        if not isinstance(loop, ast.For) or groups not in walk(loop.iter):
            return False
        found = members(loop, ast.unparse(groups))
        uses = [n for n in self._tree.of(ast.Name) if n.id in found and isinstance(n.ctx, ast.Load)]
        return bool(found) and all(map(self._is_entry, uses))

    def _is_entry(self, group: ast.expr) -> bool:
        """Whether a group is used only for an entry with a literal key."""
        entry = self._tree.parents[group]
        return isinstance(entry, ast.Subscript) and entry.value is group and isinstance(entry.slice, ast.Constant)

    def _is_known_use(self, call: ast.Call, node: ast.expr, asked: Collection[str]) -> bool:
        """Whether a call's use of it is known: it prints, inspects or schedules it, or is a function of the file."""
        if self._tree.names.builtin(call.func) in SHOWS | TAKES_VALUES:
            return True
        if (self._tree.qualified(call.func) or "").startswith(SCHEDULERS):
            stmt = self._tree.parents[call]
            target = stmt.targets[0] if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 else None
            return isinstance(target, ast.Name) and self._is_understood(target.id, None, SCHEDULED)
        function = self._tree.function_called(call)
        bound = bind_arguments(function, call) if function is not None and not function.decorator_list else None
        taken = bound.parameter_of(node) if bound is not None else None
        return taken is not None and self._is_understood(taken, function, asked)

    def _is_understood(self, name: str, function: ast.FunctionDef | None, asked: Collection[str]) -> bool:
        """Whether the parameter of a function, or a scheduler of this name, leaves no reference and is not in use."""
        if (name, function) in self._understood:
            return True
        self._understood.add((name, function))
        nodes: Iterable[ast.AST] = self._tree.of(ast.Name) if function is None else walk(function)
        uses = [n for n in nodes if isinstance(n, ast.Name) and n.id == name]
        return not any(
            use in self._meanwhile or (isinstance(use.ctx, ast.Load) and not self._is_harmless(use, asked))
            for use in uses
        )
