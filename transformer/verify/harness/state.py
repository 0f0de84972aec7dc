"""What a training function may change besides its arguments: parameters, gradients, optimizers, randomness, modules."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor

from .attributes import Attributes
from .tensors import live, named_parameters


class Snapshot:
    """Copies of a state's values at one moment."""

    def __init__(self, state: State) -> None:
        self.tensors = {name: t.detach().clone() for name, t in state.tensors.items()}
        self.gradients = {name: None if t.grad is None else t.grad.clone() for name, t in state.tensors.items()}
        self.optimizers = [_clone_state(o.state) for o in state.optimizers]
        self.groups = [[_settings(group) for group in o.param_groups] for o in state.optimizers]
        self.random = random_states()
        self.attributes = Attributes(state.modules)

    def same_tensors(self, other: Snapshot) -> bool:
        """Whether no parameter or buffer differs."""
        return all(torch.equal(t, other.tensors[name]) for name, t in self.tensors.items())

    def same_random(self, other: Snapshot) -> bool:
        """Whether torch's generators are in the same state."""
        return all(a is b or torch.equal(a, b) for a, b in zip(self.random[:2], other.random[:2], strict=True))

    def optimizer_tensors(self, state: State) -> dict[str, torch.Tensor]:
        """The optimizers' state tensors, named `parameter: key`, and the tensors in param groups."""
        names = {id(t): name for name, t in state.tensors.items()}
        rates = {
            f"optimizer {i}, group {j}: {key}": value
            for i, groups in enumerate(self.groups, start=1)
            for j, group in enumerate(groups, start=1)
            for key, value in group.items()
            if isinstance(value, torch.Tensor)
        }
        return rates | {
            f"{names.get(id(p), 'parameter')}: {key}": value
            for per_parameter in self.optimizers
            for p, entries in per_parameter.items()
            for key, value in entries.items()
            if isinstance(value, torch.Tensor)
        }


class State:
    """The live modules and optimizers of a run."""

    def __init__(self) -> None:
        """Search memory for modules and optimizers, which takes some tens of milliseconds; later ones are left out."""
        self.modules, self.optimizers = live()
        self.tensors: dict[str, torch.Tensor] = {}
        self._seen: set[tuple[Any, ...]] = set()
        for optimizer in self.optimizers:
            for tensors in named_parameters(optimizer, self.modules):
                for name, tensor in tensors.items():
                    self._add_tensor(name, tensor)
        for module in self.modules:
            for name, tensor in (*module.named_parameters(), *module.named_buffers()):
                self._add_tensor(f"{type(module).__name__}.{name} (not trained)", tensor)

    def _add_tensor(self, name: str, tensor: torch.Tensor) -> None:
        """Add a tensor, unless its memory is already known, under an unused name."""
        if isinstance(tensor, FakeTensor):
            return  # a compiler's fake tensor has no values
        memory = tensor.data_ptr(), tensor.shape, tensor.dtype
        if memory in self._seen:
            return
        self._seen.add(memory)
        free = (f"{name} ({i})" if i > 1 else name for i in itertools.count(1))
        self.tensors[next(n for n in free if n not in self.tensors)] = tensor

    def take(self) -> Snapshot:
        """Copy all values."""
        return Snapshot(self)

    def rewind(self, to: Snapshot) -> Rewound:
        """Set everything to a snapshot's values until the result's `undo` is called."""
        return Rewound(self, to)

    def fill(self, snapshot: Snapshot) -> None:
        """Copy a snapshot's values into the tensors in place, so that captured graphs remain valid."""
        for optimizer, settings in zip(self.optimizers, snapshot.groups, strict=True):
            for group, values in zip(optimizer.param_groups, settings, strict=True):
                for key, value in values.items():
                    now = group.get(key)
                    if isinstance(value, torch.Tensor) and isinstance(now, torch.Tensor):
                        now.detach().copy_(value)
                    else:
                        group[key] = value.clone() if isinstance(value, torch.Tensor) else value
        with torch.no_grad():
            for name, tensor in self.tensors.items():
                tensor.detach().copy_(snapshot.tensors[name])
        snapshot.attributes.restore()
        set_random_states(snapshot.random)


class Rewound:
    """A state set back to a snapshot, to run the eager function.

    Gradients and optimizer state are temporarily replaced by copies, so that tensors whose addresses a graph may hold
    are not written to; parameters are written in place, because modules share them.
    """

    def __init__(self, state: State, to: Snapshot) -> None:
        self._state = state
        self._now = state.take()
        self._gradients = {name: t.grad for name, t in state.tensors.items()}
        self._optimizer_states = [o.state for o in state.optimizers]
        state.fill(to)
        for name, tensor in state.tensors.items():
            gradient = to.gradients[name]
            tensor.grad = None if gradient is None else gradient.clone()
        for optimizer, entries in zip(state.optimizers, to.optimizers, strict=True):
            optimizer.state = defaultdict(dict, _clone_state(entries))

    def undo(self) -> Snapshot:
        """Undo the rewinding; returns a snapshot of the state that the eager function left."""
        left = self._state.take()
        for optimizer, entries in zip(self._state.optimizers, self._optimizer_states, strict=True):
            optimizer.state = entries
        for name, tensor in self._state.tensors.items():
            tensor.grad = self._gradients[name]
        self._state.fill(self._now)
        return left


def _settings(group: dict[str, Any]) -> dict[str, Any]:
    """The settings of a param group: numbers, and copies of tensors, such as a rate that code in a graph changes."""
    return {
        key: value.detach().clone() if isinstance(value, torch.Tensor) else value
        for key, value in group.items()
        if isinstance(value, (bool, int, float, tuple, torch.Tensor))
    }


def _clone_state(entries: Any) -> dict[Any, dict[str, Any]]:
    return {
        p: {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in of_p.items()}
        for p, of_p in entries.items()
    }


def random_states() -> tuple[Any, ...]:
    """The states of torch's CPU and CUDA generators (None without CUDA), numpy's and Python's."""
    cuda = torch.cuda.get_rng_state() if torch.cuda.is_available() and torch.cuda.is_initialized() else None
    return torch.get_rng_state(), cuda, np.random.get_state(), random.getstate()


def set_random_states(states: tuple[Any, ...]) -> None:
    """Set all generators to states returned by `random_states`."""
    torch.set_rng_state(states[0])
    if states[1] is not None:
        torch.cuda.set_rng_state(states[1])
    np.random.set_state(states[2])
    random.setstate(states[3])
