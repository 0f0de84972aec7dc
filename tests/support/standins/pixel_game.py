"""A game of pixels under an Atari name, and the wrappers that cleanrl's Atari scripts use.

The same classes serve gym (`done`, one result of `reset`) and gymnasium (`terminated, truncated`, two).
"""

from types import ModuleType
from typing import Any

import numpy as np

ID = "BreakoutNoFrameskip-v4"
HEIGHT, WIDTH, PADDLE, LIVES = 210, 160, 32, 3


def register(gym: ModuleType) -> None:
    """Register the game in gym or gymnasium."""
    pair = gym.__name__ == "gymnasium"

    class Catch(gym.Env):  # type: ignore[name-defined, misc]
        """A ball falls, and the paddle at the bottom catches it or loses a life."""

        metadata = {"render_modes": ["rgb_array"], "render_fps": 60}
        observation_space = gym.spaces.Box(0, 255, (HEIGHT, WIDTH, 3), np.uint8)
        action_space = gym.spaces.Discrete(4)

        def __init__(self, render_mode: str | None = None) -> None:
            self.render_mode = render_mode
            self.ale = self
            self.left = 0

        def lives(self) -> int:
            """The lives left, for `env.unwrapped.ale.lives()`."""
            return self.left

        def get_action_meanings(self) -> list[str]:
            """Names of the actions."""
            return ["NOOP", "FIRE", "RIGHT", "LEFT"]

        def seed(self, seed: int | None = None) -> list[int]:
            """Seed the game, for scripts that were written for gym but import gymnasium."""
            self._np_random, used = gym.utils.seeding.np_random(seed)
            return [used]

        def reset(self, *, seed: int | None = None, options: Any = None, **_: Any) -> Any:
            """Begin a game."""
            super().reset(seed=seed)
            self.left, self.paddle = LIVES, WIDTH // 2
            self._drop()
            return (self._frame(), {"lives": self.left}) if pair else self._frame()

        def step(self, action: int) -> Any:
            """Move the paddle and let the ball fall."""
            self.paddle = int(np.clip(self.paddle + (0, 0, 3, -3)[int(action)], 0, WIDTH - PADDLE))
            self.y += 5
            reward, over = 0.0, False
            if self.y >= HEIGHT - 10:
                caught = self.paddle <= self.x < self.paddle + PADDLE
                reward = 4.0 if caught else 0.0
                self.left -= not caught
                over = self.left == 0
                self._drop()
            ends = (over, False) if pair else (over,)
            return self._frame(), reward, *ends, {"lives": self.left}

        def render(self, *_: Any, **__: Any) -> Any:
            """The frame."""
            return self._frame()

        def _drop(self) -> None:
            self.x, self.y = int(self.np_random.random() * (WIDTH - 8)), 10

        def _frame(self) -> Any:
            frame = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
            frame[self.y : self.y + 8, self.x : self.x + 8] = 200
            frame[HEIGHT - 8 :, self.paddle : self.paddle + PADDLE] = (80, 120, 255)
            return frame

    gym.register(ID, entry_point=Catch) if pair else gym.envs.register(ID, entry_point=Catch)


def wrappers(gym: ModuleType) -> dict[str, Any]:
    """The wrappers by name, over the classes of gym or gymnasium."""

    def observed(result: Any, observation: Any) -> Any:
        """The result of `reset`, with another observation."""
        return (observation, result[1]) if isinstance(result, tuple) else observation

    class NoopResetEnv(gym.Wrapper):  # type: ignore[name-defined, misc]
        def __init__(self, env: Any, noop_max: int = 30) -> None:
            super().__init__(env)
            self.noop_max = noop_max

        def reset(self, **kwargs: Any) -> Any:
            result = self.env.reset(**kwargs)
            for _ in range(1 + int(self.unwrapped.np_random.random() * self.noop_max)):
                observation, _, *ends, _ = self.env.step(0)
                result = self.env.reset(**kwargs) if any(ends) else observed(result, observation)
            return result

    class FireResetEnv(gym.Wrapper):  # type: ignore[name-defined, misc]
        def reset(self, **kwargs: Any) -> Any:
            result = self.env.reset(**kwargs)
            observation, _, *ends, _ = self.env.step(1)
            return self.env.reset(**kwargs) if any(ends) else observed(result, observation)

    class EpisodicLifeEnv(gym.Wrapper):  # type: ignore[name-defined, misc]
        lives, over = 0, True

        def step(self, action: Any) -> Any:
            observation, reward, *ends, info = self.env.step(action)
            self.over = any(ends)
            left = self.env.unwrapped.ale.lives()
            ends[0] = ends[0] or 0 < left < self.lives
            self.lives = left
            return observation, reward, *ends, info

        def reset(self, **kwargs: Any) -> Any:
            if self.over:
                result = self.env.reset(**kwargs)
            else:
                observation, _, *ends, info = self.env.step(0)
                pair = len(ends) == 2
                result = self.env.reset(**kwargs) if any(ends) else (observation, info) if pair else observation
            self.lives = self.env.unwrapped.ale.lives()
            return result

    class MaxAndSkipEnv(gym.Wrapper):  # type: ignore[name-defined, misc]
        def __init__(self, env: Any, skip: int = 4) -> None:
            super().__init__(env)
            self.skip = skip

        def step(self, action: Any) -> Any:
            total, before, observation = 0.0, None, None
            for _ in range(self.skip):
                before = observation
                observation, reward, *ends, info = self.env.step(action)
                total += float(reward)
                if any(ends):
                    break
            frame = observation if before is None else np.maximum(before, observation)
            return frame, total, *ends, info

    class ClipRewardEnv(gym.RewardWrapper):  # type: ignore[name-defined, misc]
        def reward(self, reward: Any) -> Any:
            return float(np.sign(reward))

    return {c.__name__: c for c in (NoopResetEnv, FireResetEnv, EpisodicLifeEnv, MaxAndSkipEnv, ClipRewardEnv)}
