"""Sees every step of the script's environment, and ends the run after enough iterations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import torch

from .imports import patch_on_import
from .journal import Journal

Array = np.ndarray[Any, Any]


class EnoughIterations(BaseException):
    """Ends the script: it asked for the first environment step after the last iteration to be recorded."""


class EnvironmentSteps:
    """Counts the outermost `step(action)` calls: an environment that steps another one inside is one environment."""

    def __init__(
        self, journal: Journal, iterations: int | None, note: Callable[[list[Array]], None] | None = None
    ) -> None:
        """End the run after so many `iterations`; call `note` with each action's arrays, before it is sent."""
        self._journal = journal
        self._iterations = iterations
        self._note = note
        self._inside = False

    def replace_step(self, function: Any) -> Any:
        """`function`, the `step` the script calls, made to count; one of torch's own classes is left alone."""
        owner = getattr(function, "__self__", None)
        if self._inside or type(owner).__module__.partition(".")[0] == "torch":
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


def shorten_episodes(steps: int) -> None:
    """Truncate the episodes of environments that gymnasium makes; it is not imported here."""

    def patch(module: ModuleType) -> None:
        real = module.make
        if getattr(real, "shortened", False):  # one module has it from the other
            return

        def make(*args: Any, **kwargs: Any) -> Any:
            return real(*args, **{**kwargs, "max_episode_steps": steps})

        make.shortened = True  # type: ignore[attr-defined]
        module.make = make  # type: ignore[attr-defined]

    patch_on_import({"gymnasium.envs.registration": patch, "gymnasium": patch})


def leaves(action: Any) -> list[Array]:
    """The arrays that make up an action, dictionaries in the order of their keys."""
    if isinstance(action, Mapping):
        return [leaf for key in sorted(action) for leaf in leaves(action[key])]
    if isinstance(action, tuple):
        return [leaf for part in action for leaf in leaves(part)]
    if isinstance(action, torch.Tensor):
        action = action.detach().cpu()
    return [np.asarray(action)]
