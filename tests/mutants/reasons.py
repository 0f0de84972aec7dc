"""The reasons, by hand, why a mutant survives: benchmarks/lists/mutants.toml."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REASONS = Path(__file__).parent.parent.parent / "benchmarks" / "lists" / "mutants.toml"


@dataclass(frozen=True)
class Reason:
    """Why some mutants of one script survive."""

    script: str
    equivalent: bool
    """Whether they compute the same as the script. If not, the checks miss a real difference."""
    why: str
    keys: tuple[str, ...]


def reasons(script: str) -> tuple[Reason, ...]:
    """The reasons for one script's mutants.

    Raises:
        KeyError: an entry lacks a field, or is of no known verdict.
    """
    entries = tomllib.loads(REASONS.read_text(encoding="utf-8")).get(script, [])
    verdicts = {"equivalent": True, "not seen": False}
    return tuple(Reason(script, verdicts[e["verdict"]], e["why"], tuple(e["mutants"])) for e in entries)
