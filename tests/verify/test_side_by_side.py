"""Runs start before their outcomes are needed, and end once nobody waits for them."""

import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from golden import FIXTURES, convert_fixture

from transformer.verify import Recording, RunFailed
from transformer.verify import verify as checking
from transformer.verify.length import Length
from transformer.verify.lockstep import Lockstep
from transformer.verify.names import FLAGS_OFF, FLAGS_ON
from transformer.verify.run import Halted, Run
from transformer.verify.side_by_side import Runs, served
from transformer.verify.verify import Task, verify


def test_with_one_job_a_run_waits_until_its_outcome_is_asked_for() -> None:
    done: list[str] = []
    runs = Runs(1, threading.Event())
    outcome = runs.begin(lambda: done.append("run"))
    assert not done
    outcome()
    outcome()
    assert done == ["run"]


def test_an_error_is_raised_each_time_and_the_run_is_not_repeated() -> None:
    done: list[str] = []

    def fail() -> None:
        done.append("run")
        raise RunFailed("no")

    for jobs in (1, 2):
        runs = Runs(jobs, threading.Event())
        outcome = runs.begin(fail)
        for _ in range(2):
            with pytest.raises(RunFailed):
                outcome()
        assert len(done) == jobs
        runs.end()


def test_with_two_jobs_runs_wait_for_each_other() -> None:
    """One alone would not end."""
    both = threading.Barrier(2)
    runs = Runs(2, threading.Event())
    outcomes = [runs.begin(lambda: both.wait(timeout=20)) for _ in range(2)]
    assert {outcome() for outcome in outcomes} == {0, 1}
    runs.end()


def test_the_end_halts_runs_and_starts_none() -> None:
    halt = threading.Event()
    begun: list[int] = []

    def run(number: int) -> None:
        begun.append(number)
        assert halt.wait(20)

    runs = Runs(2, halt)
    for number in range(5):
        runs.begin(lambda number=number: run(number))  # type: ignore[misc]
    runs.end()
    assert set(begun) <= {0, 1}


@pytest.mark.parametrize("jobs", [1, 2, 4])
def test_threads_are_shared_among_runs(jobs: int, monkeypatch: pytest.MonkeyPatch, toy_script: Path) -> None:
    monkeypatch.setattr("transformer.verify.side_by_side.processors", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with served(Run(toy_script, python="/no/such/python"), jobs) as run:
        assert run.environment == ({} if jobs == 1 else {"OMP_NUM_THREADS": str(4 // jobs)})
        monkeypatch.setenv("OMP_NUM_THREADS", "7")
        with served(Run(toy_script, python="/no/such/python"), jobs) as given:
            assert given.environment == {}  # the variable holds for all runs


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch, toy_recording: Recording) -> Callable[[bool], list[str]]:
    """Make recorded runs end at once, and compiling runs go on until they are halted."""

    def install(differs: bool) -> list[str]:
        begun: list[str] = []
        other = dataclasses.replace(toy_recording, prints=()) if differs else toy_recording
        compiling = threading.Event()

        def record_run(run: Run, **_: Any) -> Recording:
            begun.append(" ".join(run.args))
            assert compiling.wait(20)  # a compiling run goes on beside all of these
            found = toy_recording if run.source is None else other
            return dataclasses.replace(found, versions={"cuda": False})

        def run_in_lockstep(run: Run, **_: Any) -> Lockstep:
            compiling.set()
            assert run.halt.wait(20)
            raise Halted

        monkeypatch.setattr(checking, "find_length", lambda run: Length("--updates", 1, 100))
        monkeypatch.setattr(checking, "record_run", record_run)
        monkeypatch.setattr(checking, "run_in_lockstep", run_in_lockstep)
        return begun

    return install


def test_after_a_check_that_is_not_equal_runs_are_ended(waiting: Callable[[bool], list[str]], toy_script: Path) -> None:
    begun = waiting(True)
    task = Task(Run(toy_script), convert_fixture(FIXTURES / "gymnasium_continuous.py"), jobs=3, up_to="compiled")
    checks = verify(task).checks
    assert [check.status for check in checks] == ["different", "not run", "not run"]
    assert not task.original.halt.is_set()  # the caller's own runs may go on
    assert len(begun) <= 5


def test_where_the_original_fails_runs_are_ended(
    waiting: Callable[[bool], list[str]], toy_script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting(False)
    fails = checking.record_run

    def record_run(run: Run, **options: Any) -> Recording:
        if run.source is None:
            raise RunFailed("no")
        return fails(run, **options)

    monkeypatch.setattr(checking, "record_run", record_run)
    with pytest.raises(RunFailed, match="no"):
        verify(Task(Run(toy_script), convert_fixture(FIXTURES / "gymnasium_continuous.py"), jobs=2))


def test_with_a_gpu_one_goes_on_at_a_time(
    waiting: Callable[[bool], list[str]], toy_script: Path, monkeypatch: pytest.MonkeyPatch, toy_recording: Recording
) -> None:
    waiting(False)
    running = threading.Lock()

    def record_run(run: Run, **_: Any) -> Recording:
        assert threading.current_thread() is threading.main_thread()
        assert running.acquire(blocking=False)
        running.release()
        return dataclasses.replace(toy_recording, versions={"cuda": True})

    monkeypatch.setattr(checking, "find_length", lambda run: Length("--updates", 1, 100, cuda=True))
    monkeypatch.setattr(checking, "record_run", record_run)
    checks = verify(
        Task(Run(toy_script), convert_fixture(FIXTURES / "gymnasium_continuous.py"), jobs=4, up_to=FLAGS_ON)
    ).checks
    assert {check.name: check.status for check in checks} == {FLAGS_OFF: "equal", FLAGS_ON: "equal"}
