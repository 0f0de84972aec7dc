"""Pair two short pieces of code, statement by statement, by their similarity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TypeAlias

from transformer.diff.outline import Outline
from transformer.diff.words import shared, similarity

Piece: TypeAlias = tuple[Sequence[int], Sequence[int]]
"""The lines of an old statement and of its new version; one of them is empty if there is no counterpart."""

SIMILAR = 0.5
"""The minimum share of characters in common words for two texts to be versions of one text."""

MAX_PAIRS = 250_000
"""The maximum product of two lists' lengths for pairing: longer lists are different code, and pairing them is slow."""


def align_units(old: Outline, old_lines: Sequence[int], new: Outline, new_lines: Sequence[int]) -> Iterator[Piece]:
    """Pair the statements on some old lines with those on some new lines, in order; every line is yielded once.

    Comments and blank lines count as statements. Unpaired statements come before the next pair, removed ones first.
    """
    a, b = _units(old, old_lines), _units(new, new_lines)
    texts = [[" ".join(o.lines[i].strip() for i in unit) for unit in units] for o, units in ((old, a), (new, b))]
    i = j = 0
    for next_i, next_j in [*align_texts(*texts), (len(a), len(b))]:
        yield from ((unit, ()) for unit in a[i:next_i])
        yield from (((), unit) for unit in b[j:next_j])
        if next_i < len(a):
            yield a[next_i], b[next_j]
        i, j = next_i + 1, next_j + 1


def _units(outline: Outline, lines: Sequence[int]) -> list[list[int]]:
    return [list(unit) for _, unit in groupby(lines, key=lambda i: outline.units[i])]


def align_texts(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """The in-order pairs (old index, new index) of similar texts that have the most characters in common words."""
    n, m = len(old), len(new)
    if n * m > MAX_PAIRS:
        return []
    gain = {
        (i, j): shared(a, b) + (a == b)
        for i, a in enumerate(old)
        for j, b in enumerate(new)
        if a == b or similarity(a, b) >= SIMILAR
    }
    best = [[0] * (m + 1) for _ in range(n + 1)]
    for i in reversed(range(n)):
        for j in reversed(range(m)):
            best[i][j] = max(best[i + 1][j], best[i][j + 1])
            if (i, j) in gain:
                best[i][j] = max(best[i][j], gain[i, j] + best[i + 1][j + 1])
    pairs = []
    i = j = 0
    while i < n and j < m:
        if (i, j) in gain and best[i][j] == gain[i, j] + best[i + 1][j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs
