"""Notes when each iteration begins, and how much time each phase takes.

The clock stops while others have their turns.

The stopwatch costs less than a microsecond per environment step, and half a microsecond per phase boundary, of which
an iteration has at most six; the cost is the same in every script.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from .baton import Baton
from .compiles import Compiles
from .device import cuda_name, synchronise
from .job import Job
from .products import Products, can_be_told

PHASES = ("rollout", "gae", "update", "other")
"""The phases; `other` is everything that belongs to none of the first three."""
PRODUCTS_SECONDS = 1.0
"""The minimum time for which matrix products are timed, in whole iterations."""


class Enough(BaseException):
    """Ends the script when everything has been measured."""


class Stopwatch:
    """Is notified of environment steps and phases while the script runs."""

    def __init__(self, job: Job) -> None:
        self.rows: list[list[float]] = []
        """For each started iteration: the seconds since the process started, and, so far, the steps of all
        environments, the seconds in environment steps, and the seconds in each of `phases`."""
        self.borders: list[int] = []
        """The rows at which turns begin and end; the first is the end of the burn-in."""
        self.compiles = Compiles()
        self.products_per_step: float | None = None
        """Seconds of matrix products and convolutions per step of all environments; None if not measured."""
        self._products = Products()
        self._job = job
        self._baton = Baton(job.baton)
        self._waited = 0.0
        self._progress = (Path(job.output) / "progress").open("wb", buffering=0)
        self._spent = dict.fromkeys(PHASES, 0.0)
        self.phases = tuple(p for p in PHASES if p in job.phases or (p == "other" and job.phases))
        """The phases that were found in the script; empty if none were."""
        self._phase = "other"
        self._since = perf_counter()
        self._counting = not job.phases
        self._env_seconds = 0.0
        self._steps = 0
        self._num_envs = 0
        self._next_iteration = 0
        self._inside = False

    def enter(self, phase: str) -> None:
        """Begin a phase, which ends the previous one.

        Raises:
            Enough: the rollout begins, and enough iterations were measured.
        """
        if self._job.synchronise:
            synchronise()
        now = perf_counter()
        self._spent[self._phase] += now - self._since
        self._since = now
        self._phase = phase
        self._counting = phase == "rollout"
        if self._counting:
            self._begin_iteration(now)

    def env_step(self, step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call `step(...)`; during the rollout, time and count the outermost call.

        Raises:
            Enough: enough iterations were measured; raised here only if the phases are not known.
        """
        if self._inside or not self._counting:
            return step(*args, **kwargs)
        if self._job.steps_per_iteration is not None and self._steps >= self._next_iteration:
            self._next_iteration += self._job.steps_per_iteration
            self._begin_iteration(perf_counter())
        self._inside = True
        before = perf_counter()
        try:
            result = step(*args, **kwargs)
        finally:
            self._env_seconds += perf_counter() - before
            self._inside = False
        if not self._num_envs:
            self._num_envs = environments_in(result)
        self._steps += self._num_envs
        return result

    def _begin_iteration(self, now: float) -> None:
        """Add a row, let others run if a turn is over, and end the script after the last turn."""
        if self._products.running:
            self._end_products(now)
            return
        over = self._turn_is_over(now)
        if over:
            synchronise()
            now = perf_counter()
        self.rows.append([self._time(now), self._steps, self._env_seconds, *(self._spent[p] for p in self.phases)])
        self._progress.write(b".")
        if len(self.rows) <= self._job.burnin + 1:
            self.compiles.note_burnin()
        if over:
            self.borders.append(len(self.rows) - 1)
            self._let_others_run(now)

    def _turn_is_over(self, now: float) -> bool:
        """Whether the iteration that ends now is the last one of the burn-in, or of a turn."""
        row = len(self.rows)
        if not self.borders:
            return row == self._job.burnin
        began, iterations, seconds = self.borders[-1], self._job.iterations, self._job.seconds
        if iterations is not None and row - began >= iterations:
            return True
        return seconds is not None and self._time(now) - self.rows[began][0] >= seconds

    def _let_others_run(self, now: float) -> None:
        if len(self.borders) == 1:
            told = {"steps_per_iteration": self.rows[1][1], "cuda": cuda_name()}
            (Path(self._job.output) / "burned_in.json").write_text(json.dumps(told))
        if len(self.borders) > self._job.turns:
            if not self._job.products or not can_be_told():
                raise Enough
            self._products.begin()
            return
        self._baton.pass_on()
        waited = perf_counter() - now
        self._waited += waited
        self._since += waited

    def _end_products(self, now: float) -> None:
        seconds, steps, *_ = self.rows[-1]
        if self._time(now) - seconds >= PRODUCTS_SECONDS:
            self._products.end()
            self.products_per_step = self._products.seconds / (self._steps - steps)
            raise Enough

    def _time(self, now: float) -> float:
        """Seconds since the process was started, without the turns of others."""
        return now - self._job.started - self._waited


def environments_in(result: Any) -> int:
    """The number of environments in a step's result: the length of its rewards (the second part), or 1 for a number."""
    reward = result[1] if isinstance(result, tuple) and len(result) > 1 else None
    shape = getattr(reward, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 1
    return len(reward) if isinstance(reward, (list, tuple)) else 1
