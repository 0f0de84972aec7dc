"""Plays episodes with a saved network, mostly by the action it rates best."""

import random
from typing import Any

import gymnasium as gym
import numpy as np
import torch


def evaluate(
    model_path: str,
    make_env: Any,
    env_id: str,
    eval_episodes: int,
    run_name: str,
    Model: Any,  # noqa: N803
    device: Any = "cpu",
    epsilon: float = 0.05,
    capture_video: bool = True,
) -> list[float]:
    """The returns of so many episodes."""
    env = gym.vector.SyncVectorEnv([make_env(env_id, 0, 0, False, run_name)])
    model = Model(env).to(device)
    model.load_state_dict(torch.load(model_path, map_location=device))
    returns: list[float] = []
    obs, _ = env.reset(seed=1)
    while len(returns) < eval_episodes:
        best = model(torch.Tensor(obs).to(device)).argmax(1).cpu().numpy()
        actions = np.array([env.single_action_space.sample()]) if random.random() < epsilon else best
        obs, *_, infos = env.step(actions)
        returns += [info["episode"]["r"] for info in infos.get("final_info", ()) if info and "episode" in info]
    return returns
