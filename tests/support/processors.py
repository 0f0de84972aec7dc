"""Processes that compute with the instructions of other processors, as far as this one supports them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch

TESTS = Path(__file__).parents[1]
SECONDS = 300
CAPABILITIES = (
    "default",
    *(["avx2"] if torch.cpu._is_avx2_supported() else []),
    *(["avx512"] if torch.cpu._is_avx512_supported() else []),
)
"""The values of ATEN_CPU_CAPABILITY that work here: torch does not check whether the processor has the instructions."""


def run_under(capability: str, code: str) -> str:
    """The output of Python code that runs with tests and their support on its path.

    Raises:
        AssertionError: the code fails, or torch computes with other instructions.
    """
    paths = (str(TESTS.parent), str(TESTS), str(TESTS / "support"), str(TESTS / "facts"))
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability, "OMP_NUM_THREADS": "1"}
    asked = f"import torch\nassert torch.backends.cpu.get_cpu_capability().lower() == {capability!r}\n"
    code = f"import sys\nsys.path[:0] = {paths!r}\n{asked}{code}"
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout.strip()
