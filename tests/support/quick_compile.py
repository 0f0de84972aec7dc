"""Runs a script as `python script.py ...` would, with torch.compile on a backend that generates no code.

Dynamo, its guards and AOTAutograd's passes run as usual; without Inductor, they take seconds, not a minute.
Usage: quick_compile.py SCRIPT [ARGUMENTS...]
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

COMPILE = torch.compile


def quick(model: Callable[..., Any] | None = None, **given: Any) -> Any:
    """torch.compile with another backend, keeping only the option that chooses guards."""
    if model is None:
        return partial(quick, **given)
    guards = {k: v for k, v in (given.get("options") or {}).items() if k == "guard_filter_fn"}
    return COMPILE(model, backend="aot_eager", options=guards or None)


if __name__ == "__main__":
    torch.compile = quick
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
