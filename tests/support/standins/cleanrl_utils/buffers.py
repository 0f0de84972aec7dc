"""A replay buffer with the interface that cleanrl's scripts use: arrays in a ring, rows drawn by numpy's generator."""

from typing import NamedTuple

import numpy as np
import torch


class ReplayBufferSamples(NamedTuple):
    observations: torch.Tensor
    actions: torch.Tensor
    next_observations: torch.Tensor
    dones: torch.Tensor
    rewards: torch.Tensor


class ReplayBuffer:
    def __init__(self, buffer_size, observation_space, action_space, device="auto", n_envs=1, **options):
        self.size, self.n_envs, self.device = max(buffer_size // n_envs, 1), n_envs, device
        discrete = not hasattr(action_space, "high")
        rows = (self.size, n_envs)
        self.obs = np.zeros((*rows, *observation_space.shape), dtype=observation_space.dtype)
        self.next_obs = np.zeros_like(self.obs)
        shape = (1,) if discrete else action_space.shape
        self.actions = np.zeros((*rows, *shape), dtype=action_space.dtype if discrete else np.float32)
        self.rewards, self.dones = (np.zeros(rows, dtype=np.float32) for _ in range(2))
        self.place, self.full = 0, False

    def add(self, obs, next_obs, actions, rewards, dones, infos):
        i = self.place
        self.obs[i], self.next_obs[i] = np.array(obs), np.array(next_obs)
        self.actions[i] = np.array(actions).reshape(self.actions[i].shape)
        self.rewards[i], self.dones[i] = np.array(rewards), np.array(dones)
        self.place = (i + 1) % self.size
        self.full = self.full or self.place == 0

    def sample(self, count):
        rows = np.random.randint(0, self.size if self.full else self.place, size=count)
        envs = np.random.randint(0, self.n_envs, size=count)
        columns = (self.obs, self.actions, self.next_obs, self.dones[..., None], self.rewards[..., None])
        return ReplayBufferSamples(*(torch.tensor(column[rows, envs], device=self.device) for column in columns))
