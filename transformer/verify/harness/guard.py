"""Ends this process and its children when the process that started it is gone."""

from __future__ import annotations

import os
import signal
import threading


def die_with_parent() -> None:
    """Kill this process group when standard input, a pipe from the parent, closes; the script gets an empty input."""
    pipe = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)

    def wait() -> None:
        while os.read(pipe, 1):
            pass
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=wait, name="die-with-parent", daemon=True).start()
