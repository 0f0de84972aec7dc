from pathlib import Path

import pytest
from toy import TOY

from transformer.verify import Recording, record


@pytest.fixture(scope="session")
def toy_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("toy") / "toy.py"
    path.write_text(TOY)
    return path


@pytest.fixture(scope="session", autouse=True)
def all_are_forked(runs_forked: None) -> None:
    """Fork the runs of all tests in this folder."""


@pytest.fixture(scope="session")
def toy_recording(toy_script: Path, runs_forked: None) -> Recording:
    return record(toy_script)
