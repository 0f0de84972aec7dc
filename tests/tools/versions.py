"""Prove that a conversion is equal with old and new versions of what it runs on: `make test-versions`.

    python tests/tools/versions.py FOLDER [--only PYTHON]...

For each row a virtual environment is made in FOLDER, or brought up to date, and the quick equality tests are run in it.
What was seen is written to docs/versions.md. `python3.10` to `python3.13` must start: with pyenv, name several in
PYENV_VERSION, a colon in between.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "versions.md"
TESTS = (
    "tests/system/test_equality.py",
    "tests/system/test_gymnasium_1.py",
    "tests/system/test_compiled_draws.py",
    "tests/verify/test_emulated.py",
    "tests/verify/test_emulated_cuda.py",
)
SHOWN = ("torch", "tensordict", "gymnasium", "gym", "envpool", "numpy")
CLASSIC = ("gymnasium[mujoco]==0.29.1", "envpool==0.9.0", "mujoco>=2.3.3,<3.4")
"""What cleanrl's scripts were written for."""
NEWEST = ("gymnasium[mujoco]>=1", "envpool>=1")
BESIDE = ("einops>=0.8", "gym==0.23.1", "pygame>=2.1", "tensorboard>=2.16", "tyro>=0.9")

INTRODUCTION = """\
# Versions

With which versions conversions were seen to be equal, by `make test-versions`: in an environment of each row, original
and converted fixtures are run against each other, flags off, on the emulated CUDA device too, and a compiled policy
draws what the eager one draws. The rest of the tests, the [family](../benchmarks/logs/family.md) and other people's
scripts run with Python 3.11, torch 2.13 and gymnasium 0.29.

"""


@dataclass(frozen=True)
class Row:
    """What one environment has."""

    python: str
    torch: str
    environments: tuple[str, ...]


ROWS = (
    Row("3.10", "torch==2.11.*", CLASSIC),
    Row("3.11", "torch==2.13.*", CLASSIC),
    Row("3.11", "torch", CLASSIC),
    Row("3.12", "torch", NEWEST),
    Row("3.13", "torch", NEWEST),
)
"""The oldest and the newest of each; without a number, the newest that installs."""


def prove(row: Row, folder: Path) -> dict[str, str]:
    """Make or update a row's environment and run the tests in it.

    Returns:
        The versions that it has, by package, and the last line of the tests.

    Raises:
        subprocess.CalledProcessError: there is no such Python, or something cannot be installed.
    """
    place = folder / re.sub(r"[^\w.]+", "-", f"{row.python}-{row.torch}").strip("-.")
    python = place / "bin" / "python"
    if not python.exists():
        subprocess.run([f"python{row.python}", "-m", "venv", place], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "--upgrade"]
    subprocess.run([*install, row.torch], check=True)  # by itself, so that nothing chooses another one
    subprocess.run([*install, row.torch, "-e", f"{ROOT}[run,test]", *BESIDE, *row.environments], check=True)
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format=freeze"], stdout=subprocess.PIPE, text=True, check=True
    )
    versions = dict(line.split("==") for line in listed.stdout.split())
    command = [python, "-m", "pytest", "-q", "-m", "not slow and not gpu", "-p", "no:cacheprovider", *TESTS]
    tests = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    click.echo(tests.stdout)
    exact = subprocess.run([python, "--version"], stdout=subprocess.PIPE, text=True, check=True)
    seen = re.sub(r" in .*", "", tests.stdout.strip().splitlines()[-1]).strip("= ")
    return {"Python": exact.stdout.split()[1], **{name: versions[name] for name in SHOWN}, "tests": seen}


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--only", multiple=True, metavar="PYTHON", help="Rows of this Python alone; may be repeated. Writes no page."
)
def main(folder: Path, only: tuple[str, ...]) -> None:
    """Prove each row, print what was seen, and write the page."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for row in (r for r in ROWS if not only or r.python in only):
        found.append(prove(row, folder.absolute()))
        click.echo(found[-1])
    columns = list(found[0])
    lines = [columns, ["-"] * len(columns), *([seen[c] for c in columns] for seen in found)]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines).replace("| - ", "|-").replace("- |\n", "-|\n")
    click.echo(table)
    if not only:
        PAGE.write_text(INTRODUCTION + table, encoding="utf-8")
    sys.exit(any("failed" in seen["tests"] or "passed" not in seen["tests"] for seen in found))


if __name__ == "__main__":
    main()
