"""Runs a script in a subprocess under the harness and reads back what it did."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from transformer.checking.recording import Recording, load

HARNESS = Path(__file__).parent / "harness"

VALUES_LIMIT = 512 * 2**20
"""Bytes of parameter and state values kept per run; beyond it only their digests are."""

_POLL_SECONDS = 0.05
_LAST_LINES = 15


class RunFailed(Exception):
    """A script could not be run to its end. The message holds the last lines that it wrote."""

    def __init__(self, reason: str, last_lines: str) -> None:
        super().__init__(f"{reason}\n{last_lines}" if last_lines else reason)


def record(
    script: Path,
    args: Sequence[str] = (),
    *,
    source: str | None = None,
    python: Path | str = sys.executable,
    iterations: int | None = None,
    timeout: float | None = None,
    values_limit: int = VALUES_LIMIT,
    on_iteration: Callable[[int], None] | None = None,
) -> Recording:
    """Run a script as `python script args...` and record it.

    It runs in an empty working directory that is removed afterwards, under its own file name, with the other
    files of its folder beside it. Random numbers, minibatch permutations aside, are the script's own.

    Args:
        script: path of the script.
        args: the script's arguments.
        source: text to run in the script's place, a converted form of it; the script's own where None.
        python: the interpreter; it needs numpy and torch, not this package.
        iterations: end the run after so many iterations of rollout and update; by itself where None.
        timeout: seconds after which the run counts as failed.
        values_limit: bytes of array contents to keep; of the rest, digests.
        on_iteration: called with the number of finished iterations as it grows.

    Raises:
        RunFailed: the script ended with an error, or ran out of time.
        OSError: the script or the interpreter cannot be read or started.
    """
    with tempfile.TemporaryDirectory(prefix="lean-convert-") as name:
        root = Path(name)
        job = _prepare(root, script, args, source, iterations, values_limit)
        with _running([str(python), str(HARNESS), str(job)], root) as process:
            _wait(process, root / "out" / "progress", timeout, on_iteration)
        if process.returncode != 0:
            raise RunFailed(_reason(process.returncode), _last_lines(root))
        return load(root / "out", _files(root / "work"))


def _prepare(
    root: Path, script: Path, args: Sequence[str], source: str | None, iterations: int | None, values_limit: int
) -> Path:
    """Lay out the scratch folder; returns the path of the job file."""
    for folder in ("out", "work", "script", "tmp"):
        (root / folder).mkdir()
    text = script.read_bytes() if source is None else source.encode()
    for beside in script.resolve().parent.iterdir():
        if beside.name not in (script.name, "__pycache__"):
            (root / "script" / beside.name).symlink_to(beside)
    copy = root / "script" / script.name
    copy.write_bytes(text)
    job = root / "job.json"
    fields = {
        "script": str(copy),
        "argv": list(args),
        "output": str(root / "out"),
        "iterations": iterations,
        "values_limit": values_limit,
    }
    job.write_text(json.dumps(fields))
    return job


@contextmanager
def _running(command: list[str], root: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a process group of its own; on leaving, nothing of that group is left running."""
    environment = {
        **os.environ,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"),
        "TMPDIR": str(root / "tmp"),
    }
    with (root / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            command,
            cwd=root / "work",
            env=environment,
            stdin=subprocess.PIPE,  # its closing tells the harness that this process is gone
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):  # all of it has ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def _wait(
    process: subprocess.Popen[bytes], progress: Path, timeout: float | None, on_iteration: Callable[[int], None] | None
) -> None:
    seen = 0
    waited = 0.0
    while True:
        try:
            process.wait(_POLL_SECONDS)
            ended = True
        except subprocess.TimeoutExpired:
            ended = False
        done = progress.stat().st_size if progress.exists() else 0
        if on_iteration is not None and done > seen:
            on_iteration(seen := done)
        if ended:
            return
        waited += _POLL_SECONDS
        if timeout is not None and waited > timeout:
            raise RunFailed(f"the script was still running after {timeout:.0f} s", _last_lines(progress.parent.parent))


def _reason(returncode: int) -> str:
    if returncode < 0:
        return f"the script was ended by signal {signal.Signals(-returncode).name}"
    return f"the script ended with exit status {returncode}"


def _last_lines(root: Path) -> str:
    """The end of what the script wrote to standard error, without the harness's frames in a traceback."""
    text = (root / "stderr").read_text(errors="replace")
    text = re.sub(rf'  File "{re.escape(str(HARNESS))}.*\n(    .*\n)*|  File "<frozen runpy>.*\n', "", text)
    text = text.replace(f"{root / 'script'}{os.sep}", "")
    return "\n".join(text.rstrip().splitlines()[-_LAST_LINES:])


def _files(work: Path) -> tuple[str, ...]:
    """The files under `work`, relative to it; names that hold the real time or a process number are cut short."""
    paths = (p.relative_to(work) for p in work.rglob("*") if p.is_file() and "wandb" not in p.relative_to(work).parts)
    return tuple(sorted({re.sub(r"events\.out\.tfevents.*", "events.out.tfevents", p.as_posix()) for p in paths}))
