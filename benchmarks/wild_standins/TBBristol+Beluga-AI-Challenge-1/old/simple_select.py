"""Choosing a rack for a part: one environment that gives tensors, and whose actions may be forbidden."""

from typing import Any

import gymnasium
import torch
from noise_world import environment

Noise = environment(gymnasium, "Box(5, 8)", "Discrete(6)")


class Beluga_rack_stack(Noise):  # type: ignore[misc, valid-type]
    """Every other action is possible, and the first one always."""

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, _ = super().step(action)
        return torch.from_numpy(observation), reward, terminated, truncated, []

    def get_possible_actions(self) -> list[int]:
        """Their numbers."""
        return [0, 2, 4]

    def get_action_mask(self, possible: list[int]) -> Any:
        """One where an action is possible."""
        return torch.tensor([float(i in possible) for i in range(6)])
