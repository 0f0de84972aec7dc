"""torch.cuda for the emulated device: streams without effect, and graphs that record and replay.

As in CUDA, a capture runs Python but leaves the device's memory unchanged; a replay repeats the device's operations on
the memory of the capture, and runs nothing on the host.
"""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_iter, tree_leaves

from . import emulated_device as device


class Stream:
    """A stream in which every operation completes immediately."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Accept a stream's arguments."""

    def wait_stream(self, _: Stream) -> None:
        """Wait for nothing."""

    def synchronize(self) -> None:
        """Wait for nothing."""

    def is_capturing(self) -> bool:
        """Whether a graph is being captured; optimizers ask before each step."""
        return device.capture is not None


class Event(Stream):
    """An event that has already happened."""

    def record(self, *_: Any) -> None:
        """Record nothing."""


class Generator(torch.Generator):  # type: ignore[misc]
    """A random generator on the host, for any device."""

    def __new__(cls, *_: Any, **__: Any) -> Generator:
        """Make a generator on the host."""
        return super().__new__(cls)  # type: ignore[no-any-return]


class Graph:
    """A CUDA graph: the operations of a capture, to repeat on the same memory."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._operations: list[tuple[bool, Any, Any, Any, Any]] = []
        self._before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def before(self, func: Any, args: Any, kwargs: Any) -> None:
        """Save the memory that an operation will write to."""
        for argument, value in zip(func._schema.arguments, args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                self._keep_memory(value)
        for argument in func._schema.arguments:
            if argument.alias_info is not None and argument.alias_info.is_write and argument.name in kwargs:
                self._keep_memory(kwargs[argument.name])

    def _keep_memory(self, written: Any) -> None:
        for tensor in tree_iter(written):
            if isinstance(tensor, torch.Tensor) and _memory(tensor) not in self._before:
                whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
                self._before[_memory(tensor)] = (whole, whole.clone())

    def after(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Record an operation."""
        self._operations.append((torch.is_grad_enabled(), func, args, kwargs, result))

    def undo(self) -> None:
        """Restore the memory from before the capture."""
        for memory, before in self._before.values():
            memory.copy_(before)

    def replay(self) -> None:
        """Repeat all operations on the same memory."""
        with torch._C._DisableTorchDispatch(), torch._C._AutoDispatchBelowAutograd():
            for training, func, args, kwargs, kept in self._operations:
                with torch.set_grad_enabled(training):  # the LSTM saves what its backward pass needs
                    again = func(*args, **kwargs)
                for new, old in zip(tree_leaves(again), tree_leaves(kept), strict=True):
                    if isinstance(old, torch.Tensor) and _memory(new) != _memory(old):
                        old.copy_(new)


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())


@contextlib.contextmanager
def capturing(graph: Graph, **_: Any) -> Iterator[None]:
    """Capture the operations on the device.

    Raises:
        device.Devices: the host would wait for the device, or copies something to or from it.
    """
    random = torch.get_rng_state()
    device.capture = graph
    try:
        yield
    finally:
        device.capture = None
        with torch._C._DisableTorchDispatch(), torch._C._AutoDispatchBelowAutograd():
            graph.undo()
        torch.set_rng_state(random)


def start() -> None:
    """Give this process the device, until it ends."""
    _replace_torchs()
    emulated = device.emulated()
    emulated.__enter__()
    atexit.register(emulated.__exit__, None, None, None)


_CAPABILITY = (8, 0)
"""The oldest compute capability with bfloat16 and TF32 in torch, so that scripts that ask for them run as usual."""


def _replace_torchs() -> None:
    """Replace torch's own functions by the emulated ones."""
    torch.compile = _uncompiled
    torch.Generator = Generator
    cuda = torch.cuda
    cuda.Stream, cuda.Event, cuda.CUDAGraph, cuda.graph = Stream, Event, Graph, capturing
    cuda.stream = lambda _: contextlib.nullcontext()
    cuda.current_stream = lambda *_: Stream()
    cuda.is_current_stream_capturing = Stream().is_capturing
    cuda.get_rng_state = lambda *_: torch.get_rng_state()
    cuda.set_rng_state = lambda state, *_: torch.set_rng_state(state)
    torch._C._set_cudnn_enabled(False)  # a build that has cuDNN would ask the device for its version
    found: dict[str, Any] = {"is_available": True, "is_initialized": True, "device_count": 1, "current_device": 0}
    found |= {"get_device_name": "emulated", "get_device_capability": _CAPABILITY}
    found |= {"max_memory_allocated": 0, "max_memory_reserved": 0}
    nothing = ("_lazy_init", "init", "empty_cache", "synchronize", "manual_seed", "manual_seed_all")
    for name, value in {**found, **dict.fromkeys(nothing)}.items():
        setattr(cuda, name, _constant(value))
    # A CUDA build would ask a missing driver for all of this; a CPU build would report that there is no device
    accelerator = torch.accelerator
    accelerator.current_accelerator, accelerator.current_stream = _constant(torch.device("cuda")), lambda *_: Stream()
    found |= {"current_device_index": 0, "current_device_idx": 0}
    for name, value in {**found, **dict.fromkeys(nothing)}.items():
        if hasattr(accelerator, name):
            setattr(accelerator, name, _constant(value))


def _uncompiled(model: Any = None, **_: Any) -> Any:
    """Return the function itself: Inductor has no backend for this device, so eager code runs and is captured."""
    return _uncompiled if model is None else model


def _constant(value: Any) -> Callable[..., Any]:
    """A separate function for each name, because torch.compile has one rule per function."""
    return lambda *_, **__: value
