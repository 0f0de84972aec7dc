"""Robots that play football in Isaac Gym: two teams of three, all tensors on the device."""

from typing import Any

import gym
import torch

TEAMS, ROBOTS = 2, 3


class VSS(gym.Env):
    """Random observations; an episode ends every eleventh step, every other one for lack of time."""

    num_obs, num_actions, num_envs, device = 52, 2, 6, "cpu"
    observation_space = gym.spaces.Box(-1, 1, (num_obs,))
    action_space = gym.spaces.Box(-1, 1, (num_actions,))

    def __init__(self, **_: Any) -> None:
        self.noise, self.age = torch.Generator().manual_seed(0), 0
        self.dof_velocity_buf = torch.zeros(self.num_envs, TEAMS, ROBOTS, 2)

    def _observation(self) -> Any:
        return torch.rand(self.num_envs, TEAMS, ROBOTS, self.num_obs, generator=self.noise)

    def reset(self, **_: Any) -> Any:
        """Begin all episodes."""
        return {"obs": self._observation()}

    def step(self, action: Any) -> Any:
        """Step all; the rewards have four parts."""
        self.age += 1
        over = (self.age + torch.arange(self.num_envs)) % 11 == 0
        infos = {
            "terminal_observation": self._observation(),
            "time_outs": (over & (self.age % 2 == 0)).long(),
            "progress_buffer": torch.full((self.num_envs,), self.age),
        }
        rewards = action.cos().sum(-1, keepdim=True).repeat(1, 1, 1, 4)
        return {"obs": self._observation()}, rewards, over.long(), infos
