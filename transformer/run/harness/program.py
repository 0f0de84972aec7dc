"""The text that is executed in a script's place, and what must be known of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

SUMS = "SHA256SUMS"
"""The file with the digests of the others beside it, as `sha256sum -c` reads it."""


class Damaged(Exception):
    """What is kept of a conversion is not what was written. The message says of which file."""


def facts_file(text: Path) -> Path:
    """The file beside a converted text that holds what is known of it."""
    return text.with_name(f"{text.name}.json")


@dataclass(frozen=True)
class Facts:
    """What is known of a converted text. Lines count from 1; the lists have an element for each line of the text."""

    origins: list[int | None] = field(default_factory=list)
    """The line of the original that it comes from; None where a transform wrote it."""
    transforms: list[str | None] = field(default_factory=list)
    """The transform that wrote it; None where it has an origin."""
    options: dict[str, str] = field(default_factory=dict)
    """The flags that it takes and how they are spelled: {"compile": "--compile", ...}."""
    loop: int | None = None
    """The line where the training loop begins; None where it is not known."""
    counter: str | None = None
    """The expression that holds the number of environment steps; None where there is none."""
    another_order: bool = False
    """Whether the minibatches of one seed come in another order than the original's."""
    headlines: list[str] = field(default_factory=list)
    """What of the training is not compiled, because of what, each a sentence."""
    taken: list[str] = field(default_factory=list)
    """What makes it faster beside its flags."""

    @staticmethod
    def from_json(data: bytes) -> Facts:
        """From the bytes of a file."""
        return Facts(**json.loads(data))

    def to_json(self) -> bytes:
        """As the bytes of a file."""
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True)
class Program:
    """A text to be executed as a script."""

    text: Path
    """The file that holds it: the script itself, or its conversion."""
    source: bytes
    facts: Facts = field(default_factory=Facts)


def files_of(program: Program) -> dict[Path, bytes]:
    """The files that hold a conversion, with their content: its text, its facts, and the digests of both."""
    files = {program.text: program.source, facts_file(program.text): program.facts.to_json()}
    return {**files, program.text.with_name(SUMS): _sums(files)}


def checked(text: Path, source: bytes, facts: bytes, sums: bytes) -> Program:
    """The program of the content of its files.

    Raises:
        Damaged: a file is not what the digests tell of it, or these are not whole themselves.
    """
    expected = _sums({text: source, facts_file(text): facts})
    if sums != expected:
        wrong = [x.rpartition(b" ")[2].decode() for x in expected.splitlines() if x not in sums.splitlines()]
        raise Damaged(f"{text.with_name(wrong[0] if len(wrong) == 1 else SUMS)} is not what was written")
    return Program(text, source, Facts.from_json(facts))


def _sums(files: dict[Path, bytes]) -> bytes:
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {file.name}\n" for file, data in files.items()).encode()
