"""Forks runs from a process that has already imported torch: each run takes one second instead of four."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from transformer.verify.run import Run, Scratch
from transformer.verify.server import Server


class Lent:
    """A server for verifications that already runs before them, and still runs after them."""

    serving = staticmethod(nullcontext)

    def __init__(self, server: Server) -> None:
        self._server = server

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)


@contextmanager
def all_forked() -> Iterator[None]:
    """Inside the context, fork runs that name no server, and let verifications use the context's servers."""
    running, server = Run._running, Server(sys.executable, {})
    servers = {"": server}

    def forking(run: Run, scratch: Scratch, job: Path, harness: Path) -> AbstractContextManager[Any]:
        return running(run if run.server is not None else replace(run, server=server), scratch, job, harness)

    def started(python: str, variables: Mapping[str, str]) -> Server | Lent:
        if python != sys.executable or variables.keys() - {"OMP_NUM_THREADS"}:
            return Server(python, variables)
        threads = variables.get("OMP_NUM_THREADS", "")
        if threads not in servers:
            servers[threads] = Server(python, variables)
            stack.enter_context(servers[threads].serving())
        return Lent(servers[threads])

    with ExitStack() as stack, server.serving(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "_running", forking)
        patch.setattr("transformer.verify.side_by_side.Server", started)
        yield
