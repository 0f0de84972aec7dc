"""Pictures of sliding puzzles."""

from typing import Any

import gymnasium
import numpy as np
from noise_world import environment

from sliding_puzzles import wrappers

__all__ = ["wrappers"]


class SlidingPuzzle(environment(gymnasium, "Image(84, 84, 3)", "Discrete(4)")):  # type: ignore[misc]
    """A random picture at every step; `state` is the order of the pieces."""

    def __init__(self, seed: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.noise = np.random.default_rng(seed)
        self.state = self.noise.random(16).argsort()


gymnasium.register("SlidingPuzzle-v0", entry_point=SlidingPuzzle)
