"""The client side of the process that is forked for each run, so that the imports of scripts happen only once."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformer.syntax.query import parse

FIXED = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0")}
"""Environment variables of every process of a run from its start."""
HARNESS = Path(__file__).parent / "harness"
MODULES = ("numpy", "torch", "torch.utils.tensorboard", "tensordict", "tensordict.nn", "tyro", "tqdm")
"""The modules that are imported once. None of them starts a thread or draws a number, and the harness can still replace
functions in them. Modules with clocks (gym, gymnasium) are not included."""

_SETS_VARIABLES = {"environ", "environb", "putenv", "unsetenv", "load_dotenv"}


class Forked:
    """A run in a fork, with the interface of :class:`subprocess.Popen`."""

    def __init__(self) -> None:
        self.returncode: int | None = None
        self._over = threading.Event()

    def end(self, status: int) -> None:
        """Note that the run has ended."""
        self.returncode = status
        self._over.set()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its exit status, which is negative if a signal ended it.

        Raises:
            subprocess.TimeoutExpired: it is still running.
        """
        if not self._over.wait(timeout):
            raise subprocess.TimeoutExpired("fork", timeout or 0.0)
        assert self.returncode is not None
        return self.returncode


@dataclass(eq=False)
class Server:
    """A process of an interpreter that forks itself for runs, which any thread of this process may request."""

    python: str
    variables: Mapping[str, str]
    """Environment variables in addition to those of this process; only for runs with the same ones."""
    _process: subprocess.Popen[bytes] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ready: threading.Event = field(default_factory=threading.Event)
    _fit: bool = False
    _runs: dict[int, Forked] = field(default_factory=dict)
    _count: int = 0

    @property
    def fit(self) -> bool:
        """Whether it can fork; waits until it has imported all modules."""
        self._ready.wait()
        return self._fit

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Run the server inside the context; on exit, all runs are ended."""
        command = [self.python, str(HARNESS), "--serve", *MODULES]
        with tempfile.TemporaryDirectory(prefix="lean-convert-") as folder:
            # All runs of this server share compiled code, but no later runs do
            compiled = {"TORCHINDUCTOR_CACHE_DIR": str(Path(folder) / "inductor")}
            try:
                self._process = subprocess.Popen(
                    command,
                    cwd=folder,
                    env={**compiled, **os.environ, "TMPDIR": folder, **FIXED, **self.variables},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError:  # reported when a run cannot be started either
                self._ready.set()
                yield
                return
            reader = threading.Thread(target=self._read, daemon=True)
            reader.start()
            try:
                yield
            finally:
                assert self._process.stdin is not None
                self._process.stdin.close()
                if not self._ready.is_set():
                    self._process.kill()  # it is still importing
                self._process.wait()
                reader.join()

    @contextmanager
    def run(self, job: Path, work: Path, stderr: Path, variables: Mapping[str, str]) -> Iterator[Forked]:
        """Run a job of the harness; on exit, everything it started is ended."""
        forked = Forked()
        with self._lock:
            self._count += 1
            number = self._count
            self._runs[number] = forked
        self._order(run=number, job=str(job), work=str(work), stderr=str(stderr), variables=dict(variables))
        try:
            yield forked
        finally:
            if forked.returncode is None:
                self._order(end=number)
                forked.wait()

    def _order(self, **fields: Any) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            with self._lock:
                self._process.stdin.write(json.dumps(fields).encode() + b"\n")
                self._process.stdin.flush()
        except (OSError, ValueError):
            self._gone()

    def _read(self) -> None:
        """Read the process's answers until it ends."""
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            if "fit" in answer:
                self._fit = answer["fit"]
                self._ready.set()
            else:
                self._runs.pop(answer["ended"]).end(answer["status"])
        self._gone()

    def _gone(self) -> None:
        """Mark the runs as ended that the process can no longer report."""
        self._fit = False
        self._ready.set()
        while self._runs:
            self._runs.popitem()[1].end(-9)


def may_fork(source: str, beside: Path) -> bool:
    """Whether a script runs the same in a fork as in a process of its own.

    It does not if the platform has no safe forks. Nor does it if the script, or a file next to it that it imports, may
    set environment variables, which some of :data:`MODULES` read on import, or has the name of one of these modules.
    """
    if sys.platform != "linux":
        return False
    try:
        nodes = list(ast.walk(parse(source)))
    except (SyntaxError, ValueError):
        return False
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    firsts = {name.partition(".")[0] for name in (*imported, *MODULES)}
    if any((beside / end).exists() for name in firsts for end in (name, f"{name}.py") if name):
        return False
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names |= {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    return names.isdisjoint(_SETS_VARIABLES)
