"""Tensors, arrays and numbers in nested arguments and results: tuples, lists, dictionaries and TensorDicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

TensorFunction = Callable[[torch.Tensor], torch.Tensor]


def map_tensors(function: TensorFunction, tree: Any) -> Any:
    """The same structure with `function` applied to every tensor; everything else is kept."""
    if isinstance(tree, torch.Tensor):
        return function(tree)
    if _is_tensordict(tree):
        return tree.apply(function)
    if isinstance(tree, Mapping):
        return {key: map_tensors(function, value) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_tensors(function, part) for part in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(map_tensors(function, part) for part in tree)
    return tree


def named_tensors(tree: Any, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor with its path, which starts with `name`."""
    if isinstance(tree, torch.Tensor):
        yield name, tree
    elif _is_tensordict(tree) or isinstance(tree, Mapping):
        for key in tree.keys():  # noqa: SIM118, a TensorDict iterates over its batch
            yield from named_tensors(tree[key], f"{name}[{key!r}]")
    elif isinstance(tree, (tuple, list)):
        for i, part in enumerate(tree):
            yield from named_tensors(part, f"{name}[{i}]")


def clone(tree: Any) -> Any:
    """A copy whose tensors and arrays share no memory with the original's and are in no autograd graph."""
    return _copied_arrays(map_tensors(lambda t: t.detach().clone().requires_grad_(t.requires_grad), tree))


def _copied_arrays(tree: Any) -> Any:
    if isinstance(tree, np.ndarray):
        return tree.copy()
    if type(tree) in (tuple, list):
        return type(tree)(map(_copied_arrays, tree))
    return {key: _copied_arrays(value) for key, value in tree.items()} if type(tree) is dict else tree


def named_values(tree: Any, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor, numeric array and number, as a tensor with its path, including those in distributions.

    Floats on the host came from networks that compute in float32, so they are rounded to float32.
    """
    if isinstance(tree, (bool, int, float, np.generic, np.ndarray)):
        array = np.asarray(tree)
        if array.dtype.kind == "f":
            array = array.astype(np.float32)
        if array.dtype.kind in "bif":
            yield name, torch.from_numpy(array.copy())
    elif _is_tensordict(tree) or isinstance(tree, torch.Tensor):
        yield from named_tensors(tree, name)
    elif isinstance(tree, Mapping):
        for key in tree:
            yield from named_values(tree[key], f"{name}[{key!r}]")
    elif isinstance(tree, (tuple, list)):
        for i, part in enumerate(tree):
            yield from named_values(part, f"{name}[{i}]")
    elif isinstance(tree, torch.distributions.Distribution):
        for parameter in (*tree.arg_constraints, *(["base_dist"] if hasattr(tree, "base_dist") else [])):
            yield from named_values(getattr(tree, parameter), f"{name}.{parameter}")


def _is_tensordict(tree: Any) -> bool:
    return type(tree).__module__.partition(".")[0] == "tensordict" and hasattr(tree, "batch_size")
