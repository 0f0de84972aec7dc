"""The comment at the top of a converted script: the version that wrote it, the source, and a digest to detect edits.

It is added when the result is written, not by a transform. The digest covers the whole text except its own digits, so
it detects any edit, including edits of the line itself. Line ends do not count, because git and editors change them.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from urllib.parse import quote, unquote

DISTRIBUTION = "lean-convert"
NO_FILE = "<stdin>"
"""The source's name if it came from standard input; file names are quoted, so none can equal it."""
DIGITS = 12
"""The number of SHA-256's 64 digits that are kept: enough against accidents, and the line stays short."""

_HEADER = re.compile(
    r"(?:[ \t\f]*(?:#[^\r\n]*)?[\r\n])*?"  # other comments and blank lines
    r"# Converted by lean-convert (?P<version>\S+) from (?P<source>\S+?)"
    rf"(?:; digest of this file: |, sha256 )(?P<digest>[0-9a-f]{{{DIGITS}}})"  # the second form is from before 0.2
    r"(?![^\r\n])"
)
_LINE = re.compile(r"[^\r\n]*(\r\n|\r|\n)")
_COMMENT_OR_BLANK = re.compile(r"[ \t\f]*(?:#|[\r\n])")
_CODING = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*[-\w.]+", re.ASCII)


@dataclass(frozen=True)
class Header:
    """The content of the comment."""

    version: str
    """The version of lean-convert that wrote the script."""
    source: str
    """The quoted name of the file that was converted, or :data:`NO_FILE`."""
    digest: str
    """The first digits of the SHA-256 of the text as it was written."""
    line: int
    """The header's line number, from 1."""

    @property
    def source_name(self) -> str | None:
        """The name of the file that was converted; None for standard input."""
        return None if self.source == NO_FILE else unquote(self.source, errors="surrogateescape")


def find(content: str) -> Header | None:
    """The header of a converted script, whether or not it was edited since; None if there is none."""
    content = _canonical(content)
    found = _HEADER.match(content)
    if found is None:
        return None
    return Header(found["version"], found["source"], found["digest"], content.count("\n", 0, found.end()) + 1)


def quoted(script: Path | None) -> str:
    """The name of a script, without its folder, for the header: ASCII, and not mistakable for an encoding declaration.

    Args:
        script: the file; None for standard input.
    """
    return NO_FILE if script is None else quote(script.name, errors="surrogateescape")


def add(content: str, source: str, version: str | None = None) -> str:
    """Put the header above a converted script, below what must come first: `#!` and the encoding declaration (PEP 263).

    Args:
        content: the converted script, with line ends of any kind, without a byte order mark.
        source: the name of the original, as :func:`quoted` returns it.
        version: the version of lean-convert; if None, the running one.
    """
    top = _top(content)
    first = _LINE.match(content)
    before = f"{content[:top]}# Converted by lean-convert {version or running()} from {source}; digest of this file: "
    after = (first[1] if first else "\n") + content[top:]
    return before + _digest(before + after) + after


def is_unedited(content: str) -> bool:
    """Whether a text has a header and, apart from line ends, is unchanged since the header was written."""
    content = _canonical(content)
    found = _HEADER.match(content)
    return found is not None and _digest(content[: found.start("digest")] + content[found.end() :]) == found["digest"]


def without(content: str) -> str:
    """A script without its header, with `\\n` as line ends: equal for texts that differ only in these."""
    content = _canonical(content)
    found = _HEADER.match(content)
    if found is None:
        return content
    return content[: content.rfind("\n", 0, found.end()) + 1] + content[found.end() + 1 :]


def digest(content: str) -> str:
    """A digest of a script's text, the same with and without a header."""
    return hashlib.sha256(without(content).encode()).hexdigest()


def running() -> str:
    """The running version of lean-convert."""
    import importlib.metadata  # imported here because it also imports the email package

    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:  # run from a folder that was never installed
        return "unknown"


def _digest(content: str) -> str:
    return hashlib.sha256(_canonical(content).encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]


def _canonical(content: str) -> str:
    return content.replace("\r\n", "\n")


def _top(content: str) -> int:
    """The length of the lines that must come first."""
    top = 0
    for number, line in enumerate(islice(_LINE.finditer(content), 2)):
        if _CODING.match(line[0]) or (number == 0 and line[0].startswith("#!")):
            top = line.end()
        if not _COMMENT_OR_BLANK.match(line[0]):
            break
    return top
