"""The one filter that spinup's discounted sums use."""

from collections.abc import Sequence

import numpy as np


def lfilter(given: Sequence[float], fed_back: Sequence[float], values: np.ndarray, axis: int) -> np.ndarray:
    """The sums of a value and of `-fed_back[1]` times the sum before it."""
    sums, last = np.zeros(len(values)), 0.0
    for place, value in enumerate(values):
        sums[place] = last = given[0] * value - fed_back[1] * last
    return sums
