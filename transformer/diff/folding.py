"""Leaving out lines that did not change, but for a few around each change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from transformer.diff.compare import Entry, Row

MIN_FOLD = 2
"""Fewer lines than this are shown: the note that they are hidden would take as much room."""


@dataclass(frozen=True)
class Fold:
    """Consecutive lines, left out because nothing in them changed; all of one block of moved code, or of none."""

    rows: tuple[Row, ...]


Shown: TypeAlias = Entry | Fold


def fold(entries: Sequence[Entry], context: int, *, within_moves: bool = True) -> list[Shown]:
    """Replace lines that are further than `context` lines from a change, or from either end of a move, by folds.

    Args:
        entries: a comparison's entries.
        context: how many unchanged lines around a change stay.
        within_moves: leave out lines of moved code as well.
    """
    loud = [k for k, entry in enumerate(entries) if not _quiet(entry) or (k and _move(entries[k - 1]) != _move(entry))]
    near = {k + d for k in loud for d in range(-context, context + 1)}
    shown: list[Shown] = []
    hidden: list[Row] = []
    for k, entry in enumerate(entries):
        if isinstance(entry, Row) and k not in near and _quiet(entry) and (within_moves or not entry.move):
            if hidden and hidden[-1].move != entry.move:
                _close(shown, hidden)
            hidden.append(entry)
        else:
            _close(shown, hidden)
            shown.append(entry)
    _close(shown, hidden)
    return shown


def _close(shown: list[Shown], hidden: list[Row]) -> None:
    if len(hidden) >= MIN_FOLD:
        shown.append(Fold(tuple(hidden)))
    else:
        shown += hidden
    hidden.clear()


def _quiet(entry: Entry) -> bool:
    return isinstance(entry, Row) and entry.kind == "same"


def _move(entry: Entry) -> object:
    return entry.move if isinstance(entry, Row) else None
