"""A stand-in for isaacgymenvs: carts on rails, simulated in torch tensors on the device.

As in isaacgymenvs, rewards and dones are buffers that the next step changes in place, dones are int64, and an
environment that is done is reset in the next step. If the variable STANDIN_NO_HOST is set, tensors that come from the
environment, and all tensors computed from them, refuse to be copied to the host.
"""

import os

import gym
import numpy as np
import torch


class OnDevice(torch.Tensor):
    """A tensor that stays on its device."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if getattr(function, "__name__", "") in ("cpu", "numpy", "__array__"):
            raise RuntimeError(f"a tensor of the environment is copied to the host by {function.__name__}()")
        return super().__torch_function__(function, types, args, kwargs or {})


class VecTask:
    """`num_envs` carts: observations {"obs": (num_envs, 6) float32}, actions (num_envs, 2) float32 in [-1, 1]."""

    metadata = {"render.modes": ["human", "rgb_array"]}
    reward_range = (-float("inf"), float("inf"))
    spec = None

    def __init__(self, seed, num_envs, device):
        self.num_envs = num_envs
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (6,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._generator = torch.Generator(device).manual_seed(seed)
        self._kind = OnDevice if os.environ.get("STANDIN_NO_HOST") else torch.Tensor
        self.obs_buf = torch.zeros(num_envs, 6, device=device)
        self.rew_buf = self._given(torch.zeros(num_envs, device=device))
        self.reset_buf = self._given(torch.ones(num_envs, device=device, dtype=torch.long))
        self.progress_buf = torch.arange(num_envs, device=device)
        self.extras = {}

    @property
    def unwrapped(self):
        return self

    def _given(self, tensor):
        return tensor.as_subclass(self._kind)

    def _observe(self):
        return {"obs": self._given(torch.clamp(self.obs_buf, -5.0, 5.0))}

    def reset(self):
        return self._observe()

    def step(self, actions):
        actions = actions.clamp_(-1.0, 1.0).as_subclass(torch.Tensor)
        over = self.reset_buf.as_subclass(torch.Tensor).bool()
        noise = torch.rand(self.num_envs, 6, generator=self._generator, device=self.obs_buf.device)
        self.obs_buf[over] = noise[over] - 0.5
        self.progress_buf[over] = 0
        self.obs_buf[:, 2:4] += 0.1 * actions
        self.obs_buf[:, :2] += 0.1 * self.obs_buf[:, 2:4]
        self.progress_buf += 1
        away = self.obs_buf[:, :2].abs().sum(1)
        self.rew_buf[:] = 1.0 - away
        self.reset_buf[:] = (away > 2.0) | (self.progress_buf >= 9)
        self.extras["time_outs"] = self._given(self.progress_buf >= 9)
        return self._observe(), self.rew_buf, self.reset_buf, self.extras


def make(
    seed, task, num_envs, sim_device, rl_device, graphics_device_id=-1, headless=False, multi_gpu=False,
    virtual_screen_capture=False, force_render=True,
):  # fmt: skip
    return VecTask(seed, num_envs, rl_device)
