"""Terminal views of a conversion: all steps in one or two columns, statistics, and blame."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TypeAlias

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from transformer.conversion.result import Conversion, Skipped
from transformer.conversion.told import counts, left_as_it_was, unneeded
from transformer.diff.blame import Origin, blame
from transformer.diff.compare import Departure, Diff, Row, Stats
from transformer.diff.folding import Fold, fold
from transformer.diff.moves import Move
from transformer.diff.outline import name_lines, outline
from transformer.diff.story import Chapter
from transformer.diff.words import Span

SIDE_BY_SIDE_WIDTH = 120
"""The minimum width of a terminal for two columns of code."""

Line: TypeAlias = tuple[int, str, Sequence[Span], str]
"""One side of a row: line number from 1, text, changed spans, sign."""

NUMBERS = "Line numbers: left, of the text before a step, which is yours before the first; right, of the text after it."
STYLES = {"-": "red", "+": "green", ">": "cyan", " ": ""}
CHANGED_WORD = "bold reverse"


def print_story(
    console: Console, conversion: Conversion, told: Sequence[Chapter], *, context: int, side_by_side: bool
) -> None:
    """Print chapters: name, reason, needs and hunks of each; if all are printed, also which transforms were left out.

    Args:
        console: where to print.
        conversion: the conversion of the chapters.
        told: the chapters to print.
        context: unchanged lines shown around each change.
        side_by_side: old code left and new code right, if `console` is at least SIDE_BY_SIDE_WIDTH wide.
    """
    applied = sum(step.applied for step in conversion.steps)
    if applied > 1 and told:
        console.print(Text(NUMBERS, style="dim"))
        console.print()
    for chapter in told:
        _print_heading(console, chapter, applied)
        print_diff(console, chapter.diff, context=context, side_by_side=side_by_side)
        console.print()
    outcomes = {s.transform.name: s.outcome for s in conversion.steps if isinstance(s.outcome, Skipped)}
    held = {name: outcome for name, outcome in outcomes.items() if outcome.left_as_it_was}
    if len(told) == applied and held:
        _heading(console, Text("left as it was, because", style="bold"))
        for one in left_as_it_was(conversion):
            console.print(Text.assemble((", ".join(one.names), "bold"), f": {one.reason}"))
        for headline in conversion.headlines:
            console.print(Text(headline, style="bold"))
    if len(told) == applied and (names := unneeded(conversion)):
        console.print(Text(f"{counts(conversion, with_depending=False)}: {', '.join(names)}", style="dim"))


def print_diff(console: Console, diff: Diff, *, context: int, side_by_side: bool) -> None:
    """Print the comparison of two states; for the arguments, see :func:`print_story`."""
    two_columns = side_by_side and console.width >= SIDE_BY_SIDE_WIDTH
    move: Move | None = None
    for is_row, group in groupby(fold(diff.entries, context), key=lambda e: isinstance(e, Row)):
        if not is_row:
            for entry in group:
                if isinstance(entry, Departure):
                    _print_note(console, _departure(entry.move), "cyan")
                elif isinstance(entry, Fold):
                    _print_fold(console, diff, entry)
            continue
        rows = [entry for entry in group if isinstance(entry, Row)]
        for block, part in groupby(rows, key=lambda row: row.move):
            if block is not None and block != move:
                _print_note(console, _arrival(diff, block), "cyan")
            move = block
            for text in _two_columns(diff, list(part), console.width) if two_columns else _one_column(diff, list(part)):
                console.print(text, soft_wrap=True)


def print_stats(console: Console, told: Sequence[Chapter], total: Stats) -> None:
    """Print the number of lines that each transform, and the whole conversion, added, removed and moved."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("transform", no_wrap=True)
    for heading in ("added", "removed", "moved"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("what", overflow="fold")
    for name, stats, about in (
        *((c.name, c.diff.stats, c.step.brief) for c in told),
        ("total", total, "original to converted"),
    ):
        table.add_row(
            Text(name, style="bold"),
            Text(f"+{stats.added}", style="green" if stats.added else "dim"),
            Text(f"-{stats.removed}", style="red" if stats.removed else "dim"),
            Text(str(stats.moved), style="cyan" if stats.moved else "dim"),
            Text(about),
            end_section=name != "total",
        )
    console.print(table)


def print_blame(console: Console, conversion: Conversion) -> None:
    """Print the converted script, each line with the transform that last touched it and the line it came from."""
    origins = blame(conversion)
    lines = outline(conversion.source).lines
    names = max((len(_blamed(origin)) for origin in origins), default=0)
    digits = max((len(_source(origin)) for origin in origins), default=0)
    for number, (origin, line) in enumerate(zip(origins, lines, strict=True), 1):
        style = "green" if origin.touched else "cyan" if origin.moved else "dim"
        text = Text.assemble(
            (f"{_blamed(origin):<{names}}", style),
            (f" {_source(origin):>{digits}}", "dim"),
            (f" {number:>{len(str(len(lines)))}} │ ", "dim"),
        )
        console.print(text.append(line), soft_wrap=True)


def _source(origin: Origin) -> str:
    """The original line that a line comes from, with its file unless that is the script."""
    return f"{origin.file}:{origin.original}" if origin.file else str(origin.original or "")


def _blamed(origin: Origin) -> str:
    """The transform or transforms to show for a line."""
    if origin.touched and origin.moved:
        return f"{origin.touched}, moved: {origin.moved}"
    return f"moved: {origin.moved}" if origin.moved else origin.touched or ""


_LONGEST_RULE = 100


def _heading(console: Console, title: Text) -> None:
    """Print a title followed by a rule, which has a limited width if there is no terminal."""
    console.print(Rule(title, align="left", style="dim"), width=min(console.width, _LONGEST_RULE))


def _print_heading(console: Console, chapter: Chapter, applied: int) -> None:
    transform, stats = chapter.step.transform, chapter.diff.stats
    numbers: list[str | tuple[str, str]] = [(f"+{stats.added}", "green"), " ", (f"-{stats.removed}", "red")]
    if stats.moved:
        numbers += [" ", (f"{stats.moved} moved", "cyan")]
    title = Text.assemble((f"{chapter.number}/{applied} ", "dim"), (transform.name, "bold"), "  ", *numbers)
    _heading(console, title)
    console.print(Text(transform.summary, style="bold"))
    safe, cut = _beginning(transform.safety)
    more = (f" More: lean-convert explain {transform.name}", "dim") if cut else ""
    console.print(Text.assemble(("Safe: ", "dim"), safe, more))
    if transform.needs:
        console.print(Text.assemble(("Needs: ", "dim"), ", ".join(transform.needs)))
    for note in chapter.notes:
        console.print(Text.assemble(("Note: ", "dim"), note))
    console.print()


_SAID = 240
"""The maximum length of the safety note; its first sentence is always shown completely."""


def _beginning(text: str) -> tuple[str, bool]:
    """The first sentences of a text, and whether any are left out."""
    sentences = re.split(r"(?<=[.:]) (?=[A-Z])", text)
    said = sentences[0]
    for sentence in sentences[1:]:
        if len(said) + len(sentence) >= _SAID:
            return said, True
        said += f" {sentence}"
    return said, False


def _print_note(console: Console, note: str, style: str) -> None:
    console.print(Text(f"          {note}", style=f"{style} italic"), soft_wrap=True)


def _print_fold(console: Console, diff: Diff, entry: Fold) -> None:
    """Print the number of lines left out and, between hunks, the function of the next one."""
    last = entry.rows[-1]
    assert last.new is not None
    how = "moved unchanged" if last.move else "unchanged"
    scope = diff.new.scopes[last.new]
    inside = f"  {scope}" if scope and not last.move else ""
    _print_note(console, f"⋮ {len(entry.rows)} lines {how}{inside}", "dim")


def _departure(move: Move) -> str:
    """The note in the old place of a block of moved code."""
    return ", ".join(filter(None, (f"{name_lines(move.old)} moved to {name_lines(move.new)}", move.indentation)))


def _arrival(diff: Diff, move: Move) -> str:
    """The line above a block of moved code."""
    rows = [row for row in diff.rows if row.move == move and row.new is not None]
    same = sum(row.kind == "same" for row in rows)
    what = f"{same} unchanged" + (f", {len(rows) - same} changed" if same < len(rows) else "")
    where = f"moved from {name_lines(move.old)}" if move in diff.departed else name_lines(move.old)
    return f"{', '.join(filter(None, (where, move.indentation)))}: {what}"


def _one_column(diff: Diff, rows: Sequence[Row]) -> Iterator[Text]:
    """Rows as in a unified diff: in adjacent changes, old lines come before new ones."""
    digits = len(str(max(len(diff.old.lines), len(diff.new.lines))))
    for same, group in groupby(rows, key=lambda row: row.kind == "same"):
        part = list(group)
        if same:
            for row in part:
                assert row.old is not None and row.new is not None
                sign = ">" if row.move else " "
                numbers = f"{row.old + 1:>{digits}} {row.new + 1:>{digits}} "
                yield Text.assemble((numbers, "dim"), (f"{sign} {diff.new.lines[row.new]}", STYLES[sign]))
            continue
        blank = " " * digits
        for number, line, spans, sign in filter(None, (_old(diff, row) for row in part)):
            yield Text.assemble((f"{number:>{digits}} {blank} ", "dim"), _code(sign, line, spans))
        for number, line, spans, sign in filter(None, (_new(diff, row) for row in part)):
            yield Text.assemble((f"{blank} {number:>{digits}} ", "dim"), _code(sign, line, spans))


def _two_columns(diff: Diff, rows: Sequence[Row], width: int) -> Iterator[Text]:
    """Rows with the old line left and the new line right; long lines are wrapped."""
    digits = len(str(max(len(diff.old.lines), len(diff.new.lines))))
    room = (width - 3) // 2 - digits - 3
    for row in rows:
        left, right = (_cells(side, digits, room) for side in (_old(diff, row), _new(diff, row)))
        blank = Text(" " * (digits + 3 + room))
        for k in range(max(len(left), len(right))):
            line = Text.assemble(left[k] if k < len(left) else blank, (" │ ", "dim"))
            yield line.append(right[k]) if k < len(right) else line


def _cells(side: Line | None, digits: int, room: int) -> list[Text]:
    """One side of a row, cut into pieces of `room` columns."""
    if side is None:
        return []
    number, line, spans, sign = side
    code = _code(sign, line, spans)
    code.expand_tabs(4)
    pieces, start = [], 2
    for k, chunk in enumerate(chop_cells(code.plain[2:], room) or [""]):
        piece = Text.assemble((f"{number if k == 0 else '':>{digits}} ", "dim"), code[:2])
        piece.append(code[start : start + len(chunk)])
        start += len(chunk)
        piece.append(" " * (room - cell_len(chunk)))
        pieces.append(piece)
    return pieces


def _old(diff: Diff, row: Row) -> Line | None:
    if row.old is None:
        return None
    sign = "-" if row.kind != "same" else ">" if row.move else " "
    return row.old + 1, diff.old.lines[row.old], row.old_spans, sign


def _new(diff: Diff, row: Row) -> Line | None:
    if row.new is None:
        return None
    sign = "+" if row.kind != "same" else ">" if row.move else " "
    return row.new + 1, diff.new.lines[row.new], row.new_spans, sign


def _code(sign: str, line: str, spans: Sequence[Span]) -> Text:
    """A line after its sign, with the changed words marked."""
    text = Text(f"{sign} {line}", STYLES[sign])
    for start, end in spans:
        text.stylize(CHANGED_WORD, start + 2, end + 2)
    return text
