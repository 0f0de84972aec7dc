"""Puts this folder on the import path, so that test modules in the folders below find the helpers that stand here."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.register_assert_rewrite("cases")


@pytest.fixture(scope="session")
def published(request: pytest.FixtureRequest) -> Path:
    """The scripts of the package cleanrl 1.2.0; its metadata ask for an older Python, which they do not need."""
    assert request.config.cache is not None
    folder = request.config.cache.mkdir("cleanrl-1.2.0")
    if not any(folder.glob("*.whl")):
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--ignore-requires-python", "cleanrl==1.2.0"]
        result = subprocess.run([*command, "-d", folder], capture_output=True, text=True, check=False)
        if result.returncode:
            pytest.skip(f"cleanrl cannot be fetched: {result.stderr.strip().splitlines()[-1]}")
    return next(folder.glob("*.whl"))
