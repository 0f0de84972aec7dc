"""Run a script's conversion, which is kept in a private cache, as if it were the original."""

from __future__ import annotations

from collections.abc import Callable


class Handover(BaseException):
    """Ends a command and hands the process over to a script.

    The script is started outside click, which would otherwise handle the script's Ctrl-C and end of input itself.
    """

    def __init__(self, start: Callable[[], None]) -> None:
        super().__init__()
        self.start = start
