"""DeepMind's control suite, with the repository's interface to it."""

from typing import Any

import gymnasium
import numpy as np
from noise_world import LENGTH, environment

Noise = environment(gymnasium, "Dict(position=Box(3), velocity=Box(4), image=Image(8, 8, 3))", "Box(2)")


class DeepMindControl(Noise):  # type: ignore[misc, valid-type]
    """Gives four values, and says in the observation where an episode begins and ends."""

    def __init__(self, name: str, action_repeat: int, seed: int) -> None:
        super().__init__()

    def reset(self, **_: Any) -> Any:
        observation, _ = super().reset()
        return observation | {"is_first": True, "is_last": False, "is_terminal": False}

    def step(self, action: Any) -> Any:
        observation, reward, _, _, _ = super().step(action)
        over = self.age % LENGTH == 0
        flags = {"is_first": False, "is_last": over, "is_terminal": False}
        return observation | flags, reward, over, {"discount": np.array(1, np.float32)}
