"""The outcomes of one script's mutants, and their score."""

from __future__ import annotations

from dataclasses import dataclass

from generate import Mutant
from kill import Outcome
from reasons import Reason


@dataclass(frozen=True)
class Scored:
    """A mutant and its outcome."""

    mutant: Mutant
    outcome: Outcome
    proof: str
    """Why it is equivalent, from its text alone; empty where that is not proved."""
    reason: Reason | None
    """Why it survives, by hand; None where it does not, or where nobody has said."""


@dataclass(frozen=True)
class Score:
    """The score of one script."""

    script: str
    arguments: dict[str, tuple[str, ...]]
    """By configuration."""
    generated: int
    """Mutants that there are."""
    not_run: int
    """Those of them whose statement no run reaches; they are not among the scored."""
    scored: tuple[Scored, ...]
    stale: tuple[str, ...]
    """Mutants that have a reason, but no longer exist or are killed by now."""

    @property
    def proved(self) -> int:
        """Mutants that are proved to be equivalent."""
        return sum(bool(s.proof) for s in self.scored)

    @property
    def killed(self) -> int:
        """Mutants that were killed."""
        return sum(bool(s.outcome.killed) for s in self.scored if not s.proof)

    @property
    def survivors(self) -> tuple[Scored, ...]:
        """Mutants that were not killed and are not proved equivalent."""
        return tuple(s for s in self.scored if not s.proof and not s.outcome.killed)

    @property
    def part(self) -> float:
        """Killed / (all - proved equivalent)."""
        return self.killed / (len(self.scored) - self.proved)
