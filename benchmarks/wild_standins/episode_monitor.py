"""A wrapper that tells the sum of an episode's rewards; nothing is written down."""

import importlib
import sys
from typing import Any

gym = importlib.import_module("gymnasium" if "gymnasium" in sys.modules and "gym" not in sys.modules else "gym")


class Monitor(gym.Wrapper):  # type: ignore[name-defined, misc]
    """Puts `episode` into the last info, with the return `r` and the length `l`."""

    def __init__(self, env: Any, *_: Any, **__: Any) -> None:
        super().__init__(env)
        self.rewards: list[float] = []

    def reset(self, **kwargs: Any) -> Any:
        self.rewards = []
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> Any:
        observation, reward, *ends, info = self.env.step(action)
        self.rewards.append(float(reward))
        if any(ends):
            info = dict(info, episode={"r": sum(self.rewards), "l": len(self.rewards)})
        return observation, reward, *ends, info
