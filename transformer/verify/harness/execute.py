"""Runs one script under the harness, as its own `__main__`."""

from __future__ import annotations

import ast
import json
import os
import platform
import sys
import time
import traceback
import types
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from . import NOT_EMULATED, emulated_device, emulated_streams
from .arithmetic import float32
from .by_hand import Ranks
from .clock import VirtualClock
from .environments import EnoughIterations, EnvironmentSteps, shorten_episodes
from .events import Events
from .exercised import Exercised
from .guard import die_with_parent
from .imports import hook_modules_of
from .instrument import HOOKS_NAME, compile_with_hooks
from .job import Episodes, Job
from .journal import Journal
from .lockstep import Lockstep
from .optimizers import OptimizerRecorder
from .prints import PrintRecorder
from .probe import Probe
from .randomness import seed_all, state_digests
from .scalars import ScalarRecorder
from .tensors import Array
from .uncompiled import Uncompiled


class Mode(Protocol):
    """What a mode does with a run: `install` before the script, `finish` after it."""

    hooks: dict[str, Any]
    """Calls of the script to route through this mode, by name."""
    route: Callable[[ast.Module], None] | None
    """Routes more of the script through hooks."""

    def install(self) -> None:
        """Replace the functions that the mode observes. Called before the script is read."""

    def finish(self) -> None:
        """Record what is known only at the end. Called however the script ended."""


class Log:
    """The mode that records only logs and prints; it leaves clocks and optimizers alone."""

    def __init__(self, job: Job, journal: Journal) -> None:
        self.journal = journal
        self._scalars = ScalarRecorder(journal)
        self._prints = PrintRecorder(journal, sys.stdout)
        self.route: Callable[[ast.Module], None] | None = None
        self.hooks: dict[str, Any] = {"step": EnvironmentSteps(journal, job.iterations, self.note_action).replace_step}

    def note_action(self, arrays: list[Array]) -> None:
        """Called with an action before it is sent."""

    def install(self) -> None:
        """Watch the loggers and standard output."""
        self._scalars.install()
        self._prints.install()

    def finish(self) -> None:
        """Record a last line without a line end."""
        self._prints.end()


class Record(Log):
    """The mode that records everything the script does."""

    def __init__(self, job: Job, journal: Journal) -> None:
        super().__init__(job, journal)
        self._optimizers = OptimizerRecorder(journal, others=job.stepwise)
        self._clock = VirtualClock(journal, job.clock_rate, stepwise=job.stepwise)
        self.hooks |= dict.fromkeys(("now", "utcnow", "today"), self._clock.replace_now)
        self._events = Events(journal)
        self.hooks |= self._events.hooks
        self._episodes = job.episodes
        self._arithmetic = float32() if job.in_float32 else nullcontext()
        os.register_at_fork(after_in_parent=lambda: journal.add("forks"))
        self._exercised = Exercised(journal)
        if job.watch:
            self.route = self._exercised.route
            self.hooks |= self._exercised.hooks
        self._uncompiled = Uncompiled(journal, self._optimizers.record) if job.uncompiled else None
        if self._uncompiled is not None:
            self.hooks |= self._uncompiled.hooks

    def note_action(self, arrays: list[Array]) -> None:
        """Record an action."""
        self.journal.add("actions", [self.journal.store_described(array) for array in arrays])

    def install(self) -> None:
        """Also watch everything else, and replace the clocks."""
        super().install()
        self._optimizers.install()
        self._clock.install()
        self._events.install()
        self._arithmetic.__enter__()
        if self._episodes is not None:
            shorten_episodes(Episodes(*self._episodes))
        if self._uncompiled is not None:
            self._uncompiled.install()

    def finish(self) -> None:
        """Record the final parameters and random states."""
        super().finish()
        self._exercised.finish()
        if self._uncompiled is not None:
            self._uncompiled.finish()
        self.journal.add("random", state_digests())
        self._optimizers.record_final()


_MODES: dict[str, Any] = {"record": Record, "log": Log, "probe": Probe, "lockstep": Lockstep}


def main(job_file: str) -> int:
    """Run the job in `job_file`; returns the exit status of the script."""
    die_with_parent()
    job = Job(**json.loads(Path(job_file).read_text()))
    if job.emulated:
        emulated_streams.start()
    if job.mode == "by_hand":
        return _by_hand(job)
    rank = int(os.environ["RANK"]) if job.ranks else 0
    output = Path(job.output, f"rank{rank}" if job.ranks else "")
    output.mkdir(exist_ok=True)
    journal = Journal(output, job.values_limit, rank)
    mode: Mode = _MODES[job.mode](job, journal)
    real_time = time.perf_counter
    if job.mode != "log":
        journal.permutations.install()
        seed_all(rank)
    mode.install()
    started = real_time()
    try:
        run_as_main(job, mode.hooks, mode.route)
    except EnoughIterations:
        pass
    except (Exception, SystemExit) as error:
        if not (job.emulated and _not_emulated(error)):
            raise
        traceback.print_exc()
        return NOT_EMULATED
    finally:
        mode.finish()
        journal.close(seconds=real_time() - started, versions=_versions())
    return 0


def _by_hand(job: Job) -> int:
    """Run the job for several ranks; an error in one ends all."""
    ranks = Ranks(job, Path(job.output))
    started = time.perf_counter()
    try:
        ranks.run(lambda hooks, route: run_as_main(job, hooks, route))
    finally:
        for rank in ranks.ranks:
            rank.journal.close(seconds=time.perf_counter() - started, versions=_versions())
    return 0


def _not_emulated(error: BaseException) -> bool:
    """Whether a script ends with this error because of the emulated CUDA device, or wants another device or none."""
    refuses = isinstance(error, SystemExit) and isinstance(error.code, str)
    return (refuses and not emulated_device.DeviceTensor.made) or emulated_device.falls_short(error)


def run_as_main(job: Job, hooks: dict[str, Any], route: Callable[[ast.Module], None] | None) -> None:
    """Execute a script as `python script argv...` would, with `hooks` on its calls and on code selected by `route`.

    Raises:
        BaseException: whatever the script raises, SystemExit included.
    """
    script = Path(job.script)
    sys.argv = [str(script), *job.argv]
    sys.path[0] = str(script.parent)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=str(script), __builtins__=__builtins__, **{HOOKS_NAME: hooks})
    sys.modules["__main__"] = module
    hook_modules_of([script.parent, *map(Path, job.together)], hooks)
    exec(compile_with_hooks(script, hooks, route), module.__dict__)


def _versions() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "cuda": torch.cuda.is_available(),
    }
