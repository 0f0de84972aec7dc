"""The distances between a fast function's tensors and the eager function's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from .tensors import dtype_name
from .trees import named_values

SMALL = 0.1
"""Results count as if they were at least this large (root mean square): losses and divergences near zero are small
differences of larger numbers, and inherit their rounding errors."""


class Error(NamedTuple):
    """The distance of one tensor from the expected one."""

    name: str
    dtype: str
    values: int
    """Elements compared."""
    relative: float
    """L2 norm of the difference over that of the expected tensor; the largest difference for integers and booleans."""
    largest: float
    """The largest absolute difference of an element."""


def errors(result: Any, expected: Any, name: str, *, grain: float = 0.0, small: float = 0.0) -> Iterator[Error]:
    """One error for each tensor, array and number in two results of the same structure.

    A difference of up to `grain` per element counts as rounding and is ignored. The expected value counts as at least
    `small` (root mean square). NaNs in the same place are equal. A NaN on one side only gives an infinite error, as do
    different shapes, dtypes or numbers of tensors.
    """
    ours, theirs = dict(named_values(result, name)), dict(named_values(expected, name))
    for path in {**ours, **theirs}:
        a, b = ours.get(path), theirs.get(path)
        if a is None or b is None or a.shape != b.shape or a.dtype != b.dtype:
            there = b if b is not None else a
            assert there is not None
            yield Error(path, dtype_name(there), there.numel(), math.inf, math.inf)
        elif b.numel():
            yield _error(path, a.detach(), b.detach(), grain, small)


def _error(path: str, a: torch.Tensor, b: torch.Tensor, grain: float, small: float) -> Error:
    x, y = a.double().cpu(), b.double().cpu()
    apart = torch.where((x == y) | (x.isnan() & y.isnan()), 0.0, (x - y).abs())
    apart = torch.where(apart.isnan(), math.inf, (apart - grain).clamp(min=0.0))
    largest = apart.max().item()
    relative = largest
    if b.is_floating_point() and 0 < largest < math.inf:
        size = max(torch.where(y.isfinite(), y, 0.0).norm().item(), small * y.numel() ** 0.5)
        relative = apart.norm().item() / size if size else math.inf
    return Error(path, dtype_name(b), b.numel(), relative, largest)
