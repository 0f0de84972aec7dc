"""What recording costs: each fixture run plainly and under the recorder of `lean-convert verify`.

Processor seconds of the whole process tree, imports included, which other processes on the machine disturb less than
wall time. The aim is at most three times the plain run. The figures depend on the machine, so they are printed, not
tested.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

from transformer.verify import record

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FIXTURES = Path(__file__).parent.parent / "fixtures"


def children_seconds(action: Callable[[], object]) -> float:
    """Processor seconds that the processes which `action` started took; they must have ended."""
    before = os.times()
    action()
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def plain_run(script: Path, args: list[str]) -> None:
    """Run a script in an empty folder.

    Raises:
        CalledProcessError: it failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, script, *args], cwd=folder, check=True, capture_output=True)


@click.command()
@click.argument("names", nargs=-1, metavar="[FIXTURE...]")
@click.option("--longer", default=1, show_default=True, help="Train so many times as long as the tests do.")
def main(names: tuple[str, ...], longer: int) -> None:
    """Print what recording costs on each FIXTURE (all where none is named)."""
    cases = tomllib.loads((FIXTURES / "ARGS.toml").read_text())
    table = Table("fixture", "plain (s)", "recorded (s)", "ratio")
    for name in track(names or list(cases), description="running", console=Console(stderr=True)):
        args = [str(arg) for arg in cases[name]["args"]]
        if "--total-timesteps" in args:
            at = args.index("--total-timesteps") + 1
            args[at] = str(longer * int(args[at]))
        script = (FIXTURES / name).resolve()
        plain = children_seconds(lambda script=script, args=args: plain_run(script, args))  # type: ignore[misc]
        recorded = children_seconds(lambda script=script, args=args: record(script, args))  # type: ignore[misc]
        table.add_row(name, f"{plain:.1f}", f"{recorded:.1f}", f"{recorded / plain:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
