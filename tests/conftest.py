"""Fixtures shared by all tests. Helpers in support/ and tools/ are on the import path (pyproject.toml)."""

import gc
import getpass
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("cases")

if capability := os.environ.get("ATEN_CPU_CAPABILITY"):
    # Inductor's cache does not tell code for one capability from code for another, which then does not compile
    cache = Path(tempfile.gettempdir(), f"torchinductor_{getpass.getuser()}_{capability}")
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache))

# Threads of torch that wait for work keep a core busy, which another process of the tests could use: each ran twice as
# long. How many threads there are, and so every bit, is the same
os.environ.setdefault("GOMP_SPINCOUNT", "0")


FORMS, NTH = 2, 8


@pytest.hookimpl(tryfirst=True)  # before pytest deselects the slow ones
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test that has many parameters, the first three and every eighth after them run at each change.

    The others are slow. They are forms of one thing, which one change of the code gets wrong or right together.
    """
    met: Counter[str] = Counter()
    for item in items:
        test = item.nodeid.partition("[")[0]
        if hasattr(item, "callspec") and item.get_closest_marker("slow") is None:
            if met[test] > FORMS and (met[test] - FORMS) % NTH:
                item.add_marker(pytest.mark.slow)
            met[test] += 1


def pytest_sessionstart() -> None:
    """Let internal errors of a conversion be raised, and not be told as a refusal."""
    from transformer.conversion import pipeline

    pipeline.TRACEBACKS = True


def pytest_collection_finish() -> None:
    """Hide all loaded modules from the garbage collector, which would take a third of a conversion's time.

    It also runs less often: what is left goes through the trees of a test's scripts again and again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end how many tests were skipped, and why."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    if reasons:
        terminalreporter.section(f"skipped: {len(skipped)}")
    for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
        terminalreporter.write_line(f"{count:4}  {reason}")


@pytest.fixture(scope="session", autouse=True)
def shared_conversions(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let pytest-xdist workers share conversions, so that each that several tests look at is made once."""
    golden = sys.modules.get("golden")
    if golden is not None and "PYTEST_XDIST_WORKER" in os.environ:
        golden.shared = tmp_path_factory.getbasetemp().parent / "conversions"


@pytest.fixture
def converted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands convert no text with the same options twice: the tests are of what they do with a conversion."""
    from golden import converted

    from transformer.conversion import pipeline

    monkeypatch.setattr(pipeline, "convert", converted)


@pytest.fixture(scope="session")
def published(request: pytest.FixtureRequest) -> Path:
    """The scripts of cleanrl 1.2.0. Its metadata ask for an older Python, which they do not need."""
    assert request.config.cache is not None
    folder = request.config.cache.mkdir("cleanrl-1.2.0")
    if not any(folder.glob("*.whl")):
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--ignore-requires-python", "cleanrl==1.2.0"]
        result = subprocess.run([*command, "-d", folder], capture_output=True, text=True, check=False)
        if result.returncode:
            pytest.skip(f"cleanrl cannot be fetched: {result.stderr.strip().splitlines()[-1]}")
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def runs_forked() -> Iterator[None]:
    """From here on, fork runs and verifications even if they name no server."""
    from served import all_forked

    with all_forked():
        yield
