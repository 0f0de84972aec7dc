"""Runs the contenders side by side: they take turns, in several rounds."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from transformer.bench import machine
from transformer.bench.contenders import Contender
from transformer.bench.figures import Figures, figures
from transformer.bench.measure import Length, Measurement, Measuring, measure, measuring
from transformer.verify.run import RunFailed
from transformer.verify.verify import NoProgress, Progress

Status = Literal["measured", "not run", "failed"]
"""`failed`: the script ended with an error."""


@dataclass(frozen=True)
class Task:
    """What to measure."""

    contenders: Sequence[Contender]
    """The contenders, the original first."""
    rounds: int = 2
    """The number of rounds; in each round, every contender is started, and then has its turns."""
    length: Length = field(default_factory=Length)
    threads: int | None = None
    """The number of threads for torch and numpy; None means their default."""
    other_rounds: int | None = None
    """The number of rounds in which other scripts than the original and its conversions take part; None means all."""
    warm_cache: bool = False
    """Whether compiled code is kept between rounds; if so, an extra run before the first round compiles it."""
    cache: Path | None = None
    """A folder in which compiled code is kept between benchmarks; the warm-up figures are then meaningless."""
    products: bool = False
    """Whether the original's matrix products and convolutions are timed, on a CPU, after its turns."""


@dataclass(frozen=True)
class Result:
    """The result of one contender."""

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
    """The name of the CUDA device that scripts could use; None if there is none."""

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
        self._steps_per_iteration: int | None = None
        self._cuda: str | None = None

    def run(self) -> Benchmark:
        described = machine.describe()
        with tempfile.TemporaryDirectory(prefix="lean-convert-bench-") as name:
            caches = Path(name) if self._task.warm_cache else None
            for number in range(1, self._task.rounds + 1):
                self._one_round(number, caches)
            if self._cuda is not None:
                for i in self._taking_part(1):
                    self._measure_phases(i, caches)
        results = tuple(self._result(i, contender) for i, contender in enumerate(self._task.contenders))
        versions = dict(self._measured[0][0].versions)
        return Benchmark(self._task, results, described, versions, self._cuda)

    def _taking_part(self, number: int) -> Iterator[int]:
        """The contenders in this round, the original first; lazily, because a contender may fail meanwhile."""
        late = self._task.other_rounds is not None and number > self._task.other_rounds
        for i, contender in enumerate(self._task.contenders):
            if i not in self._reasons and not (contender.other and late):
                reason = self._why_not(i, contender)
                if reason:
                    self._reasons[i] = "not run", reason
                else:
                    yield i

    def _why_not(self, i: int, contender: Contender) -> str:
        if contender.reason:
            return contender.reason
        if i and contender.needs_cuda and self._cuda is None:
            return "there is no CUDA device here"
        return ""

    def _one_round(self, number: int, caches: Path | None) -> None:
        with ExitStack() as stack:
            running: dict[int, Measuring] = {}
            for i in self._taking_part(number):
                if caches is not None and number == 1:
                    self._fill_cache(i, caches)
                with self._noting_failure(i):
                    running[i] = stack.enter_context(
                        self._measuring(i, f"round {number} of {self._task.rounds}", caches)
                    )
                    self._burn_in(i, running[i])
            for _ in range(self._task.length.turns):
                for i, one in running.items():
                    if i not in self._reasons:
                        with self._noting_failure(i):
                            one.turn()
            for i, one in running.items():
                if i not in self._reasons:
                    with self._noting_failure(i):
                        self._measured[i].append(one.result())

    def _burn_in(self, i: int, one: Measuring) -> None:
        one.burn_in()
        if i == 0:
            self._steps_per_iteration = one.told("steps_per_iteration")
            self._cuda = one.told("cuda")

    def _fill_cache(self, i: int, caches: Path) -> None:
        once = Length(self._task.length.burnin, iterations=1, seconds=None, turns=1)  # past the last compilation
        with self._noting_failure(i), self._shown(i, "filling the cache") as on_iteration:
            measure(self._task.contenders[i].run, once, on_iteration=on_iteration, **self._options(i, caches))

    def _measure_phases(self, i: int, caches: Path | None) -> None:
        """Run once more, waiting for the GPU at the boundaries of the phases."""
        length = replace(self._task.length, turns=1)
        with self._noting_failure(i), self._shown(i, "phases") as on_iteration:
            self._synchronised[i] = measure(
                self._task.contenders[i].run,
                length,
                synchronise=True,
                on_iteration=on_iteration,
                **self._options(i, caches),
            )

    @contextmanager
    def _measuring(self, i: int, what: str, caches: Path | None) -> Iterator[Measuring]:
        run, length = self._task.contenders[i].run, self._task.length
        with (
            self._shown(i, what) as on_iteration,
            measuring(
                run,
                length,
                products=self._task.products and i == 0,
                on_iteration=on_iteration,
                **self._options(i, caches),
            ) as one,
        ):
            yield one

    def _shown(self, i: int, what: str) -> AbstractContextManager[Callable[[int], None]]:
        return self._progress.run(f"{what}: {self._task.contenders[i].name}", None)

    def _options(self, i: int, caches: Path | None) -> dict[str, Any]:
        return {
            "threads": self._task.threads,
            "cache": self._task.cache if caches is None else caches / str(i),
            "steps_per_iteration": self._steps_per_iteration,
        }

    @contextmanager
    def _noting_failure(self, i: int) -> Iterator[None]:
        """Note a contender's failure; raise the original's."""
        try:
            yield
        except RunFailed as failure:
            if i == 0:
                raise
            self._reasons[i] = "failed", str(failure)

    def _result(self, i: int, contender: Contender) -> Result:
        if i in self._reasons:
            return Result(contender, *self._reasons[i])
        ours = self._measured[i]
        originals = self._measured[0][: len(ours)]
        timed = [self._synchronised[i]] if i in self._synchronised else ours
        return Result(contender, "measured", "", figures(ours, originals, timed, is_original=i == 0), tuple(ours))
