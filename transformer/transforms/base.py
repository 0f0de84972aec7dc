"""What a transform is: a description, and a function from a state of the script to its new text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from transformer.state import State


class Skip(Exception):
    """Raised by a transform that leaves the script as it is; its message is the reason shown to the user."""


@dataclass(frozen=True)
class TransformInfo:
    """What is told of a transform everywhere: `--help`, `transforms`, `explain`, the diff view, docs/transforms.md."""

    name: str
    summary: str
    """One line, imperative, no full stop."""
    applies: str
    """The condition under which it is right, as the end of a sentence that begins with "Applies"."""
    safety: str
    """Why the results stay equal: a short paragraph."""
    needs: tuple[str, ...]
    """Names of the transforms that must be applied before it."""
    before: str
    after: str
    """A small before/after example, Python source."""
    regroups: str = ""
    """What it computes in another order of arithmetic on purpose, so that bits differ there under the flags; `verify`
    gives the script what the original's order gives, and compares all else bit by bit."""


@dataclass(frozen=True)
class Transform:
    """A transform: `apply` returns the new source, or raises :class:`Skip` with the reason.

    `apply` may append sentences to `state.notes` (facts for the reader) and findings to `state.warnings`.
    """

    info: TransformInfo
    apply: Callable[[State], str]
