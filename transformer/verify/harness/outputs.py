"""Detects outputs that the script still holds and a later call overwrites.

A CUDA graph writes its results to the same memory at each replay. A script that keeps a result without copying it then
holds the values of a later step.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .trees import map_tensors


@dataclass(frozen=True)
class _Held:
    call: int
    tensor: weakref.ref[torch.Tensor]
    values: torch.Tensor
    version: int


class HeldOutputs:
    """The outputs of a function's last two calls, with their values at return."""

    def __init__(self) -> None:
        self._held: list[_Held] = []

    def hand_out(self, call: int, result: Any) -> Any:
        """The result, with each tensor replaced by one with the same memory whose lifetime can be watched."""
        return map_tensors(lambda t: self._watch(call, t), result)

    def overwritten(self, call: int) -> Iterator[int]:
        """Earlier calls whose outputs have changed although the script did not write to them.

        Only outputs from at least two calls ago count: the variable for this output may still hold the previous one.
        """
        due = [held for held in self._held if held.call <= call - 2]
        self._held = [held for held in self._held if held.call > call - 2]
        changed = set()
        for held in due:
            tensor = held.tensor()
            if tensor is not None and tensor._version == held.version and not _same(tensor, held.values):
                changed.add(held.call)
        yield from sorted(changed)

    def _watch(self, call: int, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.requires_grad or tensor.layout != torch.strided:
            return tensor
        alias = tensor.data
        self._held.append(_Held(call, weakref.ref(alias), tensor.clone(), alias._version))
        return alias


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(torch.equal(a, b)) or bool(torch.allclose(a, b, rtol=0, atol=0, equal_nan=True))
