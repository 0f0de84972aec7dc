"""The peak memory use of this process."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path


def peaks() -> dict[str, float]:
    """The peak resident set of this process (without compilers that it started), and torch's GPU memory, in MiB."""
    found = {"rss_mib": _resident()}
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        found["cuda_allocated_mib"] = torch.cuda.max_memory_allocated() / 2**20
        found["cuda_reserved_mib"] = torch.cuda.max_memory_reserved() / 2**20
    return found


def _resident() -> float:
    """Linux's VmHWM, which, unlike `ru_maxrss`, is reset when a program is executed."""
    status = Path("/proc/self/status")
    line = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    if line is not None:
        return int(line[1]) / 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
