"""What recording costs: each fixture runs by itself, and under the recorder of `lean-convert verify`.

The figures are processor seconds of the whole process tree, including imports: other processes on the machine affect
them less than wall time. The aim is at most three times the plain run. The figures depend on the machine, so they are
printed, not tested. With --checks, the cost of each run of a whole verification is measured instead.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

from transformer import convert
from transformer.verify import record
from transformer.verify.run import Run
from transformer.verify.verify import Task, verify

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FIXTURES = Path(__file__).parent.parent / "fixtures"


def spent() -> float:
    """Processor seconds of all child processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def children_seconds(action: Callable[[], object]) -> float:
    """The processor seconds of the processes that `action` starts; they must end in it."""
    before = spent()
    action()
    return spent() - before


class Stopwatch:
    """Is notified of each run of a verification, and records its cost."""

    def __init__(self) -> None:
        self.seconds: list[tuple[str, float]] = []

    @contextmanager
    def run(self, name: str, iterations: int | None) -> Iterator[Callable[[int], None]]:
        """Measure the code inside the context."""
        before = spent()
        try:
            yield lambda done: None
        finally:
            self.seconds.append((name, spent() - before))


def checks(script: Path, args: list[str], table: Table) -> None:
    """Add a row for each run of a verification of a fixture and its conversion."""
    watch = Stopwatch()
    task = Task(Run(script, tuple(args)), convert(script.read_text(encoding="utf-8")).source)
    whole = children_seconds(lambda: verify(task, watch))
    named = sum(seconds for _, seconds in watch.seconds)
    for name, seconds in (("finding the length", whole - named), *watch.seconds, ("all", whole)):
        table.add_row(script.name, name, f"{seconds:.1f}")


def plain_run(script: Path, args: list[str]) -> None:
    """Run a script in an empty folder.

    Raises:
        CalledProcessError: it failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, script, *args], cwd=folder, check=True, capture_output=True)


@click.command()
@click.argument("names", nargs=-1, metavar="[FIXTURE...]")
@click.option("--longer", default=1, show_default=True, help="Train this many times as long as the tests do.")
@click.option("--checks", "by_check", is_flag=True, help="Measure each run of a verification.")
def main(names: tuple[str, ...], longer: int, by_check: bool) -> None:
    """Print what recording costs on each FIXTURE (by default all)."""
    cases = tomllib.loads((FIXTURES / "ARGS.toml").read_text())
    table = Table("fixture", *(("run", "seconds") if by_check else ("plain (s)", "recorded (s)", "ratio")))
    for name in track(names or list(cases), description="running", console=Console(stderr=True)):
        args = [str(arg) for arg in cases[name]["args"]]
        if "--total-timesteps" in args:
            at = args.index("--total-timesteps") + 1
            args[at] = str(longer * int(args[at]))
        script = (FIXTURES / name).resolve()
        if by_check:
            checks(script, args, table)
            continue
        plain = children_seconds(lambda script=script, args=args: plain_run(script, args))  # type: ignore[misc]
        recorded = children_seconds(lambda script=script, args=args: record(script, args))  # type: ignore[misc]
        table.add_row(name, f"{plain:.1f}", f"{recorded:.1f}", f"{recorded / plain:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
