"""What `lean-convert run` adds to the start of a script compared with `python converted.py`, cached and uncached.

Each script ends below its imports, which all three ways execute. The figures are wall seconds, because imports and
conversion overlap, measured in turns. The aim is at most 0.2 s more with a cached conversion, and 1 s more without. The
figures depend on the machine and its load, so they are printed, not tested.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from transformer.run.early import leading_imports

STOP = 'if __import__("os").environ.get("STOP_BELOW_IMPORTS"):\n    raise SystemExit\n'


def stopping(script: Path) -> str:
    """The script, with an option to end below its imports."""
    lines = script.read_text(encoding="utf-8").splitlines(keepends=True)
    *_, last = leading_imports(script.read_bytes())
    assert last.end_lineno is not None
    return "".join([*lines[: last.end_lineno], "\n\n", STOP, "\n", *lines[last.end_lineno :]])


def seconds(command: list[str | Path], cache: Path) -> float:
    """How long a command takes."""
    variables = {"STOP_BELOW_IMPORTS": "1", "XDG_CACHE_HOME": str(cache)}
    began = time.perf_counter()
    subprocess.run(command, env={**os.environ, **variables}, check=True, capture_output=True)
    return time.perf_counter() - began


@click.command()
@click.argument("scripts", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--turns", default=5, show_default=True, help="Starts of each, in turns.")
def main(scripts: tuple[Path, ...], turns: int) -> None:
    """Print how long each of SCRIPTS takes to start."""
    table = Table("script", "python converted.py (s)", "out of the cache", "without")
    ours: list[str | Path] = [sys.executable, "-m", "transformer"]
    for original in scripts:
        with tempfile.TemporaryDirectory() as name:
            script, converted, cache = (Path(name, n) for n in (original.name, "converted.py", "cache"))
            script.write_text(stopping(original), encoding="utf-8")
            subprocess.run([*ours, script, "-o", converted, "-q"], check=True)
            times = []
            for _ in range(turns):
                plain = seconds([sys.executable, converted], cache)
                missed = seconds([*ours, "run", script], cache)
                found = seconds([*ours, "run", script], cache)
                shutil.rmtree(cache)
                times.append((plain, found, missed))
        plain, found, missed = map(statistics.median, zip(*times, strict=True))
        table.add_row(original.name, f"{plain:.2f}", f"+{found - plain:.2f}", f"{missed - plain:+.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
