"""The replay buffers of libraries, whose samples are tuples of tensors, and the other inputs of off-policy updates."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass

from transformer.recognition.roles import Roles
from transformer.syntax.options import holds_options
from transformer.syntax.query import calls_method, names_in, root, statements, walk
from transformer.values.tensors import Tensors, values

LIBRARY = tuple(f"{module}.ReplayBuffer" for module in ("cleanrl_utils.buffers", "stable_baselines3.common.buffers"))
"""Classes that keep numpy arrays; sample() draws indices and returns a tuple of tensors on the buffer's device."""
DEVICE = 3
"""The index of the device among the constructor's arguments."""
USED = frozenset("add sample size pos full buffer_size".split())
"""Methods and attributes of a buffer that do not depend on the device."""


@dataclass(frozen=True)
class LibraryBuffer:
    """A library's replay buffer, made once above the training loop."""

    name: str
    call: ast.Call
    """The call that makes it."""
    samples: tuple[ast.Call, ...]
    """The calls that sample from it."""
    used: ast.Name | None
    """A use that may depend on the buffer's device; None if there is none."""

    @property
    def device(self) -> ast.expr | None:
        """The argument for the device of the samples; None if it is omitted or not explicit."""
        if any(isinstance(a, ast.Starred) for a in self.call.args) or any(k.arg is None for k in self.call.keywords):
            return None
        named = [k.value for k in self.call.keywords if k.arg == "device"]
        return (*named, *self.call.args[DEVICE : DEVICE + 1], None)[0]


def library_buffer(roles: Roles) -> LibraryBuffer | None:
    """The replay buffer that a script learns from, if it is from a known library."""
    name, tree = roles.phases.replay, roles.tree
    call = roles.only_value(name) if name is not None else None
    if name is None or not isinstance(call, ast.Call) or not tree.calls(call, *LIBRARY):
        return None
    if root(call.func) in tree.bound | tree.classes.keys():
        return None  # another class with this name
    uses = [n for n in tree.of(ast.Name) if n.id == name and isinstance(n.ctx, ast.Load)]
    outer = [tree.parents[n] for n in uses]
    known = [isinstance(o, ast.Attribute) and o.attr in USED and isinstance(o.ctx, ast.Load) for o in outer]
    called = [tree.parents[o] for o in outer if isinstance(o, ast.Attribute) and o.attr == "sample"]
    samples = tuple(c for c in called if calls_method(c, "sample") and roles.outermost in tree.ancestors(c))
    plain = len(samples) == len(called)
    used = next((n for n, k in zip(uses, known, strict=True) if not k), None)
    return LibraryBuffer(name, call, samples, used if plain else uses[0])


def is_steady(roles: Roles, name: str, call: ast.stmt, captured: Collection[str] = ()) -> bool:
    """Whether a name holds tensors of fixed shapes, or a number that never changes, whenever a statement is reached.

    It may hold a number on one side of a condition that never changes, and a tensor on the other.

    Args:
        roles: the script.
        name: a variable of the training scope.
        call: the statement.
        captured: functions whose tensors always have the same shapes.
    """
    returned = {r for f in captured for r in roles.history.functions[f].tensor_results}
    bindings = roles.get(Tensors).bindings(name, call)
    found: list[ast.stmt] = []
    numbers: list[ast.stmt] = []
    for stmt in bindings:
        if stmt is None:
            return False
        given = list(values(stmt, name))
        if (
            given
            and all(_is_constant_or_option(roles, v) for v in given)
            and roles.outermost not in roles.tree.ancestors(stmt)
        ):
            numbers.append(stmt)
        elif given and all(
            _is_sample(roles, v)
            or _has_fixed_shape(roles, v)
            or (name in returned and isinstance(v, ast.Call) and ast.unparse(v.func) in captured)
            for v in given
        ):
            found.append(stmt)
        else:
            return False
    return all(_exclude(roles, number, other) for number in numbers for other in found)


def _is_constant_or_option(roles: Roles, value: ast.expr) -> bool:
    option = isinstance(value, ast.Attribute) and holds_options(roles.tree, value.value, roles.scope)
    constant = isinstance(value, ast.Constant) and isinstance(value.value, (int, float))
    return constant or (option and roles.changed_by_training(value) is None)


def _is_sample(roles: Roles, value: ast.expr) -> bool:
    """Whether a value is a sample of a library's buffer on the device, always of the same size."""
    buffer, moved = library_buffer(roles), False
    if isinstance(value, ast.Call) and ast.unparse(value.func) == roles.history.moves_samples and value.args:
        value, moved = value.args[0], True
    if buffer is None or buffer.used is not None or value not in buffer.samples or buffer.device is None:
        return False
    assert isinstance(value, ast.Call)
    given = [*value.args, *(k.value for k in value.keywords)]
    there = moved or ast.unparse(buffer.device) == roles.device
    return there and all(_never_changes(roles, g) for g in given)


def _has_fixed_shape(roles: Roles, value: ast.expr) -> bool:
    """Whether a value is a tensor without dimensions, such as `x.exp().reshape(())`, or a fixed number of indices."""
    if calls_method(value, "reshape"):
        return [ast.unparse(a) for a in value.args] == ["()"] and roles.tree.qualified(value.func) is None
    drawn = isinstance(value, ast.Call) and roles.tree.calls(value, "torch.randint")
    sizes = [a for a in value.args if isinstance(a, ast.Tuple)] if drawn and isinstance(value, ast.Call) else []
    return len(sizes) == 1 and _never_changes(roles, sizes[0])


def _exclude(roles: Roles, one: ast.stmt, other: ast.stmt) -> bool:
    """Whether two statements are in opposite branches of a condition that never changes."""
    for test, side in _conditions(roles, one):
        for same, its_side in _conditions(roles, other):
            if ast.unparse(test) == ast.unparse(same) and side != its_side:
                return _never_changes(roles, test)
    return False


def _never_changes(roles: Roles, value: ast.expr) -> bool:
    """Whether a value has no calls and only uses what the training loop does not change."""
    calls = any(isinstance(n, ast.Call) for n in walk(value))
    return not calls and not names_in([value]) & roles.variant and roles.changed_by_training(value) is None


def _conditions(roles: Roles, stmt: ast.stmt) -> list[tuple[ast.expr, bool]]:
    """The conditions around a statement, each with its value there."""
    outer = [n for n in roles.tree.ancestors(stmt) if isinstance(n, ast.If)]
    return [(n.test, any(s is stmt for s in statements(n.body))) for n in outer]
