"""A stand-in for tensordict's CudaGraphModule that replays on a CPU, to see what a replay leaves out.

Like a CUDA graph it runs Python once more only, when it records: a replay repeats the operations of torch on the
memory of the recording. What it cannot tell is what works on the host: everything does here.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.optim import adam, adamw, optimizer, rmsprop
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from torch.utils.tensorboard import SummaryWriter

torch.compile = lambda function, **_: function  # what is captured, is the eager code
REPLAYS = os.environ.get("EMULATED_GRAPHS") == "replay"
"""Whether to record and replay; else every call runs the function, as CudaGraphModule does without CUDA."""
OUTCOME = Path(os.environ["EMULATED_OUTCOME"])
"""Where to write what the run ended with, as JSON."""
WAITS = {
    torch.ops.aten._local_scalar_dense.default,
    torch.ops.aten.nonzero.default,
    torch.ops.aten.masked_select.default,
}

for module in (adam, adamw, optimizer, rmsprop):  # capturable=True is for devices that capture
    if hasattr(module, "_get_capturable_supported_devices"):
        module._get_capturable_supported_devices = lambda supports_xla=True: ["cpu"]


replays: Counter[str] = Counter()
optimizers: list[optimizer.Optimizer] = []
scalars: list[tuple[str, float, int | None]] = []


def _note_optimizer(self: optimizer.Optimizer, group: Any, add: Any = optimizer.Optimizer.add_param_group) -> None:
    add(self, group)
    if self not in optimizers:
        optimizers.append(self)


def _note_scalar(self: SummaryWriter, tag: str, value: Any, step: int | None = None, *_: Any, **__: Any) -> None:
    if "sps" not in tag.lower():
        scalars.append((tag, value.item() if hasattr(value, "item") else value, step))


optimizer.Optimizer.add_param_group = _note_optimizer  # type: ignore[method-assign]
SummaryWriter.add_scalar = _note_scalar  # type: ignore[method-assign]


@atexit.register
def _write_outcome() -> None:
    """Leave what the run logged, trained and drew."""
    trained = [p for o in optimizers for group in o.param_groups for p in group["params"]]
    state = [x for o in optimizers for x in tree_leaves(o.state_dict()["state"]) if isinstance(x, torch.Tensor)]
    digest = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    for tensor in (*trained, *state):
        digest.update(tensor.detach().numpy().tobytes())
    found = {"trained": len(trained), "digest": digest.hexdigest(), "scalars": scalars, "replays": replays}
    OUTCOME.write_text(json.dumps(found))


class Recorder(TorchDispatchMode):
    """Keeps each operation with what it was given and what it returned."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[bool, Callable[..., Any], Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and keep it."""
        if func in WAITS:
            raise RuntimeError(f"{func} waits for the device, which no capture can stand")
        result = func(*args, **(kwargs or {}))
        self.operations.append((torch.is_grad_enabled(), func, args, kwargs or {}, result))
        return result

    def replay(self) -> None:
        """Repeat all operations in the same memory."""
        with torch._C._AutoDispatchBelowAutograd():
            for training, func, args, kwargs, kept in self.operations:
                with torch.set_grad_enabled(training):  # the LSTM keeps what its backward pass needs
                    again = func(*args, **kwargs)
                for new, old in zip(tree_leaves(again), tree_leaves(kept), strict=True):
                    if isinstance(old, torch.Tensor) and _memory(new) != _memory(old):
                        old.copy_(new)


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


class CudaGraphModule:
    """Runs a function `warmup - 1` times, records the next call, and replays that from then on."""

    def __init__(self, function: Callable[..., Any], warmup: int = 2) -> None:
        functools.update_wrapper(self, function)
        self._function, self._warmup, self._calls = function, warmup, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, or replay it.

        Raises:
            ValueError: an input is of another size, or another number, than the recorded one.
        """
        self._calls += 1
        if not REPLAYS:
            return self._function(*args, **kwargs)
        given, structure = tree_flatten((args, kwargs))
        if self._calls < self._warmup:
            return self._function(*tree_map(_cloned, args), **tree_map(_cloned, kwargs))
        if self._calls == self._warmup:
            self._inputs = [_cloned(x) for x in given]
            inputs, named = tree_unflatten(self._inputs, structure)
            self._recorder = Recorder()
            with self._recorder:
                self._output = self._function(*inputs, **named)
        else:
            for own, new in zip(self._inputs, given, strict=True):
                _copy(own, new)
            self._recorder.replay()
            replays[self._function.__name__] += 1
        return tree_map(_cloned, self._output)


def _cloned(x: Any) -> Any:
    return x.clone() if hasattr(x, "clone") else x


def _copy(own: Any, new: Any) -> None:
    if isinstance(own, torch.Tensor) and own.shape != new.shape:
        raise ValueError(f"recorded with {tuple(own.shape)}, called with {tuple(new.shape)}")
    if hasattr(own, "copy_"):
        own.copy_(new)
    elif own != new:
        raise ValueError(f"recorded with {own!r}, called with {new!r}")
