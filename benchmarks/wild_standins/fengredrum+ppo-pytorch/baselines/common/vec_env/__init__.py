"""Vector environments."""

from __future__ import annotations

from typing import Any


class VecEnvWrapper:
    """Around another vector environment; what is derived from it defines `reset`, `step_async` and `step_wait`."""

    def __init__(self, venv: Any) -> None:
        self.venv, self.num_envs = venv, venv.num_envs
        self.observation_space, self.action_space = venv.observation_space, venv.action_space

    def step(self, actions: Any) -> Any:
        """Step all."""
        self.step_async(actions)  # type: ignore[attr-defined]
        return self.step_wait()  # type: ignore[attr-defined]

    def close(self) -> None:
        """Close them."""
        self.venv.close()
