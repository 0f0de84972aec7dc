"""The machine on which a benchmark ran."""

from __future__ import annotations

import datetime
import os
import platform
import re
from pathlib import Path
from typing import Any


def describe() -> dict[str, Any]:
    """Processor, cores that may be used, memory, system, load at this moment, and the time (UTC)."""
    return {
        "processor": _first(r"model name\s*:\s*(.+)", "/proc/cpuinfo") or platform.processor() or platform.machine(),
        "cores": _cores(),
        "memory_gib": _memory(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load": round(os.getloadavg()[0], 2),
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def _memory() -> float | None:
    kib = _first(r"MemTotal:\s*(\d+) kB", "/proc/meminfo")
    return None if kib is None else round(int(kib) / 2**20, 1)


def _first(pattern: str, path: str) -> str | None:
    file = Path(path)
    found = re.search(pattern, file.read_text()) if file.exists() else None
    return None if found is None else found[1].strip()
