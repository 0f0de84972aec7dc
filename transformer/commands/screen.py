"""Where the commands print: wrapped at the width of a terminal, and nowhere where there is none."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_UNWRAPPED = 10_000
"""Columns of what is no terminal: a file or a pipe takes lines of any length, and broken names cannot be searched."""


def screen(*, to_stderr: bool = False) -> Console:
    """Standard output, or standard error. Where it is no terminal, COLUMNS alone says how wide it is."""
    from rich.console import Console

    stream = sys.stderr if to_stderr else sys.stdout
    unwrapped = not stream.isatty() and "COLUMNS" not in os.environ
    return Console(stderr=to_stderr, highlight=False, width=_UNWRAPPED if unwrapped else None)
