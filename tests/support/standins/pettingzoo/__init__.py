"""A stand-in for pettingzoo 1.18: parallel environments, in which all agents act at once."""

import gym
import numpy as np


class ParallelEnv:
    """Two agents see one (210, 160, 3) frame; the one that moves towards the ball gets a point, the other loses one."""

    possible_agents = ["first_0", "second_0"]
    metadata = {"render_modes": ["human", "rgb_array"]}

    def __init__(self):
        self.agents = list(self.possible_agents)
        self._random = np.random.default_rng(7)
        self._age = self._ball = 0

    def observation_space(self, agent):
        return gym.spaces.Box(0, 255, (210, 160, 3), np.uint8)

    def action_space(self, agent):
        return gym.spaces.Discrete(6)

    def _observe(self):
        frame = np.full((210, 160, 3), 20, np.uint8)
        frame[self._age * 9 : self._age * 9 + 9, self._ball * 20 : self._ball * 20 + 20] = 236
        return {agent: frame.copy() for agent in self.agents}

    def reset(self):
        self.agents = list(self.possible_agents)
        self._age, self._ball = 0, int(self._random.integers(0, 6))
        return self._observe()

    def step(self, actions):
        self._age += 1
        first, second = (int(actions[agent]) == self._ball for agent in self.agents)
        points = 2.0 * (first - second)
        over = self._age >= 20 or (points != 0 and self._age > 15)
        self._ball = int(self._random.integers(0, 6))
        rewards, dones = dict(zip(self.agents, (points, -points))), dict.fromkeys(self.agents, over)
        return self._observe(), rewards, dones, {agent: {} for agent in self.agents}

    def close(self):
        pass
