"""What the scripts put around the game."""

from typing import Any

import gymnasium
import numpy as np


class RewardConverter(gymnasium.RewardWrapper):
    """Gives a small reward for nothing."""

    def __init__(self, env: Any, blank: float) -> None:
        super().__init__(env)
        self.blank = blank

    def reward(self, reward: Any) -> Any:
        return reward or self.blank


class SnakeActionMask(gymnasium.Wrapper):
    """Says which moves are possible."""

    def reset(self, **kwargs: Any) -> Any:
        observation, info = self.env.reset(**kwargs)
        return observation, info | {"action_mask": np.array([1, 1, 1, 0], np.int8)}

    def step(self, action: Any) -> Any:
        *rest, info = self.env.step(action)
        return *rest, info | {"action_mask": np.array([1, 0, 1, 1], np.int8)}
