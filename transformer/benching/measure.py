"""Times one run of one script, in a process of its own."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformer import text
from transformer.benching.phases import Places, find_places
from transformer.checking.run import Run, RunFailed

HARNESS = Path(__file__).parent / "harness"
_CACHES = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Length:
    """How long a run is measured: until either limit is reached, whole iterations, one at least."""

    burnin: int = 3
    """Iterations that are run before the measurement."""
    iterations: int | None = None
    seconds: float | None = 10.0


@dataclass(frozen=True)
class Row:
    """The beginning of one iteration."""

    seconds: float
    """Since the process was asked for."""
    steps: int
    """Steps of all environments so far."""
    env_seconds: float
    """Spent in environment steps so far."""
    phase_seconds: Mapping[str, float]
    """Spent in each phase so far; empty where the phases are not known."""


@dataclass(frozen=True)
class Measurement:
    """One timed run."""

    rows: tuple[Row, ...]
    burnin: int
    compiled: Mapping[str, Any]
    memory: Mapping[str, float]
    versions: Mapping[str, str]
    cuda: str | None
    """The CUDA device that could be used."""

    @property
    def steps(self) -> int:
        """Steps of all environments in the measured part."""
        return self.rows[-1].steps - self.rows[self.burnin].steps

    @property
    def iterations(self) -> int:
        """Iterations in the measured part."""
        return len(self.rows) - 1 - self.burnin

    @property
    def seconds_per_step(self) -> float:
        """Steady state: wall seconds of the measured part by steps of all environments in it."""
        return (self.rows[-1].seconds - self.rows[self.burnin].seconds) / self.steps

    @property
    def warmup_seconds(self) -> float:
        """Seconds from asking for the process to the end of the burn-in, less what its steps take in steady state."""
        first = self.rows[self.burnin]
        return first.seconds - first.steps * self.seconds_per_step

    @property
    def split(self) -> dict[str, float]:
        """Seconds per step of all environments by phase, and in environment steps, in the measured part."""
        first, last = self.rows[self.burnin], self.rows[-1]
        spent = {p: last.phase_seconds[p] - first.phase_seconds[p] for p in last.phase_seconds}
        return {p: s / self.steps for p, s in {"env_step": last.env_seconds - first.env_seconds, **spent}.items()}


def measure(
    run: Run,
    length: Length,
    *,
    threads: int | None = None,
    cache: Path | None = None,
    steps_per_iteration: int | None = None,
    synchronise: bool = False,
    on_iteration: Callable[[int], None] | None = None,
) -> Measurement:
    """Run a script until enough is measured.

    Args:
        run: what to run.
        length: how long.
        threads: threads for torch and numpy; their own choice where None.
        cache: folder for compiled code that outlasts the run; a new, empty one where None.
        steps_per_iteration: steps of all environments that make an iteration where the script's phases are not found.
        synchronise: wait for the GPU at the borders of the phases, which tells them apart, and slows the run down.
        on_iteration: called with the number of begun iterations as it grows.

    Raises:
        RunFailed: the script ended with an error, too early to be measured, or ran out of time, or it holds no
            environment step or training loop.
        OSError: the script or the interpreter cannot be read or started.
    """
    places = _places(run)
    if not places.phases and steps_per_iteration is None:
        raise RunFailed("no training loop was found in the script: a rollout above an update, in one loop")
    with tempfile.TemporaryDirectory(prefix="lean-convert-cache-") as empty:
        folder = cache or Path(empty)
        variables = {name: str(folder / part) for name, part in _CACHES.items()}
        if threads is not None:
            variables |= dict.fromkeys(_THREADS, str(threads))
        timed = replace(run, environment={**run.environment, **variables})
        job = {
            "started": time.perf_counter(),
            "env_steps": places.env_steps,
            "phases": places.phases,
            "steps_per_iteration": None if places.phases else steps_per_iteration,
            "burnin": length.burnin,
            "iterations": length.iterations,
            "seconds": length.seconds,
            "synchronise": synchronise,
        }
        with timed.under_harness("bench", on_iteration, harness=HARNESS, **job) as scratch:
            return _load(json.loads((scratch.output / "run.json").read_text()), length.burnin)


def _places(run: Run) -> Places:
    try:
        places = find_places(run.source if run.source is not None else text.read(run.script).content)
    except (SyntaxError, ValueError, text.NotText) as error:
        raise RunFailed(f"{run.script.name} is not Python: {error}") from None
    if not places.env_steps:
        raise RunFailed("no environment step was found in the script: a call x.step(action) whose result is kept")
    return places


def _load(written: dict[str, Any], burnin: int) -> Measurement:
    phases = written["phases"]
    rows = tuple(
        Row(seconds, int(steps), env_seconds, dict(zip(phases, spent, strict=bool(phases))))
        for seconds, steps, env_seconds, *spent in written["rows"]
    )
    if len(rows) < burnin + 2:
        raise RunFailed(
            f"the script trained for {len(rows)} iterations; {burnin + 2} are needed to measure one after {burnin} of "
            "burn-in: let it train for longer, or choose a smaller --burn-in"
        )
    memory, versions = written["memory"], written["versions"]
    return Measurement(rows, burnin, written["compiled"], memory, versions, written["cuda"])
