"""What all tables of facts share: rows, each of which holds for several names, separated by spaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol


class Named(Protocol):
    """A row: its names, and the columns of its table."""

    @property
    def names(self) -> str:
        """The names, separated by spaces."""


def says(row: Named, facts: Mapping[str, object]) -> bool:
    """Whether a row matches all of these facts; if a fact is a tuple of values, the row must have one of them."""
    return all(
        getattr(row, fact) in (wanted if isinstance(wanted, tuple) else (wanted,)) for fact, wanted in facts.items()
    )


def named(rows: Iterable[Named], facts: Mapping[str, object]) -> frozenset[str]:
    """The names in the rows that match all of these facts."""
    return frozenset(name for row in rows if says(row, facts) for name in row.names.split())
