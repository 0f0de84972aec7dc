"""Whether two numbers are the same, and how far apart they are if not."""

from __future__ import annotations

import math
import struct

from transformer.verify.numpy_later import np
from transformer.verify.recording import Array


def same_number(a: float, b: float) -> bool:
    """Whether two float64 have the same bits; all NaNs count as the same."""
    return struct.pack("<d", a) == struct.pack("<d", b) or (math.isnan(a) and math.isnan(b))


def distance(a: float, b: float) -> float:
    """|a - b|; infinite if only one is NaN, or if infinities differ."""
    return float(distances(np.float64(a), np.float64(b)))


def differing(x: Array, y: Array) -> Array:
    """Which elements of two arrays of one dtype and shape differ in their bits: bool, same shape; NaN equals NaN."""
    width = x.dtype.itemsize
    raw = np.ascontiguousarray(x).view(np.uint8) != np.ascontiguousarray(y).view(np.uint8)
    different: Array = raw.reshape(*x.shape, width).any(-1)
    if x.dtype.kind == "f":
        different &= ~(np.isnan(x) & np.isnan(y))
    return different


def distances(x: Array | np.float64, y: Array | np.float64) -> float:
    """The largest |x - y| over elements that differ: infinite if only one is NaN, or if infinities differ."""
    with np.errstate(all="ignore"):
        apart = np.abs(np.asarray(x, np.float64) - np.asarray(y, np.float64))
    return float(np.where(np.isnan(apart), np.inf, apart).max())
