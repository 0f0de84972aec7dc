"""What a transform is: a description, and a function from a recognised script to an outcome and new source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from transformer.conversion.result import TransformInfo
from transformer.state import State


class Skip(Exception):
    """Raised by a transform that leaves the script as it is; its message is the reason shown to the user."""


@dataclass(frozen=True)
class Transform:
    """A transform: `apply` returns the new source, or raises :class:`Skip` with the reason.

    `apply` may append sentences to `script.notes` (facts for the reader) and findings to `script.warnings`.
    """

    info: TransformInfo
    apply: Callable[[State], str]
