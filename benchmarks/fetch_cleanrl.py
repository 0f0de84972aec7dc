"""Fetches cleanrl's published scripts, which are not part of this project, into a folder."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

VERSION = "1.2.0"


def fetch(folder: Path) -> Path:
    """Download the package and unpack it into `folder`; returns the folder of the scripts.

    pip ignores the package's requirements: an older Python than scripts need, and packages that only some import.

    Raises:
        CalledProcessError: pip could not download it.
    """
    options = ["--quiet", "--no-deps", "--ignore-requires-python", "--dest", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, f"cleanrl=={VERSION}"], check=True)
    (wheel,) = folder.glob("cleanrl-*.whl")
    with zipfile.ZipFile(wheel) as package:
        package.extractall(folder)
    return folder / "cleanrl"
