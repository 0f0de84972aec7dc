"""Make a script train for only a few iterations, by its own options."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace

from transformer.syntax import text
from transformer.verify.options import Option, with_option
from transformer.verify.other_arguments import draws_at_random
from transformer.verify.run import Run, RunFailed

WARM_UP = 500
"""The most steps to store before learning starts: enough for most batches."""
NEAR = 200
"""The first optimizer step comes at most this many environment steps after the number in an option."""


@dataclass(frozen=True)
class Length:
    """What a script's first iteration revealed about the length of its training."""

    option: str | None
    """The option for the length of training; None if none was found."""
    unit: int
    """The option's value per iteration."""
    planned: int | None
    """The number of iterations with the given arguments."""
    options: tuple[Option, ...] = ()
    """All options whose value is a number, a boolean or None."""
    begins: int = 0
    """The environment step at which optimizer steps begin, if each iteration steps the environment once; else 0."""
    warm_up: tuple[str, ...] = ()
    """The option, with its value, that makes optimizer steps begin at `begins`; empty if they do so anyway."""
    acts: tuple[str, ...] = ()
    """The option, with its value, that lets networks choose the actions by then; empty if they do anyway."""
    cuda: bool = False
    """Whether the script's interpreter finds a CUDA device."""
    apart: int = 1
    """Environment steps from one update to the next, if one loop makes both."""

    @property
    def stepwise(self) -> bool:
        """Whether an iteration is one environment step, as in off-policy training."""
        return self.begins > 0

    def updates(self, steps: int, least: int = 1) -> int:
        """The number of updates in this many environment steps of stepwise training, and at least so many."""
        return max(least, -(-steps // self.apart))

    def shortened(self, run: Run, iterations: int) -> Run:
        """The run limited by its option to this many updates, counted from the first.

        Unchanged if the option is not known.
        """
        iterations = iterations * self.apart + max(0, self.begins - 1)
        run = self.sooner(run)
        if self.option is None or (self.planned is not None and self.planned <= iterations):
            return run
        return replace(run, args=with_option(run.args, (self.option, str(iterations * self.unit))))

    def sooner(self, run: Run) -> Run:
        """The run in which learning, and acting by what is learned, begin as soon as is known to work."""
        for given in filter(None, (self.warm_up, self.acts)):
            run = replace(run, args=with_option(run.args, given))
        return run


def find_length(run: Run) -> Length:
    """Run the script up to its first optimizer step to find what determines the length of its training.

    If many environment steps are only stored before that, the option for their number is found, and reduced.
    So is the option for how long actions are drawn at random.

    Raises:
        RunFailed: the script ended with an error, or without an optimizer step.
        OSError: the script or the interpreter cannot be read or started.
    """
    length, envs = _sooner(run, *probe(run))
    if not length.stepwise:
        return length
    source = run.source if run.source is not None else text.read(run.script).content
    for option in draws_at_random(source, length.options):
        if option.spelled in length.warm_up or not (option.value and option.value > length.begins * envs):
            continue
        acts = replace(length, acts=(option.spelled, str(length.begins)))
        with suppress(RunFailed):
            if probe(acts.sooner(run))[0].begins == length.begins:
                return acts
    return length


def _sooner(run: Run, length: Length, envs: int) -> tuple[Length, int]:
    """The length and the number of environments, with the option that makes a late start of learning early."""
    if length.begins <= WARM_UP + NEAR:
        return length, envs
    for option in length.options:
        whole = type(option.value) in (int, float) and float(option.value or 0).is_integer()  # 25e3 is a float
        if whole and 0 <= length.begins * envs - (option.value or 0) <= NEAR * envs:
            warm_up = (option.spelled, str(WARM_UP * envs))
            try:
                sooner, _ = probe(replace(run, args=with_option(run.args, warm_up)))
            except RunFailed:
                continue  # too few steps to sample from
            if 0 < sooner.begins < length.begins:
                return replace(sooner, warm_up=warm_up), envs
    return length, envs


def probe(run: Run) -> tuple[Length, int]:
    """The length of a script's training, as found at its first optimizer step, and its number of environments.

    Raises:
        RunFailed: the script ended with an error, or without an optimizer step.
        OSError: the script or the interpreter cannot be read or started.
    """
    with run.under_harness("probe") as scratch:
        journal = json.loads((scratch.output / "journal.json").read_text())
    cuda = journal["versions"]["cuda"]
    if not journal["probe"]:
        return Length(None, 0, None, cuda=cuda), 1
    _, option, unit, planned, begins, envs, apart = journal["probe"][0]
    options = (Option(name, held, value, tuple(flipped)) for _, name, held, value, flipped in journal["options"])
    return Length(option, unit, planned, tuple(options), begins, cuda=cuda, apart=apart), envs
