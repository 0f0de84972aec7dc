"""Find moved code: runs of removed lines that appear elsewhere, changed only in their indentation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Set
from dataclasses import dataclass

from transformer.diff.align import SIMILAR
from transformer.diff.outline import Outline
from transformer.diff.words import similarity, weight

MIN_WEIGHT = 20
"""The minimum number of letters and digits in moved code, as in `git diff --color-moved`: `else:` proves nothing."""

MAX_GAP = 6
"""The maximum number of removed or added lines inside a block of moved code."""


@dataclass(frozen=True)
class Move:
    """A block of code that moved from one place to another, possibly with edited lines in it.

    Line ranges count from 0, end excluded.
    """

    old: range
    new: range
    dedent: int
    """Columns by which the code moved to the left; negative to the right."""

    @property
    def indentation(self) -> str:
        """The change of indentation in words; empty if there is none."""
        if not self.dedent:
            return ""
        return f"{'dedented' if self.dedent > 0 else 'indented'} by {abs(self.dedent)}"

    def reindented(self, line: str) -> str:
        """An old line at its new indentation."""
        if not line.strip():
            return ""
        indent = len(line) - len(line.lstrip())
        return " " * (indent - self.dedent) + line.lstrip() if indent >= self.dedent else line


def find_moves(old: Outline, new: Outline, removed: Set[int], added: Set[int]) -> list[Move]:
    """Find the blocks of code that moved, in the order of the new text.

    Args:
        old: the text before.
        new: the text after.
        removed: lines of `old` that are not in `new` at their place.
        added: lines of `new` that were not in `old` at their place.

    Returns:
        disjoint blocks, all of whose lines are in `removed` and `added`.
    """
    free_old, free_new = set(removed), set(added)
    runs = []
    while run := max(_runs(old, new, free_old, free_new), key=lambda r: _weight(old, r), default=None):
        if _weight(old, run) < MIN_WEIGHT:
            break
        runs.append(run)
        free_old.difference_update(run.old)
        free_new.difference_update(run.new)
    runs.sort(key=lambda run: run.new.start)
    blocks: list[Move] = []
    for run in runs:
        if blocks and _continues(blocks[-1], run, free_old, free_new):
            run = Move(range(blocks[-1].old.start, run.old.stop), range(blocks[-1].new.start, run.new.stop), run.dedent)
            blocks.pop()
        blocks.append(run)
        free_old.difference_update(run.old)
        free_new.difference_update(run.new)
    return [_widened(block, old, new, free_old, free_new) for block in blocks]


def _runs(old: Outline, new: Outline, removed: Set[int], added: Set[int]) -> Iterator[Move]:
    """All maximal runs of consecutive lines that are equal except for a common indentation; they may overlap."""
    places = defaultdict(list)
    for j in sorted(added):
        places[new.lines[j].strip()].append(j)
    seen: set[tuple[int, int]] = set()
    for i in sorted(removed):
        if not old.lines[i].strip():
            continue
        for j in places[old.lines[i].strip()]:
            if (i, j) in seen:
                continue
            dedent = _indent(old.lines[i]) - _indent(new.lines[j])
            length = 0
            while (
                i + length in removed
                and j + length in added
                and _equal(old.lines[i + length], new.lines[j + length], dedent)
            ):
                seen.add((i + length, j + length))
                length += 1
            while not old.lines[i + length - 1].strip():
                length -= 1
            yield Move(range(i, i + length), range(j, j + length), dedent)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _equal(old: str, new: str, dedent: int) -> bool:
    return old.strip() == new.strip() and (not old.strip() or _indent(old) - _indent(new) == dedent)


def _weight(old: Outline, run: Move) -> int:
    return sum(weight(old.lines[i]) for i in run.old)


def _continues(block: Move, run: Move, free_old: set[int], free_new: set[int]) -> bool:
    """Whether `run` continues the code of `block` after a few changed lines."""
    old_gap = range(block.old.stop, run.old.start)
    new_gap = range(block.new.stop, run.new.start)
    return (
        block.old.stop <= run.old.start
        and block.dedent == run.dedent
        and len(old_gap) <= MAX_GAP
        and len(new_gap) <= MAX_GAP
        and free_old.issuperset(old_gap)
        and free_new.issuperset(new_gap)
    )


def _widened(block: Move, old: Outline, new: Outline, free_old: set[int], free_new: set[int]) -> Move:
    """Extend the block at both ends by edited or rewrapped statements, as long as both texts have similar ones."""
    for forward in (False, True):
        while True:
            before = _next_unit(old, block.old, forward)
            after = _next_unit(new, block.new, forward)
            if not (before and after and free_old.issuperset(before) and free_new.issuperset(after)):
                break
            if not _is_version(old, before, new, after, block.dedent):
                break
            free_old.difference_update(before)
            free_new.difference_update(after)
            block = Move(_spanning(block.old, before), _spanning(block.new, after), block.dedent)
    return block


def _next_unit(outline: Outline, lines: range, forward: bool) -> range:
    """The statement after (or before) some lines; empty at either end of the text."""
    line = lines.stop if forward else lines.start - 1
    return outline.unit_range(line) if 0 <= line < len(outline.lines) else range(0)


def _is_version(old: Outline, before: range, new: Outline, after: range, dedent: int) -> bool:
    """Whether one statement is a version of the other in the same place of the block."""
    first, second = old.lines[before.start], new.lines[after.start]
    return (
        bool(first.strip())
        and _indent(first) - _indent(second) == dedent
        and similarity(" ".join(old.lines[i] for i in before), " ".join(new.lines[j] for j in after)) >= SIMILAR
    )


def _spanning(one: range, other: range) -> range:
    return range(min(one.start, other.start), max(one.stop, other.stop))
