"""`pip install .` gives a working command with its templates, and no more than it needs."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import golden
import pytest

from transformer.syntax import header

ROOT = Path(__file__).parents[2]
FIXTURE = golden.FIXTURES / "gym_classic_discrete.py"


def _files(folder: Path) -> set[Path]:
    """The files below a folder, except those that Python makes."""
    return {p.relative_to(folder) for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts}


TORCH_FREE = (
    ("convert", FIXTURE, "-o", "out.py"),
    ("diff", FIXTURE),
    ("diff", FIXTURE, "--html", "page.html"),
    ("blame", FIXTURE),
    ("advise", FIXTURE),
    ("explain", "gae-hoist"),
    ("transforms",),
    ("run", "--help"),
)
"""Commands that need no torch: all that do not run scripts."""


def test_the_api_is_whole_and_costs_nothing_until_it_is_used() -> None:
    code = (
        "import sys, transformer; print('libcst' in sys.modules);"
        "print([n for n in transformer.__all__ if getattr(transformer, n).__name__ != n], 'libcst' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "False\n[] True\n"


@pytest.mark.slow
def test_base_install_converts_from_a_wheel(tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=True)
    scripts = environment / "bin"
    source = tmp_path / "source"  # a copy, since a build leaves files in its tree
    source.mkdir()
    for name in ("transformer", "templates"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    subprocess.run([scripts / "pip", "wheel", "--quiet", "--no-deps", "-w", tmp_path, source], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([scripts / "pip", "install", "--quiet", wheel], check=True)

    installed = subprocess.run([scripts / "pip", "list"], capture_output=True, text=True, check=True).stdout
    names = {line.split()[0].lower() for line in installed.splitlines()[2:]}
    assert "lean-convert" in names
    assert not names & {"torch", "numpy", "tensordict", "gym", "gymnasium"}

    shipped = _files(ROOT / "templates")
    assert shipped
    folder = environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    assert _files(folder / "transformer" / "templates") == shipped
    assert {p for p in _files(folder / "transformer") if p.suffix == ".py"} == {
        p for p in _files(ROOT / "transformer") if p.suffix == ".py"
    } | {Path("templates", p) for p in shipped if p.suffix == ".py"}

    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    for command in TORCH_FREE:
        done = subprocess.run(
            [scripts / "lean-convert", *command], cwd=tmp_path, env=clean, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (command, done.stderr)
    assert (tmp_path / "page.html").stat().st_size > 10_000
    converted = header.add(golden.convert_fixture(FIXTURE), FIXTURE.name)
    assert (tmp_path / "out.py").read_bytes() == converted.encode()

    script = tmp_path / "stops.py"
    content = FIXTURE.read_text(encoding="utf-8")
    script.write_text(content.replace("import argparse", "import argparse\nraise SystemExit(__file__)", 1))
    for _ in range(2):  # with a new conversion, then with the cached one
        done = subprocess.run(
            [scripts / "lean-convert", "run", script],
            cwd=tmp_path,
            env=clean,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr.splitlines()[-1]) == (1, str(script))
