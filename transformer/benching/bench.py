"""Runs the contenders, interleaved, round by round."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from transformer.benching import machine
from transformer.benching.contenders import Contender
from transformer.benching.figures import Figures, figures
from transformer.benching.measure import Length, Measurement, measure
from transformer.checking.run import RunFailed
from transformer.checking.verify import NoProgress, Progress

_ONCE = Length(burnin=1, iterations=1, seconds=None)

Status = Literal["measured", "not run", "failed"]
"""`failed`: the script ended with an error."""


@dataclass(frozen=True)
class Task:
    """What to measure."""

    contenders: Sequence[Contender]
    """The original first."""
    rounds: int = 3
    length: Length = field(default_factory=Length)
    threads: int | None = None
    """For torch and numpy; their own choice where None."""
    other_rounds: int | None = None
    """Rounds in which scripts other than original and converted take part; all where None."""
    warm_cache: bool = False
    """Whether compiled code is kept from run to run; a run before the first round then makes it."""


@dataclass(frozen=True)
class Result:
    """What became of one contender."""

    contender: Contender
    status: Status
    reason: str = ""
    figures: Figures | None = None
    measurements: tuple[Measurement, ...] = ()


@dataclass(frozen=True)
class Benchmark:
    """The results, in the order of the contenders."""

    task: Task
    results: tuple[Result, ...]
    machine: dict[str, Any]
    versions: dict[str, str]
    cuda: str | None
    """The CUDA device that could be used."""

    @property
    def failed(self) -> tuple[Result, ...]:
        """The contenders that ended with an error."""
        return tuple(r for r in self.results if r.status == "failed")


def bench(task: Task, progress: Progress | None = None) -> Benchmark:
    """Measure all contenders that can run here.

    Raises:
        RunFailed: the original ended with an error, or cannot be measured.
        OSError: a script or the interpreter cannot be read or started.
    """
    return _Bench(task, progress or NoProgress()).run()


class _Bench:
    def __init__(self, task: Task, progress: Progress) -> None:
        self._task = task
        self._progress = progress
        self._measured: dict[int, list[Measurement]] = {i: [] for i in range(len(task.contenders))}
        self._synchronised: dict[int, Measurement] = {}
        self._reasons: dict[int, tuple[Status, str]] = {}

    def run(self) -> Benchmark:
        described = machine.describe()
        with tempfile.TemporaryDirectory(prefix="lean-convert-bench-") as name:
            caches = Path(name) if self._task.warm_cache else None
            for number in range(1, self._task.rounds + 1):
                for i, contender in enumerate(self._task.contenders):
                    self._one_round(i, contender, number, caches)
            if self._original.cuda is not None:
                for i, contender in enumerate(self._task.contenders):
                    if i not in self._reasons:
                        measured = self._measure(i, contender, "phases", caches, synchronise=True)
                        if measured is not None:
                            self._synchronised[i] = measured
        results = tuple(self._result(i, contender) for i, contender in enumerate(self._task.contenders))
        original = self._original
        return Benchmark(self._task, results, described, dict(original.versions), original.cuda)

    @property
    def _original(self) -> Measurement:
        return self._measured[0][0]

    def _one_round(self, i: int, contender: Contender, number: int, caches: Path | None) -> None:
        if number == 1 and i not in self._reasons:
            reason = self._why_not(i, contender)
            if reason:
                self._reasons[i] = "not run", reason
            elif caches is not None:
                self._measure(i, contender, "filling the cache", caches, length=_ONCE)
        late = self._task.other_rounds is not None and number > self._task.other_rounds
        if i in self._reasons or (contender.other and late):
            return
        measured = self._measure(i, contender, f"round {number} of {self._task.rounds}", caches)
        if measured is not None:
            self._measured[i].append(measured)

    def _why_not(self, i: int, contender: Contender) -> str:
        if contender.reason:
            return contender.reason
        if i and contender.needs_cuda and self._original.cuda is None:
            return "there is no CUDA device here"
        return ""

    def _measure(
        self,
        i: int,
        contender: Contender,
        what: str,
        caches: Path | None,
        *,
        length: Length | None = None,
        synchronise: bool = False,
    ) -> Measurement | None:
        """One run; None where it failed, which is noted. The original's failure is raised."""
        first = self._measured[0][0] if self._measured[0] else None
        try:
            with self._progress.run(f"{what}: {contender.name}", None) as on_iteration:
                return measure(
                    contender.run,
                    length or self._task.length,
                    threads=self._task.threads,
                    cache=None if caches is None else caches / str(i),
                    steps_per_iteration=first.rows[1].steps if first is not None else None,
                    synchronise=synchronise,
                    on_iteration=on_iteration,
                )
        except RunFailed as failure:
            if i == 0:
                raise
            self._reasons[i] = "failed", str(failure)
            return None

    def _result(self, i: int, contender: Contender) -> Result:
        if i in self._reasons:
            return Result(contender, *self._reasons[i])
        ours = self._measured[i]
        originals = self._measured[0][: len(ours)]
        timed = [self._synchronised[i]] if i in self._synchronised else ours
        return Result(contender, "measured", "", figures(ours, originals, timed, is_original=i == 0), tuple(ours))
