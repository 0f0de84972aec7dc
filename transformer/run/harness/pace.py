"""Records when each iteration of the training loop began, and the number of environment steps until then."""

from __future__ import annotations

import ast
import builtins
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

T = TypeVar("T")
Node = TypeVar("Node", bound=ast.AST)

NAME = "__lean_convert_pace__"
"""The name of the pace among the builtins; there it does not appear among the script's variables."""
FEWEST = 4
"""The minimum number of iterations for measuring a pace."""
LONG, QUICKER = 1.0, 3
"""An iteration that took at least LONG seconds has compiled something if later ones are QUICKER times as fast."""


@dataclass(frozen=True)
class Measured:
    """A run's pace: n iterations take `warmup + n * per_iteration` seconds."""

    warmup: float
    per_iteration: float
    """Seconds per iteration in steady state: the median of the second half."""
    iterations: int
    """The number of measured iterations."""
    steps: float | None
    """Environment steps per iteration; None if not known."""


@dataclass(frozen=True)
class Warm:
    """What is known when compiling has ended."""

    after: float
    """Seconds from the start of the process until then."""
    per_second: float
    """Environment steps per second since then; iterations per second if steps are not known."""
    steps: bool
    again: bool = False
    """Whether this was reported before, and more was compiled since, such as an update that begins later."""


class Pace:
    """Is notified of each iteration by the script itself."""

    def __init__(
        self, started: float, begins: Callable[[int | None], None], warm: Callable[[Warm], None] | None = None
    ) -> None:
        """`started` is the time when the process started; `begins` is called once, with the number of iterations.

        `warm` is called when iterations have become much faster than one in which something was compiled, and again
        each time torch has compiled more.
        """
        self._started, self._begins, self._warm = started, begins, warm
        self._times: list[float] = []
        self._steps: list[int | None] = []
        self._longest, self._quick = 0.0, 0
        self._graphs: int | None = None
        """The number of graphs that torch had compiled at the last report; None before the first report."""

    def over(self, iterations: T) -> T:
        """Note the length of the training loop's iterable, and return the iterable."""
        self._begin(len(iterations) if hasattr(iterations, "__len__") else None)
        return iterations

    def turn(self, steps: Any = None) -> None:
        """Note that an iteration begins."""
        self._begin(None)
        self._times.append(time.perf_counter())
        self._steps.append(steps if type(steps) is int else None)
        if self._warm is not None and len(self._times) > 1:
            self._watch(self._times[-1] - self._times[-2])

    def _watch(self, took: float) -> None:
        """Detect the end of compiling from the time that each iteration took."""
        if self._graphs is not None and _compiled_graphs() == self._graphs:
            return
        self._longest = max(self._longest, took)
        self._quick = self._quick + 1 if took * QUICKER < self._longest else 0
        latest = [b - a for a, b in pairwise(self._times[-1 - FEWEST :])]
        if self._quick < FEWEST or self._longest < LONG or self._warm is None or max(latest) > QUICKER * min(latest):
            return
        again, self._graphs = self._graphs is not None, _compiled_graphs()
        self._longest, self._quick = 0.0, 0
        since = self._times[-1 - FEWEST]
        first, last = self._steps[-1 - FEWEST], self._steps[-1]
        done = None if first is None or last is None else last - first
        per_second = (FEWEST if done is None else done) / max(self._times[-1] - since, 1e-9)
        self._warm(Warm(since - self._started, per_second, done is not None, again))

    def _begin(self, iterations: int | None) -> None:
        begins, self._begins = self._begins, lambda _: None
        begins(iterations)

    def measured(self) -> Measured | None:
        """The pace so far; None if there are too few iterations, or the second half is not steady.

        It is not steady if something was compiled in it, or the machine was busy.
        """
        count = len(self._times) - 1
        if count < FEWEST:
            return None
        seconds = [b - a for a, b in pairwise(self._times)]
        later = sorted(seconds[count // 2 :])
        each = later[len(later) // 2]
        if later[len(later) * 3 // 4] > QUICKER * later[len(later) // 4]:
            return None
        first, last = self._steps[0], self._steps[-1]
        steps = None if first is None or last is None else (last - first) / count
        return Measured(max(0.0, self._times[-1] - self._started - count * each), each, count, steps)


def _compiled_graphs() -> int:
    """The number of graphs that torch has compiled in this process."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return int(dynamo.counters["stats"]["unique_graphs"]) if dynamo is not None else 0


def compile_with(pace: Pace, source: bytes, file: str, loop: int, counter: str | None) -> Any:
    """Compile a script so that its training loop, which begins at line `loop`, notifies `pace` of its iterations."""
    tree = ast.parse(source, file)
    for node in ast.walk(tree):
        if isinstance(node, (ast.For, ast.While)) and node.lineno == loop:
            told = f"try:\n    {NAME}.turn({counter})\nexcept (NameError, AttributeError):\n    {NAME}.turn()"
            (turn,) = ast.parse(told if counter else f"{NAME}.turn()").body
            node.body.insert(0, _placed(turn, node))
            if isinstance(node, ast.For):
                over = _placed(ast.parse(f"{NAME}.over", mode="eval").body, node.iter)
                node.iter = ast.copy_location(ast.Call(over, [node.iter], []), node.iter)
            setattr(builtins, NAME, pace)
            break
    return compile(tree, file, "exec", dont_inherit=True)


def _placed(made: Node, at: ast.AST) -> Node:
    """Give generated code the position of `at`, for tracebacks and debuggers."""
    for node in ast.walk(made):
        ast.copy_location(node, at)
    return made
