"""The memory of what a block computes: whether it is a value's alone, who else holds it, keeps it, or changes it.

What names alone tell stands in dataflow/memory.py; here it is known, too, what networks return and methods keep. All of
it errs on the side of sharing, keeping and change. Two questions look alike and are not: memory that is *fresh* is
nobody else's and stays so, so that it may be kept without a copy; memory that is *left alone* may be held by others,
who only read it, so that reading it later gives the same.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property

from transformer.dataflow.memory import (
    HARMLESS,
    changed_in_place,
    holders,
    is_array,
    is_in_place,
    may_be_given,
    roots,
    shared,
)
from transformer.recognition.buffers import find_allocations
from transformer.recognition.changes import GROWING
from transformer.recognition.roles import Roles
from transformer.syntax.query import bind_arguments, calls_method, pairwise, statements, walk
from transformer.syntax.tree import Tree
from transformer.torch_api import NEW, VIEWS, names
from transformer.values.networks.results import Results
from transformer.values.reports import is_report
from transformer.values.tensors import Tensors, values

MADE = names("torch", "functional", memory="new")
"""Functions of torch whose results share memory with nothing."""
LIBRARIES = frozenset("torch numpy gym gymnasium wandb tensorboard tensorboardX envpool tqdm rich logging tyro".split())
"""Packages whose objects are known to keep no tensor that they are given, but for what they are made for."""


class Memory:
    """The memory of the values of one block: of the rollout's steps, of a turn of the training loop."""

    def __init__(self, roles: Roles, body: Sequence[ast.stmt]) -> None:
        self._roles, self._tree, self._body = roles, roles.tree, body
        self._tensors = roles.get(Tensors)
        self._copied_into = set(find_allocations(roles))

    # --- who else holds it -----------------------------------------------------------------------------------

    def shared_with(self, names: Collection[str]) -> set[str]:
        """The names, and all that the block may bind to their memory or bind them to."""
        return shared(names, self._body, self._tensors.produced)

    def holders(self, name: str) -> set[str]:
        """Other names that the block may bind to the memory of one."""
        return holders(name, self._body, self._tensors.produced)

    # --- whether it is fresh ---------------------------------------------------------------------------------

    def is_fresh(self, value: ast.expr) -> bool:
        """Whether nothing else holds or changes the value's memory: it was computed in this step and is left alone."""
        while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            if self._tree.calls(value, "torch.tensor"):
                return True  # always copies, unlike torch.Tensor, as_tensor and from_numpy
            if self._tree.qualified(value.func):
                return False
            if value.func.attr not in VIEWS:
                return value.func.attr in NEW and not may_be_given(value) and self._tensors.tensor(value.func.value)
            value = value.func.value
        if _is_computed(value):
            return True
        if isinstance(value, ast.Subscript):
            return self._tensors.tensor(value.slice)  # indexing by a tensor copies
        if not isinstance(value, ast.Name) or not self._is_made_new(value):
            return False
        names = self.shared_with({value.id}) - self._copied_into
        changed = changed_in_place(self._body) - self._copied_into
        return not names & changed and not any(names & given for given in self._given())

    def _is_made_new(self, name: ast.Name) -> bool:
        """Whether a name holds what a network has just computed, and no other name holds that too."""
        stmt = self._tree.statement(name)
        bindings = list(self._tensors.bindings(name.id, stmt))
        return bool(bindings) and all(b is not None and self._binds_new(name.id, b) for b in bindings)

    def _binds_new(self, name: str, stmt: ast.stmt) -> bool:
        if not isinstance(stmt, ast.Assign) or len(stmt.targets) != 1 or not isinstance(stmt.value, ast.Call):
            return False
        target, call = stmt.targets[0], stmt.value
        if not self._tensors.produced(call):
            return False
        if isinstance(target, ast.Name):
            return Results(self._roles, call).is_new(None)
        if not isinstance(target, ast.Tuple):
            return False
        places = [i for i, t in enumerate(target.elts) if isinstance(t, ast.Name) and t.id == name]
        return len(places) == 1 and Results(self._roles, call).is_new(places[0], len(target.elts))

    def _given(self) -> Iterator[set[str]]:
        """What may be handed to code that keeps or changes it, call by call."""
        for stmt in statements(self._body):
            for node in walk(stmt):
                if isinstance(node, ast.Call) and not self._keeps_nothing(node):
                    yield {n for a in (*node.args, *(k.value for k in node.keywords)) for n in roots(a)}

    def _keeps_nothing(self, call: ast.Call) -> bool:
        """Whether a call is known neither to keep nor to change what it is given."""
        if self._tensors.produced(call) or (self._tree.qualified(call.func) or "").startswith(("torch.", "numpy.")):
            return True
        if isinstance(call.func, ast.Name):
            return self._tree.names.builtin(call.func) in HARMLESS
        return is_report(self._tree, call) or (
            isinstance(call.func, ast.Attribute) and self._tensors.tensor(call.func.value)
        )

    # --- whether it is left alone ----------------------------------------------------------------------------

    @cached_property
    def changed(self) -> set[str]:
        """Names whose memory the block changes in place."""
        return self.shared_with(changed_in_place(self._body))

    @cached_property
    def _handed(self) -> set[str]:
        """Names whose memory is given to what is not known to leave it alone."""
        nodes = (n for stmt in self._body for n in walk(stmt))
        calls = [n for n in nodes if isinstance(n, ast.Call) and not self._changes_nothing(n)]
        return self.shared_with({n for c in calls for a in (*c.args, *(k.value for k in c.keywords)) for n in roots(a)})

    def is_left_alone(self, node: ast.expr, inside: Collection[ast.stmt], depth: int = 6) -> bool:
        """Whether a tensor is computed by some of the block's statements, and nothing changes its memory afterwards."""
        if isinstance(node, ast.Name):
            bindings = list(self._tensors.bindings(node.id, self._tree.statement(node)))
            if not depth or not bindings or node.id in self.changed | self._handed:
                return False
            return all(
                b is not None
                and b in inside
                and (
                    self._is_result(node.id, b)
                    or all(self.is_left_alone(v, inside, depth - 1) for v in values(b, node.id))
                )
                for b in bindings
            )
        if calls_method(node):
            if node.func.attr in VIEWS:
                return self.is_left_alone(node.func.value, inside, depth)
            function = (self._tree.qualified(node.func) or "").removeprefix("torch.").removeprefix("nn.functional.")
            return (node.func.attr in NEW or function in MADE) and not may_be_given(node)
        return _is_computed(node)

    def _is_result(self, name: str, stmt: ast.stmt) -> bool:
        """Whether a name is one of several results of a network's call, which computes it anew."""
        several = isinstance(stmt, ast.Assign) and isinstance(stmt.targets[0], ast.Tuple)
        return several and self._roles.kind == "off-policy" and self._binds_new(name, stmt)

    def _changes_nothing(self, call: ast.Call, inside: int = 3) -> bool:
        """Whether a call leaves the memory of its arguments alone."""
        if any(k.arg == "inplace" for k in call.keywords):
            return False
        qualified = self._tree.qualified(call.func) or ""
        if qualified.startswith(("torch.", "numpy.")):
            by_place = qualified.startswith("torch.nn.functional.") and any(
                isinstance(a, ast.Constant) and a.value is True for a in call.args
            )
            return not is_in_place(qualified) and not by_place
        function = self._tree.function_called(call)
        if function is not None:
            inner = [n for stmt in function.body for n in walk(stmt) if isinstance(n, ast.Call)]
            alone = not changed_in_place(function.body) and not function.decorator_list
            return inside > 0 and alone and all(self._changes_nothing(c, inside - 1) for c in inner)
        if isinstance(call.func, ast.Name):
            return self._tree.names.builtin(call.func) in HARMLESS or self._tensors.produced(call)
        if not isinstance(call.func, ast.Attribute):
            return False
        known = is_report(self._tree, call) or self._tensors.produced(call)
        return known or self._tensors.tensor(call.func.value)

    # --- who keeps it ----------------------------------------------------------------------------------------

    def keeper(self, names: set[str]) -> ast.Call | None:
        """The first call in the block that hands the memory of names to what may keep it beyond the block."""
        roles = self._roles
        for stmt in self._body:
            for node in walk(stmt):
                if not isinstance(node, ast.Call) or roles.tree.qualified(node.func):
                    continue
                held = names | _comprehended(roles.tree, node, names)
                for argument in (*node.args, *(k.value for k in node.keywords)):
                    if roots(argument) & held and _may_keep(roles, node, argument):
                        return node
        return None

    def kept_beyond(self, names: set[str], older: Collection[str]) -> int | None:
        """The first line of the block that puts the memory of names into an object which was there before the block.

        Args:
            names: what is looked for.
            older: names whose value from before the block may be read in it.
        """
        return _kept_beyond(self._body, names, older, self._tensors.tensor)


def _is_computed(value: ast.expr) -> bool:
    """Whether a value is the result of an operator, which is new; +tensor is the tensor itself."""
    plain = isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.UAdd)
    return isinstance(value, (ast.BinOp, ast.Compare, ast.UnaryOp)) and not plain


def _kept_beyond(
    body: Sequence[ast.stmt], names: set[str], older: Collection[str], is_tensor: Callable[[ast.expr], bool]
) -> int | None:
    """The first line of a block that puts the memory of names into an object which was there before the block.

    Args:
        body: the block.
        names: what is looked for.
        older: names whose value from before the block may be read in it.
        is_tensor: whether an expression is known to be a tensor, whose elements are copied where they are set.
    """
    links = [
        (into.lineno, roots(into), roots(value)) for stmt in statements(body) for into, value in _put(stmt, is_tensor)
    ]
    held, size = {*names}, 0
    while len(held) > size:  # a list of this turn may be put into an older one
        size = len(held)
        for line, into, put in links:
            if put & held:
                if into & {*older}:
                    return line
                held |= into
    return None


def _put(stmt: ast.stmt, is_tensor: Callable[[ast.expr], bool]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a statement puts something into, an attribute's object or a container, and what."""
    for node in walk(stmt):
        if isinstance(node, ast.Assign):
            for target, value in pairwise(node):
                if isinstance(target, ast.Attribute) or (
                    isinstance(target, ast.Subscript) and not is_tensor(target.value)
                ):
                    yield target.value, value
        elif isinstance(node, ast.AugAssign) and isinstance(node.value, (ast.List, ast.Tuple, ast.ListComp)):
            yield node.target, node.value
        elif calls_method(node, *GROWING):
            method = node.func.attr  # sets hold no tensors; running statistics have an update() too
            given = [] if method == "add" else [a for a in node.args if method != "update" or isinstance(a, ast.Dict)]
            for value in (*given, *(k.value for k in node.keywords)):
                yield node.func.value, value


def _comprehended(tree: Tree, node: ast.AST, names: set[str]) -> set[str]:
    """Variables of comprehensions around a node that run over the memory of names."""
    found: set[str] = set()
    for outer in tree.ancestors(node):
        if isinstance(outer, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            for generator in outer.generators:
                if roots(generator.iter) & (names | found):
                    found |= roots(generator.target)
    return found


def _may_keep(roles: Roles, call: ast.Call, argument: ast.expr) -> bool:
    if isinstance(call.func, ast.Name):
        grows = (v for _, v in roles.assignments(call.func.id) if isinstance(v, ast.Attribute))
        if any(v.attr in GROWING for v in grows) or any(
            _keeps(roles, cls, method, call, argument) for cls, method in _methods(roles, call.func.id)
        ):
            return True
        functions = _functions(roles.tree, call.func.id)
        if functions:
            return any(_puts_away(f, call, argument) for f in functions)
        return call.func.id not in roles.tree.classes and not _is_called_by_its_name(roles, call.func)
    if not isinstance(call.func, ast.Attribute):
        return True  # what another call returns, or a container holds
    methods = list(_methods(roles, call.func.attr))
    if not methods:
        return _is_foreign(roles, call.func.value)
    return any(_keeps(roles, cls, method, call, argument) for cls, method in methods)


def _puts_away(function: ast.FunctionDef, call: ast.Call, argument: ast.expr) -> bool:
    """Whether a function puts its parameter's memory into an object that is not its own."""
    bound = bind_arguments(function, call)
    held = bound.parameter_of(argument) if bound is not None else None
    if held is None:
        return True
    own = {n.id for n in walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    own -= {name for n in walk(function) if isinstance(n, (ast.Global, ast.Nonlocal)) for name in n.names}
    others = {n.id for n in walk(function) if isinstance(n, ast.Name)} - own
    names = {held} | holders(held, function.body, _unknown)
    return _kept_beyond(function.body, names, others, _unknown) is not None


def _is_called_by_its_name(roles: Roles, name: ast.Name) -> bool:
    """Whether a name stands for a builtin or a network, or for its method, and not for some function."""
    networks = {*roles.modules, *([roles.history.policy] if roles.history.policy else [])}
    return name.id in networks or roles.tree.names.builtin(name) is not None


def _unknown(value: ast.expr) -> bool:
    return False


def _functions(tree: Tree, name: str) -> Sequence[ast.FunctionDef]:
    """The functions of this file that a name may stand for, in any scope; none where it may be something else."""
    if any(n.id == name and not isinstance(n.ctx, ast.Load) for n in tree.of(ast.Name)):
        return ()
    return tree.functions(name)


def _methods(roles: Roles, name: str) -> Iterator[tuple[ast.ClassDef, ast.FunctionDef]]:
    """The methods of a name of all classes of this file but those of the networks, which compute and return."""
    for cls in roles.tree.classes.values():
        for method in cls.body if cls not in roles.network_classes else ():
            if isinstance(method, ast.FunctionDef) and method.name == name:
                yield cls, method


def _is_foreign(roles: Roles, receiver: ast.expr) -> bool:
    """Whether an object is of a class that is neither of this file nor of a library that is known."""
    if not isinstance(receiver, ast.Name) or receiver.id in roles.modules:
        return False
    made = [roles.tree.qualified(v.func) for _, v in roles.assignments(receiver.id) if isinstance(v, ast.Call)]
    return any(q is not None and q.partition(".")[0] not in LIBRARIES for q in made)


def _is_row_of_array(tree: Tree, argument: ast.expr) -> bool:
    """Whether an argument is a row of an array, whose copy() is new; that of a list holds the same objects."""
    comprehensions = (
        n for n in tree.ancestors(argument) if isinstance(n, (ast.ListComp, ast.SetComp, ast.GeneratorExp))
    )
    generators = [g for comprehension in comprehensions for g in comprehension.generators]
    over = [g.iter for g in generators if ast.unparse(g.target) == ast.unparse(argument)]
    return bool(over) and all(map(is_array, over))


def _keeps(roles: Roles, cls: ast.ClassDef, method: ast.FunctionDef, call: ast.Call, argument: ast.expr) -> bool:
    """Whether a method binds an attribute to its parameter's memory, and not only until it is called again."""
    bound = bind_arguments(method, call, call.func)
    given = bound.parameter_of(argument) if bound is not None else None
    if given is None:
        return True
    held = {given}
    copied = f"{given}.copy()" if _is_row_of_array(roles.tree, argument) else ""
    for stmt in statements(method.body):
        if isinstance(stmt, ast.Assign):
            held |= {t.id for t, v in pairwise(stmt) if isinstance(t, ast.Name) and roots(v) & held}
        elif isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Call):
            func = stmt.value.func
            grows = isinstance(func, ast.Attribute) and func.attr in ("append", "extend", "add", "appendleft", "insert")
            if grows and any(roots(a) & held for a in stmt.value.args):
                return True
    for stmt in statements(method.body):
        for target, value in pairwise(stmt) if isinstance(stmt, ast.Assign) else ():
            if isinstance(target, ast.Subscript) or not isinstance(target, ast.Attribute) or not roots(value) & held:
                continue
            if ast.unparse(value) == copied:
                continue
            if not _is_replaced(cls, method, stmt, target, held):
                return True
    return False


def _is_replaced(
    cls: ast.ClassDef, method: ast.FunctionDef, stmt: ast.stmt, target: ast.Attribute, held: set[str]
) -> bool:
    """Whether an attribute holds a parameter from the first call to the second alone, which makes a new value of it.

    That is how rewards are discounted forwards: `self.sums = x if self.sums is None else self.sums * gamma + x`.
    """
    text = ast.unparse(target)
    begins = [s for s in statements(method.body) if isinstance(s, ast.If) and ast.unparse(s.test) == f"{text} is None"]
    first = {s for begin in begins for s in begin.body}
    for other in statements(method.body):
        for bound, value in pairwise(other) if isinstance(other, ast.Assign) and other not in first else ():
            if ast.unparse(bound) == text and roots(value) & held:
                return False
    changes = (n for n in walk(cls) if isinstance(n, (ast.AugAssign, ast.Subscript, ast.Call)))
    return stmt in first and not any(text in _changed(n) for n in changes)


def _changed(node: ast.AugAssign | ast.Subscript | ast.Call) -> str:
    """What an augmented or element assignment or a method of tensors changes in place, as it is written."""
    if isinstance(node, ast.AugAssign):
        return ast.unparse(node.target)
    if isinstance(node, ast.Subscript):
        return ast.unparse(node.value) if isinstance(node.ctx, ast.Store) else ""
    return ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) and is_in_place(node.func.attr) else ""
