"""Taking turns, on the side of the measuring process: each script has a baton, and runs only while it holds it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any


class Baton:
    """Two named pipes in a folder of their own: a byte in `go` lets the script run, one in `back` says that it waits.

    At first the script holds the baton, for its burn-in. Named pipes exist only on Linux and macOS.
    """

    def __enter__(self) -> Baton:
        self._made = tempfile.TemporaryDirectory(prefix="lean-convert-baton-")
        self.folder = Path(self._made.name)
        for name in ("go", "back"):
            os.mkfifo(self.folder / name)
        self._go = os.open(self.folder / "go", os.O_RDWR)
        self._back = os.open(self.folder / "back", os.O_RDWR | os.O_NONBLOCK)
        return self

    def __exit__(self, *_: Any) -> None:
        os.close(self._go)
        os.close(self._back)
        self._made.cleanup()

    def hand_over(self) -> None:
        """Let the script run."""
        os.write(self._go, b".")

    def is_back(self) -> bool:
        """Whether the script has given the baton back since the last call."""
        try:
            return bool(os.read(self._back, 1))
        except BlockingIOError:
            return False
