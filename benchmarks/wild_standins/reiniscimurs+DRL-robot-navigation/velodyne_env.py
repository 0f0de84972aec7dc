"""A robot in a world of random observations, in place of Gazebo."""

from __future__ import annotations

from typing import Any

import numpy as np


class GazeboEnv:
    """Gives a scan of the surroundings, and four numbers about the robot."""

    def __init__(self, launchfile: str, environment_dim: int) -> None:
        self.size, self.age, self.noise = environment_dim + 4, 0, np.random.default_rng(1)

    def reset(self) -> Any:
        """Begin an episode."""
        self.age = 0
        return self.noise.uniform(0, 10, self.size)

    def step(self, action: Any) -> Any:
        """Give the next observation; whether the robot has arrived stands last."""
        self.age += 1
        over = self.age % 11 == 0
        return self.noise.uniform(0, 10, self.size), float(np.cos(action).sum()), over, over
