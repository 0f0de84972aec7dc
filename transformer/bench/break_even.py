"""When a script that is slower to start overtakes another."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BreakEven:
    """When a script that is slower to start has overtaken the original."""

    steps: float
    """The steps of all environments that both have done at that point."""
    seconds: float
    """Since their start."""


def break_even(warmup: float, per_step: float, other_warmup: float, other_per_step: float) -> BreakEven | None:
    """When a script that takes `warmup + n * per_step` seconds for n steps overtakes another; None means never.

    This is the extra warm-up divided by the time saved per step. A script that is faster and starts no later is ahead
    from the first step.
    """
    if per_step >= other_per_step:
        return None
    steps = max(0.0, (warmup - other_warmup) / (other_per_step - per_step))
    return BreakEven(steps, warmup + steps * per_step)
