"""Runs a script with its flags on while nothing is compiled: everything behind the flags runs, with equal bits.

`torch.compile` and `CudaGraphModule` return their argument. If the script asks inside that function whether it is being
compiled or captured, the answer is yes; torch and tensordict get the real answer. What a transform reorders on purpose
is computed in the original's order for the script, so that everything after it can be compared bit by bit.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from .eager_steps import EagerSteps
from .imports import patch_on_import
from .instrument import TOGETHER, Hook
from .journal import Journal
from .together import Together

Function = Callable[..., Any]


class Uncompiled:
    """The replacements that keep everything from being compiled."""

    def __init__(self, journal: Journal, note_step: Callable[[torch.optim.Optimizer], None]) -> None:
        """Call `note_step` after each optimizer step that torch's own hooks do not see."""
        self.compiling = False
        """Whether a function passed to torch.compile is running."""
        self.capturing = False
        """Whether a function passed to CudaGraphModule is running."""
        self._note_step = note_step
        self._together = Together(journal, every=1, by_step=True)
        self.hooks: dict[str, Hook] = {
            "is_compiling": lambda real: lambda: self.compiling or real(),
            "is_current_stream_capturing": lambda real: lambda: self.capturing or real(),
            "unwrap": self._replace_unwrap,
            "to": self._replace_layout,
            "contiguous": self._replace_layout,
            TOGETHER: self._together.replace,
        }
        self._journal = journal
        self._layouts = 0
        self._handed: list[str] = []
        self._steps = EagerSteps(journal)
        self._step: AbstractContextManager[None] | None = None

    def install(self) -> None:
        """Replace `torch.compile`, `torch.compiler.disable` and `tensordict.nn.CudaGraphModule`."""

        def hand_back(model: Any = None, **options: Any) -> Any:
            if model is None:
                return functools.partial(hand_back, **options)
            if isinstance(model, torch.nn.Module):
                model.compile()  # passes its call to torch.compile, which is this function
                return model
            self._note(model)
            return self._marking("compiling", True, model)

        def disable(fn: Any = None, *_: Any, **options: Any) -> Any:
            return functools.partial(disable, **options) if fn is None else self._marking("compiling", False, fn)

        torch.compile, torch.compiler.disable = hand_back, disable
        register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: self._begin_step(optimizer))
        register_optimizer_step_post_hook(lambda optimizer, args, kwargs: self._end_step())
        patch_on_import({"tensordict.nn": self._patch_tensordict})

    def finish(self) -> None:
        """Record what was computed for the script in the original's order."""
        self._together.finish()
        self._steps.finish()
        self._journal.add("handed", self._handed)
        if self._layouts:
            self._journal.add("regrouped", "channels-last")

    def _begin_step(self, optimizer: torch.optim.Optimizer) -> None:
        self._step = self._steps.during_step(optimizer)
        self._step.__enter__()

    def _end_step(self) -> None:
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def _patch_tensordict(self, module: ModuleType) -> None:
        def hand_back(function: Function, *_: Any, **__: Any) -> Function:
            self._note(function)
            return self._marking("capturing", True, function)

        module.CudaGraphModule = hand_back  # type: ignore[attr-defined]

    def _note(self, function: Any) -> None:
        """Record what would be compiled or captured."""
        whole = inspect.ismethod(function) and isinstance(function.__self__, torch.nn.Module)
        named = type(function.__self__) if whole and function.__name__ == "_call_impl" else function
        self._handed.append(getattr(named, "__name__", type(named).__name__))

    def _marking(self, mark: str, value: bool, function: Function) -> Function:
        """Wrap `function` to set the attribute `mark` to this value during its calls."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            before = getattr(self, mark)
            setattr(self, mark, value)
            try:
                return function(*args, **kwargs)
            finally:
                setattr(self, mark, before)

        return call

    def _replace_layout(self, function: Any) -> Any:
        """Replace `to` or `contiguous` to ignore `memory_format=torch.channels_last`, which changes the order of
        sums."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if kwargs.get("memory_format") is torch.channels_last:
                self._layouts += 1
                kwargs["memory_format"] = torch.contiguous_format
            return function(*args, **kwargs)

        return call

    def _replace_unwrap(self, function: Any) -> Any:
        """Replace `inspect.unwrap`, so that unwrapped optimizer steps, which lose torch's hooks, are still noted."""
        if function is not inspect.unwrap:
            return function

        def unwrap(wrapped: Function, **options: Any) -> Function:
            unwrapped: Function = inspect.unwrap(wrapped, **options)
            if unwrapped is wrapped or unwrapped.__name__ != "step":
                return unwrapped

            @functools.wraps(unwrapped)
            def step(optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
                with self._steps.during_step(optimizer):
                    result = unwrapped(optimizer, *args, **kwargs)
                    self._note_step(optimizer)
                return result

            return step

        return unwrap
