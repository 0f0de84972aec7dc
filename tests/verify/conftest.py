from __future__ import annotations

from pathlib import Path

import pytest
from toy import TOY

from transformer.verify import Recording, record


@pytest.fixture(scope="session")
def toy_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("toy") / "toy.py"
    path.write_text(TOY)
    return path


@pytest.fixture(scope="session")
def toy_recording(toy_script: Path) -> Recording:
    return record(toy_script)
