"""Records parameters, gradient norm, hyperparameters and state after every step of every torch optimizer."""

from __future__ import annotations

import gc
import sys

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.optim.optimizer import register_optimizer_step_post_hook

from .journal import Journal
from .randomness import state_digests
from .tensors import digest, dtype_name, live, named_parameters, raw


class OptimizerRecorder:
    """Records optimizers from their first step on, numbered in the order of their first steps."""

    def __init__(self, journal: Journal, *, others: bool = False) -> None:
        """With `others`, also record the networks that no optimizer holds, before each update."""
        self._journal = journal
        self._with_others = others
        self._known: list[tuple[torch.optim.Optimizer, dict[str, torch.Tensor]]] = []
        self._buffers: dict[str, torch.Tensor] = {}
        self._apart: list[tuple[str, torch.Tensor]] | None = None
        """The parameters and buffers of networks that no optimizer holds, once the first update is done."""

    def install(self) -> None:
        """Register a hook with torch after each step of any optimizer."""
        register_optimizer_step_post_hook(lambda optimizer, args, kwargs: self.record(optimizer))

    def _digests_of_others(self) -> dict[str, str]:
        """Digests of parameters and buffers of networks that no optimizer holds, such as target networks.

        Two runs have no common names for them, so those with the same class and attribute are sorted.
        """
        if self._apart is None:
            gc.collect()  # networks that are no longer used must not count
            known = {id(p) for _, parameters in self._known for p in parameters.values()}
            known |= {id(b) for b in self._buffers.values()}
            self._apart = []
            for module in live()[0]:
                for name, tensor in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
                    if id(tensor) not in known and not isinstance(tensor, FakeTensor):
                        known.add(id(tensor))
                        self._apart.append((f"{type(module).__name__}.{name}", tensor))
        found: dict[str, list[str]] = {}
        for name, tensor in self._apart:
            found.setdefault(name, []).append(digest(raw(tensor)))
        return {name: " ".join(sorted(digests)) for name, digests in sorted(found.items())}

    def record_final(self) -> None:
        """Record the final values of all parameters, and of the buffers of their modules."""
        last = {
            f"{name} of optimizer {number}" if number else name: parameter
            for number, (_, parameters) in enumerate(self._known)
            for name, parameter in parameters.items()
        }
        if self._with_others and self._known:
            self._journal.add("others", self._digests_of_others())
        self._journal.room = sys.maxsize  # they are few, and the size of a difference is wanted
        last |= {f"buffer {name}": buffer for name, buffer in sorted(self._buffers.items())}
        self._journal.add("final", {name: self._describe(tensor) for name, tensor in last.items()})

    def _describe(self, tensor: torch.Tensor) -> tuple[str, list[int], str, int | None]:
        """(dtype, shape, digest, offset of the values) of a tensor."""
        array = raw(tensor)
        return dtype_name(tensor), list(tensor.shape), digest(array), self._journal.store(array)

    def record(self, optimizer: torch.optim.Optimizer) -> None:
        """Record the state after the step that was just done."""
        if self._journal.note_optimizer_step():
            self._journal.add("random", state_digests())
            if self._with_others and self._journal.optimizer_steps > 1:  # by now all networks exist
                self._journal.add("others", self._digests_of_others())
        number = self._number(optimizer)
        parameters = self._known[number][1]
        numbers, arrays = _hyperparameters(optimizer)
        tensors = parameters | arrays
        for name, parameter in parameters.items():
            for key, value in sorted(optimizer.state.get(parameter, {}).items()):
                if isinstance(value, torch.Tensor) and value.dim() > 0:
                    tensors[f"{name}: {key}"] = value
                elif isinstance(value, (int, float, torch.Tensor)):
                    numbers[f"{name}: {key}"] = float(value)
        described = {name: self._describe(tensor) for name, tensor in tensors.items()}
        self._journal.add(
            "steps", number, self._journal.permutations.served, _gradient_norm(optimizer), numbers, described
        )

    def _number(self, optimizer: torch.optim.Optimizer) -> int:
        for number, (known, _) in enumerate(self._known):
            if known is optimizer:
                return number
        parameters, buffers = named_parameters(optimizer, live()[0])
        self._buffers.update(buffers)
        self._known.append((optimizer, parameters))
        self._journal.add("optimizers", type(optimizer).__name__)
        return len(self._known) - 1


def _gradient_norm(optimizer: torch.optim.Optimizer) -> float:
    """The L2 norm of all gradients together, summed up in float64."""
    gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    norms = [torch.linalg.vector_norm(g.detach(), dtype=torch.float64) for g in gradients]
    return float(torch.linalg.vector_norm(torch.stack(norms))) if norms else 0.0


def _hyperparameters(optimizer: torch.optim.Optimizer) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    """The numbers in the param groups, as float64, and the tensors in them with more than one element.

    A learning rate in a tensor counts as its value. Booleans are left out.
    """
    numbers: dict[str, float] = {}
    arrays: dict[str, torch.Tensor] = {}
    for i, group in enumerate(optimizer.param_groups):
        for name, value in group.items():
            if name == "params" or isinstance(value, bool):
                continue
            parts = value if isinstance(value, (tuple, list)) else [value]
            for j, part in enumerate(parts):
                key = f"{name}[{j}] of group {i}" if len(parts) > 1 else f"{name} of group {i}"
                if isinstance(part, torch.Tensor) and part.numel() != 1:
                    arrays[key] = part
                elif isinstance(part, (int, float, torch.Tensor)) and not isinstance(part, bool):
                    numbers[key] = float(part)
    return numbers, arrays
