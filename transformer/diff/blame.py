"""For each line of a converted script, where it came from and which transform touched it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from transformer.conversion.result import Conversion
from transformer.diff.outline import outline
from transformer.diff.story import chapters


@dataclass(frozen=True)
class Origin:
    """The history of one line of the converted script."""

    original: int | None
    """The line of the original (from 1) that this line descends from; None if a transform wrote it."""
    touched: str | None = None
    """The last transform that wrote the line or changed its words; None if the words are the original's."""
    moved: str | None = None
    """The last transform that moved the line, or changed its indentation, since its words last changed."""
    line: int | None = None
    """The line number (from 1) in the state after the last of these transforms, if there is one."""
    file: str = ""
    """The file, given with the script, that `original` is a line of; "" for the script itself."""

    @property
    def transform(self) -> str | None:
        """The last transform that wrote, changed or moved the line."""
        return self.moved or self.touched


def blame(conversion: Conversion) -> tuple[Origin, ...]:
    """Trace every line of the converted script back through the states, including moves; one origin per line."""
    origins = [Origin(number) for number, _ in enumerate(outline(conversion.original).lines, 1)]
    for chapter in chapters(conversion):
        after: dict[int, Origin] = {}
        for row in chapter.diff.rows:
            if row.new is None:
                continue
            before = Origin(None) if row.old is None else origins[row.old]
            if row.kind != "same":
                after[row.new] = Origin(before.original, chapter.name, line=row.new + 1, file=before.file)
            elif row.move:
                after[row.new] = replace(before, moved=chapter.name, line=row.new + 1)
            else:
                after[row.new] = before
        origins = [after[k] for k in range(len(after))]
        if chapter.number == 1 and conversion.brought:
            origins = [
                replace(origin, original=line, file=file) if file else origin
                for origin, (file, line) in zip(origins, conversion.brought, strict=True)
            ]
    return tuple(origins)
