"""Patches for `git apply`, `patch` and `git am`; they work on bytes, so that the result is exact."""

from __future__ import annotations

import binascii
import difflib
import io
import os
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from transformer.conversion.result import Conversion
from transformer.diff.story import Chapter, chapters

AUTHOR = "lean-convert <lean-convert@localhost>"

_ESCAPES = {"\a": "a", "\b": "b", "\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r", '"': '"', "\\": "\\"}


@dataclass(frozen=True)
class Patch:
    """One transform's change as a mail for `git am`."""

    filename: str
    mail: bytes


def unified(before: bytes, after: bytes, name: str) -> bytes:
    """The unified diff of two versions of a file; empty if they are equal.

    Args:
        before: the old content.
        after: the new content.
        name: the file's path relative to where the patch will be applied, with slashes.
    """
    lines = difflib.diff_bytes(
        difflib.unified_diff,
        io.BytesIO(before).readlines(),
        io.BytesIO(after).readlines(),
        os.fsencode(_label(f"a/{name}")),
        os.fsencode(_label(f"b/{name}")),
    )
    body = b"".join(line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n" for line in lines)
    return os.fsencode(f"diff --git {_quoted(f'a/{name}')} {_quoted(f'b/{name}')}\n") + body if body else b""


def series(conversion: Conversion, name: str, encode: Callable[[str], bytes]) -> list[Patch]:
    """One patch per applied transform, for `git am` to apply in order.

    Args:
        conversion: a successful conversion.
        name: the script's path from the top of its repository, with slashes.
        encode: encodes a state's text like the script's file.
    """
    told = chapters(conversion)
    return [
        Patch(
            f"{chapter.number:04}-{chapter.name}.patch",
            _mail(chapter, len(told), unified(encode(chapter.step.before), encode(chapter.step.after), name)),
        )
        for chapter in told
    ]


def path_in_repository(script: Path) -> str:
    """The name of `script` in a patch: its path from the top of its git repository, or just its name outside of one."""
    script = script.resolve()
    for folder in script.parents:
        if (folder / ".git").exists():
            return script.relative_to(folder).as_posix()
    return script.name


def _mail(chapter: Chapter, total: int, patch: bytes) -> bytes:
    transform = chapter.step.transform
    paragraphs = [transform.safety, *chapter.notes]
    if transform.needs:
        paragraphs.append(f"Needs: {', '.join(transform.needs)}.")
    message = "\n\n".join(textwrap.fill(paragraph, 72) for paragraph in paragraphs)
    body = f"{message}\n---\n\n".encode() + patch
    transfer = "8bit"
    if b"\r" in body:
        # Mail programs, including git's, remove carriage returns that are not encoded.
        transfer = "quoted-printable"
        body = b"".join(binascii.b2a_qp(line, istext=False) + b"\n" for line in body.removesuffix(b"\n").split(b"\n"))
    headers = (
        # The line by which git marks and recognises the start of a mail.
        f"From {'0' * 40} Mon Sep 17 00:00:00 2001",
        f"From: {AUTHOR}",
        f"Subject: [PATCH {chapter.number:0{len(str(total))}}/{total}] {transform.name}: {transform.summary}",
        "MIME-Version: 1.0",
        "Content-Type: text/plain; charset=UTF-8",
        f"Content-Transfer-Encoding: {transfer}",
    )
    return "\n".join((*headers, "", "")).encode() + body


def _label(path: str) -> str:
    """A path in a `---` or `+++` line; a path with a space is ended by a tab."""
    quoted = _quoted(path)
    return f"{quoted}\t" if " " in quoted and quoted == path else quoted


def _quoted(path: str) -> str:
    """A path as git writes it: in double quotes if it contains a character that would break the line."""
    if not any(c in _ESCAPES for c in path):
        return path
    return '"' + "".join(f"\\{_ESCAPES[c]}" if c in _ESCAPES else c for c in path) + '"'
