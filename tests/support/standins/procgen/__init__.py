"""A stand-in for procgen: the brightness of frames shows the right action; with the vector API of gym 0.23."""

import gym
import numpy as np


class ProcgenEnv:
    """`num_envs` levels; observations {"rgb": (num_envs, 64, 64, 3) uint8}, float32 rewards, bool dones."""

    metadata = {"render.modes": ["human", "rgb_array"]}
    reward_range = (-float("inf"), float("inf"))
    spec = None

    def __init__(self, num_envs, env_name, num_levels=0, start_level=0, distribution_mode="hard", rand_seed=0):
        self.num_envs = num_envs
        frame = gym.spaces.Box(0, 255, (64, 64, 3), np.uint8)
        self.observation_space = gym.spaces.Dict({"rgb": frame})
        self.action_space = gym.spaces.Discrete(15)
        self._random = np.random.default_rng([rand_seed, start_level, *env_name.encode()])
        self._age = self._random.integers(0, 9, num_envs)
        self._level = self._random.integers(0, 15, num_envs)

    @property
    def unwrapped(self):
        return self

    def _observe(self):
        frames = np.zeros((self.num_envs, 64, 64, 3), np.uint8)
        frames += (self._level * 16)[:, None, None, None].astype(np.uint8)
        frames[:, ::8, ::8, 0] = self._age[:, None, None]
        return {"rgb": frames}

    def reset(self):
        return self._observe()

    def step(self, actions):
        rewards = (np.asarray(actions) % 15 == self._level).astype(np.float32)
        self._age += 1
        dones = self._age >= 12
        infos = [{"level_seed": int(level), "prev_level_complete": int(d)} for level, d in zip(self._level, dones)]
        self._level = np.where(self._random.random(self.num_envs) < 0.3, self._random.integers(0, 15), self._level)
        self._age[dones] = 0
        return self._observe(), rewards, dones, infos

    def close(self):
        pass
