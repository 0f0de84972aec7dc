"""Where single steps are stored and sampled: measures from where the first of them is learned from, and sooner."""

from __future__ import annotations

from dataclasses import replace

from transformer.bench.bench import Task
from transformer.bench.measure import places_of
from transformer.verify.length import find_length
from transformer.verify.options import with_option
from transformer.verify.verify import STEPS


def past_warm_up(task: Task, burnin: int | None) -> Task:
    """The task with a burn-in that ends behind the original's first update; as it is where that takes a rollout.

    The option that says how many steps are only stored is set lower for all contenders, as `verify` does.

    Args:
        task: what to measure.
        burnin: so many steps of the environment from the first update on; STEPS where None.

    Raises:
        RunFailed: the original ended with an error, without an update, or holds no environment step.
        OSError: the script or the interpreter cannot be read or started.
    """
    original = task.contenders[0].run
    if not places_of(original).stepwise:
        return task
    found = find_length(original)
    if not found.stepwise:
        return task
    contenders = [
        replace(c, run=replace(c.run, args=with_option(c.run.args, found.warm_up))) if found.warm_up else c
        for c in task.contenders
    ]
    burnin = found.begins + (STEPS if burnin is None else burnin)
    length = replace(task.length, burnin=burnin, only_stored=found.begins)
    return replace(task, contenders=contenders, length=length)
