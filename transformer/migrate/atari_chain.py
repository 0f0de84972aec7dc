"""The Atari wrapper chain, in the only order, and with the only value of each parameter, that envpool supports.

It is recognised in the function that makes one environment, as in

    def make_env(env_id, idx, capture_video, run_name):
        def thunk():
            env = gym.make(env_id)
            env = gym.wrappers.RecordEpisodeStatistics(env)
            ...
            return env

        return thunk

and anything in this function that is not part of the chain is reported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from transformer.syntax.diagnostics import Diagnostic, at
from transformer.syntax.query import calls_method, is_number, is_text_line, parameters, unparse
from transformer.syntax.tree import Tree

CODE = "LC201"
ATARI_WRAPPERS = ("cleanrl_utils.atari_wrappers", "stable_baselines3.common.atari_wrappers")
GYMS = ("gymnasium", "gym")


@dataclass(frozen=True)
class Layer:
    """A wrapper of the chain: its name, its parameter other than the environment, and the parameter's value."""

    name: str
    parameter: str = ""
    value: str = ""
    default: bool = False
    """Whether the value is the parameter's default, and may be left out."""
    of_gym: bool = False
    """Whether the wrapper is from `gym.wrappers`; otherwise it is from a module of :data:`ATARI_WRAPPERS`."""


CHAIN = (
    Layer("RecordEpisodeStatistics", of_gym=True),
    Layer("NoopResetEnv", "noop_max", "30", default=True),
    Layer("MaxAndSkipEnv", "skip", "4", default=True),
    Layer("EpisodicLifeEnv"),
    Layer("FireResetEnv"),
    Layer("ClipRewardEnv"),
    Layer("ResizeObservation", "shape", "(84, 84)", of_gym=True),
    Layer("GrayScaleObservation", of_gym=True),
    Layer("FrameStack", "num_stack", "4", of_gym=True),
)
NAMES = tuple(layer.name for layer in CHAIN)


@dataclass
class Chain:
    """The function that makes one environment: its parameters by purpose, and its deviations from the chain."""

    env_id: str | None = None
    """The parameter passed to `gym.make`."""
    video: str | None = None
    """The parameter that turns video recording on."""
    seed: str | None = None
    """The parameter passed to old gym's `env.seed`."""
    found: list[Diagnostic] = field(default_factory=list)
    """Deviations from the chain."""


def read_chain(tree: Tree, function: ast.FunctionDef) -> Chain:
    """Compare a function with the chain; the result's `found` has all deviations."""
    return _Reader(tree, function).chain


class _Reader:
    def __init__(self, tree: Tree, function: ast.FunctionDef) -> None:
        self._tree = tree
        self._params = frozenset(parameters(function))
        self._next = 0
        """The index in the chain of the next wrapper."""
        self._seen: set[str] = set()
        self._env = ""
        self.chain = Chain()
        body = [s for s in function.body if not is_text_line(s)]
        thunk, result = (body[0], body[1]) if len(body) == 2 else (None, None)
        whole = isinstance(thunk, ast.FunctionDef) and isinstance(result, ast.Return) and result.value is not None
        if not whole or function.decorator_list:
            self._report(function, f"{function.name}() is not made of one function that it returns")
            return
        assert isinstance(thunk, ast.FunctionDef) and isinstance(result, ast.Return) and result.value is not None
        if unparse(result.value) != thunk.name:
            self._report(result, f"{function.name}() is not made of one function that it returns")
            return
        for stmt in thunk.body:
            if not is_text_line(stmt):
                self._read_statement(stmt)
        missing = [name for name in NAMES if name not in self._seen]
        if missing:
            self._report(thunk.body[-1], f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")

    def _report(self, node: ast.AST, message: str) -> None:
        self.chain.found.append(at(node, CODE, message))

    def _read_statement(self, stmt: ast.stmt) -> None:
        if isinstance(stmt, ast.Return) and unparse(stmt.value or stmt) == self._env:
            return
        if isinstance(stmt, ast.If) and self._conditional(stmt):
            return
        if isinstance(stmt, ast.Expr) and self._is_seeding(stmt.value):
            return
        call = self._call_assigned(stmt)
        if call is None:
            self._report(stmt, f"line {stmt.lineno} is not part of the chain of wrappers")
        elif self._tree.calls(call, *(f"{gym}.make" for gym in GYMS)):
            self._make(call)
        else:
            self._wrap(call)

    def _call_assigned(self, stmt: ast.stmt) -> ast.Call | None:
        """The call in `env = ...(...)`."""
        if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 and isinstance(stmt.targets[0], ast.Name):
            if isinstance(stmt.value, ast.Call) and self._env in ("", stmt.targets[0].id):
                self._env = stmt.targets[0].id
                return stmt.value
        return None

    def _make(self, call: ast.Call) -> None:
        given = call.args[0] if len(call.args) == 1 else None
        plain = all(k.arg == "render_mode" for k in call.keywords)
        if not isinstance(given, ast.Name) or given.id not in self._params or not plain or self._next:
            self._report(call, "the environment is not made from just an id that is passed in")
        elif self.chain.env_id not in (None, given.id):
            self._report(call, f"the id is {given.id} here, and {self.chain.env_id} above")
        else:
            self.chain.env_id = given.id

    def _wrap(self, call: ast.Call) -> None:
        name = self._wrapper(call)
        if name is None:
            self._report(call, f"{unparse(call.func)} is not one of the chain's wrappers")
            return
        place = NAMES.index(name)
        self._seen.add(name)
        if place != self._next:
            wanted = NAMES[self._next] if self._next < len(NAMES) else "nothing"
            self._report(call, f"{name} is here, but the chain has {wanted}")
        self._next = max(self._next, place + 1)
        self._check_arguments(call, CHAIN[place])

    def _wrapper(self, call: ast.Call) -> str | None:
        """The name of the chain's wrapper that a call makes."""
        module, _, name = (self._tree.qualified(call.func) or "").rpartition(".")
        layer = next((one for one in CHAIN if one.name == name), None)
        if layer is None:
            return None
        return name if module in ([f"{gym}.wrappers" for gym in GYMS] if layer.of_gym else ATARI_WRAPPERS) else None

    def _check_arguments(self, call: ast.Call, layer: Layer) -> None:
        values = [*call.args[1:], *(k.value for k in call.keywords)]
        named = all(k.arg == layer.parameter for k in call.keywords)
        around = call.args and unparse(call.args[0]) == self._env
        told = f"{layer.parameter}={layer.value}" if layer.parameter else "nothing but the environment"
        if not around or not named or len(values) > 1 or not (values or layer.default or not layer.parameter):
            self._report(call, f"{layer.name} is given something other than the chain's {told}")
        elif values and (not layer.parameter or unparse(values[0]) != layer.value):
            self._report(values[0], f"{layer.name} is given {unparse(values[0])}, but the chain has {told}")

    def _conditional(self, stmt: ast.If) -> bool:
        """Read a condition: FireResetEnv if the game has that action, or recording a video of the same environment."""
        if unparse(stmt.test) == f"'FIRE' in {self._env}.unwrapped.get_action_meanings()" and not stmt.orelse:
            inside = self._call_assigned(stmt.body[0]) if len(stmt.body) == 1 else None
            if inside is None or self._wrapper(inside) != "FireResetEnv":
                return False
            self._wrap(inside)
            return True
        video = self._asks_for_video(stmt.test)
        inner = stmt.body[0] if len(stmt.body) == 1 else None
        if isinstance(inner, ast.If) and not inner.orelse and isinstance(inner.test, ast.Compare):
            body: Sequence[ast.stmt] = inner.body  # if capture_video: if idx == 0:
        else:
            body = stmt.body
        if video is None or not self._records(body):
            return False
        self.chain.video = video
        for other in stmt.orelse:
            self._read_statement(other)
        return True

    def _asks_for_video(self, test: ast.expr) -> str | None:
        """The parameter in `capture_video` and in `capture_video and idx == 0`."""
        parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
        names = [p.id for p in parts if isinstance(p, ast.Name) and p.id in self._params]
        others = [p for p in parts if not isinstance(p, ast.Name)]
        first = all(isinstance(p, ast.Compare) and is_number(p.comparators[0], 0) for p in others)
        return names[0] if len(names) == 1 and first else None

    def _records(self, body: Sequence[ast.stmt]) -> bool:
        """Whether a block only makes the environment and records its video."""
        calls = [self._call_assigned(stmt) for stmt in body]
        for call in calls:
            if call is None:
                return False
            if self._tree.calls(call, *(f"{gym}.make" for gym in GYMS)):
                self._make(call)
            elif not self._tree.calls(call, *(f"{gym}.wrappers.RecordVideo" for gym in GYMS)):
                return False
        return bool(calls)

    def _is_seeding(self, value: ast.expr) -> bool:
        """Whether a statement seeds the environment or its spaces with a parameter."""
        if not calls_method(value, "seed") or len(value.args) != 1 or value.keywords:
            return False
        seed, owner = value.args[0], unparse(value.func.value)
        spaces = (f"{self._env}.action_space", f"{self._env}.observation_space")
        if not isinstance(seed, ast.Name) or seed.id not in self._params or owner not in (self._env, *spaces):
            return False
        if owner == self._env:
            self.chain.seed = seed.id
        return True


def wrapper_imports(tree: Tree) -> Iterator[ast.ImportFrom]:
    """The statements that import wrappers of the chain."""
    for stmt in tree.of(ast.ImportFrom):
        if stmt.module in ATARI_WRAPPERS:
            yield stmt
