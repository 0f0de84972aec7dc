"""Times one run of one script in a process of its own, alone or taking turns with others."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from transformer.bench.baton import Baton
from transformer.bench.phases import Places, find_places, find_places_together
from transformer.recognition.refusals import Unconvertible
from transformer.syntax import text
from transformer.verify.run import Run, RunFailed, Started

HARNESS = Path(__file__).parent / "harness"
_CACHES = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Length:
    """How long to measure a run: each turn has at least one whole iteration, and ends when a limit is reached."""

    burnin: int = 3
    """The number of iterations before the measurement."""
    iterations: int | None = None
    seconds: float | None = 2.0
    turns: int = 5
    only_stored: int = 0
    """The number of burn-in iterations without learning, whose steps are only stored and cost almost nothing."""


@dataclass(frozen=True)
class Row:
    """The beginning of one iteration."""

    seconds: float
    """Seconds since the process was started."""
    steps: int
    """Steps of all environments so far."""
    env_seconds: float
    """Seconds spent in environment steps so far."""
    phase_seconds: Mapping[str, float]
    """Seconds spent in each phase so far; empty if the phases are not known."""


@dataclass(frozen=True)
class Measurement:
    """One timed run."""

    rows: tuple[Row, ...]
    borders: tuple[int, ...]
    """The rows at which turns begin and end; the first is the end of the burn-in."""
    compiled: Mapping[str, Any]
    memory: Mapping[str, float]
    versions: Mapping[str, str]
    cuda: str | None
    """The name of the CUDA device that the script could use; None if there is none."""
    products: float | None = None
    """Seconds of matrix products and convolutions per step of all environments; None if they were not timed."""
    only_stored: int = 0
    """The number of burn-in iterations without learning."""

    @property
    def steps(self) -> int:
        """Steps of all environments in the measured part."""
        return self.rows[self.borders[-1]].steps - self.rows[self.borders[0]].steps

    @property
    def iterations(self) -> int:
        """Iterations in the measured part."""
        return self.borders[-1] - self.borders[0]

    @property
    def turns(self) -> tuple[float, ...]:
        """Wall-clock seconds per step of all environments, by turn."""
        ends = (self.rows[i] for i in self.borders)
        return tuple((b.seconds - a.seconds) / (b.steps - a.steps) for a, b in pairwise(ends))

    @property
    def seconds_per_step(self) -> float:
        """Seconds per step of all environments in steady state: the median of the turns."""
        return statistics.median(self.turns)

    @property
    def warmup_seconds(self) -> float:
        """Seconds from the start of the process to the end of the burn-in, minus the steady-state time of its steps.

        Nothing is subtracted for steps that are only stored. The result is 0 if it would be negative, because the
        machine was slower after the burn-in.
        """
        first, stored = self.rows[self.borders[0]], self.rows[min(self.only_stored, self.borders[0])]
        return max(0.0, first.seconds - (first.steps - stored.steps) * self.seconds_per_step)

    @property
    def split(self) -> dict[str, float]:
        """Seconds per step of all environments in each phase, and in environment steps: medians of the turns.

        If matrix products were timed, `products` is their time in all phases.
        """
        turns = [_split(self.rows[a], self.rows[b]) for a, b in pairwise(self.borders)]
        medians = {phase: statistics.median(turn[phase] for turn in turns) for phase in turns[0]}
        return medians if self.products is None else {**medians, "products": self.products}


def _split(first: Row, last: Row) -> dict[str, float]:
    spent = {p: last.phase_seconds[p] - first.phase_seconds[p] for p in last.phase_seconds}
    steps = last.steps - first.steps
    return {p: s / steps for p, s in {"env_step": last.env_seconds - first.env_seconds, **spent}.items()}


class Measuring:
    """A run that is being measured: first its burn-in, then its turns."""

    def __init__(
        self, started: Started, baton: Baton, length: Length, on_iteration: Callable[[int], None] | None
    ) -> None:
        self._started = started
        self._baton = baton
        self._length = length
        self._on_iteration = on_iteration

    def burn_in(self) -> None:
        """Wait until the burn-in is over.

        Raises:
            RunFailed: the script ended with an error, or ran out of time; the other methods raise it, too.
        """
        self._started.wait(self._on_iteration, self._baton.is_back)

    def turn(self) -> bool:
        """Let the script run until its turn is over; returns False if the script has ended by then."""
        if not self._started.ended:
            self._baton.hand_over()
            self._started.wait(self._on_iteration, self._baton.is_back)
        return not self._started.ended

    def told(self, what: str) -> Any:
        """A value that the script's process reported at the end of the burn-in; None if it did not get that far."""
        path = self._started.scratch.output / "burned_in.json"
        return json.loads(path.read_text())[what] if path.exists() else None

    def result(self) -> Measurement:
        """The measurement, once the last turn is over.

        Raises:
            RunFailed: the script ended too early to be measured.
        """
        return _measurement(json.loads((self._started.scratch.output / "run.json").read_text()), self._length)


def measure(run: Run, length: Length, **options: Any) -> Measurement:
    """Measure a script that runs alone. For arguments and errors, see :func:`measuring`."""
    with measuring(run, length, **options) as one:
        one.burn_in()
        while one.turn():
            pass
        return one.result()


@contextmanager
def measuring(
    run: Run,
    length: Length,
    *,
    threads: int | None = None,
    cache: Path | None = None,
    steps_per_iteration: int | None = None,
    synchronise: bool = False,
    products: bool = False,
    on_iteration: Callable[[int], None] | None = None,
) -> Iterator[Measuring]:
    """Start a script to be measured; it is ended on exit from the context.

    Args:
        run: what to run.
        length: how long.
        threads: the number of threads for torch and numpy; None means their default.
        cache: a folder for compiled code that outlives the run; if None, a new, empty folder is used.
        steps_per_iteration: steps of all environments that count as an iteration if the script's phases are not found.
        synchronise: wait for the GPU at phase boundaries, which separates the phases and slows the run down.
        products: after the last turn, time matrix products and convolutions in a few more iterations.
        on_iteration: called with the number of started iterations whenever it grows.

    Raises:
        RunFailed: the script has no environment step or training loop.
        OSError: the script or the interpreter cannot be read or started.
    """
    places = places_of(run)
    if not places.phases and steps_per_iteration is None:
        raise RunFailed(
            "no training loop was found in the script: a rollout above an update, in one loop; files that it imports, "
            "and that train, are given with --with FILE"
        )
    with tempfile.TemporaryDirectory(prefix="lean-convert-cache-") as empty, Baton() as baton:
        folder = cache or Path(empty)
        variables = {name: str(folder / part) for name, part in _CACHES.items()}
        if threads is not None:
            variables |= dict.fromkeys(_THREADS, str(threads))
        timed = replace(run, environment={**run.environment, **variables})
        job = {
            "started": time.perf_counter(),
            "env_steps": places.env_steps,
            "phases": places.phases,
            "others": places.others,
            "phases_in": places.phases_in,
            "steps_per_iteration": None if places.phases else steps_per_iteration,
            "burnin": length.burnin,
            "turns": length.turns,
            "baton": str(baton.folder),
            "iterations": length.iterations,
            "seconds": length.seconds,
            "synchronise": synchronise,
            "products": products,
        }
        with timed.started("bench", harness=HARNESS, **job) as started:
            yield Measuring(started, baton, length, on_iteration)


def places_of(run: Run) -> Places:
    """The places in a script to be measured.

    Raises:
        RunFailed: it is not Python, or has no environment step.
        OSError: it cannot be read.
    """
    try:
        modules = [] if run.source is None else [*run.own_modules(run.source).values()]
        if run.source is None and run.together:
            places = find_places_together(run.script, run.together)
        elif modules and run.place is not None:
            places = find_places_together(run.place, modules)
        else:
            places = find_places(run.source if run.source is not None else text.read(run.script).content)
    except (SyntaxError, ValueError, text.NotText) as error:
        raise RunFailed(f"{run.script.name} is not Python: {error}") from None
    except Unconvertible as refusal:
        raise RunFailed("; ".join(f"{d.file}:{d.line}: {d.message}" for d in refusal.diagnostics)) from None
    if not places.env_steps and not places.others:
        raise RunFailed("no environment step was found in the script: a call x.step(action) whose result is kept")
    return places


def _measurement(written: dict[str, Any], length: Length) -> Measurement:
    phases, burnin = written["phases"], length.burnin
    rows = tuple(
        Row(seconds, int(steps), env_seconds, dict(zip(phases, spent, strict=True)))
        for seconds, steps, env_seconds, *spent in written["rows"]
    )
    if len(rows) < burnin + 2:
        raise RunFailed(
            f"the script trained for {len(rows)} iterations; {burnin + 2} are needed to measure one after {burnin} of "
            "burn-in: let it train for longer, or choose a smaller --burn-in"
        )
    borders = list(written["borders"])
    if borders[-1] < len(rows) - 1:  # the script ended by itself, during a turn
        borders.append(len(rows) - 1)
    memory, versions = written["memory"], written["versions"]
    products = written["products_per_step"]
    return Measurement(
        rows, tuple(borders), written["compiled"], memory, versions, written["cuda"], products, length.only_stored
    )
