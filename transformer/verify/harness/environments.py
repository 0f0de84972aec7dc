"""Observes every step of the script's environment, and ends the run after enough iterations."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import torch

from .imports import patch_on_import
from .job import Episodes
from .journal import Journal

Array = np.ndarray[Any, Any]
OPTIMIZING = (torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)


class EnoughIterations(BaseException):
    """Ends the script at the first environment step after the last iteration to record."""


class EnvironmentSteps:
    """Counts the outermost `step(action)` calls: an environment that steps another one counts once."""

    def __init__(
        self, journal: Journal, iterations: int | None, note: Callable[[list[Array]], None] | None = None
    ) -> None:
        """End the run after `iterations`; call `note` with each action's arrays before it is sent."""
        self._journal = journal
        self._iterations = iterations
        self._note = note
        self._inside = False
        self._process = os.getpid()

    def replace_step(self, function: Any) -> Any:
        """Wrap the `step` that the script calls in a counter.

        Returned unchanged are the `step` of torch's classes; of the script's optimizer classes, which may take a
        closure; of networks and agents, which choose actions; and any `step` in a forked worker, whose environments are
        parts of one that the script's process steps.
        """
        owner = getattr(function, "__self__", None)
        of_torch = type(owner).__module__.partition(".")[0] == "torch" or isinstance(owner, OPTIMIZING)
        if self._inside or os.getpid() != self._process or of_torch or _is_agent(owner):
            return function

        def step(*args: Any, **kwargs: Any) -> Any:
            self._journal.note_env_step()
            if self._iterations is not None and self._journal.iterations >= self._iterations:
                raise EnoughIterations
            if self._note is not None:
                self._note(leaves(args[0] if args else next(iter(kwargs.values()))))
            self._inside = True
            try:
                return function(*args, **kwargs)
            finally:
                self._inside = False

        return step


def _is_agent(owner: Any) -> bool:
    """Whether an object is a network, or has one or an optimizer, and cannot be reset as environments can."""
    parts = [owner, *getattr(owner, "__dict__", {}).values()]
    return not hasattr(owner, "reset") and any(isinstance(p, (torch.nn.Module, *OPTIMIZING)) for p in parts)


def shorten_episodes(episodes: Episodes) -> None:
    """Truncate episodes of environments made by gym or gymnasium, neither of which is imported here."""

    def patch(module: ModuleType) -> None:
        real = module.make
        if getattr(real, "shortened", False):  # one module imports it from the other
            return

        def make(*args: Any, **kwargs: Any) -> Any:
            return _shortened(real(*args, **kwargs), sys.modules[module.__name__.partition(".")[0]], episodes)

        make.shortened = True  # type: ignore[attr-defined]
        module.make = make  # type: ignore[attr-defined]

    gyms = "gymnasium", "gym"
    patch_on_import({name: patch for gym in gyms for name in (f"{gym}.envs.registration", gym)})


def _shortened(env: Any, gym: ModuleType, episodes: Episodes) -> Any:
    """Wrap an environment of `gym` to truncate its episodes."""

    class Shortened(gym.Wrapper):  # type: ignore[misc, name-defined]
        def __init__(self, env: Any) -> None:
            super().__init__(env)
            self._steps = self._of_episode = 0

        def reset(self, **kwargs: Any) -> Any:
            self._of_episode = 0
            return self.env.reset(**kwargs)

        def step(self, action: Any) -> Any:
            observation, reward, *ended, info = self.env.step(action)
            self._steps += 1
            self._of_episode += 1
            barren = self._steps > episodes.barren
            if barren or self._of_episode >= episodes.truncated:
                if len(ended) == 1 and not ended[0]:  # old gym, which does not distinguish the two
                    info["TimeLimit.truncated"] = True
                ended[-1] = True
            return (observation, 0.0 if barren else reward, *ended, info)

    return Shortened(env)


def leaves(action: Any) -> list[Array]:
    """The arrays in an action; dictionaries are in the order of their keys."""
    if isinstance(action, Mapping):
        return [leaf for key in sorted(action) for leaf in leaves(action[key])]
    if isinstance(action, tuple):
        return [leaf for part in action for leaf in leaves(part)]
    if isinstance(action, torch.Tensor):
        action = action.detach().cpu()
    return [np.asarray(action)]
