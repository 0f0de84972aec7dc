"""Runs a script in a subprocess under the harness, in a scratch folder that is removed afterwards."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from transformer.conversion.imported_files import own_modules
from transformer.syntax.text import NotText, decode
from transformer.verify.harness import NOT_EMULATED
from transformer.verify.server import FIXED, HARNESS, Forked, Server, may_fork

Mode = Literal["record", "log", "probe", "lockstep", "by_hand", "bench"]

_POLL_SECONDS = 0.05
_LAST_LINES = 15
_TRACEBACK = "Traceback (most recent call last):"
_TORCHRUN_SAYS = re.compile(r"^[WE]\d{4} .*torch/distributed/elastic/.*\b(failed|closing signal)\b", re.MULTILINE)
"""The start of the text that torchrun appends to a process's own output."""


class RunFailed(Exception):
    """A script could not be run to its end. The message contains its last lines of output."""

    def __init__(self, reason: str, last_lines: str = "", *, not_emulated: bool = False) -> None:
        """`not_emulated`: the emulated CUDA device cannot run the script, which is not the script's fault."""
        super().__init__(f"{reason}\n{last_lines}" if last_lines else reason)
        self.not_emulated = not_emulated


class Halted(Exception):
    """A run was ended because nobody waits for it any more."""


@dataclass(frozen=True)
class Run:
    """What to run: a script as `python script args...`."""

    script: Path
    args: tuple[str, ...] = ()
    source: str | None = None
    """Text to run under the script's name instead of its own, such as its conversion."""
    python: str = sys.executable
    """The interpreter; it needs numpy and torch, not this package."""
    timeout: float | None = None
    """Seconds after which the run counts as failed."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables in addition to those of this process."""
    processes: int | None = None
    """The number of processes for torchrun, on this machine; None starts the script itself."""
    server: Server | None = field(default=None, compare=False)
    """The process to fork for the run, if that makes no difference; otherwise the run gets a new process."""
    halt: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)
    """When set, ends this run and all copies made by `replace`."""
    together: tuple[Path, ...] = ()
    """Files that the script imports and that are converted with it; parts of the training may be in them."""
    place: Path | None = None
    """The file of the text that is run under the script's name: modules in its folder hide those in the script's."""

    def own_modules(self, source: str) -> dict[Path, Path]:
        """The modules that a text imports from the folder of its file, by path in that folder."""
        if self.place is None or self.place.resolve().parent == self.script.resolve().parent:
            return {}
        return own_modules(self.place, source.encode())

    def whole(self, source: str) -> str:
        """A text to run under the script's name, followed by the texts of its own modules."""
        modules = self.own_modules(source).values()
        return "\n".join([source, *(decode(file.read_bytes()).content for file in modules)])

    @contextmanager
    def under_harness(
        self,
        mode: Mode,
        on_iteration: Callable[[int], None] | None = None,
        *,
        harness: Path = HARNESS,
        **options: Any,
    ) -> Iterator[Scratch]:
        """Run to the end; yields the scratch folder with the harness's output, which is removed on exit.

        The script runs in an empty working directory, under its own file name, next to the other files of its folder.
        `options` are the fields of the harness's job for this mode; `on_iteration` is called with the number of
        finished iterations whenever it grows. `harness` is the folder of the harness.

        Raises:
            RunFailed: the script ended with an error, or ran out of time.
            OSError: the script or the interpreter cannot be read or started.
        """
        with self.started(mode, harness=harness, **options) as started:
            started.wait(on_iteration)
            yield started.scratch

    @contextmanager
    def started(self, mode: Mode, *, harness: Path = HARNESS, **options: Any) -> Iterator[Started]:
        """Start the run; inside the context it is running, and on exit it is ended if it still runs.

        Raises:
            OSError: the script or the interpreter cannot be read or started.
        """
        with tempfile.TemporaryDirectory(prefix="lean-convert-") as name:
            scratch = Scratch(Path(name), self.processes)
            if self.together and harness == HARNESS:
                options["together"] = [str(path.resolve()) for path in self.together]
            job = scratch.lay_out(self, {"mode": mode, **({"ranks": True} if self.processes else {}), **options})
            with self._running(scratch, job, harness) as process:
                yield Started(process, scratch, self.timeout, self.halt)

    def _running(
        self, scratch: Scratch, job: Path, harness: Path
    ) -> AbstractContextManager[subprocess.Popen[bytes] | Forked]:
        if harness == HARNESS and self._can_be_forked(scratch) and self.server is not None and self.server.fit:
            scratch.stderr.touch()
            return self.server.run(job, scratch.work, scratch.stderr, scratch.variables)
        command = [self.python, *self._torchrun(), str(harness), str(job)]
        return _running(command, scratch, self.environment)

    def _can_be_forked(self, scratch: Scratch) -> bool:
        server = self.server
        if server is None or self.processes is not None or server.python != self.python:
            return False
        if self.source is not None and self.own_modules(self.source):
            return False
        if server.variables != self.environment:
            return False
        try:
            text = decode((scratch.root / "script" / self.script.name).read_bytes()).content
        except NotText:
            return False
        return may_fork(text, self.script.resolve().parent)

    def _torchrun(self) -> tuple[str, ...]:
        if self.processes is None:
            return ()
        return "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.processes}"


@dataclass(frozen=True)
class Scratch:
    """The scratch folder of one run."""

    root: Path
    processes: int | None = None

    @property
    def outputs(self) -> tuple[Path, ...]:
        """The harness's output folders, by rank."""
        out = self.root / "out"
        return (out,) if self.processes is None else tuple(out / f"rank{rank}" for rank in range(self.processes))

    @property
    def output(self) -> Path:
        """The harness's output folder in the process of rank 0."""
        return self.outputs[0]

    @property
    def work(self) -> Path:
        """The script's working directory."""
        return self.root / "work"

    @property
    def stderr(self) -> Path:
        """The file for the script's standard error."""
        return self.root / "stderr"

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables of every run."""
        return {
            "TMPDIR": str(self.root / "tmp"),
            "WANDB_MODE": os.environ.get("WANDB_MODE", "offline"),  # a check is not an experiment to track
        }

    def lay_out(self, run: Run, job: dict[str, Any]) -> Path:
        """Make the folders, and copy the script; returns the path of the job file."""
        for folder in ("out", "work", "script", "tmp"):
            (self.root / folder).mkdir()
        data = run.script.read_bytes()
        if run.source is not None:
            data = decode(data).encode(run.source)
        modules = {} if run.source is None else run.own_modules(run.source)
        _link(self.root / "script", run.script.resolve().parent, modules, without=run.script.name)
        copy = self.root / "script" / run.script.name
        copy.write_bytes(data)
        path = self.root / "job.json"
        path.write_text(json.dumps({"script": str(copy), "argv": run.args, "output": str(self.root / "out"), **job}))
        return path

    def last_lines(self) -> str:
        """The last lines of the script's standard error, without the harness's frames in a traceback."""
        text = self.stderr.read_text(errors="replace")
        ours = rf'"{re.escape(str(HARNESS.parent.parent))}/[a-z]+/harness/'
        # Python 3.10 runs modules by a runpy that is not frozen
        text = re.sub(rf'  File (?:{ours}|".*[/\\]runpy\.py", ).*\n(?:    .*\n)*|  File "<frozen .*\n', "", text)
        text = text.replace(f"{self.root / 'script'}{os.sep}", "")
        text = re.split(_TORCHRUN_SAYS, text, maxsplit=1)[0] or text
        lines = text.rstrip().splitlines()
        begins = [n for n, line in enumerate(lines) if line == _TRACEBACK]
        if begins:  # warnings above it are not part of the error
            lines = lines[begins[-1] :]
        if begins and len(lines) > _LAST_LINES:
            return "\n".join([_TRACEBACK, "  ...", *lines[2 - _LAST_LINES :]])
        return "\n".join(lines[-_LAST_LINES:])


def _link(into: Path, folder: Path, instead: Mapping[Path, Path], *, without: str = "") -> None:
    """Link to everything in a folder, if it exists, except one file; `instead` names the files that others hide."""
    present = {path.name: path for path in folder.iterdir()} if folder.is_dir() else {}
    for name in sorted({*present, *(path.parts[0] for path in instead)} - {without, "__pycache__"}):
        inside = {path.relative_to(name): file for path, file in instead.items() if path.parts[0] == name}
        if Path() in inside:
            (into / name).symlink_to(inside[Path()])
        elif inside:
            (into / name).mkdir()
            _link(into / name, folder / name, inside)
        else:
            (into / name).symlink_to(present[name])


@contextmanager
def _running(command: list[str], scratch: Scratch, variables: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in its own process group, all of which is ended on exit."""
    environment = {**os.environ, **FIXED, **scratch.variables, **variables}
    with scratch.stderr.open("wb") as stderr:
        process = subprocess.Popen(
            command,
            cwd=scratch.work,
            env=environment,
            stdin=subprocess.PIPE,  # when it closes, the harness knows that this process is gone
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):  # the whole group may have ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


class Started:
    """A run that has begun."""

    def __init__(
        self,
        process: subprocess.Popen[bytes] | Forked,
        scratch: Scratch,
        timeout: float | None,
        halt: threading.Event,
    ) -> None:
        self.scratch = scratch
        self.ended = False
        self._halt = halt
        self._process = process
        self._timeout = timeout
        self._waited = 0.0
        self._seen = 0

    def wait(
        self, on_iteration: Callable[[int], None] | None = None, until: Callable[[], bool] = lambda: False
    ) -> None:
        """Wait until the run ends or `until()` is true. The timeout counts the waiting time of all calls together.

        Raises:
            RunFailed: the script ended with an error, or ran out of time.
            Halted: the run was halted.
        """
        progress = self.scratch.output / "progress"
        while not (self.ended or until()):
            try:
                self._process.wait(_POLL_SECONDS)
                self.ended = True
            except subprocess.TimeoutExpired:
                self._waited += _POLL_SECONDS
            if self._halt.is_set():
                raise Halted
            done = progress.stat().st_size if progress.exists() else 0
            if on_iteration is not None and done > self._seen:
                self._seen = done
                on_iteration(done)
            if self._timeout is not None and self._waited > self._timeout:
                message = f"the script was still running after {self._timeout:.0f} s"
                raise RunFailed(message, self.scratch.last_lines())
        status = self._process.returncode if self.ended else None
        if status:
            raise RunFailed(_reason(status), self.scratch.last_lines(), not_emulated=status == NOT_EMULATED)


def _reason(returncode: int) -> str:
    if returncode < 0:
        return f"the script was ended by signal {signal.Signals(-returncode).name}"
    return f"the script ended with exit status {returncode}"
