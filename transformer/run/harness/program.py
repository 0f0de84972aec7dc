"""The text that is executed in place of a script, and the facts about it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

SUMS = "SHA256SUMS"
"""The file with the digests of the other files, in the format of `sha256sum -c`."""


class Damaged(Exception):
    """A stored conversion is not what was written. The message names the file."""


def facts_file(text: Path) -> Path:
    """The file with the facts about a converted text, next to it."""
    return text.with_name(f"{text.name}.json")


@dataclass(frozen=True)
class Facts:
    """The facts about a converted text. Lines count from 1; the lists have one element per line of the text."""

    origins: list[int | None] = field(default_factory=list)
    """For each line, the line of the original that it comes from; None if a transform wrote it."""
    transforms: list[str | None] = field(default_factory=list)
    """For each line, the transform that wrote it; None if it comes from the original."""
    options: dict[str, str] = field(default_factory=dict)
    """The flags of the text and their spelling: {"compile": "--compile", ...}."""
    loop: int | None = None
    """The first line of the training loop; None if not known."""
    counter: str | None = None
    """The expression for the number of environment steps; None if there is none."""
    another_order: bool = False
    """Whether minibatches come in another order than in the original with the same seed."""
    headlines: list[str] = field(default_factory=list)
    """Which part of the training is not compiled, and why, one sentence each."""
    taken: list[str] = field(default_factory=list)
    """What makes the text faster besides its flags, in words."""
    files: list[str | None] = field(default_factory=list)
    """The files of the lines in `origins`; None for the script. Empty if no files were given with the script."""

    @staticmethod
    def from_json(data: bytes) -> Facts:
        """Read facts from the bytes of a file."""
        return Facts(**json.loads(data))

    def to_json(self) -> bytes:
        """The facts as the bytes of a file."""
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True)
class Program:
    """A text to be executed as a script."""

    text: Path
    """The file with the text: the script itself, or its conversion."""
    source: bytes
    facts: Facts = field(default_factory=Facts)


def files_of(program: Program) -> dict[Path, bytes]:
    """The files of a conversion with their content: its text, its facts, and the digests of both."""
    files = {program.text: program.source, facts_file(program.text): program.facts.to_json()}
    return {**files, program.text.with_name(SUMS): _sums(files)}


def checked(text: Path, source: bytes, facts: bytes, sums: bytes) -> Program:
    """The program, made from the contents of its files.

    Raises:
        Damaged: a file does not match its digest, or the digests are incomplete.
    """
    expected = _sums({text: source, facts_file(text): facts})
    if sums != expected:
        wrong = [x.rpartition(b" ")[2].decode() for x in expected.splitlines() if x not in sums.splitlines()]
        raise Damaged(f"{text.with_name(wrong[0] if len(wrong) == 1 else SUMS)} is not what was written")
    return Program(text, source, Facts.from_json(facts))


def _sums(files: dict[Path, bytes]) -> bytes:
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {file.name}\n" for file, data in files.items()).encode()
