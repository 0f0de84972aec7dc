"""How to make a script train for a few iterations only, by its own options."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from transformer.verify.options import Option, with_option
from transformer.verify.run import Run


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

    def shortened(self, run: Run, iterations: int) -> Run:
        """The run with its option set to at most so many iterations; as it is where that is not known."""
        if self.option is None or (self.planned is not None and self.planned <= iterations):
            return run
        return replace(run, args=with_option(run.args, (self.option, str(iterations * self.unit))))


def find_length(run: Run) -> Length:
    """Run the script up to its first optimizer step to see what decides how long it trains.

    Raises:
        RunFailed: the script ended with an error, or without an optimizer step.
        OSError: the script or the interpreter cannot be read or started.
    """
    with run.under_harness("probe") as scratch:
        journal = json.loads((scratch.output / "journal.json").read_text())
    if not journal["probe"]:
        return Length(None, 0, None)
    _, option, unit, planned = journal["probe"][0]
    options = (Option(name, held, value, tuple(flipped)) for _, name, held, value, flipped in journal["options"])
    return Length(option, unit, planned, tuple(options))
