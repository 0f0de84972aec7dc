"""The two functions of OpenCV that gym's image wrappers use."""

from types import SimpleNamespace
from typing import Any

import numpy as np

INTER_LINEAR, INTER_AREA = 1, 3
COLOR_RGB2GRAY = 7
ocl = SimpleNamespace(setUseOpenCL=lambda use: None)


def resize(image: Any, size: tuple[int, int], interpolation: int = INTER_AREA) -> Any:
    """Nearest-neighbour scaling; `size` is (width, height)."""
    rows = np.arange(size[1]) * image.shape[0] // size[1]
    columns = np.arange(size[0]) * image.shape[1] // size[0]
    return image[rows[:, None], columns]


def cvtColor(image: Any, code: int) -> Any:  # noqa: N802
    """The mean of the channels."""
    return image.mean(-1).astype(np.uint8)
