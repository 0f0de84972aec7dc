"""When a script with a longer warm-up overtakes another."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BreakEven:
    """The point at which a script with a longer warm-up has overtaken the original."""

    steps: float
    """The steps of all environments that each of the two has done by then."""
    seconds: float
    """Seconds since their start."""


def break_even(warmup: float, per_step: float, other_warmup: float, other_per_step: float) -> BreakEven | None:
    """The point at which a script that takes `warmup + n * per_step` seconds for n steps overtakes another, or None.

    The number of steps is the extra warm-up divided by the time saved per step. A faster script with no extra warm-up
    is ahead from the first step.
    """
    if per_step >= other_per_step:
        return None
    steps = max(0.0, (warmup - other_warmup) / (other_per_step - per_step))
    return BreakEven(steps, warmup + steps * per_step)
