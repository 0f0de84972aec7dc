"""A process that has imported what scripts import, and forks itself for each run: a run then begins with its script.

It reads orders from standard input, one JSON object a line, and answers on standard output, a line of JSON as well:
`{"fit": true}` once, when it is ready to fork, then `{"ended": number, "status": status}` for each run. An order is
`{"run": number, "job": path, "work": folder, "stderr": path, "variables": {...}}`, or `{"end": number}`. When its
standard input closes, it ends all runs and itself.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import sys
import tempfile
import threading
from collections.abc import Sequence
from typing import Any

POLL_SECONDS = 0.02


def serve(modules: Sequence[str]) -> str | None:
    """Import `modules` and serve until standard input closes; gives None then, and in each fork the path of its job."""
    orders, answers = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDWR)
    os.dup2(empty, 0)
    os.dup2(empty, 1)  # what modules say while they are imported is no answer
    os.close(empty)
    return _Server(orders, answers).serve(modules)


class _Server:
    def __init__(self, orders: int, answers: int) -> None:
        self._orders = orders
        self._answers = answers
        self._pipes: dict[int, int] = {}
        """By process, the end of a pipe by whose closing it learns that this one is gone."""
        self._numbers: dict[int, int] = {}
        """The number of the run of each process."""

    def serve(self, modules: Sequence[str]) -> str | None:
        """As :func:`serve`."""
        self._answer(fit=_fit_to_fork(modules))
        rest = b""
        while True:
            ready, _, _ = select.select([self._orders], [], [], POLL_SECONDS if self._pipes else None)
            if ready:
                read = os.read(self._orders, 65536)
                if not read:
                    self._end(*self._pipes)
                    return None
                *lines, rest = (rest + read).split(b"\n")
                for line in lines:
                    if (job := self._follow(json.loads(line))) is not None:
                        return job
            self._reap()

    def _follow(self, order: dict[str, Any]) -> str | None:
        """Do as an order says; gives the path of the job in the process that is forked."""
        if "end" in order:
            self._end(*(process for process, number in self._numbers.items() if number == order["end"]))
            return None
        reading, writing = os.pipe()
        process = os.fork()
        if process == 0:
            for kept in (self._orders, self._answers, writing, *self._pipes.values()):
                os.close(kept)
            _become(reading, order)
            return str(order["job"])
        os.close(reading)
        self._pipes[process], self._numbers[process] = writing, order["run"]
        return None

    def _end(self, *processes: int) -> None:
        """End processes, and what they have started."""
        for process in processes:
            for end in (os.killpg, os.kill):  # one that has just been forked leads no group yet
                with contextlib.suppress(ProcessLookupError):
                    end(process, signal.SIGKILL)

    def _reap(self) -> None:
        """Tell of the runs that have ended; what they have started ends with them."""
        while self._pipes and (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            process = ended.si_pid
            self._end(process)  # before its number may be another's
            _, status = os.waitpid(process, 0)
            if process in self._pipes:
                os.close(self._pipes.pop(process))
                self._answer(ended=self._numbers.pop(process), status=os.waitstatus_to_exitcode(status))

    def _answer(self, **fields: Any) -> None:
        os.write(self._answers, json.dumps(fields).encode() + b"\n")


def _fit_to_fork(modules: Sequence[str]) -> bool:
    """Import modules; whether a fork of this process is then as good as a process that imports them itself.

    It is not where a thread was started, of which a fork has none, or CUDA was asked for anything.
    """
    nvml = "PYTORCH_NVML_BASED_CUDA_CHECK"
    given = os.environ.get(nvml)
    os.environ[nvml] = "1"  # whether there is a GPU is then asked of the driver's manager alone, which may be forked
    here = sys.path.pop(0)  # modules of the harness hide none of these
    for module in modules:
        with contextlib.suppress(Exception):  # a script that needs it ends with the error
            importlib.import_module(module)
    sys.path.insert(0, here)
    del os.environ[nvml]
    if given is not None:
        os.environ[nvml] = given
    import torch

    importlib.import_module("_lean_harness.execute")
    gc.collect()
    gc.freeze()
    return threading.active_count() == 1 and not torch.cuda.is_initialized() and not _forks_lose_cuda()


def _forks_lose_cuda() -> bool:
    """Whether a fork of this process cannot use CUDA, as torch tells it there."""
    process = os.fork()
    if process == 0:
        import torch

        bad = getattr(torch._C, "_cuda_isInBadFork", lambda: False)
        os._exit(bool(bad()))
    return os.waitpid(process, 0)[1] != 0


def _become(reading: int, order: dict[str, Any]) -> None:
    """Be, from now on, the process of a run."""
    os.setsid()
    os.dup2(reading, 0)
    os.close(reading)
    stderr = os.open(order["stderr"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(stderr, 2)
    os.close(stderr)
    os.chdir(order["work"])
    os.environ |= order["variables"]
    tempfile.tempdir = None
    gc.freeze = gc.unfreeze = lambda: None  # what was frozen here stays out of view; what the script freezes, in view
