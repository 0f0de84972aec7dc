"""For off-policy scripts: starts measuring after the first update, and lets the first update come earlier."""

from __future__ import annotations

from dataclasses import replace

from transformer.bench.bench import Task
from transformer.bench.measure import places_of
from transformer.verify.length import find_length
from transformer.verify.verify import STEPS


def past_warm_up(task: Task, burnin: int | None) -> Task:
    """The task with a burn-in that ends after the original's first update; unchanged for on-policy scripts.

    The option for the number of steps before learning is reduced for all contenders, as `verify` does.

    Args:
        task: what to measure.
        burnin: the number of environment steps in the burn-in from the first update on; STEPS if None.

    Raises:
        RunFailed: the original ended with an error, without an update, or has no environment step.
        OSError: the script or the interpreter cannot be read or started.
    """
    original = task.contenders[0].run
    if not places_of(original).stepwise:
        return task
    found = find_length(original)
    if not found.stepwise:
        return task
    contenders = [replace(c, run=found.sooner(c.run)) for c in task.contenders]
    burnin = found.begins + (STEPS if burnin is None else burnin)
    length = replace(task.length, burnin=burnin, only_stored=found.begins)
    return replace(task, contenders=contenders, length=length)
