"""Whether compiling pays off, judged by the warm-up times and speeds of a script's earlier runs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from transformer.bench.break_even import break_even
from transformer.run.harness.pace import Measured, Warm

_NO_MATTER = ("seed", "total", "exp-name", "track", "wandb", "num-iterations", "num-updates")
"""The prefixes of options that do not affect the pace."""


@dataclass(frozen=True)
class Circumstances:
    """Everything that the pace of a run depends on besides the script."""

    flags: tuple[str, ...]
    args: tuple[str, ...]
    machine: str
    taken: tuple[str, ...] = ()
    """What makes the conversion faster besides its flags, in words."""

    @staticmethod
    def of(flags: Sequence[str], args: Sequence[str], taken: Sequence[str], *, cuda: bool) -> Circumstances:
        """The circumstances of a run on this machine."""
        machine = f"{os.cpu_count()} processors, {'CUDA' if cuda else 'no CUDA'}"
        return Circumstances(tuple(flags), tuple(_that_matter(args)), machine, tuple(taken))


def _private(file: str, flags: int) -> int:
    return os.open(file, flags | os.O_NOFOLLOW, 0o600)


def _that_matter(args: Sequence[str]) -> list[str]:
    """The arguments, without options that do not affect the pace, and without their values."""
    kept, dropping = [], False
    for arg in args:
        if arg.startswith("-"):
            dropping = arg.lstrip("-").replace("_", "-").startswith(_NO_MATTER)
        if not dropping:
            kept.append(arg)
        dropping = dropping and "=" not in arg
    return kept


class History:
    """The measurements of earlier runs of one script, one line each."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def add(self, circumstances: Circumstances, measured: Measured) -> None:
        """Record a run."""
        line = json.dumps({"circumstances": asdict(circumstances), "measured": asdict(measured), "time": time.time()})
        with open(self._file, "a", encoding="utf-8", opener=_private) as stream:  # written at once, as others write too
            stream.write(line + "\n")

    def latest(self, circumstances: Circumstances) -> Measured | None:
        """The measurement of the last run in these circumstances; None if there was none."""
        try:
            lines = self._file.read_text(encoding="utf-8").splitlines()
        except OSError:
            return None
        wanted = json.loads(json.dumps(asdict(circumstances)))
        for line in reversed(lines):
            try:
                entry = json.loads(line)
                if entry["circumstances"] == wanted:
                    return Measured(**entry["measured"])
            except (ValueError, KeyError, TypeError):  # of another version, or cut off
                continue
        return None

    def fastest(self, option: str, circumstances: Circumstances) -> str | None:
        """The value of an option (the number of worker processes) with which earlier runs were fastest.

        None if fewer than two values were tried, or if the default was the fastest. Only runs that differ in nothing
        else are compared.
        """
        try:
            lines = self._file.read_text(encoding="utf-8").splitlines()
        except OSError:
            return None
        found: dict[str | None, float] = {}
        for line in lines:
            try:
                entry = json.loads(line)
                args, value = without_option(entry["circumstances"]["args"], option)
                if {**entry["circumstances"], "args": args} == json.loads(json.dumps(asdict(circumstances))):
                    found[value] = Measured(**entry["measured"]).per_iteration
            except (ValueError, KeyError, TypeError):  # of another version, or cut off
                continue
        return min(found, key=lambda value: found[value]) if len(found) > 1 else None


def without_option(args: Sequence[str], option: str) -> tuple[list[str], str | None]:
    """Arguments without an option that takes a value, in either spelling, and the value; None if it is not given."""
    kept, value, words = list[str](), None, iter(args)
    for word in words:
        if word == option:
            value = next(words, None)
        elif word.startswith(f"{option}="):
            value = word.partition("=")[2]
        else:
            kept.append(word)
    return kept, value


def too_short(args: Sequence[str], compiled: Measured | None, eager: Measured | None) -> str | None:
    """Why a run should train without compiling: it would finish sooner. None if this is not known.

    Args:
        args: the script's arguments, one of which may give the number of steps.
        compiled: the measurement of an earlier run with the flags that suit this machine.
        eager: the measurement of an earlier run without them.
    """
    total = _total_steps(args)
    if total is None or compiled is None or eager is None or not compiled.steps or not eager.steps:
        return None
    both = [run.warmup + total / run.steps * run.per_iteration for run in (compiled, eager) if run.steps]
    if both[0] < both[1]:
        return None
    return (
        f"{total:,} steps finish sooner without compiling, by earlier runs ({_seconds(both[1])}, compiled "
        f"{_seconds(both[0])}); --flags overrides this"
    )


def _total_steps(args: Sequence[str]) -> int | None:
    """The value of the last option such as --total-timesteps."""
    found = None
    for option, following in zip(args, [*args[1:], ""], strict=False):
        name, equals, value = option.partition("=")
        if name.startswith("--total") and "step" in name:
            value = (value if equals else following).replace("_", "")
            found = int(value) if value.isdecimal() else None
    return found


def before(iterations: int | None, compiled: Measured | None, eager: Measured | None) -> str:
    """The message, before training, about whether compiling pays off.

    Args:
        iterations: the number of iterations of the training loop; None if not known.
        compiled: the measurement of an earlier run with the same flags.
        eager: the measurement of an earlier run without them.
    """
    if compiled is None:
        return "torch compiles now, usually for about half a minute"
    took = f"torch compiles now, which took {_seconds(compiled.warmup)} last time"
    if eager is None:
        return f"{took}; run a few iterations with --eager to learn when that has paid off"
    even = break_even(compiled.warmup, compiled.per_iteration, eager.warmup, eager.per_iteration)
    if even is None:
        return f"{took}; once compiled, that run was no faster than with --eager"
    if not even.steps:
        return f"{took}, and it paid off at once"
    when = f"{_amount(even.steps, compiled.steps)}, {_seconds(even.seconds)}"
    if iterations is None:
        return f"{took}; it has paid off after {when}"
    both = [_seconds(run.warmup + iterations * run.per_iteration) for run in (compiled, eager)]
    of = _amount(iterations, compiled.steps)
    if even.steps > iterations:
        return f"{took}: it does not pay in {of} ({both[0]}; --eager takes about {both[1]}), only after {when}"
    return f"{took}; it has paid off after {when}, of {of} ({both[0]}; --eager would take about {both[1]})"


def warmed(found: Warm) -> str:
    """The message after compiling; it explains why rates that the script prints look slow: they include compiling."""
    what = "steps" if found.steps else "iterations"
    speed = f"{found.per_second:,.0f}" if found.per_second >= 10 else f"{found.per_second:.2g}"
    rate = f"{speed} {what} per second from then on (a rate that the script prints counts both)"
    what = "more was compiled" if found.again else "compiled"
    return f"{what} {_seconds(found.after)} after the start; {rate}"


CLEARLY = 1.15
"""The factor by which two runs must differ to count as different: single runs on a busy machine vary by a tenth."""


def after(measured: Measured, eager: Measured | None) -> str:
    """The message after a run with compiling."""
    iterations = measured.iterations + 1  # the end of the last one is not recorded
    took = measured.warmup + iterations * measured.per_iteration
    done = (
        f"{_amount(iterations, measured.steps)} in {_seconds(took)}; starting and compiling cost "
        f"{_seconds(measured.warmup)} of it{_speed(measured)}"
    )
    if eager is not None:
        other = eager.warmup + iterations * eager.per_iteration
        verdict = "has paid off" if took < other else "has not paid off"
        if max(took, other) < CLEARLY * min(took, other):
            verdict = "made no clear difference"
        return f"compiling {verdict}: {done}; --eager takes about {_seconds(other)}, by one earlier run"
    return f"{done}; to see whether compiling pays, run it once with --eager"


def beside(taken: Sequence[str], measured: Measured, without: Measured | None) -> str:
    """The message about what was used besides the flags, and what it gained; "" if nothing was used.

    Args:
        taken: what was used.
        measured: this run.
        without: an earlier run with the same flags and nothing else.
    """
    if not taken:
        return ""
    brought = ""
    if without is not None and measured.per_iteration > 0:
        brought = f", {without.per_iteration / measured.per_iteration:.2f}x the pace of an earlier run without"
    return f". This run had {' and '.join(taken)}{brought}"


TIMED = 3.0
"""The minimum number of seconds of training for which a speed is reported."""


def _speed(measured: Measured) -> str:
    """The speed after the warm-up, as the end of a sentence; empty if steps are not known, or too few were timed."""
    timed = measured.iterations * measured.per_iteration
    if measured.steps is None or timed < TIMED:
        return ""
    return f", {measured.steps / measured.per_iteration:,.0f} steps per second after that"


def _amount(iterations: float, steps: float | None) -> str:
    return f"{iterations:,.0f} iterations" if steps is None else f"{iterations * steps:,.0f} steps"


def _seconds(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
