"""How to make a script train for a few iterations only, by its own options."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from transformer.verify.options import Option, with_option
from transformer.verify.run import Run, RunFailed

WARM_UP = 500
"""So many steps are stored before the first is learned from, where more would be: enough for most batches."""
NEAR = 200
"""The first optimizer step is at most so many environment steps behind what an option says."""


@dataclass(frozen=True)
class Length:
    """What a script's first iteration told of the length of its training."""

    option: str | None
    """The option that says how long to train; None where none was found."""
    unit: int
    """The option's amount for one iteration."""
    planned: int | None
    """Iterations that the arguments, as they are, ask for."""
    options: tuple[Option, ...] = ()
    """All options that hold a number, a truth value or None."""
    begins: int = 0
    """Where each turn of the training loop steps the environment once: with which step optimizers' begin; else 0."""
    warm_up: tuple[str, ...] = ()
    """The option that makes them begin that soon, with its value; none where they do by themselves."""
    cuda: bool = False
    """Whether the script's interpreter finds a CUDA device."""

    @property
    def stepwise(self) -> bool:
        """Whether an iteration is one step of the environment, as where replayed steps are learned from."""
        return self.begins > 0

    def shortened(self, run: Run, iterations: int) -> Run:
        """The run with its option set to at most so many iterations, from the first with an optimizer's step on.

        As it is where that is not known.
        """
        iterations += max(0, self.begins - 1)
        if self.warm_up:
            run = replace(run, args=with_option(run.args, self.warm_up))
        if self.option is None or (self.planned is not None and self.planned <= iterations):
            return run
        return replace(run, args=with_option(run.args, (self.option, str(iterations * self.unit))))


def find_length(run: Run) -> Length:
    """Run the script up to its first optimizer step to see what decides how long it trains.

    Where steps of the environment are only stored for long, the option that says for how long is found, and shortened.

    Raises:
        RunFailed: the script ended with an error, or without an optimizer step.
        OSError: the script or the interpreter cannot be read or started.
    """
    length, envs = probe(run)
    if length.begins <= WARM_UP + NEAR:
        return length
    for option in length.options:
        whole = type(option.value) in (int, float) and float(option.value or 0).is_integer()  # 25e3 is a float
        if whole and 0 <= length.begins * envs - (option.value or 0) <= NEAR * envs:
            warm_up = (option.spelled, str(WARM_UP * envs))
            try:
                sooner, _ = probe(replace(run, args=with_option(run.args, warm_up)))
            except RunFailed:
                continue  # too few steps to sample from
            if 0 < sooner.begins < length.begins:
                return replace(sooner, warm_up=warm_up)
    return length


def probe(run: Run) -> tuple[Length, int]:
    """What a script's first optimizer step tells, and its number of environments.

    Raises:
        RunFailed: the script ended with an error, or without an optimizer step.
        OSError: the script or the interpreter cannot be read or started.
    """
    with run.under_harness("probe") as scratch:
        journal = json.loads((scratch.output / "journal.json").read_text())
    cuda = journal["versions"]["cuda"]
    if not journal["probe"]:
        return Length(None, 0, None, cuda=cuda), 1
    _, option, unit, planned, begins, envs = journal["probe"][0]
    options = (Option(name, held, value, tuple(flipped)) for _, name, held, value, flipped in journal["options"])
    return Length(option, unit, planned, tuple(options), begins, cuda=cuda), envs
