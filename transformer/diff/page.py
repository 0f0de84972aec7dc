"""The HTML page: a single file that shows a conversion step by step, without network access."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Literal

import jinja2
from markupsafe import Markup, escape

from transformer.conversion.result import Applied, Conversion, Skipped, Step
from transformer.conversion.together import ONE_FILE
from transformer.conversion.told import Left, as_told, counts, depending, in_general, left_as_it_was
from transformer.diff.blame import Origin, blame
from transformer.diff.compare import Departure, Diff, Row, Stats, compare
from transformer.diff.folding import Fold, fold
from transformer.diff.highlight import html_line
from transformer.diff.moves import Move
from transformer.diff.outline import name_lines, outline
from transformer.diff.story import Chapter, chapters
from transformer.diff.verified import Verified
from transformer.syntax.diagnostics import Excerpt, excerpts

CONTEXT = 4
"""Unchanged lines shown around each change."""

PACKAGES = ("lean-convert", "torch", "tensordict", "numpy", "gymnasium", "gym", "envpool")
"""The packages whose versions are shown, if they are installed."""

_INLINE_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Side:
    """One version of a line."""

    number: int
    code: Markup


@dataclass(frozen=True)
class RowView:
    """A table row; a side is None if the line is only in the other state."""

    css: str
    old: Side | None
    new: Side | None


@dataclass(frozen=True)
class MoveView:
    """A block of moved code, with the page fragments of both places."""

    here: str
    there: str
    old: str
    new: str
    indentation: str
    changed: int
    total: int
    departed: bool


@dataclass(frozen=True)
class Segment:
    """Consecutive rows: a hunk, a block of moved code, folded lines, or the old place of moved code."""

    kind: Literal["rows", "move", "fold", "departure"]
    rows: tuple[RowView, ...] = ()
    move: MoveView | None = None
    lines: str = ""
    """For a fold, the indices of its lines in the line table, as ranges: `0-17,25-30`."""
    old: int = 0
    new: int = 0
    count: int = 0
    """For a fold, its first line numbers and its length."""
    scope: str = ""
    """For a fold, the function in which the code continues."""


@dataclass(frozen=True)
class StepView:
    """One transform's section."""

    step: Step
    number: int | None
    """The number among the applied transforms, from 1; None if the transform was not applied."""
    stats: Stats | None
    """None if the transform was not applied."""
    reason: str
    left_out: str
    """Why the transform was not applied, in two words; empty if it was."""
    is_left: bool
    """Whether the transform might have been applied, but left the script as it was, and no alternative applied."""
    places: tuple[Excerpt, ...]
    """The lines of the original that the reason mentions."""
    costs: str
    """The cost of leaving the script as it was; empty if the transform was applied."""
    notes: tuple[str, ...]
    lines_before: int
    lines_after: int
    segments: tuple[Segment, ...]

    @property
    def id(self) -> str:
        """The URL fragment of this step."""
        return f"step-{self.step.transform.name}"


@dataclass(frozen=True)
class WholeLine:
    """A line of the converted script with its history."""

    number: int
    code: Markup
    origin: Origin
    first: bool
    """Whether the line's transform differs from that of the line above."""
    history: str
    """The origin as a sentence."""


@dataclass
class _LineTable:
    """The lines that folds hide, each stored only once even if several steps hide it."""

    numbers: dict[Markup, int] = field(default_factory=dict)

    def ranges(self, lines: Sequence[Markup]) -> str:
        """Add lines that the table lacks, and return the indices of all given lines as ranges."""
        ranges: list[list[int]] = []
        for line in lines:
            number = self.numbers.setdefault(line, len(self.numbers))
            if ranges and ranges[-1][1] == number - 1:
                ranges[-1][1] = number
            else:
                ranges.append([number, number])
        return ",".join(f"{first}-{last}" for first, last in ranges)


def render_page(conversion: Conversion, script: str, verified: Verified | None = None) -> str:
    """Render the page of a successful conversion.

    Args:
        conversion: the conversion.
        script: the script's name, as a title.
        verified: the result of a verification of this conversion.

    Returns:
        the text of a self-contained HTML file.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("transformer.templates", "page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = _prose
    before, after = outline(conversion.original), outline(conversion.source)
    table = _LineTable()
    told = left_as_it_was(conversion)
    first = {name: one for one in told for name in one.names}
    steps = [_as_told(s, first) for s in _step_views(conversion, table) if not _is_unasked(s.step)]
    left = [s for s in steps if s.is_left and s.step.transform.name in first]
    return environment.get_template("page.html.j2").render(
        script=script,
        steps=steps,
        applied=[s for s in steps if s.stats],
        noted=[
            (s.transform.name, note)
            for s in conversion.steps
            if isinstance(s.outcome, Applied)
            for note in s.outcome.lesser_notes
        ],
        left=left,
        told=told,
        depending=depending(conversion),
        headlines=conversion.headlines,
        others=[s for s in steps if not s.stats and s not in left],
        counts=counts(conversion),
        total=compare(conversion.original, conversion.source).stats,
        lines_before=len(before.lines),
        lines_after=len(after.lines),
        original=[Side(i + 1, html_line(before, i)) for i in range(len(before.lines))],
        whole=list(_whole(conversion)),
        warnings=conversion.warnings,
        verified=verified,
        versions=versions(),
        line_table=list(table.numbers),
    )


def versions() -> dict[str, str]:
    """The versions of Python, the system, and the packages that matter to the script."""
    found = {"Python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _step_views(conversion: Conversion, table: _LineTable) -> list[StepView]:
    told = {chapter.name: chapter for chapter in chapters(conversion)}
    views = []
    for step in conversion.steps:
        chapter, outcome = told.get(step.transform.name), as_told(conversion, step).outcome
        skipped = outcome if isinstance(outcome, Skipped) else None
        is_left = skipped is not None and skipped.left_as_it_was
        reason = skipped.reason if skipped is not None else ""
        views.append(
            StepView(
                step=step,
                number=chapter.number if chapter else None,
                stats=chapter.diff.stats if chapter else None,
                reason=reason,
                left_out=skipped.kind if skipped is not None else "",
                is_left=is_left,
                places=tuple(excerpts(conversion.original, reason)) if is_left else (),
                costs=in_general(step.transform.costs) if is_left else "",
                notes=chapter.notes if chapter else (),
                lines_before=len(outline(step.before).lines),
                lines_after=len(outline(step.after).lines),
                segments=tuple(_segments(chapter, table)) if chapter else (),
            )
        )
    return views


def _as_told(view: StepView, told: Mapping[str, Left]) -> StepView:
    """A view with the reason that is reported for its transform and the alternative ones together, if there is one."""
    one = told.get(view.step.transform.name)
    return view if one is None else replace(view, reason=one.reason, places=one.places, costs=one.costs)


def _is_unasked(step: Step) -> bool:
    """Whether a transform was not requested: its option was not given, or it was left out by name."""
    return isinstance(step.outcome, Skipped) and not step.outcome.chosen


def _segments(chapter: Chapter, table: _LineTable) -> Iterator[Segment]:
    diff = chapter.diff
    moves = {move: _move(chapter, k, move) for k, move in enumerate(diff.moves, 1)}
    for key, group in groupby(fold(diff.entries, CONTEXT, within_moves=False), key=_segment_key):
        entries = list(group)
        if isinstance(key, Fold):
            yield _fold(diff, key, table)
        elif isinstance(key, Departure):
            yield Segment("departure", move=moves[key.move])
        else:
            rows = tuple(_row(diff, row) for row in entries if isinstance(row, Row))
            yield Segment("move", rows, moves[key]) if key else Segment("rows", rows)


def _segment_key(entry: Row | Departure | Fold) -> Move | Departure | Fold | None:
    return entry.move if isinstance(entry, Row) else entry


def _move(chapter: Chapter, number: int, move: Move) -> MoveView:
    rows = [row for row in chapter.diff.rows if row.move == move and row.new is not None]
    here = f"step-{chapter.name}-move-{number}"
    return MoveView(
        here=here,
        there=f"{here}-from",
        old=name_lines(move.old),
        new=name_lines(move.new),
        indentation=move.indentation,
        changed=sum(row.kind != "same" for row in rows),
        total=len(rows),
        departed=move in chapter.diff.departed,
    )


def _fold(diff: Diff, hidden: Fold, table: _LineTable) -> Segment:
    first, last = hidden.rows[0], hidden.rows[-1]
    assert first.old is not None and first.new is not None and last.new is not None
    hidden_lines = range(first.new, last.new + 1)
    return Segment(
        "fold",
        lines=table.ranges([html_line(diff.new, i) for i in hidden_lines]),
        old=first.old + 1,
        new=first.new + 1,
        count=len(hidden_lines),
        scope=diff.new.scopes[last.new],
    )


def _row(diff: Diff, row: Row) -> RowView:
    # A row is coloured as a whole; the spans mark only the changed words of its line.
    old = None if row.old is None else Side(row.old + 1, html_line(diff.old, row.old, row.old_spans, "del"))
    new = None if row.new is None else Side(row.new + 1, html_line(diff.new, row.new, row.new_spans, "ins"))
    return RowView("same" if row.kind == "same" else "changed", old, new)


def _whole(conversion: Conversion) -> Iterator[WholeLine]:
    after = outline(conversion.source)
    above: str | None = None
    for i, origin in enumerate(blame(conversion)):
        yield WholeLine(i + 1, html_line(after, i), origin, origin.transform != above, _history(origin))
        above = origin.transform


def _history(origin: Origin) -> str:
    """An origin as a sentence."""
    source = f"line {origin.original} of {origin.file or 'the original'}" if origin.original else ""
    if origin.file and origin.touched == ONE_FILE.name:
        return f"brought by {ONE_FILE.name}, from {source}"
    done = [f"{origin.touched} changed its words" if source else f"{origin.touched} wrote it"] if origin.touched else []
    if origin.moved:
        done.append(f"{origin.moved} moved it")
    if not done:
        return f"unchanged, from {source}"
    return ", ".join(filter(None, (*done, source and f"from {source}")))


def _prose(text: str) -> Markup:
    """Render `backticks` in a text as code."""
    return Markup(_INLINE_CODE.sub(r"<code>\1</code>", str(escape(text))))
