"""Writes down every action that the script sends to its environment, and ends the run after enough iterations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from .journal import Journal


class EnoughIterations(BaseException):
    """Ends the script: it asked for the first environment step after the last iteration to be recorded."""


class StepRecorder:
    """Records the outermost `step(action)` calls: an environment that steps another one inside is one environment."""

    def __init__(self, journal: Journal, iterations: int | None) -> None:
        self._journal = journal
        self._iterations = iterations
        self._inside = False

    def replace_step(self, function: Any) -> Any:
        """`function`, the `step` the script calls, made to record; one of torch's own classes is left alone."""
        owner = getattr(function, "__self__", None)
        if self._inside or type(owner).__module__.partition(".")[0] == "torch":
            return function

        def step(*args: Any, **kwargs: Any) -> Any:
            self._journal.note_env_step()
            if self._iterations is not None and self._journal.iterations >= self._iterations:
                raise EnoughIterations
            action = args[0] if args else next(iter(kwargs.values()))
            self._journal.add("actions", [self._journal.store_described(leaf) for leaf in _leaves(action)])
            self._inside = True
            try:
                return function(*args, **kwargs)
            finally:
                self._inside = False

        return step


def _leaves(action: Any) -> list[np.ndarray[Any, Any]]:
    """The arrays that make up an action, dictionaries in the order of their keys."""
    if isinstance(action, Mapping):
        return [leaf for key in sorted(action) for leaf in _leaves(action[key])]
    if isinstance(action, tuple):
        return [leaf for part in action for leaf in _leaves(part)]
    if isinstance(action, torch.Tensor):
        action = action.detach().cpu()
    return [np.asarray(action)]
