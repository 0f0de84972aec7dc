"""CI runs the README's test command and fails with it; skipped tests are reported with their reasons."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("ends", [0, 2])
def test_ci_is_make_test(tmp_path: Path, ends: int) -> None:
    script, make = tmp_path / ".ci" / "run", tmp_path / "bin" / "make"
    for file in (script, make):
        file.parent.mkdir()
    shutil.copy(ROOT / ".ci" / "run", script)
    make.write_text(f'#!/bin/sh\necho "make $* in $PWD"\nexit {ends}\n')
    make.chmod(0o755)
    environment = {**os.environ, "PATH": f"{make.parent}:{os.environ['PATH']}"}
    result = subprocess.run([script], cwd="/", env=environment, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (ends, f"make test in {tmp_path}\n")


SKIPS = """\
import pytest

@pytest.mark.parametrize("n", range(3))
def test_one(n): pytest.skip("no GPU: here")

@pytest.mark.skipif(True, reason="no Chromium")
def test_two(): ...

def test_three(): ...
"""


def test_skips_are_counted_by_reason(tmp_path: Path) -> None:
    (tmp_path / "test_skips.py").write_text(SKIPS)
    (tmp_path / "test_module.py").write_text("import pytest\npytest.importorskip('no_such_module')\n")
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "xdist", "-n", "1", "--rootdir", tmp_path]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    told = [line for line in result.stdout[result.stdout.index("skipped: 5") :].splitlines() if line.startswith("  ")]
    assert told == [
        "   3  no GPU: here",
        "   1  could not import 'no_such_module': No module named 'no_such_module'",
        "   1  no Chromium",
    ]
