"""Turn a process that ran a command into one that runs a script."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformer.run.cache import Cache
from transformer.run.early import import_ahead, too_early
from transformer.run.flags import choose, has_cuda
from transformer.run.harness.execute import absolute, become, execute
from transformer.run.harness.pace import Measured, Pace
from transformer.run.harness.program import Damaged, Program
from transformer.run.payoff import Circumstances, History, after, before, beside, too_short, warmed, without_option

FILLED = "LEAN_CONVERT_FILLED"
"""The environment variable with the temporary cache's folder, for a process that restarts itself."""
ANOTHER_ORDER = (
    "torch draws the permutations of minibatches, not numpy: with the same seed, the run differs from the original "
    "from the first minibatch on; --ignore shuffle --eager prints what the original prints"
)


class Aside:
    """Work in a child process that ends with this process."""

    def __init__(self, work: Callable[[Callable[[str], None]], int]) -> None:
        """Start the work, which returns the exit code; by its argument it may send a message to this process.

        The child is forked. So no new interpreter has to start, and the modules that the child loads for converting
        stay out of the training process.
        """
        self._code: int | None = None
        self.said = ""
        """The message that the work has sent; set when the work has ended."""
        sys.stdout.flush()
        sys.stderr.flush()
        self._ear, mouth = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            code = 1
            try:
                code = work(lambda said: _say(mouth, said))
            except KeyboardInterrupt:  # the parent gets one too
                pass
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                try:
                    sys.stdout.flush()
                    sys.stderr.flush()
                finally:
                    os._exit(code)
        os.close(mouth)
        self._handled = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_DFL]
        for number in self._handled:
            signal.signal(number, self._end)

    def _end(self, number: int, _: object) -> None:
        """Handle a signal that ends this process: end the child first."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def wait(self) -> int:
        """Wait for the work to end; returns its exit code, or 128 plus the number of the signal that ended it."""
        if self._code is None:
            with os.fdopen(self._ear, encoding="utf-8") as ear:
                self.said = ear.read()
            code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
            for number in self._handled:
                if signal.getsignal(number) == self._end:
                    signal.signal(number, signal.SIG_DFL)
            if code < 0:
                print(f"Error: the conversion was ended by {signal.Signals(-code).name}", file=sys.stderr)
            self._code = code if code >= 0 else 128 - code
        return self._code


def _say(mouth: int, said: str) -> None:
    with os.fdopen(mouth, "w", encoding="utf-8") as stream:
        stream.write(said)


@dataclass(frozen=True)
class Job:
    """What to run."""

    script: str
    """The file as the user named it."""
    source: bytes
    """The content of the file."""
    args: tuple[str, ...]
    """The script's arguments."""
    cache: Cache
    options: dict[str, Any]
    """The arguments of `convert`, from the project's settings."""
    key: str
    together: tuple[Path, ...] = ()
    """Files that the script imports, to be converted with it."""
    flags: tuple[str, ...] | None = None
    """Flags for the converted script; None chooses those that suit this machine."""
    or_eager: bool = False
    """Whether to run a script that cannot be converted unconverted."""
    quiet: bool = False
    verbose: bool = False

    @property
    def name(self) -> str:
        """The script's name without its folder."""
        return Path(self.script).name

    def find(self) -> Program | None:
        """The conversion; None if the cache does not have it undamaged."""
        try:
            return self.cache.find(self.key, self.name)
        except Damaged as damage:
            if self.verbose:
                self.tell(f"the conversion in the cache is damaged, and is replaced: {damage}")
            return None

    def where_it_is(self, converting: Aside) -> Job:
        """The same job, with the cache that has the conversion."""
        return replace(self, cache=temporary(Path(converting.said))) if converting.said else self

    def tell(self, message: str) -> None:
        """Print a message about the run; under torchrun only the first process does."""
        if not self.quiet and os.environ.get("RANK", "0") == "0":
            tqdm = getattr(sys.modules.get("tqdm"), "tqdm", None)  # it can write without breaking a progress bar
            getattr(tqdm, "write", print)(f"lean-convert: {message}", file=sys.stderr)


def temporary(folder: Path) -> Cache:
    """A cache for this process alone, which is removed when the process ends."""
    cache, process = Cache(folder, temporary=True), os.getpid()

    def remove() -> None:
        if os.getpid() == process:  # not in a child process of the script
            cache.remove()

    atexit.register(remove)  # the script's own handlers are registered later, and so run first
    return cache


def start(job: Job, converting: Aside | None, started: float) -> None:
    """Become the script, and execute it.

    Args:
        job: what to run.
        converting: the conversion in progress; None if the cache has it.
        started: when the process was started, by `time.perf_counter()`.

    Raises:
        BaseException: what the script raises. SystemExit if there is no conversion.
    """
    _forget_the_package()
    become(job.script, job.args)
    early = [] if converting is None else import_ahead(job.source, job.script, sys.path[0])
    waiting = time.perf_counter()
    code = 0 if converting is None else converting.wait()
    started += time.perf_counter() - waiting  # do not count the wait, which later runs do not have
    if converting is not None:
        job = job.where_it_is(converting)
    program = job.find()
    if program is None:
        if code == 0:
            sys.exit(f"Error: the conversion in {job.cache.folder} cannot be read back")
        if not job.or_eager or code != 1:
            sys.exit(code)
        job.tell(f"{job.script} runs unconverted")
        execute(Program(Path(absolute(job.script)), job.source), None)
        return
    if too_early(early, program.source):  # restart the process, with the cache filled
        if job.cache.temporary:
            os.environ[FILLED] = str(job.cache.folder)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    _train(job, program, started)


def _train(job: Job, program: Program, started: float) -> None:
    cuda, taken = has_cuda(), program.facts.taken
    flags = choose(program.facts.options, job.args, cuda=cuda) if job.flags is None else list(job.flags)
    history = History(job.cache.history(Path(job.script).resolve()))
    workers = _workers(job, program, history, Circumstances.of(flags, job.args, taken, cuda=cuda))
    circumstances, eagerly = (Circumstances.of(f, (*job.args, *workers), taken, cuda=cuda) for f in (flags, ()))
    compiled, eager = history.latest(circumstances), history.latest(eagerly)
    short = too_short(job.args, compiled, eager) if job.flags is None and flags else None
    if short is not None:
        flags, circumstances = [], eagerly
    sys.argv[1:1] = [*flags, *workers]
    shown = ", ".join([" ".join([*flags, *workers]) or "flags off", *taken])
    job.tell(f"{job.name} runs converted, {shown}; what is executed: {program.text}")
    if short is not None:
        job.tell(short)
    if program.facts.another_order:
        job.tell(ANOTHER_ORDER)
    for headline in program.facts.headlines if job.flags != () and short is None else ():
        job.tell(headline)

    def begins(iterations: int | None) -> None:
        if flags:
            job.tell(before(iterations, compiled, eager))

    pace = Pace(started, begins, (lambda found: job.tell(warmed(found))) if flags else None)
    try:
        execute(program, pace)
    finally:
        measured = pace.measured()
        if measured is not None:
            _conclude(job, history, circumstances, measured, eager)
    if measured is None and flags:
        job.tell(
            "too few iterations, or too uneven ones, to say whether compiling paid: "
            "a short run is often faster with --eager"
        )


def _workers(job: Job, program: Program, history: History, circumstances: Circumstances) -> list[str]:
    """The option for worker processes and a number that earlier runs suggest; empty if the user has chosen."""
    option = program.facts.options.get("env_workers")
    if option is None or job.flags is not None or without_option(job.args, option)[1] is not None:
        return []
    number = history.fastest(option, circumstances)
    return [] if number is None else [option, number]


def _conclude(
    job: Job, history: History, circumstances: Circumstances, measured: Measured, eager: Measured | None
) -> None:
    if os.environ.get("RANK", "0") == "0" and not job.cache.temporary:
        try:
            history.add(circumstances, measured)
        except OSError as error:
            job.tell(f"the measurement cannot be stored: {error}")
    if circumstances.flags:
        without = history.latest(replace(circumstances, taken=()))
        job.tell(f"{after(measured, eager)}{beside(circumstances.taken, measured, without)}")


def _forget_the_package() -> None:
    """Let the script import a module of its own that has this package's name. Code that is loaded still works."""
    for name in [n for n in sys.modules if n.partition(".")[0] == "transformer"]:
        del sys.modules[name]
