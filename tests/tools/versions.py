"""Check that conversions are equal with old and new versions of Python, torch and other packages: `make test-versions`.

    python tests/tools/versions.py FOLDER [--only PYTHON]... [--whole]

For each row, a virtual environment is made in FOLDER, or updated, and the quick equality tests run in it. They compare
original and converted fixtures with flags off, also on the emulated CUDA device, and the draws of a compiled policy
with those of the eager one. With `--whole`, all quick tests run, but only with the oldest and the newest Python, and
with the newest torch. The versions that were used are printed at the end.

`python3.10` to `python3.13` must start: with pyenv, name several in PYENV_VERSION, separated by colons.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

ROOT = Path(__file__).parents[2]
TESTS = (
    "tests/system/test_equality.py",
    "tests/system/test_gymnasium_1.py",
    "tests/system/test_compiled_draws.py",
    "tests/transforms/test_fused_envs.py",
    "tests/verify/test_emulated.py",
    "tests/verify/test_emulated_cuda.py",
)
WHOLE = ("-n", "2", "--dist", "worksteal", "tests")
SHOWN = ("torch", "tensordict", "gymnasium", "gym", "envpool", "numpy")
CLASSIC = ("gymnasium[mujoco]==0.29.1", "mujoco>=2.3.3,<3.4")
"""The packages that cleanrl's scripts were written for; envpool 0.9.0 has no build for Python 3.10."""
NEWEST = ("gymnasium[mujoco]>=1", "envpool>=1")
BESIDE = ("pytest>=8.2", "einops>=0.8", "gym==0.23.1", "pygame>=2.1", "tensorboard>=2.16", "tyro>=0.9")


@dataclass(frozen=True)
class Row:
    """The contents of one environment."""

    python: str
    torch: str
    environments: tuple[str, ...]


ROWS = (
    Row("3.10", "torch==2.11.*", CLASSIC),
    Row("3.11", "torch==2.13.*", (*CLASSIC, "envpool==0.9.0")),
    Row("3.11", "torch", (*CLASSIC, "envpool==0.9.0")),
    Row("3.12", "torch", NEWEST),
    Row("3.13", "torch", NEWEST),
)
"""The rows, with the oldest and the newest version of each package; without a number, the newest that installs."""
FOR_WHOLE = (
    Row("3.10", "torch==2.13.*", CLASSIC),
    Row("3.11", "torch", (*CLASSIC, "envpool==0.9.0")),
    Row("3.13", "torch==2.13.*", NEWEST),
)


def prove(row: Row, folder: Path, tests: Sequence[str]) -> dict[str, str]:
    """Make or update a row's environment and run the tests in it.

    Returns:
        The installed versions by package, and the last line of the tests' output.

    Raises:
        subprocess.CalledProcessError: there is no such Python, or something cannot be installed.
    """
    place = folder / re.sub(r"[^\w.]+", "-", f"{row.python}-{row.torch}").strip("-.")
    python = place / "bin" / "python"
    if not python.exists():
        subprocess.run([f"python{row.python}", "-m", "venv", place], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "--upgrade"]
    subprocess.run([*install, "pip"], check=True)  # the pip of Python 3.10 cannot resolve these packages
    subprocess.run([*install, row.torch], check=True)  # installed first, so that no other package chooses a version
    extras = "run,plots,test" if tests == WHOLE else "run"
    subprocess.run([*install, row.torch, "-e", f"{ROOT}[{extras}]", *BESIDE, *row.environments], check=True)
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format=freeze"], stdout=subprocess.PIPE, text=True, check=True
    )
    versions = dict(line.split("==") for line in listed.stdout.split())
    cache = ("-o", f"cache_dir={place / '.pytest_cache'}")
    command = [python, "-m", "pytest", "-q", "-m", "not slow and not gpu and not null_cuda", *cache, *tests]
    variables = {**os.environ, "PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True, check=False)
    click.echo(done.stdout)
    exact = subprocess.run([python, "--version"], stdout=subprocess.PIPE, text=True, check=True)
    seen = re.sub(r" in .*", "", done.stdout.strip().splitlines()[-1]).strip("= ")
    return {"Python": exact.stdout.split()[1], **{name: versions.get(name, "none") for name in SHOWN}, "tests": seen}


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--only", multiple=True, metavar="PYTHON", help="Rows of this Python alone; may be repeated.")
@click.option("--whole", is_flag=True, help="Run all quick tests, with few versions.")
def main(folder: Path, only: tuple[str, ...], whole: bool) -> None:
    """Prove each row, and print what was seen."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for row in (r for r in (FOR_WHOLE if whole else ROWS) if not only or r.python in only):
        found.append(prove(row, folder.absolute(), WHOLE if whole else TESTS))
        click.echo(found[-1])
    columns = list(found[0])
    for line in (columns, ["-"] * len(columns), *(list(seen.values()) for seen in found)):
        click.echo(f"| {' | '.join(line)} |")
    sys.exit(any("failed" in seen["tests"] or "passed" not in seen["tests"] for seen in found))


if __name__ == "__main__":
    main()
