"""A forked run does what a run in its own process does, and reports every kind of end."""

import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from toy import TOY

from transformer.verify import Recording, compare, server
from transformer.verify.record import record_run
from transformer.verify.run import Halted, Run, RunFailed
from transformer.verify.server import Server, may_fork

BEGIN = "def main():\n"


@pytest.fixture(scope="module")
def forking() -> Iterator[Server]:
    started = Server(sys.executable, {})
    with started.serving():
        yield started


@pytest.fixture(scope="module")
def alone(toy_script: Path) -> Recording:
    """The recording of a run in its own process."""
    return record_run(Run(toy_script, server=Server("another interpreter", {})))


@pytest.fixture
def run(toy_script: Path, forking: Server) -> Run:
    return Run(toy_script, server=forking)


def beginning(run: Run, *lines: str) -> Run:
    """The run of a script that begins with these lines."""
    return replace(run, source=TOY.replace(BEGIN, BEGIN + "".join(f"    {line}\n" for line in lines)))


@pytest.mark.slow
def test_a_fork_does_what_a_process_does(run: Run, alone: Recording) -> None:
    assert run.server is not None
    assert run.server.fit
    forked = record_run(run)
    assert compare(alone, forked) == compare(forked, record_run(run)) == ()
    assert forked.seconds < alone.seconds / 2  # since nothing was imported


@pytest.mark.slow
def test_a_runs_changes_end_with_it(run: Run, alone: Recording) -> None:
    with pytest.raises(RunFailed, match="NoneType"):
        record_run(beginning(run, "nn.Linear.forward = torch.optim.Adam = None"))
    assert compare(alone, record_run(run)) == ()


def test_an_error_shows_the_scripts_own_lines(run: Run) -> None:
    with pytest.raises(RunFailed) as failure:
        record_run(beginning(run, "raise ValueError('so it ends')"))
    reason, *lines = str(failure.value).splitlines()
    assert reason == "the script ended with exit status 1"
    assert lines[0] == "Traceback (most recent call last):"
    assert [line for line in lines if line.startswith("  File")] == [
        f'  File "toy.py", line {n}, in {name}' for n, name in ((69, "<module>"), (29, "main"))
    ]
    assert lines[-1] == "ValueError: so it ends"


@pytest.mark.parametrize(
    ("end", "said"), [("os.abort()", "ended by signal SIGABRT"), ("raise SystemExit('told why')", "told why")]
)
def test_other_ends(run: Run, end: str, said: str) -> None:
    with pytest.raises(RunFailed, match=said):
        record_run(beginning(run, "import os", end))


def test_a_run_ends_with_its_child_processes(run: Run, tmp_path: Path) -> None:
    started = tmp_path / "started"
    code = f"import os, time; open({str(started)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    lines = "import subprocess, sys", f"subprocess.run([sys.executable, '-c', {code!r}])"
    halt = threading.Event()

    def stop() -> None:
        while not (started.exists() and started.read_text()):
            time.sleep(0.02)
        halt.set()

    threading.Thread(target=stop, daemon=True).start()
    with pytest.raises(Halted):
        record_run(replace(beginning(run, *lines), halt=halt))
    assert not alive(int(started.read_text()))


def alive(process: int) -> bool:
    """Whether a process still runs after at most two seconds."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return False
        if state == "Z":
            return False
        time.sleep(0.02)
    return True


def test_runs_go_on_side_by_side(run: Run, tmp_path: Path) -> None:
    """Each waits for the other's file: one alone would not end."""
    ended: list[Recording] = []

    def record_one(own: str, other: str) -> None:
        lines = "import os", f"open({own!r}, 'w')", f"while not os.path.exists({other!r}): time.sleep(0.01)"
        ended.append(record_run(replace(beginning(run, *lines), timeout=60)))

    names = str(tmp_path / "a"), str(tmp_path / "b")
    threads = [threading.Thread(target=record_one, args=pair) for pair in (names, names[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert compare(*ended) == ()


@pytest.mark.slow
def test_without_the_server_runs_are_processes(toy_script: Path, alone: Recording) -> None:
    ended = Server(sys.executable, {})
    with ended.serving():
        assert ended._process is not None
        ended._process.kill()
        assert not ended.fit
        assert compare(alone, record_run(Run(toy_script, server=ended))) == ()
    other = Server("/no/such/python", {})
    with other.serving():
        assert not other.fit


def test_a_process_with_threads_is_not_forked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "threaded.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    monkeypatch.setattr(server, "MODULES", ("threading", "threaded"))
    lone = Server(sys.executable, {"PYTHONPATH": str(tmp_path)})
    with lone.serving():
        assert not lone.fit


@pytest.mark.parametrize(
    ("source", "beside", "forked"),
    [
        ("import os\nprint(os.getcwd())", "data.txt", True),
        ("import os\nos.environ['OMP_NUM_THREADS'] = '1'\nimport torch", None, False),
        ("from os import environ as e\ne['OMP_NUM_THREADS'] = '1'\nimport torch", None, False),
        ("import helper", "helper.py", False),
        ("from parts.helper import f", "parts", False),
        ("import torch", "tqdm.py", False),
        ("no python", None, False),
    ],
)
def test_scripts_that_may_be_forked(source: str, beside: str | None, forked: bool, tmp_path: Path) -> None:
    if beside is not None:
        (tmp_path / beside).touch()
    assert may_fork(source, tmp_path) == (forked and sys.platform == "linux")


@pytest.mark.slow
def test_a_fork_has_its_own_place_for_temporary_files(run: Run) -> None:
    lines = "import os, tempfile", "assert os.getenv('TMPDIR') == os.path.dirname(tempfile.mkdtemp())"
    record_run(beginning(run, *lines))
