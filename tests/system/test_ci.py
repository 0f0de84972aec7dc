"""What CI runs: it installs Chromium where it can, never fails where it cannot, and tells what was skipped and why."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("bash", "dirname", "env", "sh", "sleep", "timeout")


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """A folder of commands, the only ones there are: `make` and `apt-get` tell how they were called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (folder / tool).symlink_to(found)
    add(folder, "make", 'echo "make $*"')
    add(folder, "id", "echo 0")
    add(folder, "apt-get", f'echo "$*" >> {tmp_path}/calls')
    return folder


def add(folder: Path, name: str, does: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{does}\n")
    (folder / name).chmod(0o755)


def ci(commands: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a copy of .ci/run that knows no other commands."""
    script = commands.parent / ".ci" / "run"
    script.parent.mkdir()
    shutil.copy(ROOT / ".ci" / "run", script)
    environment = {"PATH": str(commands), **environment}
    return subprocess.run([script], env=environment, capture_output=True, text=True, check=False)


def calls(commands: Path) -> list[str]:
    file = commands.parent / "calls"
    return file.read_text().splitlines() if file.exists() else []


def test_chromium_is_installed_quietly_before_the_tests(commands: Path) -> None:
    result = ci(commands)
    assert (result.returncode, result.stdout, result.stderr) == (0, "make test\n", "")
    assert calls(commands) == ["update", "install --yes chromium"]


@pytest.mark.parametrize("there", ["chromium", "chromium-browser", "CHROMIUM", "no root"])
def test_chromium_is_not_installed_twice_or_without_the_right_to(commands: Path, there: str) -> None:
    if there == "no root":
        add(commands, "id", "echo 1000")
    elif there != "CHROMIUM":
        add(commands, there, "")
    result = ci(commands, **({"CHROMIUM": "/opt/chromium"} if there == "CHROMIUM" else {}))
    assert (result.returncode, result.stdout, result.stderr) == (0, "make test\n", "")
    assert calls(commands) == []


@pytest.mark.parametrize("does", ["echo no network >&2; exit 100", "sleep 60"])
def test_without_it_the_tests_run_all_the_same(commands: Path, does: str) -> None:
    add(commands, "apt-get", does)
    result = ci(commands, INSTALL_SECONDS="1")
    assert (result.returncode, result.stdout, result.stderr) == (0, "make test\n", "no Chromium\n")


def test_a_failing_suite_fails(commands: Path) -> None:
    add(commands, "make", "exit 2")
    assert ci(commands).returncode == 2


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
