"""What is told of a verification while it runs: the checks that have ended, and on a terminal the one that goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import Progress, ProgressColumn, TaskID

from transformer.commands.script_runs import Bars
from transformer.verify.checks import Check
from transformer.verify.names import shown
from transformer.verify.show import table_of_lines

_ROWS_OF_BARS = 3
"""Rows of a terminal that are left for the bars, and for the cursor."""


class _BelowLines(Progress):
    """Bars below the lines of checks that have ended, all of which go when they end."""

    def __init__(self, ended: Mapping[str, Sequence[Check]], *columns: ProgressColumn, **options: Any) -> None:
        """`ended` may grow while the bars are shown."""
        self._ended = ended
        super().__init__(*columns, **options)

    def get_renderables(self) -> Iterable[RenderableType]:
        """The lines, the last ones where a terminal has no room for more, and the bars."""
        ended = list(self._ended.items())
        if ended and (room := max(0, self.console.height - _ROWS_OF_BARS)):
            yield table_of_lines(dict(ended[-room:]))
        yield from super().get_renderables()


class CheckBars(Bars):
    """The lines of a verdict as they are known.

    On a terminal they stand above the bars, and go with them. Elsewhere each is printed once, when its last check ends.
    """

    def __init__(self, console: Console, lines: Console) -> None:
        """`console` shows bars where it is a terminal; where it is none, `lines` takes the lines."""
        self._ended: dict[str, Sequence[Check]] = {}
        super().__init__(console, partial(_BelowLines, self._ended))
        self._lines_to = lines
        self._plan: list[str] = []
        self._of_all: TaskID | None = None

    @property
    def shown(self) -> bool:
        """Whether there are bars, so that no line was printed for good."""
        return not self._progress.disable

    def plan(self, lines: Sequence[str]) -> None:
        """Begin with the first of these lines, and with the time."""
        self._plan = list(lines)
        self._of_all = self._progress.add_task(self._which(self._plan[0]), total=len(lines))

    def begin(self, line: str) -> None:
        """Say which check of how many goes on."""
        if self._of_all is not None:
            self._progress.update(self._of_all, description=self._which(line), completed=self._plan.index(line))

    def finish(self, line: str, checks: Sequence[Check]) -> None:
        """Show the line, if there is something to tell."""
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
