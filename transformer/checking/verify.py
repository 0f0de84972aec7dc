"""Climbs the rungs: the converted script against the original, and compiled against eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Protocol

from transformer import text
from transformer.checking.arguments import added_options, without_options
from transformer.checking.compare import compare
from transformer.checking.flags import find_flags
from transformer.checking.length import find_length
from transformer.checking.lockstep import EVERY, run_in_lockstep
from transformer.checking.record import record_run
from transformer.checking.recording import Recording
from transformer.checking.run import Run, RunFailed
from transformer.checking.rungs import Rung, lockstep_rung, recorded_rung

REFACTORED = "refactored"
RUNGS = (REFACTORED, "compile", "cudagraphs", "compile + cudagraphs")
"""In the order in which they are climbed."""

PERMUTATIONS = (
    "Original and converted script drew their minibatch permutations from one private stream, which leaves the "
    "generators of torch, numpy and Python alone."
)


class CannotVerify(Exception):
    """The original gives nothing to compare with, or does not repeat itself. The message says what to do."""


class Progress(Protocol):
    """Is told of each run as it goes on."""

    def run(self, name: str, iterations: int | None) -> AbstractContextManager[Callable[[int], None]]:
        """A run begins; within the context, call the result with the number of finished iterations."""


class NoProgress:
    """Tells nobody."""

    def run(self, name: str, iterations: int | None) -> AbstractContextManager[Callable[[int], None]]:
        """Nothing is shown."""
        return nullcontext(lambda done: None)


@dataclass(frozen=True)
class Task:
    """What to verify."""

    original: Run
    converted: str
    """Text of the converted script."""
    iterations: int = 3
    """Iterations of rollout and update to run."""
    every: int = EVERY
    """Each so-manieth call of a compiled function is compared."""
    up_to: str = RUNGS[-1]
    """The last rung to climb."""
    prefixes: tuple[tuple[str, str], ...] = ()
    """Name and text of each state of the conversion, to be compared with the original before anything else."""


@dataclass(frozen=True)
class Verification:
    """The rungs, in the order in which they were climbed, and the original's recording."""

    rungs: tuple[Rung, ...]
    original: Recording
    args: tuple[str, ...]
    """Arguments that both scripts got."""
    notes: tuple[str, ...] = field(default=(PERMUTATIONS,))

    def verdict(self, required: Sequence[str] = ()) -> Rung | None:
        """The first rung that is different or failed, or was required and did not run; None where all is well."""
        for rung in self.rungs:
            if rung.status in ("different", "failed") or (rung.status == "not run" and rung.name in required):
                return rung
        return None


def verify(task: Task, progress: Progress | None = None) -> Verification:
    """Run original and converted script and compare them, rung by rung; after one that is not equal, none is run.

    Raises:
        CannotVerify: the original never steps an optimizer, logs nothing, or is not reproducible.
        RunFailed: the original ended with an error, or ran out of time.
        OSError: the script or the interpreter cannot be read or started.
    """
    return _Climb(task, progress or NoProgress()).climb()


class _Climb:
    def __init__(self, task: Task, progress: Progress) -> None:
        self._task = task
        self._progress = progress
        length = find_length(task.original)
        self._before = task.original.source or text.read(task.original.script).content
        self._run = length.shortened(task.original, task.iterations)
        self._stop_after = task.iterations if length.option is None else None
        self._original = self._record("original", self._run)
        _check_usable(self._original)

    def climb(self) -> Verification:
        rungs: list[Rung] = []
        for name, source in (*self._task.prefixes, (REFACTORED, self._task.converted)):
            rungs.append(self._blocked(rungs, name) or self._refactored(name, source))
        for name in RUNGS[1 : RUNGS.index(self._task.up_to) + 1]:
            rungs.append(self._blocked(rungs, name) or self._compiled(name))
        return Verification(tuple(rungs), self._original, self._run.args)

    @staticmethod
    def _blocked(rungs: list[Rung], name: str) -> Rung | None:
        """The rung, not run, where one below it is not equal."""
        failed = next((r.name for r in rungs if r.status in ("different", "failed")), None)
        return None if failed is None else Rung(name, "not run", reason=f"{failed} comes first")

    def _record(self, name: str, run: Run) -> Recording:
        with self._progress.run(name, self._task.iterations) as on_iteration:
            return record_run(run, iterations=self._stop_after, on_iteration=on_iteration)

    def _refactored(self, name: str, source: str) -> Rung:
        try:
            converted = self._record(name, replace(self._run, source=source))
        except RunFailed as failure:
            return Rung(name, "failed", reason=str(failure))
        converted = without_options(converted, added_options(self._before, source))
        differences = compare(self._original, converted)
        if differences:
            again = compare(self._original, self._record("original again", self._run))
            if again:
                raise CannotVerify(
                    f"the original does not repeat itself: {again[0]}\n"
                    "Seed its environments and generators, so that two runs of it can be compared."
                )
        return recorded_rung(name, self._original, converted, differences)

    def _compiled(self, name: str) -> Rung:
        flags = find_flags(self._task.converted)
        wanted = flags.options(name.split(" + "))
        if wanted is None:
            return Rung(name, "not run", reason=f"the converted script has no flag for {name}")
        if "cudagraphs" in name and not self._original.versions["cuda"]:
            return Rung(name, "not run", reason="there is no CUDA device here")
        run = replace(self._run, source=self._task.converted, args=(*self._run.args, *wanted))
        try:
            with self._progress.run(name, self._task.iterations) as on_iteration:
                lockstep = run_in_lockstep(
                    run, every=self._task.every, iterations=self._stop_after, on_iteration=on_iteration
                )
        except RunFailed as failure:
            return Rung(name, "failed", reason=str(failure))
        return lockstep_rung(name, lockstep)


def _check_usable(original: Recording) -> None:
    if not original.steps:
        raise CannotVerify("the original never steps a torch optimizer, so there is no training to compare")
    if not original.actions:
        raise CannotVerify("the original never calls step(action) on an environment, so there is no rollout to compare")
    if not original.scalars and not original.prints:
        raise CannotVerify("the original logs no scalar and prints nothing in these iterations: try more --iterations")
