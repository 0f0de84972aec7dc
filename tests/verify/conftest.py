from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
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


@pytest.fixture(scope="session", autouse=True)
def forked() -> Iterator[None]:
    """Runs that name no server are forked of one all the same: a second each, and not four."""
    running, server = Run._running, Server(sys.executable, {})

    def forking(run: Run, scratch: Scratch, job: Path, harness: Path) -> AbstractContextManager[Any]:
        return running(run if run.server is not None else replace(run, server=server), scratch, job, harness)

    with server.serving(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "_running", forking)
        yield


@pytest.fixture(scope="session")
def toy_recording(toy_script: Path, forked: None) -> Recording:
    return record(toy_script)
