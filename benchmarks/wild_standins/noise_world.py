"""Environments of random observations, of whatever spaces a script asks for.

Spaces are written as `Box(6)` (within -1 and 1), `Image(84, 84, 3)` (bytes), `Discrete(4)`, `MultiDiscrete(3, 2)`,
`Dict(image=Image(7, 7, 3), direction=Discrete(4))` and `Tuple(Box(2), Discrete(3))`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

LENGTH = 11
"""Steps of an episode."""

_made = itertools.count()


def space(gym: ModuleType, text: str) -> Any:
    """The space of gym or gymnasium that `text` describes."""
    kinds = gym.spaces
    return eval(
        text,
        {
            "Box": lambda *shape: kinds.Box(-1.0, 1.0, shape, np.float32),
            "Image": lambda *shape: kinds.Box(0, 255, shape, np.uint8),
            "Discrete": kinds.Discrete,
            "MultiDiscrete": lambda *sizes: kinds.MultiDiscrete(list(sizes)),
            "Dict": lambda **parts: kinds.Dict(parts),
            "Tuple": lambda *parts: kinds.Tuple(parts),
        },
    )


def sample(space: Any, noise: np.random.Generator) -> Any:
    """One element; the generators of the space itself stay as they are."""
    parts = getattr(space, "spaces", None)
    if isinstance(parts, (list, tuple)):
        return tuple(sample(part, noise) for part in parts)
    if parts is not None:
        return {name: sample(part, noise) for name, part in parts.items()}
    if hasattr(space, "nvec"):
        return noise.integers(0, space.nvec)
    if hasattr(space, "n"):
        return noise.integers(0, space.n)
    if space.dtype == np.uint8:
        return noise.integers(0, 255, space.shape, np.uint8)
    return noise.uniform(-1, 1, space.shape).astype(space.dtype)


def total(action: Any) -> float:
    """A number that follows from an action: the reward."""
    if isinstance(action, dict):
        return sum(total(action[key]) for key in sorted(action))
    if isinstance(action, (tuple, list)):
        return sum(map(total, action))
    return float(np.sum(np.cos(np.asarray(action))))


def environment(gym: ModuleType, observations: str, actions: str, infos: Sequence[str] = ()) -> type:
    """A class of environments; one of gym gives `done`, one of gymnasium `terminated` and `truncated`.

    Its infos hold numbers of these names.
    """
    pair = gym.__name__ == "gymnasium"

    class Noise(gym.Env):  # type: ignore[name-defined, misc]
        """Random observations; an episode ends after eleven steps."""

        metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array", "human"], "render_fps": 30}

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.observation_space, self.action_space = space(gym, observations), space(gym, actions)
            self.render_mode = kwargs.get("render_mode")
            self.noise, self.age = np.random.default_rng(next(_made)), 0

        def reset(self, *, seed: int | None = None, options: Any = None, **_: Any) -> Any:
            """Begin an episode."""
            self.age = 0
            observation = sample(self.observation_space, self.noise)
            return (observation, {}) if pair else observation

        def step(self, action: Any) -> Any:
            """Give the next observation."""
            self.age += 1
            ends = (self.age % LENGTH == 0, False) if pair else (self.age % LENGTH == 0,)
            return sample(self.observation_space, self.noise), total(action), *ends, self._infos()

        def _infos(self) -> dict[str, Any]:
            return {name: float(self.age % 3 == i % 3) for i, name in enumerate(infos)}

        def seed(self, seed: int | None = None) -> None:
            """Leave the noise as it is."""

        def get_action_meanings(self) -> list[str]:
            """Names of actions, as of a game of Atari."""
            return ["NOOP", "FIRE", "RIGHT", "LEFT"]

        @property
        def ale(self) -> Any:
            """What is asked for the lives that are left."""
            return self

        def lives(self) -> int:
            """One, as in other worlds."""
            return 1

        def render(self, *_: Any, **__: Any) -> Any:
            """A black picture."""
            return np.zeros((8, 8, 3), np.uint8)

    return Noise


class Batch:
    """Many environments in one, as packages of their own have them: arrays go in and come out.

    Gives `observations, rewards, terminated, truncated, infos`, or with `pair` off `..., dones, infos`.
    """

    def __init__(self, gym: ModuleType, num_envs: int, observations: str, actions: str, *, pair: bool = True) -> None:
        self.num_envs, self.pair, self.age = num_envs, pair, 0
        self.single_observation_space = self.observation_space = space(gym, observations)
        self.single_action_space = self.action_space = space(gym, actions)
        self.noise = np.random.default_rng(next(_made))

    def _observations(self) -> Any:
        return np.stack([sample(self.single_observation_space, self.noise) for _ in range(self.num_envs)])

    def reset(self, **_: Any) -> Any:
        """Begin all episodes."""
        observations = self._observations()
        return (observations, {}) if self.pair else observations

    def step(self, actions: Any) -> Any:
        """Step all; their episodes end one after the other."""
        self.age += 1
        rewards = np.array([total(action) for action in actions], np.float32)
        over = (self.age + np.arange(self.num_envs)) % LENGTH == 0
        ends = (over, np.zeros_like(over)) if self.pair else (over,)
        return self._observations(), rewards, *ends, {}

    def render(self) -> Any:
        """A black picture."""
        return np.zeros((8, 8, 3), np.uint8)

    def close(self) -> None:
        """Nothing is open."""
