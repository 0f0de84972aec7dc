"""Compares how much the results of a sampling function vary from call to call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from .state import random_states, set_random_states
from .trees import clone, named_tensors

REPEATS = 64
"""The number of calls with the same arguments."""
COLLAPSED = 0.25
"""A variation below this share of the eager function's is a collapse. By chance, the sample deviation of 64 normal
draws falls below it less than once in 10^20 times."""
RARE = 0.25
"""An integer result counts as varying if at least this share of the eager draws differs from the most frequent one:
all 64 fast draws are then the same by chance once in 10^8 times."""


def spread_fault(
    fast: Callable[..., Any], eager: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> str | None:
    """What is wrong with the variation of the fast function's results over repeated calls; None if nothing is."""
    before = random_states()
    try:
        ours, theirs = (_outputs(function, args, kwargs) for function in (fast, eager))
    finally:
        set_random_states(before)
    for name, expected in theirs.items():
        got = ours.get(name)
        if got is None or got.shape != expected.shape:
            return f"{name} has another shape than in the eager function"
        if expected.dtype.is_floating_point:
            wide, narrow = expected.double().std(0), got.double().std(0)
            noise = torch.finfo(expected.dtype).eps * expected.double().abs().amax(0) * REPEATS
            collapsed = (wide > noise) & (narrow < COLLAPSED * wide)
        else:
            differing = (expected != expected.mode(0).values).double().mean(0)
            collapsed = (differing >= RARE) & (got == got[0]).all(0)
        if collapsed.any():
            return f"{name} hardly varies over {REPEATS} calls, but the eager function's does: its spread collapsed"
    return None


def _outputs(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Each output tensor of `REPEATS` calls, stacked: shape (REPEATS, ...)."""
    drawn: dict[str, list[torch.Tensor]] = {}
    for _ in range(REPEATS):
        given_args, given_kwargs = clone((args, dict(kwargs)))
        for name, tensor in named_tensors(function(*given_args, **given_kwargs), "output"):
            drawn.setdefault(name, []).append(tensor.detach().cpu().clone())
    return {name: torch.stack(tensors) for name, tensors in drawn.items()}
