"""Determines from a script's first iteration how long the script would train, and which option controls that.

Nothing is assumed about names: the training loop is the one around both an environment step and an optimizer step;
the option is the one whose value gives that loop's length.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook

from .environments import EnoughIterations, EnvironmentSteps
from .instrument import HOOKS_NAME, Hook
from .job import Job
from .journal import Journal
from .options import ParsedOptions
from .tensors import Array

STEPS_LIMIT = 100_000
"""The search is given up after this many environment steps without an optimizer step."""
FAR = 130
"""At least this many environment steps between two updates are a rollout, even if one loop makes both."""


@dataclass(frozen=True)
class _Planned:
    """When a loop will end."""

    end: int
    counts_steps: bool
    """Whether the end is a value that a counter must reach (of steps, perhaps) rather than a number of iterations."""


@dataclass(frozen=True)
class _Stepwise:
    """What was found at the first optimizer step, in a loop that also steps the environment."""

    place: tuple[CodeType, int]
    """The code and line of the environment's step; that of an evaluation is another."""
    found: tuple[Any, ...]


class Probe:
    """The mode that runs a script up to its first optimizer step, or its second if a loop of steps makes both."""

    def __init__(self, _: Job, journal: Journal) -> None:
        self._journal = journal
        self._options = ParsedOptions()
        self._stepped_at: list[tuple[FrameType, int]] = []
        """The script's frames, with their lines, of the last environment step; an evaluation may have come before."""
        self._num_envs = 1
        self._first: _Stepwise | None = None
        self._apart = 0
        """Environment steps since the first optimizer step."""
        self.route = None
        self.hooks: dict[str, Hook] = {"step": EnvironmentSteps(journal, None, self._note_action).replace_step}

    def install(self) -> None:
        """Watch for parsed options and for the first optimizer step."""
        self._options.install()
        register_optimizer_step_post_hook(lambda *_: self._end())

    def finish(self) -> None:
        """Record what was found of a loop that steps the environment and optimizers."""
        if self._first is not None:
            found = (None, None, None, 0) if self._apart >= FAR else self._first.found
            self._journal.add("probe", *found, self._num_envs, max(1, self._apart))

    def _note_action(self, arrays: list[Array]) -> None:
        self._num_envs = len(arrays[0]) if arrays[0].ndim else 1
        self._stepped_at = list(self._frames())
        if self._first is not None:
            self._apart += self._place() == self._first.place
            if self._apart >= FAR:
                raise EnoughIterations
        if self._journal.env_steps > STEPS_LIMIT:
            raise EnoughIterations

    def _place(self) -> tuple[CodeType, int]:
        frame, line = self._stepped_at[0]
        return frame.f_code, line

    def _end(self) -> None:
        """Record the result and end the run; if a loop over steps updates, first count the steps between updates."""
        if self._first is not None:
            if self._apart:
                raise EnoughIterations
            return  # of the same update
        here, stepping = (dict(self._loops_around(places)) for places in (self._frames(), self._stepped_at))
        training = [planned for place, planned in stepping.items() if place in here]
        stepwise = next(iter(stepping), None) in here  # the same loop steps optimizers too
        # In a loop over episodes, shorter ones leave as many, and fewer ones are no number of iterations
        counting = training[0] if len(training) == 1 else None
        found = iter(()) if counting is None else self._matches(counting, stepwise)
        option, unit, iterations = next(found, (None, None, None))
        for parsed in self._options.found.values():
            self._journal.add("options", *astuple(parsed))
        if stepwise:
            self._first = _Stepwise(self._place(), (option, unit, iterations, self._journal.env_steps))
        else:
            self._journal.add("probe", option, unit, iterations, 0, self._num_envs, 1)
            raise EnoughIterations

    def _matches(self, planned: _Planned, stepwise: bool) -> Iterator[tuple[str, int, int]]:
        """Options that determine the loop's end: (option, its value per iteration, iterations).

        If `stepwise`, an iteration is an environment step.
        """
        if stepwise:
            for unit in dict.fromkeys((1, self._num_envs)):
                for option, value in self._options.counts().items():
                    if value // unit == planned.end:
                        yield option, unit, planned.end
            return
        steps = self._journal.env_steps
        everywhere = steps * self._num_envs * int(os.environ.get("WORLD_SIZE", "1"))
        for unit in dict.fromkeys((everywhere, steps * self._num_envs, steps, 1)):
            for option, value in self._options.counts().items():
                if planned.counts_steps and value == planned.end and value > unit > 1:
                    yield option, unit, value // unit
                elif value // unit == planned.end:
                    yield option, unit, planned.end

    def _frames(self) -> Iterator[tuple[FrameType, int]]:
        """The running frames of the script and its modules, innermost first, with their lines."""
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            if HOOKS_NAME in frame.f_globals:
                yield frame, frame.f_lineno
            frame = frame.f_back

    def _loops_around(
        self, places: Iterable[tuple[FrameType, int]]
    ) -> Iterator[tuple[tuple[FrameType, int], _Planned | None]]:
        """The loops around places of the script, innermost first, with their planned ends, if any."""
        for frame, line in places:
            first = frame.f_code.co_firstlineno
            around = [n for n in _loops(frame.f_code.co_filename) if first <= n.lineno <= line <= (n.end_lineno or 0)]
            for node in sorted(around, key=lambda node: -node.lineno):
                yield (frame, node.lineno), _planned(node, frame)


@cache
def _loops(file: str) -> list[ast.For | ast.While]:
    return [node for node in ast.walk(ast.parse(Path(file).read_bytes())) if isinstance(node, (ast.For, ast.While))]


def _planned(loop: ast.For | ast.While, frame: FrameType) -> _Planned | None:
    """The end of a loop over a range or a sized value, or of one that counts up to a limit; None if unknown."""
    if isinstance(loop, ast.For):
        ranges = [n for n in ast.walk(loop.iter) if isinstance(n, ast.Call) and _is_name(n.func, "range")]
        sized = ranges[0] if ranges else loop.iter if isinstance(loop.iter, ast.Name) else None
        length = None if sized is None else _evaluate(sized, frame, len)
        return None if length is None else _Planned(length, False)
    if isinstance(loop.test, ast.Compare) and isinstance(loop.test.ops[0], (ast.Lt, ast.LtE)):
        limit = _evaluate(loop.test.comparators[0], frame, int)
        return None if limit is None else _Planned(limit, True)
    return None


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _evaluate(node: ast.expr, frame: FrameType, measure: Any) -> int | None:
    """`measure` of an expression's value in a frame; None if it cannot be evaluated."""
    try:
        value = eval(compile(ast.Expression(node), "<loop>", "eval"), frame.f_globals, frame.f_locals)
        return int(measure(value))
    except Exception:
        return None  # the script's own names may mean anything
