"""Runs one script under the recorder, as its own `__main__`."""

from __future__ import annotations

import json
import platform
import sys
import time
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .clock import VirtualClock
from .environments import EnoughIterations, StepRecorder
from .guard import die_with_parent
from .instrument import HOOKS_NAME, Hook, compile_with_hooks
from .journal import Journal
from .optimizers import OptimizerRecorder
from .permutations import Permutations
from .prints import PrintRecorder
from .randomness import state_digests
from .scalars import ScalarRecorder


@dataclass(frozen=True)
class Job:
    """What to run, as read from the job file."""

    script: str
    """Path of the script."""
    argv: list[str]
    """The script's own arguments."""
    output: str
    """Folder that takes `journal.json`, `values.bin` and `progress` (one byte per finished iteration)."""
    iterations: int | None
    """End the run after so many iterations of rollout and update; None lets it end by itself."""
    values_limit: int
    """Bytes of array contents to keep; digests are kept of all."""


def main(job_file: str) -> int:
    """Run the job in `job_file`; returns the exit status that the script would have had."""
    die_with_parent()
    job = Job(**json.loads(Path(job_file).read_text()))
    journal = Journal(Path(job.output), job.values_limit)
    optimizers, clock = OptimizerRecorder(journal), VirtualClock(journal)
    optimizers.install()
    ScalarRecorder(journal).install()
    prints = PrintRecorder(journal, sys.stdout)
    sys.stdout = prints
    Permutations().install()
    real_time = time.perf_counter
    clock.install()
    hooks: dict[str, Hook] = {"step": StepRecorder(journal, job.iterations).replace_step}
    hooks |= dict.fromkeys(("now", "utcnow", "today"), clock.replace_now)
    started = real_time()
    try:
        run_as_main(Path(job.script), job.argv, hooks)
    except EnoughIterations:
        pass
    finally:
        journal.add("random", state_digests())
        optimizers.record_final()
        prints.end()
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
