"""The allowed distance of a compiled function from the eager one; docs/verify.md has the reasons and measurements."""

from __future__ import annotations

from transformer.verify.call_error import CallError, Kind

TOLERANCES: dict[Kind, dict[str, float]] = {
    "output": {"float64": 1e-10, "float32": 1e-4, "float16": 2e-2, "bfloat16": 5e-2},
    "optimizer state": {"float64": 1e-8, "float32": 1e-3, "float16": 5e-2, "bfloat16": 1e-1},
    "parameter change": {"float64": 1e-8, "float32": 1e-3, "float16": 5e-2, "bfloat16": 3e-1},
}
"""Largest allowed relative error by kind and dtype. Whole numbers and booleans must be equal."""

LOGGED = 1e-3
"""Largest allowed relative error of a number logged in the first iteration."""
LOGGED_SMALL = 0.1
"""Logged numbers count as if they were at least this large: losses and divergences near zero are small differences of
larger numbers, and inherit their rounding errors."""


def tolerance(error: CallError) -> float:
    """The largest relative error that this comparison may have."""
    return TOLERANCES[error.kind].get(error.dtype, 0.0)


def within(error: CallError) -> bool:
    """Whether the comparison counts as equal."""
    return error.relative <= tolerance(error)
