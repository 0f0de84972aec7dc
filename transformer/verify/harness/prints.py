"""Records the lines that the script prints."""

from __future__ import annotations

import functools
import io
import sys
from types import ModuleType
from typing import Any, TextIO

from .imports import patch_on_import
from .journal import Journal


class PrintRecorder(io.TextIOBase):
    """A standard output that records complete lines and passes all text on."""

    def __init__(self, journal: Journal, real: TextIO) -> None:
        self._journal = journal
        self._real = real
        self._begun = ""

    def install(self) -> None:
        """Replace standard output, and hide rich's progress bars, which show the time."""
        sys.stdout = self
        patch_on_import({"rich.progress": _hide_bars})

    def write(self, text: str) -> int:
        """Write text; each line is recorded when it ends."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._journal.add("prints", line)
        return self._real.write(text)

    def end(self) -> None:
        """Record a last line without a line end."""
        if self._begun:
            self.write("\n")

    def flush(self) -> None:
        """Flush the real output."""
        self._real.flush()

    def fileno(self) -> int:
        """The real output's file descriptor; writes to it are not recorded."""
        return self._real.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The real output's encoding."""
        return self._real.encoding

    @property
    def buffer(self) -> io.BufferedIOBase:
        """The real output's byte stream; writes to it are not recorded."""
        return self._real.buffer  # type: ignore[return-value]

    def isatty(self) -> bool:
        """A recorded run has no terminal."""
        return False


def _hide_bars(module: ModuleType) -> None:
    """Make rich's Progress show nothing."""
    real = module.Progress.__init__

    @functools.wraps(real)
    def disabled(*args: Any, **kwargs: Any) -> None:
        real(*args, **{**kwargs, "disable": True})

    module.Progress.__init__ = disabled
