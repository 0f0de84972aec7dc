"""Lines of Python as HTML: syntax in colour, changed words marked, everything else escaped."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from html import escape
from typing import TypeAlias

from markupsafe import Markup
from pygments.lexers import PythonLexer
from pygments.token import Token, _TokenType

from transformer.diff.outline import Outline
from transformer.diff.words import Span

Colour: TypeAlias = tuple[int, int, str]
"""Start and end column within a line, and the CSS class of the text there."""

CLASSES = (
    (Token.Comment, "c"),
    (Token.String.Doc, "c"),
    (Token.String.Interpol, ""),
    (Token.String, "s"),
    (Token.Keyword, "k"),
    (Token.Operator.Word, "k"),
    (Token.Number, "n"),
    (Token.Name.Function, "d"),
    (Token.Name.Class, "d"),
    (Token.Name.Decorator, "d"),
    (Token.Name.Builtin, "b"),
)
"""The CSS class of each kind of token; the first match decides. Other tokens have none, which keeps the page small."""

_LEXER = PythonLexer(stripnl=False, ensurenl=False)


def html_line(outline: Outline, line: int, spans: Sequence[Span] = (), mark: str = "ins") -> Markup:
    """One line of a script as HTML.

    Args:
        outline: the script.
        line: the line's index, from 0.
        spans: its changed words.
        mark: the element to put around these: `ins` or `del`.
    """
    unit = outline.unit_range(line)
    code = tuple(outline.lines[unit.start : unit.stop])
    return _html(code, line - unit.start, tuple(spans), mark)


@lru_cache(maxsize=16384)
def _html(unit: tuple[str, ...], line: int, spans: tuple[Span, ...], mark: str) -> Markup:
    """A line of a statement; cached, because lines recur in every state of a script."""
    text, colours = unit[line], _colours(unit)[line]
    parts: list[str] = []
    at = 0
    for start, end in spans:
        parts += (_coloured(text, at, start, colours), f"<{mark}>", _coloured(text, start, end, colours), f"</{mark}>")
        at = end
    parts.append(_coloured(text, at, len(text), colours))
    return Markup("".join(parts))


def _coloured(text: str, start: int, end: int, colours: Sequence[Colour]) -> str:
    """A part of a line, escaped, with its colours."""
    parts: list[str] = []
    at = start
    for first, last, css in colours:
        first, last = max(first, start), min(last, end)
        if first < last:
            parts += (escape(text[at:first]), f'<span class="{css}">', escape(text[first:last]), "</span>")
            at = last
    parts.append(escape(text[at:end]))
    return "".join(parts)


@lru_cache(maxsize=16384)
def _colours(unit: tuple[str, ...]) -> tuple[tuple[Colour, ...], ...]:
    """The colours of each line of a statement; cached, because statements recur in every state."""
    colours: list[list[Colour]] = [[] for _ in unit]
    row = column = 0
    for kind, value in _LEXER.get_tokens("\n".join(unit)):
        css = _css(kind)
        for k, part in enumerate(value.split("\n")):
            if k:
                row, column = row + 1, 0
            if css and part:
                before = colours[row]
                joined = before.pop()[0] if before and before[-1][1:] == (column, css) else column
                before.append((joined, column + len(part), css))
            column += len(part)
    return tuple(map(tuple, colours))


@lru_cache(maxsize=256)
def _css(kind: _TokenType) -> str:
    return next((css for parent, css in CLASSES if parent in kind.split()), "")
