"""Builds a CUDA device that computes nothing, for the torch of this interpreter, and runs scripts on it.

    python build.py SCRIPT [ARGS]

Needs torch's build for CUDA (no driver, no device), gcc and binutils.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).parent / "null_cuda.c"
REPLACED = re.compile(r"(__cuda|cuda|cublas|cublasLt|cusolver\w*|cu(?!File))[A-Z]\w*")
"""The names of functions of the runtime, the driver, and the libraries that eager linear algebra calls."""


class CannotBuild(Exception):
    """This torch is no build for CUDA, or there is no compiler."""


def _packages() -> Path:
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        raise CannotBuild("torch is not installed")
    return Path(found.origin).parents[1]


def _unresolved(library: Path) -> set[str]:
    """The symbols that a library needs from other libraries."""
    listed = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True)
    return {line.split()[-1].partition("@")[0] for line in listed.stdout.splitlines()}


def build(folder: Path) -> dict[str, str]:
    """Compile the library into a folder.

    Returns:
        The environment of a process that is to have the device.

    Raises:
        CannotBuild: it cannot be built here.
    """
    if not shutil.which("gcc") or not shutil.which("nm"):
        raise CannotBuild("there is no gcc, or no nm")
    packages = _packages()
    libraries = sorted((packages / "torch/lib").glob("*.so"))
    headers = sorted(packages.glob("nvidia/*/include/driver_types.h"))
    if not headers or not any("cuda" in library.name for library in libraries):
        raise CannotBuild("torch here is not a build for CUDA")
    source = SOURCE.read_text(encoding="utf-8")
    wanted = {name for library in libraries for name in _unresolved(library) if REPLACED.fullmatch(name)}
    triton = packages / "triton/backends/nvidia"
    wanted |= set(re.findall(r"\bcu[A-Z]\w+(?=\()", (triton / "driver.c").read_text(encoding="utf-8")))
    missing = sorted(wanted - set(re.findall(r"^API .*?(\w+)\(", source, re.MULTILINE)))
    stubs = "".join(f"API int {name}(void) {{ return 0; }}\n" for name in missing)
    built = folder / "libcuda.so.1"  # the name by which Triton looks for the driver
    # nvidia's wheels lack some files that their headers include; Triton's wheel has them
    command = ["gcc", "-O2", "-w", "-shared", "-fPIC", "-fvisibility=hidden", "-x", "c", "-", "-o", str(built)]
    subprocess.run(
        [*command, f"-I{headers[-1].parent}", f"-I{triton}/include", "-ldl", "-lpthread"],
        input=source + stubs,
        text=True,
        check=True,
    )
    return {
        "LD_PRELOAD": str(built),
        "LD_LIBRARY_PATH": str(folder),
        "TRITON_LIBCUDA_PATH": str(folder),
        "PYTHONPATH": str(SOURCE.parent / "site"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, *sys.argv[1:]]
        sys.exit(subprocess.run(command, env={**os.environ, **build(Path(folder))}, check=False).returncode)
