"""Runs one script under the harness, as its own `__main__`."""

from __future__ import annotations

import json
import platform
import sys
import time
import types
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from .clock import VirtualClock
from .environments import EnoughIterations, EnvironmentSteps
from .guard import die_with_parent
from .instrument import HOOKS_NAME, Hook, compile_with_hooks
from .job import Job
from .journal import Journal
from .lockstep import Lockstep
from .optimizers import OptimizerRecorder
from .permutations import Permutations
from .prints import PrintRecorder
from .probe import Probe
from .randomness import seed_all, state_digests
from .scalars import ScalarRecorder
from .tensors import Array


class Mode(Protocol):
    """What one mode does with a run: `install` before the script, `finish` after it."""

    hooks: dict[str, Hook]
    """Calls of the script to route through this mode, by name."""

    def install(self) -> None:
        """Replace what the mode must see. Runs before the script is read."""

    def finish(self) -> None:
        """Write down what is known only at the end. Runs however the script ended."""


class Record:
    """The mode that writes down everything that the script does."""

    def __init__(self, job: Job, journal: Journal) -> None:
        self._journal = journal
        self._optimizers = OptimizerRecorder(journal)
        self._scalars = ScalarRecorder(journal)
        self._prints = PrintRecorder(journal, sys.stdout)
        self._clock = VirtualClock(journal)
        self.hooks = {"step": EnvironmentSteps(journal, job.iterations, self._note_action).replace_step}
        self.hooks |= dict.fromkeys(("now", "utcnow", "today"), self._clock.replace_now)

    def install(self) -> None:
        """Put every recorder in its place."""
        self._optimizers.install()
        self._scalars.install()
        self._clock.install()
        sys.stdout = self._prints

    def _note_action(self, arrays: list[Array]) -> None:
        self._journal.add("actions", [self._journal.store_described(array) for array in arrays])

    def finish(self) -> None:
        """Write down the last parameters and random states."""
        self._journal.add("random", state_digests())
        self._optimizers.record_final()
        self._prints.end()


_MODES: dict[str, Any] = {"record": Record, "probe": Probe, "lockstep": Lockstep}


def main(job_file: str) -> int:
    """Run the job in `job_file`; returns the exit status that the script would have had."""
    die_with_parent()
    job = Job(**json.loads(Path(job_file).read_text()))
    journal = Journal(Path(job.output), job.values_limit)
    mode: Mode = _MODES[job.mode](job, journal)
    real_time = time.perf_counter
    Permutations().install()
    mode.install()
    seed_all()
    started = real_time()
    try:
        run_as_main(Path(job.script), job.argv, mode.hooks)
    except EnoughIterations:
        pass
    finally:
        mode.finish()
        journal.close(seconds=real_time() - started, versions=_versions())
    return 0


def run_as_main(script: Path, argv: list[str], hooks: dict[str, Hook]) -> None:
    """Execute a script as `python script argv...` would, with `hooks` on its calls.

    Raises:
        BaseException: whatever the script raises, SystemExit included.
    """
    sys.argv = [str(script), *argv]
    sys.path[0] = str(script.parent)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=str(script), __builtins__=__builtins__, **{HOOKS_NAME: hooks})
    sys.modules["__main__"] = module
    exec(compile_with_hooks(script, hooks), module.__dict__)


def _versions() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "cuda": torch.cuda.is_available(),
    }
