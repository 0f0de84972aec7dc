"""A script that is recorded in a fork does the same as in a process of its own, and its failures are reported."""

import subprocess
from pathlib import Path

import pytest
from forking import TimedOut, in_forks, preload, record_forked
from scripts import script

from transformer import convert
from transformer.verify import compare
from transformer.verify.names import FLAGS_ON
from transformer.verify.record import record
from transformer.verify.run import Run, RunFailed
from transformer.verify.verify import Task, verify


@pytest.fixture
def run(tmp_path: Path) -> Run:
    preload()
    path = tmp_path / "ppo.py"
    path.write_text(script())
    return Run(path)


@pytest.mark.slow
def test_a_fork_and_a_process_do_the_same(run: Run) -> None:
    forked = record_forked(run)
    assert compare(record(run.script), forked) == compare(forked, record_forked(run)) == ()
    assert len(forked.steps) == 24


def test_a_run_leaves_nothing_behind_in_this_process(run: Run) -> None:
    text = script({"end": "    nn.Linear.forward = optim.Adam = None\n    raise SystemExit"})
    record_forked(Run(run.script, source=text))
    assert len(record_forked(run).steps) == 24


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("    raise ValueError('so it ends')", "ValueError: so it ends"),
        ("    raise SystemExit('told why')", "told why"),
        ("    import os; os.abort()", "status -6"),
        ("    held = np.ones(10**12)", "MemoryError"),
    ],
)
def test_a_script_that_fails(run: Run, end: str, said: str) -> None:
    with pytest.raises(RunFailed, match=said):
        record_forked(Run(run.script, source=script({"end": end})))


@pytest.mark.slow
def test_a_script_without_an_end(run: Run) -> None:
    with pytest.raises(TimedOut, match="still running after 1 s"):
        record_forked(Run(run.script, source=script({"end": "    while True:\n        pass"}), timeout=1))
    with pytest.raises(TimedOut, match="processor time"):
        record_forked(Run(run.script, source=script({"end": "    while True:\n        pass"})), cpu_seconds=2)


def test_verify_runs_in_forks(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    source = convert(run.script.read_text()).source
    monkeypatch.setattr(subprocess, "Popen", None)
    with in_forks():
        found = verify(Task(run, source, up_to=FLAGS_ON))
    assert {check.status for check in found.checks} == {"equal"}
