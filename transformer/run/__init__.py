"""Running a script as its conversion, which is kept in a private cache; as if it were the original."""

from __future__ import annotations

from collections.abc import Callable


class Handover(BaseException):
    """Ends a command, and leaves the process to a script.

    The script is started where click is no longer around it, which would take its Ctrl-C and end of input for its own.
    """

    def __init__(self, start: Callable[[], None]) -> None:
        super().__init__()
        self.start = start
