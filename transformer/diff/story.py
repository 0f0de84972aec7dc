"""The applied transforms of a conversion in order, each with the comparison of the states before and after it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from transformer.conversion.result import Applied, Conversion, Step
from transformer.diff.compare import Diff, compare


@dataclass(frozen=True)
class Chapter:
    """One applied transform."""

    number: int
    """The number among the applied transforms, from 1."""
    step: Step
    diff: Diff

    @property
    def name(self) -> str:
        """The transform's name."""
        return self.step.transform.name

    @property
    def notes(self) -> tuple[str, ...]:
        """The transform's notes on this application."""
        return self.step.outcome.notes if isinstance(self.step.outcome, Applied) else ()


def chapters(conversion: Conversion, names: Collection[str] | None = None) -> list[Chapter]:
    """The applied transforms in order, or only those in `names`; numbers count all applied transforms."""
    applied = [step for step in conversion.steps if step.applied]
    return [
        Chapter(number, step, compare(step.before, step.after))
        for number, step in enumerate(applied, 1)
        if names is None or step.transform.name in names
    ]
