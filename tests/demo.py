"""`make demo`: convert a fixture, run original and converted for a few iterations, show that they agree."""

import subprocess
import sys
from pathlib import Path

import golden
from rich.console import Console
from rich.table import Table

from transformer.checking import Recording, compare, record

ROOT = golden.FIXTURES.parent
SCRIPT = Path("fixtures/gym_classic_discrete.py")
CONVERTED = Path("build/demo/gym_classic_discrete.py")
ARGS = ["--total-timesteps", "768", "--num-envs", "2", "--num-steps", "128"]
"""Three iterations of the fixture's default task."""


def lengths(recording: Recording) -> dict[str, int]:
    """How much there is to compare."""
    return {
        "actions sent to the environment": len(recording.actions),
        "logged scalars": len(recording.scalars),
        "optimizer steps (parameters, gradients, state)": len(recording.steps),
        "final parameters": len(recording.final),
    }


def main() -> int:
    """Print the conversion's report and the comparison; the exit code says whether the runs are equal."""
    console = Console()
    command = [sys.executable, "-m", "transformer", str(SCRIPT), "-o", str(CONVERTED), "--force"]
    (ROOT / CONVERTED.parent).mkdir(parents=True, exist_ok=True)
    subprocess.run(command, cwd=ROOT, check=True)
    with console.status("running the original"):
        left = record(ROOT / SCRIPT, ARGS)
    with console.status("running the converted script"):
        right = record(ROOT / CONVERTED, ARGS)
    table = Table("compared bit by bit", "original", "converted", box=None, pad_edge=False)
    counts = lengths(right)
    for what, count in lengths(left).items():
        table.add_row(what, str(count), str(counts[what]))
    console.print()
    console.print(table)
    differences = compare(left, right)
    for difference in differences:
        console.print(f"[red]different:[/] {difference}")
    if not differences:
        console.print("[green]All equal.[/]")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
