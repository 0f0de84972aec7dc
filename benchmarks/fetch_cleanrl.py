"""Fetches cleanrl's published scripts, which are not part of this project, into a folder."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

VERSION = "1.2.0"


def fetch(folder: Path) -> Path:
    """Download the package and unpack it into `folder`; returns the folder of the scripts.

    Its metadata ask for an older Python than its scripts need, and for packages that they do not all import.

    Raises:
        CalledProcessError: pip could not download it.
    """
    options = ["--quiet", "--no-deps", "--ignore-requires-python", "--dest", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, f"cleanrl=={VERSION}"], check=True)
    (wheel,) = folder.glob("cleanrl-*.whl")
    with zipfile.ZipFile(wheel) as package:
        package.extractall(folder)
    return folder / "cleanrl"
