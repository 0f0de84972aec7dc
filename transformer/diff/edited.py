"""Find the edits in a converted script by converting its source again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer.conversion.of_file import convert_script
from transformer.conversion.result import Conversion
from transformer.syntax import header, text


class NotKnown(Exception):
    """The converted text cannot be reconstructed; the message says why, and what to do."""


@dataclass(frozen=True)
class Edited:
    """A converted script as it was written and as it is now, both with the header and the line ends of the file."""

    written: str
    found: text.Text

    @property
    def unedited(self) -> bool:
        """Whether the file is unchanged since it was written."""
        return self.written == self.found.content


def read_edited(file: Path, script: str | None, **selection: Any) -> Edited | Conversion:
    """Read a converted script, and convert its source again to reconstruct what was written.

    Args:
        file: the converted script.
        script: its source as the user names it; None for the file named in the header, next to `file`.
        selection: arguments of `convert`, as given for the conversion.

    Returns:
        the text as written and as it is now, or the refused conversion of the source.

    Raises:
        NotKnown: the file has no header, or its source is missing or gives another text.
        OSError: a file cannot be read.
        SelectionError: the selection is impossible.
    """
    try:
        found = text.read(file)
    except text.NotText as error:
        raise NotKnown(f"{file}: {error}") from None
    head = header.find(found.content)
    if head is None:
        raise NotKnown(f"{file} does not begin with the header that lean-convert writes")
    if header.is_unedited(found.content):
        return Edited(found.content, found)
    source = _source_beside(file, head) if script is None else script
    _, conversion = convert_script(source, **selection)
    if not conversion.converted:
        return conversion
    written = header.add(conversion.source, head.source, head.version)
    again = header.find(written)
    if again is None or again.digest != head.digest:
        running = header.running()
        other = "" if head.version == running else f", by version {head.version}, this is {running}"
        raise NotKnown(
            f"{source} does not convert to the original text of {file}{other}: it has changed since, or other "
            "transforms were chosen. Give the source of that time (`-` reads standard input), with the same options"
        )
    return Edited(text.with_line_ends_of(found.content, written), found)


def _source_beside(file: Path, head: header.Header) -> str:
    """The file that `head` names, in the folder of `file`.

    Raises:
        NotKnown: there is no such file.
    """
    if head.source_name is None:
        raise NotKnown(f"{file} was converted from standard input: give its source as SCRIPT")
    source = file.parent / head.source_name
    if not source.is_file() or source.samefile(file):
        raise NotKnown(f"{file} was converted from {head.source}, which is not next to it: give its source as SCRIPT")
    return str(source)
