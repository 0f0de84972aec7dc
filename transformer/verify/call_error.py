"""The error of one tensor in one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["output", "parameter change", "optimizer state"]


@dataclass(frozen=True)
class CallError:
    """The error of one tensor in one sampled call, relative to the eager function."""

    function: str
    call: int
    """Counts from 1."""
    replay: bool
    """Whether the call came after the warm-up."""
    kind: Kind
    name: str
    dtype: str
    values: int
    """Elements compared."""
    relative: float
    """L2 norm of the difference over that of the eager tensor; the largest difference for integers."""
    largest: float
    """Largest absolute difference of an element."""
