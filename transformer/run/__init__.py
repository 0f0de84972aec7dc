"""Run a script's conversion as if it were the original; conversions are kept in a private cache."""

from __future__ import annotations

from collections.abc import Callable


class Handover(BaseException):
    """Ends a command and hands the process over to a script.

    The script is started outside click, because click would handle Ctrl-C and the end of input itself.
    """

    def __init__(self, start: Callable[[], None]) -> None:
        super().__init__()
        self.start = start
