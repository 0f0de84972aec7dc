"""Simultaneous runs, each started before its outcome is needed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from transformer.conversion.of_files import processors
from transformer.verify.run import Run
from transformer.verify.server import Server

MOST = 4
"""The default maximum of simultaneous runs: each takes as much memory as training."""

_Outcome = TypeVar("_Outcome")


@contextmanager
def served(run: Run, jobs: int) -> Iterator[Run]:
    """The run, and all copies made by `replace`, in forks of one process, with threads shared out among `jobs` runs.

    The number of threads determines the order of sums, so it is the same in all runs: OMP_NUM_THREADS, if set.
    """
    threads = (
        {} if jobs == 1 or "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": str(max(1, processors() // jobs))}
    )
    server = Server(run.python, {**threads, **run.environment})
    with server.serving():
        yield replace(run, environment=server.variables, server=server)


class Runs:
    """Starts runs in order, up to a number at the same time; if that is one, each runs when its outcome is needed."""

    def __init__(self, jobs: int, halt: threading.Event) -> None:
        """`halt` is the event that ends the runs."""
        self._pool = ThreadPoolExecutor(jobs) if jobs > 1 else None
        self._halt = halt

    @property
    def beside(self) -> bool:
        """Whether several run at the same time."""
        return self._pool is not None

    def begin(self, run: Callable[[], _Outcome]) -> Callable[[], _Outcome]:
        """Start a run; returns a function that waits for its outcome, or raises the error that it raised."""
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
        """End all runs, and start no more."""
        if self._pool is not None:
            self._halt.set()
            self._pool.shutdown(cancel_futures=True)
