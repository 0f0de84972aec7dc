"""Lets a script run whose environment or packages are not to be had; Python imports this where it is on PYTHONPATH.

A module that cannot be found is made up: whatever is asked of it exists, can be called, derived from and entered, and
does nothing. An environment that gym or gymnasium cannot make is stood in for by one of random observations, whose
spaces follow from the script: `WILD_ACTIONS` and `WILD_OBSERVATIONS` say which.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
from types import ModuleType
from typing import Any, ClassVar


class Anything:
    """An object that has every attribute, and whose every call gives another such object."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take whatever is given."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Take whatever a class statement gives."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Another such object; a decorated function as it is."""
        function = args[0] if len(args) == 1 and not kwargs else None
        return function if isinstance(function, type) or hasattr(function, "__code__") else Anything()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *args: object) -> None:
        """Nothing is entered, so nothing is left."""

    def __iter__(self) -> Any:
        return iter(())

    def __bool__(self) -> bool:
        return False


class Module(ModuleType):
    """A module that has every attribute: a class where the name is written like one."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = type(name, (Anything,), {}) if name[:1].isupper() else Anything()
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Comes last, and finds every module that `WILD_MISSING` names, and what lies below."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """A made-up module."""
        if name.partition(".")[0] in os.environ.get("WILD_MISSING", "").split():
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """An empty one."""
        return Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is in it."""


def stand_in(gym: ModuleType) -> None:
    """Have `make` fall back on an environment of random observations."""
    import numpy as np

    make, pair = gym.make, gym.__name__ == "gymnasium"
    spaces = {
        "vector": gym.spaces.Box(-1.0, 1.0, (6,), np.float32),
        "image": gym.spaces.Box(0, 255, (84, 84, 3), np.uint8),
        "continuous": gym.spaces.Box(-1.0, 1.0, (2,), np.float32),
        "discrete": gym.spaces.Discrete(4),
        "multidiscrete": gym.spaces.MultiDiscrete([3, 2]),
    }

    class Noise(gym.Env):  # type: ignore[name-defined, misc]
        """Random observations; the reward follows from the action, an episode ends after eleven steps."""

        metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 30}
        observation_space = spaces[os.environ.get("WILD_OBSERVATIONS", "vector")]
        action_space = spaces[os.environ.get("WILD_ACTIONS", "discrete")]

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.render_mode = kwargs.get("render_mode")
            self.noise, self.age = np.random.default_rng(0), 0

        def _observation(self) -> Any:
            space = self.observation_space
            if space.dtype == np.uint8:
                return self.noise.integers(0, 255, space.shape, np.uint8)
            return self.noise.uniform(-1, 1, space.shape).astype(np.float32)

        def reset(self, *, seed: int | None = None, options: Any = None, **_: Any) -> Any:
            """Begin an episode."""
            self.age = 0
            return (self._observation(), {}) if pair else self._observation()

        def step(self, action: Any) -> Any:
            """Give the next observation."""
            self.age += 1
            reward = float(np.sum(np.cos(action)))
            ends = (self.age % 11 == 0, False) if pair else (self.age % 11 == 0,)
            return self._observation(), reward, *ends, {}

        def seed(self, seed: int | None = None) -> None:
            """Begin the noise anew."""

        def render(self, *_: Any, **__: Any) -> Any:
            """A black picture."""
            return np.zeros((8, 8, 3), np.uint8)

    def made(*args: Any, **kwargs: Any) -> Any:
        try:
            return make(*args, **kwargs)
        except Exception:  # whatever keeps it from being made
            name = str(args[0] if args else kwargs.get("id"))
            if "NoFrameskip" in name or name.startswith("ALE/"):
                importlib.import_module("pixel_game").register(gym)
                shown = {"render_mode": kwargs["render_mode"]} if "render_mode" in kwargs else {}
                return make("BreakoutNoFrameskip-v4", **shown)
            return Noise(**kwargs)

    gym.make = made


class Watch(importlib.abc.MetaPathFinder):
    """Replaces `make` as soon as gym or gymnasium has been imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """The real one, whose loading is followed by the replacement."""
        if name not in ("gym", "gymnasium"):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            loader, execute = spec.loader, spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                stand_in(module)

            loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, Watch())
sys.meta_path.append(Finder())
