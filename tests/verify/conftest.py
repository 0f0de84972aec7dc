from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toy import TOY

from transformer.verify import Recording, record
from transformer.verify.run import Run, Scratch
from transformer.verify.server import Server


@pytest.fixture(scope="session")
def toy_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("toy") / "toy.py"
    path.write_text(TOY)
    return path


class Lent:
    """A server for a verification, which is there before it and stays."""

    serving = staticmethod(nullcontext)

    def __init__(self, server: Server) -> None:
        self._server = server

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)


@pytest.fixture(scope="session", autouse=True)
def forked() -> Iterator[None]:
    """Runs that name no server are forked of one all the same: a second each, and not four. So are verifications'."""
    running, server = Run._running, Server(sys.executable, {})

    def forking(run: Run, scratch: Scratch, job: Path, harness: Path) -> AbstractContextManager[Any]:
        return running(run if run.server is not None else replace(run, server=server), scratch, job, harness)

    def started(python: str, variables: Mapping[str, str]) -> Server | Lent:
        if python != sys.executable or variables.keys() - {"OMP_NUM_THREADS"}:
            return Server(python, variables)
        threads = variables.get("OMP_NUM_THREADS", "")
        if threads not in others:
            others[threads] = Server(python, variables)
            stack.enter_context(others[threads].serving())
        return Lent(others[threads])

    others = {"": server}
    with ExitStack() as stack, server.serving(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "_running", forking)
        patch.setattr("transformer.verify.side_by_side.Server", started)
        yield


@pytest.fixture(scope="session")
def toy_recording(toy_script: Path, forked: None) -> Recording:
    return record(toy_script)
