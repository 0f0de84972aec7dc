"""Robots among people in PyBullet; the modules `env` of two of the repository's folders."""

from types import SimpleNamespace
from typing import Any

import numpy as np


class DrlVOEnv:
    """Some robots in one world: a world is reset when one of them is through."""

    name, num_actions, reach_num, collision_num = "noise", 2, 0, 0

    def __init__(self, config: Any) -> None:
        config.robots_num, config.n_steps, config.minibatch_size, config.n_epochs = 2, 8, 8, 1
        self.config, self.robots_num = config, config.robots_num
        self.size = getattr(config, "state_dim", 0) or config.observation_dim
        self.noise, self.age = np.random.default_rng(0), 0
        self.robots = [SimpleNamespace(laser_buffer=[]) for _ in range(self.robots_num)]

    def _observations(self) -> Any:
        for robot in self.robots:
            robot.laser_buffer.append(self.noise.uniform(0, 1, self.config.lidar_num).astype(np.float32))
        return self.noise.uniform(-1, 1, (self.robots_num, self.size)).astype(np.float32)

    def reset(self, tr: Any = None, te: Any = None, seed: int = 0) -> Any:
        """Begin anew."""
        return self._observations(), {}

    def step(self, actions: Any) -> Any:
        """Move all."""
        self.age += 1
        through = (self.age + np.arange(self.robots_num)) % 11 == 0
        return self._observations(), np.cos(actions).sum(-1), through, np.zeros_like(through), {}

    def close(self) -> None:
        """Nothing is open."""


VUCANavEnv = DrlVOEnv
