"""Leave out unchanged lines, except a few around each change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from transformer.diff.compare import Entry, Row

MIN_FOLD = 2
"""Fewer lines than this are not hidden, because the note about them would take as much room."""


@dataclass(frozen=True)
class Fold:
    """Consecutive unchanged lines that are left out; all in the same block of moved code, or in none."""

    rows: tuple[Row, ...]


Shown: TypeAlias = Entry | Fold


def fold(entries: Sequence[Entry], context: int, *, within_moves: bool = True) -> list[Shown]:
    """Replace lines that are more than `context` lines away from a change, or from either end of a move, by folds.

    Args:
        entries: a comparison's entries.
        context: the number of unchanged lines to keep around a change.
        within_moves: also leave out lines of moved code.
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
