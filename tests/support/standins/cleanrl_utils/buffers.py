"""A replay buffer with the interface that cleanrl's scripts use: ring buffers; numpy's generator draws rows."""

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
    def __init__(
        self,
        buffer_size,
        observation_space,
        action_space,
        device="auto",
        n_envs=1,
        optimize_memory_usage=False,
        handle_timeout_termination=True,
    ):
        self.buffer_size, self.n_envs, self.device = max(buffer_size // n_envs, 1), n_envs, device
        self.in_one, self.handles_timeouts = optimize_memory_usage, handle_timeout_termination
        discrete = not hasattr(action_space, "high")
        rows = (self.buffer_size, n_envs)
        self.observations = np.zeros((*rows, *observation_space.shape), dtype=observation_space.dtype)
        self.next_observations = None if self.in_one else np.zeros_like(self.observations)
        shape = (1,) if discrete else action_space.shape
        self.actions = np.zeros((*rows, *shape), dtype=action_space.dtype if discrete else np.float32)
        self.rewards, self.dones, self.timeouts = (np.zeros(rows, dtype=np.float32) for _ in range(3))
        self.pos, self.full = 0, False

    def add(self, obs, next_obs, actions, rewards, dones, infos):
        i = self.pos
        after = (i + 1) % self.buffer_size
        self.observations[i] = np.array(obs)
        if self.in_one:
            self.observations[after] = np.array(next_obs)
        else:
            self.next_observations[i] = np.array(next_obs)
        self.actions[i] = np.array(actions).reshape(self.actions[i].shape)
        self.rewards[i], self.dones[i] = np.array(rewards), np.array(dones)
        if self.handles_timeouts and isinstance(infos, (list, tuple)):
            self.timeouts[i] = [info.get("TimeLimit.truncated", False) for info in infos]
        self.pos = after
        self.full = self.full or after == 0

    def size(self):
        return self.buffer_size if self.full else self.pos

    def sample(self, count):
        if self.in_one and self.full:  # the row to write next has the observation after the newest step
            rows = (np.random.randint(1, self.buffer_size, size=count) + self.pos) % self.buffer_size
        else:
            rows = np.random.randint(0, self.size(), size=count)
        envs = np.random.randint(0, self.n_envs, size=count)
        after = (
            self.observations[(rows + 1) % self.buffer_size, envs]
            if self.in_one
            else self.next_observations[rows, envs]
        )
        dones, rewards = self.dones[rows, envs] * (1 - self.timeouts[rows, envs]), self.rewards[rows, envs]
        columns = (self.observations[rows, envs], self.actions[rows, envs], after, dones[:, None], rewards[:, None])
        return ReplayBufferSamples(*(torch.tensor(column, device=self.device) for column in columns))
