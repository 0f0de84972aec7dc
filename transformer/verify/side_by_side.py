"""Runs that go on beside one another, each begun before its outcome is asked for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from transformer.verify.run import Run
from transformer.verify.server import Server

MOST = 4
"""No more runs at once by default: each takes memory as a training does."""

_Outcome = TypeVar("_Outcome")


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def served(run: Run, jobs: int) -> Iterator[Run]:
    """The run, and all that are made of it by `replace`, in forks of one process, with threads for so many at once.

    How many threads compute decides in which order sums are added, so all runs have the same number, as the variable
    OMP_NUM_THREADS says, where it is set.
    """
    threads = (
        {} if jobs == 1 or "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": str(max(1, processors() // jobs))}
    )
    server = Server(run.python, {**threads, **run.environment})
    with server.serving():
        yield replace(run, environment=server.variables, server=server)


class Runs:
    """Begins runs in an order, and lets so many go on at once; with one, each waits until its outcome is asked for."""

    def __init__(self, jobs: int, halt: threading.Event) -> None:
        """`halt` is that of the runs."""
        self._pool = ThreadPoolExecutor(jobs) if jobs > 1 else None
        self._halt = halt

    @property
    def beside(self) -> bool:
        """Whether several go on at once."""
        return self._pool is not None

    def begin(self, run: Callable[[], _Outcome]) -> Callable[[], _Outcome]:
        """Begin a run; gives what waits for its outcome, and raises what it raised."""
        if self._pool is not None:
            return self._pool.submit(run).result
        outcome: Future[_Outcome] = Future()

        def now() -> _Outcome:
            if not outcome.done():
                try:
                    outcome.set_result(run())
                except BaseException as error:
                    outcome.set_exception(error)
            return outcome.result()

        return now

    def end(self) -> None:
        """End what goes on, and begin nothing any more."""
        if self._pool is not None:
            self._halt.set()
            self._pool.shutdown(cancel_futures=True)
