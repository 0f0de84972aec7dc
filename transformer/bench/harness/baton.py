"""Taking turns, on the side of the scripts: the one with the baton runs, the others wait and use no processor."""

from __future__ import annotations

import os
from pathlib import Path


class Baton:
    """Two named pipes, `go` and `back`, in a folder that the measuring process has made."""

    def __init__(self, folder: str) -> None:
        # A pipe that is opened for reading and writing neither waits for the other end nor closes with it
        self._go, self._back = (os.open(Path(folder) / name, os.O_RDWR) for name in ("go", "back"))

    def pass_on(self) -> None:
        """Give the baton back, and wait until it returns."""
        os.write(self._back, b".")
        os.read(self._go, 1)
