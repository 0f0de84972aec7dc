"""Environments stepped one after the other."""

from __future__ import annotations

from typing import Any

from stable_baselines3.common import vec_env


class DummyVecEnv(vec_env.DummyVecEnv):
    """Also in two parts."""

    def step_async(self, actions: Any) -> None:
        """Keep the actions."""
        self.actions = actions

    def step_wait(self) -> Any:
        """Step with them."""
        return self.step(self.actions)
