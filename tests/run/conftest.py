from pathlib import Path

import pytest
from running import Runner


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)
