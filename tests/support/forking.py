"""Records scripts in forks of this process, which has imported what they import: in half a second each, not in five."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import resource
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from transformer.verify.harness import NOT_EMULATED
from transformer.verify.record import VALUES_LIMIT, _files
from transformer.verify.recording import Recording, load
from transformer.verify.run import HARNESS, Mode, Run, RunFailed, Scratch

SECONDS = 60.0
"""The wall-clock limit of a run that sets no timeout."""
MEMORY = 8 * 2**30
"""The bytes of address space that a run may take in addition to those of this process."""
MODULES = (
    "torch", "torch.distributions", "torch.optim", "torch._dynamo", "tensordict", "tensordict.nn", "gym",
    "gym.envs.classic_control", "gym.vector", "gymnasium", "gymnasium.envs.classic_control", "gymnasium.vector",
    "tyro", "tqdm", "torch.utils.tensorboard",
)  # fmt: skip


def python_forked(script: Path, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `python SCRIPT ARGS...` in the script's folder, in a fork, until it ends by itself."""
    preload()
    with tempfile.TemporaryDirectory(prefix="lean-forked-") as name:
        out, err = Path(name, "out"), Path(name, "err")
        sys.stdout.flush()
        sys.stderr.flush()
        process = os.fork()
        if process == 0:
            status = 1
            try:
                for number, file in ((0, Path(os.devnull)), (1, out), (2, err)):
                    os.dup2(os.open(file, os.O_RDWR | os.O_CREAT), number)
                sys.stdout, sys.stderr = (os.fdopen(os.dup(n), "w", buffering=1) for n in (1, 2))
                os.chdir(script.parent)
                os.environ |= variables
                sys.argv, sys.path[:0] = [str(script), *args], [str(script.parent)]
                sys.orig_argv[:] = [sys.executable, *sys.argv]
                runpy.run_path(str(script), run_name="__main__")
                status = 0
            except SystemExit as leave:
                status = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
                print(leave.code if isinstance(leave.code, str) else "", file=sys.stderr, end="")
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        return subprocess.CompletedProcess([str(script), *args], code, out.read_text(), err.read_text())


class TimedOut(RunFailed):
    """The run took too long, perhaps because the machine is busy."""


def assert_same_output(folder: Path, original: str, converted: str) -> None:
    """Run two scripts, and assert that both succeed and print the same non-empty output."""
    told = []
    for name, text in (("original", original), ("converted", converted)):
        path = folder / name / "script.py"
        path.parent.mkdir()
        path.write_text(text, encoding="utf-8")
        run = python_forked(path)
        assert run.returncode == 0, run.stderr
        told.append(run.stdout)
    assert told[0] == told[1] != ""


def preload() -> None:
    """Import what scripts import, and the harness; from then on torch uses one thread, here and in the runs."""
    for name in MODULES:
        if importlib.util.find_spec(name.partition(".")[0]) is not None:
            importlib.import_module(name)
    import torch

    torch.set_num_threads(1)
    if "_lean_harness" not in sys.modules:
        spec = importlib.util.spec_from_file_location("lean_harness_main", HARNESS / "__main__.py")
        assert spec is not None and spec.loader is not None
        entry = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(entry)
        entry._load_package()
        importlib.import_module("_lean_harness.execute")


def record_forked(
    run: Run,
    mode: Mode = "record",
    prepare: Callable[[], object] = lambda: None,
    cpu_seconds: int | None = None,
    **options: Any,
) -> Recording:
    """As :func:`transformer.verify.record.record_run`, in a fork. `preload` must have been called before.

    Args:
        run: what to run, and for how long; its `python`, `environment` and `processes` are ignored.
        mode: a mode of the harness that writes a recording.
        prepare: called in the fork, right before the harness.
        cpu_seconds: a limit on processor time, which a busy machine does not affect.
        options: the fields of the harness's job for that mode.

    Raises:
        TimedOut: the run exceeded its timeout or its processor time.
        RunFailed: the script ended with an error.
    """

    def limited() -> None:
        _limit(cpu_seconds)
        prepare()

    with _forked(run, mode, limited, **{"values_limit": VALUES_LIMIT, **options}) as scratch:
        return load(scratch.output, _files(scratch.work))


@contextmanager
def in_forks(cpu_seconds: int | None = None) -> Iterator[None]:
    """Fork all runs inside the context, including those of `verify`, with this limit on processor time."""
    real = Run.under_harness

    def under_harness(run: Run, mode: Mode, *_: object, **options: Any) -> AbstractContextManager[Scratch]:
        return _forked(run, mode, lambda: _limit(cpu_seconds), **options)

    Run.under_harness = under_harness  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Run.under_harness = real  # type: ignore[method-assign]


def _limit(cpu_seconds: int | None) -> None:
    if cpu_seconds is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))


@contextmanager
def _forked(run: Run, mode: Mode, prepare: Callable[[], object], **options: Any) -> Iterator[Scratch]:
    """Run to the end; yields the scratch folder, which is removed on exit.

    Raises:
        TimedOut: the run took longer than its timeout.
        RunFailed: the script ended with an error.
    """
    with tempfile.TemporaryDirectory(prefix="lean-forked-") as name:
        scratch = Scratch(Path(name))
        job = scratch.lay_out(run, {"mode": mode, **options})
        reading, writing = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        process = os.fork()
        if process == 0:
            _become(scratch, job, reading, writing, prepare)
        os.close(reading)
        try:
            _wait(process, scratch, SECONDS if run.timeout is None else run.timeout)
        finally:
            os.close(writing)
        yield scratch


def _become(scratch: Scratch, job: Path, reading: int, writing: int, prepare: Callable[[], object]) -> NoReturn:
    """Turn this fork into the harness's process for one run."""
    status = 1
    try:
        os.setpgid(0, 0)
        os.close(writing)
        os.dup2(reading, 0)
        os.dup2(os.open(scratch.root / "stderr", os.O_WRONLY | os.O_CREAT), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stdout, sys.stderr = (os.fdopen(os.dup(n), "w", buffering=1) for n in (1, 2))  # not pytest's capture
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        gc.freeze()  # collections only traverse the script's objects, as in a process of its own
        gc.freeze = gc.unfreeze = lambda: None
        os.chdir(scratch.work)
        os.environ |= {"TMPDIR": str(scratch.root / "tmp"), "WANDB_MODE": "offline"}
        tempfile.tempdir = None
        sys.path.insert(0, "")  # the harness replaces this entry by the script's folder
        prepare()
        status = sys.modules["_lean_harness.execute"].main(str(job))
    except SystemExit as leave:
        status = 0 if leave.code in (None, 0) else 1
        print(leave.code or "", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _wait(process: int, scratch: Scratch, seconds: float) -> None:
    """Wait for the end of the run, then end everything that it started.

    Raises:
        TimedOut: the run took too long, and was ended.
        RunFailed: the run ended with an error.
    """
    until = time.monotonic() + seconds
    done = status = 0
    while not done and time.monotonic() < until:
        time.sleep(0.01)
        done, status = os.waitpid(process, os.WNOHANG)
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)  # also ends what it started
    if not done:
        os.waitpid(process, 0)
        raise TimedOut(f"the script was still running after {seconds:.0f} s", scratch.last_lines())
    if status:
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGXCPU:
            raise TimedOut("the script took more processor time than it may", scratch.last_lines())
        message = f"the script ended with status {code}"
        raise RunFailed(message, scratch.last_lines(), not_emulated=code == NOT_EMULATED)
