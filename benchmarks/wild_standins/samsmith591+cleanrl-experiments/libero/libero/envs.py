"""A robot's arm and what lies around it: observations by their names, four values of a step."""

from typing import Any

import numpy as np

LENGTH = 11
SIZES = {"robot0_proprio-state": 39, "object-state": 28, "robot0_eef_pos": 3}


class OffScreenRenderEnv:
    """Random states; an episode ends after eleven steps."""

    def __init__(self, bddl_file_name: str, **_: Any) -> None:
        self.noise, self.age = np.random.default_rng(0), 0

    def _observations(self) -> dict[str, Any]:
        return {name: self.noise.uniform(-1, 1, size) for name, size in SIZES.items()}

    def seed(self, seed: int) -> None:
        """Begin the noise anew."""
        self.noise = np.random.default_rng(seed)

    def reset(self) -> dict[str, Any]:
        """Begin an episode."""
        self.age = 0
        return self._observations()

    def set_init_state(self, state: Any) -> dict[str, Any]:
        """Begin with this state of the simulator."""
        return self._observations()

    def step(self, action: Any) -> Any:
        """Move the arm by seven numbers."""
        self.age += 1
        return self._observations(), float(np.cos(action).sum()), self.age == LENGTH, {}

    def close(self) -> None:
        """Nothing is open."""


DenseRewardEnv = OffScreenRenderEnv
