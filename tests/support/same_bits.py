"""Bitwise equality of the results of environment steps."""

from typing import Any

import numpy as np


def same(left: Any, right: Any) -> bool:
    """Whether types, dtypes, shapes and bits are equal."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left if key != "t")
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) or hasattr(left, "__array__"):
        left, right = np.asarray(left), np.asarray(right)
        alike = left.dtype == right.dtype and left.shape == right.shape
        objects = left.dtype == object
        return alike and (all(map(same, left.flat, right.flat)) if objects else left.tobytes() == right.tobytes())
    return bool(left == right)
