"""Runs a script in a subprocess and reads back what it did."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from transformer.verify.harness.job import Episodes
from transformer.verify.recording import Recording, load
from transformer.verify.run import Run

VALUES_LIMIT = 512 * 2**20
"""Bytes of parameter and state values kept per run; beyond that, only digests."""


def record(
    script: Path,
    args: Sequence[str] = (),
    *,
    source: str | None = None,
    python: Path | str = sys.executable,
    iterations: int | None = None,
    timeout: float | None = None,
    processes: int | None = None,
    values_limit: int = VALUES_LIMIT,
    on_iteration: Callable[[int], None] | None = None,
) -> Recording:
    """Run a script as `python script args...` and record it.

    Random numbers, except minibatch permutations, are the script's own; see :class:`Run` for where it runs.

    Args:
        script: path of the script.
        args: the script's arguments.
        source: text to run instead of the script's own, such as its conversion.
        python: the interpreter; it needs numpy and torch, not this package.
        iterations: end the run after this many iterations of rollout and update; if None, let it end by itself.
        timeout: seconds after which the run counts as failed.
        processes: launch it with torchrun in this many processes; if None, as one process without torchrun.
        values_limit: bytes of array contents to keep; of the rest, only digests.
        on_iteration: called with the number of finished iterations whenever it grows.

    Raises:
        RunFailed: the script ended with an error, or ran out of time.
        OSError: the script or the interpreter cannot be read or started.
    """
    run = Run(script, tuple(args), source, str(python), timeout, processes=processes)
    return record_run(run, iterations=iterations, values_limit=values_limit, on_iteration=on_iteration)


def record_run(
    run: Run,
    *,
    iterations: int | None = None,
    values_limit: int = VALUES_LIMIT,
    on_iteration: Callable[[int], None] | None = None,
    uncompiled: bool = False,
    emulated: bool = False,
    clock_rate: int = 1,
    watch: bool = False,
    episodes: Episodes | None = None,
    stepwise: bool = False,
    in_float32: bool = False,
) -> Recording:
    """As `record`, for a :class:`Run`.

    With `uncompiled`, torch.compile and CudaGraphModule return the function itself: everything behind a converted
    script's flags, which must be among the arguments, runs, and bits stay equal. With `emulated`, the script finds a
    CUDA device, which is emulated on the CPU. On its clock, a step takes `clock_rate` milliseconds. With `watch`, the
    branches that the training code takes are recorded. With `episodes`, episodes of environments made by gym or
    gymnasium are cut short. If training is `stepwise`, the clock stops between environment steps. With `in_float32`,
    autocast and TF32 have no effect.
    """
    options: dict[str, Any] = {
        "values_limit": values_limit,
        "uncompiled": uncompiled,
        "emulated": emulated,
        "clock_rate": clock_rate,
        "watch": watch,
        "episodes": episodes,
        "stepwise": stepwise,
        "in_float32": in_float32,
    }
    with run.under_harness("record", on_iteration, iterations=iterations, **options) as scratch:
        first, *peers = scratch.outputs
        recording = load(first, _files(scratch.work))
        return replace(recording, peers=tuple(load(peer, ()) for peer in peers))


def _files(work: Path) -> tuple[str, ...]:
    """The files under `work`, relative to it, without the real time and process numbers in their names."""
    paths = (p.relative_to(work) for p in work.rglob("*") if p.is_file() and "wandb" not in p.relative_to(work).parts)
    names = (re.sub(r"events\.out\.tfevents.*", "events.out.tfevents", p.as_posix()) for p in paths)
    return tuple(sorted({_without_the_time(name) for name in names}))


def _without_the_time(name: str) -> str:
    """A file's name without times of the last or next 24 hours, which come from the real clock and differ between runs.

    The folder name that torch's SummaryWriter() makes has one: runs/Nov30_07-33-34_host.
    """
    name = re.sub(r"(?<!\d)\d{10}(?!\d)", lambda found: _unless_today(found[0], float(found[0])), name)
    return re.sub(r"\b[A-Z][a-z]{2}\d{2}_\d{2}-\d{2}-\d{2}(?!\d)", lambda found: _unless_dated_today(found[0]), name)


def _unless_dated_today(text: str) -> str:
    try:
        moment = datetime.strptime(f"{datetime.now().year} {text}", "%Y %b%d_%H-%M-%S")
    except ValueError:
        return text
    return _unless_today(text, moment.timestamp())


def _unless_today(text: str, seconds: float) -> str:
    return "time" if abs(seconds - time.time()) < 24 * 60 * 60 else text
