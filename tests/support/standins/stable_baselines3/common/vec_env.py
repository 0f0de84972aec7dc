"""Vector environments with the older interface: `reset()` gives observations, `step()` four values, infos in a list."""

from typing import Any

import numpy as np


class DummyVecEnv:
    """Steps environments of gym or gymnasium one after the other."""

    def __init__(self, env_fns: Any, **_: Any) -> None:
        self.envs = [make() for make in env_fns]
        self.num_envs = len(self.envs)
        self.observation_space, self.action_space = self.envs[0].observation_space, self.envs[0].action_space

    def reset(self) -> Any:
        results = [env.reset() for env in self.envs]
        return np.stack([np.asarray(r[0] if isinstance(r, tuple) else r) for r in results])

    def step(self, actions: Any) -> Any:
        observations, rewards, dones, infos = [], [], [], []
        for env, action in zip(self.envs, actions):
            observation, reward, *ends, info = env.step(action)
            if any(ends):
                info = dict(info, terminal_observation=observation)
                again = env.reset()
                observation = again[0] if isinstance(again, tuple) else again
            observations.append(np.asarray(observation))
            rewards.append(reward)
            dones.append(any(ends))
            infos.append(info)
        return np.stack(observations), np.array(rewards, np.float32), np.array(dones), infos

    def close(self) -> None:
        for env in self.envs:
            env.close()


SubprocVecEnv = DummyVecEnv


class VecNormalize:
    """Divides rewards by the standard deviation of the discounted returns; observations are left as they are."""

    def __init__(self, venv: Any, norm_obs: bool = True, norm_reward: bool = True, gamma: float = 0.99) -> None:
        self.venv, self.norm_reward, self.gamma = venv, norm_reward, gamma
        self.num_envs = venv.num_envs
        self.observation_space, self.action_space = venv.observation_space, venv.action_space
        self.returns, self.seen = np.zeros(venv.num_envs), [1.0]

    def reset(self) -> Any:
        self.returns[:] = 0
        return self.venv.reset()

    def step(self, actions: Any) -> Any:
        observations, rewards, dones, infos = self.venv.step(actions)
        self.old_reward = rewards
        self.returns = self.returns * self.gamma + rewards
        self.seen.append(float(np.square(self.returns).mean()))
        self.returns[dones] = 0
        if self.norm_reward:
            rewards = np.clip(rewards / np.sqrt(np.mean(self.seen) + 1e-8), -10, 10).astype(np.float32)
        return observations, rewards, dones, infos

    def get_original_reward(self) -> Any:
        return self.old_reward.copy()

    def close(self) -> None:
        self.venv.close()


def VecMonitor(venv: Any) -> Any:  # noqa: N802
    """Return the environments; nothing is recorded."""
    return venv
