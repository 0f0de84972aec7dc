"""A process that imports what scripts import and forks itself for each run, so that runs need not wait for imports.

It reads orders from standard input and writes answers to standard output, each a JSON object on a line of its own. The
answers are `{"fit": true}` once, when it is ready to fork, then `{"ended": number, "status": status}` for each run. An
order is `{"run": number, "job": path, "work": folder, "stderr": path, "variables": {...}}`, or `{"end": number}`. When
standard input closes, the process ends all runs and itself.
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
    """Import `modules` and serve until standard input closes, then return None; in each fork, return the job's path."""
    orders, answers = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDWR)
    os.dup2(empty, 0)
    os.dup2(empty, 1)  # output of modules during import must not look like an answer
    os.close(empty)
    return _Server(orders, answers).serve(modules)


class _Server:
    def __init__(self, orders: int, answers: int) -> None:
        self._orders = orders
        self._answers = answers
        self._pipes: dict[int, int] = {}
        """By process, the end of a pipe that closes when this process is gone."""
        self._numbers: dict[int, int] = {}
        """By process, the number of its run."""

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
        """Carry out an order; in the forked process, returns the path of the job."""
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
        """End processes and everything they have started."""
        for process in processes:
            for end in (os.killpg, os.kill):  # a process that was just forked does not lead a group yet
                with contextlib.suppress(ProcessLookupError):
                    end(process, signal.SIGKILL)

    def _reap(self) -> None:
        """Report the runs that have ended, and end everything they have started."""
        while self._pipes and (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            process = ended.si_pid
            self._end(process)  # before its process id may be reused
            _, status = os.waitpid(process, 0)
            if process in self._pipes:
                os.close(self._pipes.pop(process))
                self._answer(ended=self._numbers.pop(process), status=os.waitstatus_to_exitcode(status))

    def _answer(self, **fields: Any) -> None:
        os.write(self._answers, json.dumps(fields).encode() + b"\n")


def _fit_to_fork(modules: Sequence[str]) -> bool:
    """Import modules; returns whether a fork is then equivalent to a process that imports them itself.

    It is not if a thread was started, which a fork would lack, or CUDA was initialised.
    """
    nvml = "PYTORCH_NVML_BASED_CUDA_CHECK"
    given = os.environ.get(nvml)
    os.environ[nvml] = "1"  # torch then looks for a GPU through NVML only, which survives a fork
    here = sys.path.pop(0)  # so that modules of the harness hide none of these
    for module in modules:
        with contextlib.suppress(Exception):  # a script that needs the module will raise the error
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
    """Whether forks of this process cannot use CUDA, according to torch in the fork."""
    process = os.fork()
    if process == 0:
        import torch

        bad = getattr(torch._C, "_cuda_isInBadFork", lambda: False)
        os._exit(bool(bad()))
    return os.waitpid(process, 0)[1] != 0


def _become(reading: int, order: dict[str, Any]) -> None:
    """Turn this fork into the process of a run."""
    os.setsid()
    os.dup2(reading, 0)
    os.close(reading)
    stderr = os.open(order["stderr"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(stderr, 2)
    os.close(stderr)
    os.chdir(order["work"])
    os.environ |= order["variables"]
    tempfile.tempdir = None
    gc.freeze = gc.unfreeze = lambda: None  # what is frozen here stays hidden; what the script freezes stays visible
