"""What the scripts put around it."""

from typing import Any

import gymnasium
import numpy as np


class ChannelFirstImageWrapper(gymnasium.ObservationWrapper):
    """Colours come first."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(0, 255, np.transpose(env.observation_space.low).shape, np.uint8)

    def observation(self, observation: Any) -> Any:
        return np.transpose(observation, (2, 0, 1))


class NormalizedImageWrapper(gymnasium.ObservationWrapper):
    """Pixels are between 0 and 1."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(0, 1, env.observation_space.shape, np.float32)

    def observation(self, observation: Any) -> Any:
        return (observation / 255).astype(np.float32)
