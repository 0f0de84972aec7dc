"""What all tables of facts have alike: rows, of which each holds for names given as words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol


class Named(Protocol):
    """A row: its names, and columns beside them."""

    @property
    def names(self) -> str:
        """Its names, as words."""


def says(row: Named, facts: Mapping[str, object]) -> bool:
    """Whether a row says all of these facts; one may be a tuple of values, one of which must stand in the row."""
    return all(
        getattr(row, fact) in (wanted if isinstance(wanted, tuple) else (wanted,)) for fact, wanted in facts.items()
    )


def named(rows: Iterable[Named], facts: Mapping[str, object]) -> frozenset[str]:
    """The names of the rows that say all of these facts."""
    return frozenset(name for row in rows if says(row, facts) for name in row.names.split())
