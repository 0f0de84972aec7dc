"""Compare two states of a script: which lines stayed, moved, changed, were added or removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from typing import Literal, TypeAlias

from transformer.diff.align import align_texts, align_units
from transformer.diff.moves import Move, find_moves
from transformer.diff.outline import Outline, outline
from transformer.diff.words import Span, changed_spans, weight

Kind: TypeAlias = Literal["same", "edited", "removed", "added"]

ANCHOR = 12
"""The minimum number of letters and digits in equal lines between two changes for the lines to count as unmoved."""


@dataclass(frozen=True)
class Row:
    """A line of the old text, of the new text, or both versions of one line. Indices count from 0."""

    kind: Kind
    """Within a move, `same` means equal except for the indentation."""
    old: int | None = None
    new: int | None = None
    old_spans: tuple[Span, ...] = ()
    """The words of the old line that changed."""
    new_spans: tuple[Span, ...] = ()
    move: Move | None = None
    """The block of moved code that contains this line."""


@dataclass(frozen=True)
class Departure:
    """Marks the old place of a block of moved code; its lines are shown in the new place."""

    move: Move


Entry: TypeAlias = Row | Departure


@dataclass(frozen=True)
class Stats:
    """Numbers of lines. A line with changed words counts as removed and added, one that only moved as moved."""

    added: int
    removed: int
    moved: int


@dataclass(frozen=True)
class Diff:
    """The comparison of two texts, in the order of the new one, with removed lines in their old places."""

    old: Outline
    new: Outline
    entries: tuple[Entry, ...]

    @cached_property
    def stats(self) -> Stats:
        """The number of lines added, removed and moved."""
        rows = list(self.rows)
        return Stats(
            added=sum(row.kind != "same" and row.new is not None for row in rows),
            removed=sum(row.kind != "same" and row.old is not None for row in rows),
            moved=sum(row.kind == "same" and row.move is not None for row in rows),
        )

    @property
    def rows(self) -> Iterator[Row]:
        """The entries that are lines."""
        return (entry for entry in self.entries if isinstance(entry, Row))

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """The blocks of moved or re-indented code, in the order of the new text."""
        return tuple(dict.fromkeys(row.move for row in self.rows if row.move))

    @cached_property
    def departed(self) -> frozenset[Move]:
        """The moves to another place; the others only changed the indentation."""
        return frozenset(entry.move for entry in self.entries if isinstance(entry, Departure))


@lru_cache(maxsize=64)
def compare(before: str, after: str) -> Diff:
    """Compare two states of a script, ignoring line ends and trailing whitespace."""
    old, new = outline(before), outline(after)
    gaps = _gaps(old, new)
    removed = {i for gap in gaps for i in gap[0]}
    added = {j for gap in gaps for j in gap[1]}
    moves = find_moves(old, new, removed, added)
    entries: list[Entry] = []
    i = j = 0
    for old_gap, new_gap in [*gaps, (range(len(old.lines), len(old.lines)), range(len(new.lines), len(new.lines)))]:
        entries += (Row("same", i + k, j + k) for k in range(old_gap.start - i))
        entries += _gap_entries(old, old_gap, new, new_gap, moves)
        i, j = old_gap.stop, new_gap.stop
    return Diff(old, new, tuple(entries))


def _gaps(old: Outline, new: Outline) -> list[tuple[range, range]]:
    """The places where the texts differ, as ranges of old and new lines.

    Lines of different functions are never matched. So code that is extracted into a function counts as moved even if
    its indentation stays the same.
    """
    a = list(zip(old.scopes, (line.rstrip() for line in old.lines), strict=True))
    b = list(zip(new.scopes, (line.rstrip() for line in new.lines), strict=True))
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    # Blank lines and lone brackets are matched only next to other equal lines.
    matcher = SequenceMatcher(
        lambda key: not weight(key[1]), a[start : len(a) - end], b[start : len(b) - end], autojunk=False
    )
    gaps: list[tuple[range, range]] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        before, after = range(start + i1, start + i2), range(start + j1, start + j2)
        if tag == "equal":
            continue
        if gaps and sum(weight(old.lines[i]) for i in range(gaps[-1][0].stop, before.start)) < ANCHOR:
            before, after = range(gaps[-1][0].start, before.stop), range(gaps[-1][1].start, after.stop)
            gaps.pop()
        gaps.append((before, after))
    return gaps


def _gap_entries(old: Outline, old_gap: range, new: Outline, new_gap: range, moves: Sequence[Move]) -> Iterator[Entry]:
    """The entries to show for a place where the texts differ."""
    inside: list[Move] = []
    for move in moves:
        if _within(move.old, old_gap) and _within(move.new, new_gap) and _follows(move, inside):
            inside.append(move)
    leaving = [m for m in moves if _within(m.old, old_gap) and m not in inside]
    arriving = [m for m in moves if _within(m.new, new_gap) and m not in inside]
    i, j = old_gap.start, new_gap.start
    for move in inside:
        yield from _between(old, range(i, move.old.start), new, range(j, move.new.start), leaving, arriving)
        rows = _rows_of_move(old, new, move)
        # A block with the same indentation has not moved: it only stood next to a weak match.
        yield from rows if move.dedent else (replace(row, move=None) for row in rows)
        i, j = move.old.stop, move.new.stop
    yield from _between(old, range(i, old_gap.stop), new, range(j, new_gap.stop), leaving, arriving)


def _within(inner: range, outer: range) -> bool:
    return outer.start <= inner.start and inner.stop <= outer.stop


def _follows(move: Move, inside: Sequence[Move]) -> bool:
    """Whether `move` comes after the others in the old text, as it does in the new one."""
    return not inside or inside[-1].old.stop <= move.old.start


def _between(
    old: Outline,
    old_part: range,
    new: Outline,
    new_part: range,
    leaving: Sequence[Move],
    arriving: Sequence[Move],
) -> Iterator[Entry]:
    """Pair the code that has not moved, with departures and arrivals in their places."""
    departures = sorted((m for m in leaving if _within(m.old, old_part)), key=lambda m: m.old.start)
    arrivals = [m for m in arriving if _within(m.new, new_part)]
    gone = {i for m in departures for i in m.old}
    come = {j for m in arrivals for j in m.new}
    kept = [i for i in old_part if i not in gone], [j for j in new_part if j not in come]
    pieces = list(align_units(old, kept[0], new, kept[1]))
    for k, (old_lines, new_lines) in enumerate(pieces):
        # As in any diff, removed lines come before added ones.
        next_old = next((before[0] for before, _ in pieces[k:] if before), old_part.stop)
        while departures and departures[0].old.start < next_old:
            yield Departure(departures.pop(0))
        while arrivals and new_lines and arrivals[0].new.start < new_lines[0]:
            yield from _rows_of_move(old, new, arrivals.pop(0))
        yield from _piece(old, old_lines, new, new_lines, None)
    yield from map(Departure, departures)
    for move in arrivals:
        yield from _rows_of_move(old, new, move)


def _rows_of_move(old: Outline, new: Outline, move: Move) -> Iterator[Row]:
    """The rows of a block of moved code, both versions side by side."""
    for old_lines, new_lines in align_units(old, move.old, new, move.new):
        yield from _piece(old, old_lines, new, new_lines, move)


def _piece(
    old: Outline, old_lines: Sequence[int], new: Outline, new_lines: Sequence[int], move: Move | None
) -> Iterator[Row]:
    """The rows of one statement: its old lines, its new ones, or both with the changed words marked."""
    before = [move.reindented(old.lines[i]) if move else old.lines[i] for i in old_lines]
    after = [new.lines[j] for j in new_lines]
    if not (before and after):
        yield from (Row("removed", old=i, move=move) for i in old_lines)
        yield from (Row("added", new=j, move=move) for j in new_lines)
        return
    # Spans are columns of the unmodified lines, so the words are searched there.
    old_spans, new_spans = changed_spans([old.lines[i] for i in old_lines], after)
    if len(before) == len(after):
        pairs = [(k, k) for k in range(len(before))]
    else:
        pairs = [(0, 0), *((i + 1, j + 1) for i, j in align_texts(before[1:], after[1:]))]
    i = j = 0
    for next_i, next_j in [*pairs, (len(before), len(after))]:
        for k in range(i, next_i):
            yield Row("edited", old=old_lines[k], old_spans=tuple(old_spans[k]), move=move)
        for k in range(j, next_j):
            yield Row("edited", new=new_lines[k], new_spans=tuple(new_spans[k]), move=move)
        if next_i < len(before):
            same = before[next_i].rstrip() == after[next_j].rstrip()
            yield Row(
                "same" if same else "edited",
                old_lines[next_i],
                new_lines[next_j],
                tuple(old_spans[next_i]),
                tuple(new_spans[next_j]),
                move,
            )
        i, j = next_i + 1, next_j + 1
