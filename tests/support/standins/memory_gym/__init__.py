"""A stand-in for memory_gym: the command is shown at the beginning of an episode and must be followed later."""

import gymnasium as gym
import numpy as np


class MortarMayhem(gym.Env):
    """Observations (84, 84, 3) uint8; episodes of up to 14 steps, a length that only the environment knows."""

    metadata = {"render_modes": ["rgb_array", "debug_rgb_array"], "render_fps": 4}

    def __init__(self, render_mode=None, grid=False):
        self.render_mode = render_mode
        self.observation_space = gym.spaces.Box(0, 255, (84, 84, 3), np.uint8)
        self.action_space = gym.spaces.Discrete(4) if grid else gym.spaces.MultiDiscrete([3, 3])

    def _observe(self):
        frame = np.full((84, 84, 3), 16 * self._age, np.uint8)
        if self._age < 3:
            frame[20:60, 20:60, 0] = 60 * self._command
        return frame

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.max_episode_steps = 14
        self._command, self._length = (int(self.np_random.integers(*bounds)) for bounds in ((0, 3), (9, 15)))
        self._age, self._rewards = 0, []
        return self._observe(), {}

    def step(self, action):
        self._age += 1
        self._rewards.append(float(self._age >= 3 and np.sum(action) % 3 == self._command))
        over = self._age >= self._length
        info = {"reward": sum(self._rewards), "length": len(self._rewards), "success": float(over)} if over else {}
        return self._observe(), self._rewards[-1], over, False, info


gym.register("MortarMayhem-v0", entry_point="memory_gym:MortarMayhem")
gym.register("MortarMayhem-Grid-v0", entry_point="memory_gym:MortarMayhem", kwargs={"grid": True})
