"""Runs one script with a stopwatch, as its own `__main__`."""

from __future__ import annotations

import builtins
import importlib.metadata
import json
import os
import platform
import sys
import types
from pathlib import Path
from typing import NoReturn

from ...verify.harness.guard import die_with_parent
from .device import cuda_name, synchronise
from .instrument import STOPWATCH, compile_with_stopwatch, instrument_imports
from .job import Job
from .memory import peaks
from .stopwatch import Enough, Stopwatch

_PACKAGES = ("torch", "tensordict", "numpy", "gym", "gymnasium", "envpool")


def main(job_file: str) -> NoReturn:
    """Run the job in `job_file`, and exit with the script's exit status."""
    die_with_parent()
    job = Job(**json.loads(Path(job_file).read_text()))
    stopwatch = Stopwatch(job)
    try:
        run_as_main(job, stopwatch)
    except Enough:
        pass
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    synchronise()
    result = {
        "rows": stopwatch.rows,
        "borders": stopwatch.borders,
        "phases": stopwatch.phases,
        "products_per_step": stopwatch.products_per_step,
        "compiled": stopwatch.compiles.as_json(job.script),
        "memory": peaks(),
        "versions": _versions(),
        "cuda": cuda_name(),
    }
    (Path(job.output) / "run.json").write_text(json.dumps(result))
    sys.stdout.flush()
    os._exit(0)  # everything is measured; closing loggers and environments would only take time


def run_as_main(job: Job, stopwatch: Stopwatch) -> None:
    """Execute a script as `python script argv...` would.

    Raises:
        BaseException: whatever the script raises, SystemExit included.
    """
    sys.argv = [job.script, *job.argv]
    sys.path[0] = str(Path(job.script).parent)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=job.script, __builtins__=__builtins__)
    setattr(builtins, STOPWATCH, stopwatch)
    instrument_imports(job)
    sys.modules["__main__"] = module
    exec(compile_with_stopwatch(job), module.__dict__)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
