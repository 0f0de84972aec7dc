"""A clock that counts steps instead of seconds, so that logged speeds, durations and dates are repeatable.

One step of the environment or of an optimizer is a millisecond. Only the script, the modules next to it and the gym
packages (which report an episode's duration) see it; everything else keeps the real time.
"""

from __future__ import annotations

import datetime
import functools
import sys
import time
from collections.abc import Callable
from typing import Any

from .instrument import HOOKS_NAME
from .journal import Journal

EPOCH = 1_700_000_000
"""The time at which every recorded run begins, in seconds since 1970."""
DAY = 24 * 60 * 60

_DECEIVED = ("gym", "gymnasium")


class VirtualClock:
    """The time as a function of the steps counted by a journal."""

    def __init__(self, journal: Journal, rate: int = 1, *, stepwise: bool = False) -> None:
        """Let a step take `rate` milliseconds; a clock with another rate also begins on another day.

        If `stepwise`, optimizer steps count only from the next environment step on.
        """
        self._journal = journal
        self._stepwise = stepwise
        self._rate = rate
        self._begin = (EPOCH + (rate - 1) * DAY) * 10**9

    def nanoseconds(self) -> int:
        """Nanoseconds since 1970 on this clock."""
        moment = self._journal.last_env_step if self._stepwise else self._journal.moment()
        return self._begin + sum(moment) * self._rate * 10**6

    def seconds(self) -> float:
        """Seconds since 1970 on this clock."""
        return self.nanoseconds() / 1e9

    def elapsed_nanoseconds(self) -> int:
        """Nanoseconds since the run began, for gymnasium, which stores times in float32, too coarse for dates."""
        return self.nanoseconds() - self._begin

    def elapsed(self) -> float:
        """Seconds since the run began."""
        return self.elapsed_nanoseconds() / 1e9

    def install(self) -> None:
        """Replace the clocks in `time`. Must come before the script's own imports."""
        _deceive("time", self.seconds)
        _deceive("time_ns", self.nanoseconds)
        for name in ("perf_counter", "monotonic", "process_time"):
            _deceive(name, self.elapsed)
            _deceive(f"{name}_ns", self.elapsed_nanoseconds)
        localtime, strftime = time.localtime, time.strftime
        _deceive("localtime", lambda t=None: localtime(self.seconds() if t is None else t))
        _deceive("strftime", lambda form, t=None: strftime(form, localtime(self.seconds()) if t is None else t))

    def replace_now(self, function: Any) -> Any:
        """`function`, or its replacement with this clock's date if it is `datetime.now` or similar."""
        owner = getattr(function, "__self__", None)
        if not (isinstance(owner, type) and issubclass(owner, datetime.datetime)):
            return function
        if function.__name__ == "utcnow":
            return lambda: owner.fromtimestamp(self.seconds(), datetime.timezone.utc).replace(tzinfo=None)
        return functools.partial(owner.fromtimestamp, self.seconds())


def _deceive(name: str, virtual: Callable[..., Any]) -> None:
    """Replace `time.<name>` for callers in the script or in a gym."""
    real = getattr(time, name)

    def clock(*args: Any) -> Any:
        caller = sys._getframe(1).f_globals
        of_script = HOOKS_NAME in caller or caller.get("__name__", "").partition(".")[0] in _DECEIVED
        return (virtual if of_script else real)(*args)

    setattr(time, name, clock)
