"""Shared code of commands that run scripts: the interpreter, progress bars, and orderly termination."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeElapsedColumn

from transformer.commands.script_args import ScriptFile
from transformer.verify.checks import Check
from transformer.verify.names import shown
from transformer.verify.show import table_of_lines

FILE = ScriptFile(exists=True, dir_okay=False, path_type=Path)
NEEDED = ("numpy", "torch")
"""The packages that the scripts' interpreter must have."""


def python_option(does: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add an option for the interpreter that runs the scripts, as the argument `python`; `does` is its help text.

    An invalid interpreter, or one without the packages in NEEDED, is a usage error.
    """
    return click.option("--python", default=sys.executable, metavar="PATH", callback=_interpreter, help=does)


def _interpreter(_: click.Context, __: click.Parameter, python: str) -> str:
    if python == sys.executable:
        lacking = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    else:
        code = f"import importlib.util as u; print(*(n for n in {NEEDED!r} if u.find_spec(n) is None))"
        try:
            asked = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            raise click.BadParameter(f"{python} is not a working Python interpreter") from None
        lacking = asked.stdout.split()
    if lacking:
        raise click.BadParameter(
            f"{python} has no {' and no '.join(lacking)}: pass the interpreter of your scripts to --python"
        )
    return python


class Bars:
    """A progress bar for each run, on standard error, if that is a terminal."""

    def __init__(self, console: Console, kind: Callable[..., Progress] | None = None) -> None:
        columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}"), TimeElapsedColumn()
        disable = not console.file.isatty()
        self._progress = (kind or Progress)(*columns, console=console, disable=disable, transient=True)

    def __enter__(self) -> Bars:
        self._progress.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._progress.stop()

    @contextmanager
    def run(self, name: str, iterations: int | None) -> Iterator[Callable[[int], None]]:
        """Show a bar for one run until it ends."""
        task = self._progress.add_task(name, total=iterations)
        try:
            yield lambda done: self._progress.update(task, completed=done)
        finally:
            self._progress.remove_task(task)


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Make SIGTERM and SIGHUP unwind the stack as Ctrl-C does, so that runs are ended and scratch folders removed."""

    def unwind(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    numbers = signal.SIGTERM, signal.SIGHUP
    before = {n: signal.signal(n, unwind) for n in numbers if signal.getsignal(n) is not signal.SIG_IGN}  # by nohup
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_ROWS_OF_BARS = 3
"""Rows of a terminal that are reserved for the bars and the cursor."""


class _BelowLines(Progress):
    """Bars below the lines of finished checks; all disappear at the end."""

    def __init__(self, ended: Mapping[str, Sequence[Check]], *columns: ProgressColumn, **options: Any) -> None:
        """`ended` may grow while the bars are shown."""
        self._ended = ended
        super().__init__(*columns, **options)

    def get_renderables(self) -> Iterable[RenderableType]:
        """The lines, or as many of the last ones as fit on the terminal, and the bars."""
        ended = list(self._ended.items())
        if ended and (room := max(0, self.console.height - _ROWS_OF_BARS)):
            yield table_of_lines(dict(ended[-room:]))
        yield from super().get_renderables()


class CheckBars(Bars):
    """Shows the lines of a verdict as soon as they are known.

    On a terminal, the lines are above the bars and disappear with them. Otherwise each line is printed when its last
    check ends.
    """

    def __init__(self, console: Console, lines: Console) -> None:
        """`console` shows bars if it is a terminal; otherwise the lines go to `lines`."""
        self._ended: dict[str, Sequence[Check]] = {}
        super().__init__(console, partial(_BelowLines, self._ended))
        self._lines_to = lines
        self._plan: list[str] = []
        self._of_all: TaskID | None = None

    @property
    def shown(self) -> bool:
        """Whether there are bars, so that no line was printed permanently."""
        return not self._progress.disable

    def plan(self, lines: Sequence[str]) -> None:
        """Start the overall bar, with the first of these lines."""
        self._plan = list(lines)
        self._of_all = self._progress.add_task(self._which(self._plan[0]), total=len(lines))

    def begin(self, line: str) -> None:
        """Show which of the checks is running."""
        if self._of_all is not None:
            self._progress.update(self._of_all, description=self._which(line), completed=self._plan.index(line))

    def finish(self, line: str, checks: Sequence[Check]) -> None:
        """Show the line, if it has any checks."""
        if checks:
            self._ended[line] = checks
            if not self.shown:
                self._lines_to.print(table_of_lines({line: checks}, max(map(len, self._plan))))
        if line == self._plan[-1] and self._of_all is not None:
            self._progress.remove_task(self._of_all)
            self._of_all = None

    def _which(self, line: str) -> str:
        return f"check {self._plan.index(line) + 1} of {len(self._plan)}: {line}"

    @contextmanager
    def run(self, name: str, iterations: int | None) -> Iterator[Callable[[int], None]]:
        """Show a bar for one run, until it ends."""
        with super().run(f"  {shown(name)}", iterations) as on_iteration:
            yield on_iteration
