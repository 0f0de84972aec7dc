"""The machine on which a benchmark ran."""

from __future__ import annotations

import datetime
import os
import platform
import re
from pathlib import Path
from typing import Any

from transformer.conversion.of_files import processors


def describe() -> dict[str, Any]:
    """The processor, the number of usable cores, the memory, the system, the present load, and the time (UTC)."""
    return {
        "processor": _first(r"model name\s*:\s*(.+)", "/proc/cpuinfo") or platform.processor() or platform.machine(),
        "cores": processors(),
        "memory_gib": _memory(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load": round(os.getloadavg()[0], 2),
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


def _memory() -> float | None:
    kib = _first(r"MemTotal:\s*(\d+) kB", "/proc/meminfo")
    return None if kib is None else round(int(kib) / 2**20, 1)


def _first(pattern: str, path: str) -> str | None:
    file = Path(path)
    found = re.search(pattern, file.read_text()) if file.exists() else None
    return None if found is None else found[1].strip()
