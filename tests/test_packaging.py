"""What `pip install .` gives: a working command with its templates, and no more than it needs."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import golden
import pytest

from transformer.syntax import header

ROOT = Path(__file__).parent.parent
FIXTURE = golden.FIXTURES / "gym_classic_discrete.py"


def _files(folder: Path) -> set[Path]:
    """The files below a folder, but for what Python makes of them."""
    return {p.relative_to(folder) for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts}


@pytest.mark.slow
def test_base_install_converts(tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=True)
    scripts = environment / "bin"
    source = tmp_path / "source"  # a copy, as building leaves files in the tree that it builds from
    source.mkdir()
    for name in ("transformer", "templates"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    subprocess.run([scripts / "pip", "install", "--quiet", source], check=True)

    installed = subprocess.run([scripts / "pip", "list"], capture_output=True, text=True, check=True).stdout
    names = {line.split()[0].lower() for line in installed.splitlines()[2:]}
    assert "lean-convert" in names
    assert not names & {"torch", "numpy", "tensordict", "gym", "gymnasium"}

    shipped = _files(ROOT / "templates")
    assert shipped
    folder = environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    assert _files(folder / "transformer" / "templates") == shipped

    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [scripts / "lean-convert", FIXTURE, "-o", tmp_path / "out.py"]
    subprocess.run(command, cwd=tmp_path, env=clean, check=True)
    converted = header.add(golden.convert_fixture(FIXTURE), FIXTURE.name)
    assert (tmp_path / "out.py").read_bytes() == converted.encode()
