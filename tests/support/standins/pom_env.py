"""A stand-in for the environment beside cleanrl's ppo_trxl: a sign to remember, in vector observations."""

import gymnasium as gym
import numpy as np


class PoMEnv(gym.Env):
    """Observations (3,) float32, two actions."""

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
        self.action_space = gym.spaces.Discrete(2)

    def _observe(self):
        shown = self._sign if self._age < 2 else 0.0
        return np.array([shown, self._position, -shown], dtype=np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self._sign, self._position, self._age = float(self.np_random.choice([-1, 1])), 0.0, 0
        return self._observe(), {}

    def step(self, action):
        self._age += 1
        self._position += 0.2 if action == 1 else -0.2
        over = abs(self._position) > 0.9
        return self._observe(), self._position * self._sign if over else -0.1, over, False, {}


gym.register("ProofofMemory-v0", entry_point="pom_env:PoMEnv", max_episode_steps=16)
