"""Similarity of code, and the words that differ between two versions of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]
"""Start and end column within a line, from 0, end excluded."""

_WORD = re.compile(r"\d[\w.]*|\w+|->|\*\*|//|[-+*/%&|^@=<>!:]=|[^\w\s]")

ISLAND = 3
"""Fewer equal characters than this between two changed words are marked too, such as a lone comma."""


@dataclass(frozen=True)
class _Word:
    text: str
    line: int
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@lru_cache(maxsize=16384)
def _weights(text: str) -> Counter[str]:
    """The number of characters of each distinct word in `text`, over all occurrences."""
    weights: Counter[str] = Counter()
    for word in _WORD.findall(text):
        weights[word] += len(word)
    return weights


def weight(text: str) -> int:
    """The number of letters, digits and underscores in `text`, which measures the significance of a match."""
    return sum(len(word) for word in re.findall(r"\w+", text))


def shared(old: str, new: str) -> int:
    """The number of characters in words common to both texts, in any order; whitespace does not count."""
    a, b = _weights(old), _weights(new)
    if len(a) > len(b):
        a, b = b, a
    return sum(min(n, b[word]) for word, n in a.items() if word in b)


def similarity(old: str, new: str) -> float:
    """The share of characters in common words, from 0 to 1; whitespace and order do not count."""
    total = _weights(old).total() + _weights(new).total()
    return 2 * shared(old, new) / total if total else 1.0


def changed_spans(old: Sequence[str], new: Sequence[str]) -> tuple[list[list[Span]], list[list[Span]]]:
    """Mark the words that differ between two versions of a piece of code.

    Whitespace is ignored, including line breaks, so a statement that was only rewrapped has no marks.

    Args:
        old: the lines of one version.
        new: the lines of the other.

    Returns:
        for each old line and each new line, the disjoint changed spans in order.
    """
    a, b = _words(old), _words(new)
    matcher = SequenceMatcher(None, [w.text for w in a], [w.text for w in b], autojunk=False)
    same_a: set[int] = set()
    same_b: set[int] = set()
    for start_a, start_b, size in matcher.get_matching_blocks():
        inside = start_a + start_b > 0 and start_a + start_b + 2 * size < len(a) + len(b)
        text = "".join(w.text for w in a[start_a : start_a + size])
        if not (inside and len(text) < ISLAND and not weight(text)):
            same_a.update(range(start_a, start_a + size))
            same_b.update(range(start_b, start_b + size))
    return _spans(a, same_a, len(old)), _spans(b, same_b, len(new))


def _words(lines: Sequence[str]) -> list[_Word]:
    return [_Word(m.group(), i, m.start()) for i, line in enumerate(lines) for m in _WORD.finditer(line)]


def _spans(words: list[_Word], same: set[int], lines: int) -> list[list[Span]]:
    """The changed words of each line, with neighbours joined across the white space between them."""
    spans: list[list[Span]] = [[] for _ in range(lines)]
    for i, word in enumerate(words):
        if i in same:
            continue
        row = spans[word.line]
        if row and i and i - 1 not in same:
            row[-1] = (row[-1][0], word.end)
        else:
            row.append((word.start, word.end))
    return spans
