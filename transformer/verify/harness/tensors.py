"""Tensors as bytes, and the names of an optimizer's parameters."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

Array = np.ndarray[Any, Any]


def raw(tensor: torch.Tensor) -> Array:
    """The tensor's contents as uint8, shape (bytes,), whatever its dtype and device."""
    flat = tensor.detach().reshape(-1).contiguous()
    return flat.view(torch.uint8).cpu().numpy()  # type: ignore[no-any-return]


def digest(array: Array) -> str:
    """A 64-bit digest of the array's bytes, in hexadecimal."""
    return hashlib.blake2b(array.data, digest_size=8).hexdigest()


def dtype_name(tensor: torch.Tensor) -> str:
    """The dtype as torch spells it, without the package: `float32`."""
    return str(tensor.dtype).removeprefix("torch.")


def objects() -> list[Any]:
    """All objects that the garbage collector tracks, including those hidden by gc.freeze()."""
    gc.unfreeze()
    return gc.get_objects()


def live() -> tuple[list[torch.nn.Module], list[torch.optim.Optimizer]]:
    """The modules and optimizers in memory whose `__init__` has run, except modules that a compiler traced."""
    modules, optimizers = [], []
    for thing in objects():
        kind = type(thing)  # not isinstance(): some live objects are proxies that import or compute on access
        if issubclass(kind, torch.nn.Module) and "_parameters" in vars(thing):
            if not issubclass(kind, torch.fx.GraphModule):  # its buffers are optimizers' state
                modules.append(thing)
        elif issubclass(kind, torch.optim.Optimizer) and "param_groups" in vars(thing):
            optimizers.append(thing)
    return modules, optimizers


def _modules_with(parameters: Iterable[torch.Tensor], modules: Sequence[torch.nn.Module]) -> list[torch.nn.Module]:
    """The live modules that hold any of `parameters`, those that hold most of them first."""
    wanted = {id(p) for p in parameters}
    counts = ((module, sum(id(p) in wanted for p in module.parameters())) for module in modules)
    held = [(-count, type(module).__name__, module) for module, count in counts if count]
    # gc lists inner modules first, because they were made first; for equal counts, outer ones must come first
    held.reverse()
    return [module for *_, module in sorted(held, key=lambda entry: entry[:2])]


def named_parameters(
    optimizer: torch.optim.Optimizer, modules: Sequence[torch.nn.Module]
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """An optimizer's parameters by name, in its own order, and the buffers of the live modules that contain them.

    Names have the form `Class.path.to.parameter`, so that two runs of differently written scripts agree.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    names: dict[int, str] = {}
    buffers: dict[str, torch.Tensor] = {}
    for module in _modules_with(parameters, modules):
        own = [(path, p) for path, p in module.named_parameters() if id(p) not in names]
        prefix = type(module).__name__
        if any(f"{prefix}.{path}" in names.values() for path, _ in own):
            prefix += f" {sum(name.startswith(prefix + '.') for name in names.values())}"
        names.update((id(p), f"{prefix}.{path}") for path, p in own)
        if own:
            buffers.update((f"{prefix}.{path}", b) for path, b in module.named_buffers())
    return {names.get(id(p), f"parameter {i}"): p for i, p in enumerate(parameters)}, buffers
