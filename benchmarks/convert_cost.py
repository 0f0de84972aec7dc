"""The cost of a conversion for a user: whole processes, wall-clock seconds and peak memory.

Scripts of 350 and 1,500 lines are measured, and 100 scripts, in one call and in one call each. The figures depend on
the machine, so they are printed, not tested; the limits beside them are the project's targets on two cores.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

PARTS = Path(__file__).with_name("convert_parts.py")

FIXTURE = Path(__file__).parent.parent / "fixtures" / "gymnasium_continuous.py"
MANY = 100

HELPER = '''
def summary_{index}(values: list[float], weight: float = 0.5) -> dict[str, float]:
    """A running mean and spread of some values, as users keep beside their training loop."""
    mean, spread = 0.0, 0.0
    for value in values:
        if value != value:
            continue
        difference = value - mean
        mean = weight * mean + (1.0 - weight) * value
        spread = max(spread, abs(difference))
    return {{"mean_{index}": mean, "spread_{index}": spread}}

'''


ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""The environment of the processes. They keep bytecode, as an installed package does; else each would recompile it."""


@dataclass(frozen=True)
class Cost:
    """The cost of one process."""

    seconds: float
    """Wall time from start to exit."""
    cpu_seconds: float
    """Processor time, which other processes on the machine affect less than wall time."""
    mebibytes: float
    """Peak resident set."""


def run(*args: str | Path) -> Cost:
    """Run `lean-convert ARGS` quietly in a process of its own.

    Raises:
        RuntimeError: the command failed.
    """
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "transformer", "--quiet", *map(str, args)], env=ENVIRONMENT)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"lean-convert ended with exit code {process.returncode}")
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)  # Linux counts memory in KiB


def parts_of(script: Path, rounds: int) -> dict[str, float]:
    """The processor seconds of each part of a conversion: the medians of several processes."""
    command = [sys.executable, str(PARTS), str(script)]
    runs = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(rounds)]
    return {part: statistics.median(run[part] for run in runs) for part in runs[0]}


def script_of(lines: int) -> str:
    """The fixture, lengthened by helper functions after its imports to about `lines` lines."""
    text = FIXTURE.read_text(encoding="utf-8")
    missing = lines - text.count("\n")
    helpers = "".join(HELPER.format(index=i) for i in range(max(0, missing // HELPER.count("\n"))))
    head, mark, tail = text.partition("\n@dataclass")
    return f"{head}\n{helpers}{mark}{tail}"


@click.command()
@click.option("--rounds", default=5, show_default=True, help="Processes per figure; the median is shown.")
def main(rounds: int) -> None:
    """Measure, and print a table."""
    table = Table("what", "lines", "median s", "spread s", "CPU s", "limit s", "peak MiB", "limit MiB")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for lines, limit in ((350, 1.0), (1500, 2.5)):
            script = folder / f"ppo_{lines}.py"
            script.write_text(script_of(lines), encoding="utf-8")
            costs = [run(script, "-o", folder / "out.py") for _ in track(range(rounds), f"{lines} lines")]
            seconds = [c.seconds for c in costs]
            table.add_row(
                "one script",
                str(script.read_text(encoding="utf-8").count("\n")),
                f"{statistics.median(seconds):.2f}",
                f"{max(seconds) - min(seconds):.2f}",
                f"{statistics.median(c.cpu_seconds for c in costs):.2f}",
                f"{limit}",
                f"{max(c.mebibytes for c in costs):.0f}",
                "150",
            )
            if lines == 350:
                one = statistics.median(seconds)
                parts = parts_of(script, rounds)
        scripts = [shutil.copy(folder / "ppo_350.py", folder / f"ppo_{i}.py") for i in range(MANY)]
        many = run(*scripts, "--output-dir", folder / "out")
    what, limit = f"{MANY} scripts, one call", min(40.0, MANY * one)
    table.add_row(
        what, "", f"{many.seconds:.1f}", "", f"{many.cpu_seconds:.1f}", f"{limit:.1f}", f"{many.mebibytes:.0f}", ""
    )
    shares = Table("part of one script's conversion", "CPU s", "share")
    whole = sum(parts.values())
    for part, taken in parts.items():
        shares.add_row(part, f"{taken:.3f}", f"{taken / whole:.0%}")
    Console().print(table, shares)


if __name__ == "__main__":
    main()
