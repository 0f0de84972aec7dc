"""Makes optimizers on a CUDA device take the original's steps if the converted script made them `capturable`.

A capturable step counts on the device in float32, with a tensor as its learning rate, so parameters differ in the last
bits. The first of these steps are compared with the original's within rounding.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from .errors import Error, errors
from .journal import Journal
from .tensors import live, named_parameters

COMPARED = 8
"""The number of steps compared per optimizer class; RAdam's rectification begins at the sixth."""


class EagerSteps:
    """Takes the original's steps, and records how far the capturable steps are from them."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._calls: dict[str, int] = {}
        self._branchless = False

    @contextmanager
    def during_step(self, optimizer: torch.optim.Optimizer) -> Iterator[None]:
        """Make the step taken inside the context the original's."""
        groups = [group for group in optimizer.param_groups if _is_cuda(group) or group.get("capturable")]
        on_device = any(map(_is_cuda, groups))
        self._branchless |= bool(groups) and not on_device  # a script on the host sets this only for compiling
        kept = [{key: group[key] for key in ("lr", "capturable") if key in group} for group in groups]
        capturable = (
            _Twin(optimizer) if on_device and any(s.get("capturable") for s in kept) and self._due(optimizer) else None
        )
        for group, settings in zip(groups, kept, strict=True):
            group.update({"lr": float(settings["lr"])} if "lr" in settings else {})
            group.update({"capturable": False} if "capturable" in settings else {})
        try:
            yield
        finally:
            for group, settings in zip(groups, kept, strict=True):
                group.update(settings)
        if capturable is not None:
            name = _class_name(optimizer)
            for kind, error in capturable.apart():
                self._journal.add("calls", name, self._calls[name], True, kind, *error)

    def finish(self) -> None:
        """Record that steps were replaced by the original's."""
        if self._calls:
            self._journal.add("regrouped", "cudagraphs")
        if self._branchless:
            self._journal.add("regrouped", "one-graph")

    def _due(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether to compare this step."""
        name = _class_name(optimizer)
        self._calls[name] = self._calls.get(name, 0) + 1
        return self._calls[name] <= COMPARED


class _Twin:
    """A copy of an optimizer and its parameters that has already taken the next step."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        self._names = named_parameters(optimizer, live()[0])[0]
        self._before = {name: p.detach().clone() for name, p in self._names.items()}
        self._parameters = {p: _with_gradient(p) for p in self._names.values()}
        self._twin: Any = object.__new__(type(optimizer))  # copy.copy() would keep only torch's own attributes
        vars(self._twin).update(vars(optimizer))
        self._twin.param_groups = [
            {**group, "params": [self._parameters[p] for p in group["params"]]} for group in optimizer.param_groups
        ]
        self._twin.state = defaultdict(
            dict, {self._parameters[p]: _on_device(p, optimizer.state[p]) for p in optimizer.state}
        )
        step: Any = inspect.unwrap(type(optimizer).step)
        with torch.no_grad():
            step(self._twin)

    def apart(self) -> Iterator[tuple[str, Error]]:
        """The distance between the optimizer's step and the twin's, by kind."""
        for name, p in self._names.items():
            start, twin = self._before[name], self._parameters[p]
            grain = torch.finfo(start.dtype).eps * start.abs().max().item()
            changes = twin.detach() - start, p.detach() - start
            yield from (("parameter change", error) for error in errors(*changes, name, grain=grain))
            for key, value in self._optimizer.state.get(p, {}).items():
                if isinstance(value, torch.Tensor):
                    ours = self._twin.state[twin].get(key)
                    yield from (("optimizer state", error) for error in errors(ours, value, f"{name}: {key}"))


def _is_cuda(group: dict[str, Any]) -> bool:
    return any(p.is_cuda for p in group["params"])


def _class_name(optimizer: torch.optim.Optimizer) -> str:
    return f"{type(optimizer).__name__}.step"


def _with_gradient(parameter: torch.Tensor) -> torch.Tensor:
    copied = parameter.detach().clone().requires_grad_(parameter.requires_grad)
    copied.grad = None if parameter.grad is None else parameter.grad.clone()
    return copied


def _on_device(parameter: torch.Tensor, entries: dict[str, Any]) -> dict[str, Any]:
    """A copy of an optimizer's state for a parameter, with the step count on the parameter's device."""
    copied = {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in entries.items()}
    if "step" in copied:
        copied["step"] = torch.as_tensor(copied["step"], device=parameter.device)
    return copied
