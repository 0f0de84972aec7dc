"""What torch.cuda has for the emulated device: streams without an effect, and graphs that record and replay.

A capture, like CUDA's, runs Python but leaves the device's memory as it was; a replay repeats the device's operations
on the memory of the capture, and runs nothing on the host.
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
    """A stream in which everything is done at once."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take what a stream takes."""

    def wait_stream(self, _: Stream) -> None:
        """Wait for nothing."""

    def synchronize(self) -> None:
        """Wait for nothing."""

    def is_capturing(self) -> bool:
        """Tell whether a graph is captured: optimizers ask before each step."""
        return device.capture is not None


class Event(Stream):
    """An event that has come already."""

    def record(self, *_: Any) -> None:
        """Record nothing."""


class Generator(torch.Generator):  # type: ignore[misc]
    """A stream of random numbers that is the host's, whatever device it is for."""

    def __new__(cls, *_: Any, **__: Any) -> Generator:
        """Make one of the host."""
        return super().__new__(cls)  # type: ignore[no-any-return]


class Graph:
    """A CUDA graph: the operations of a capture, to be repeated in the same memory."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._operations: list[tuple[bool, Any, Any, Any, Any]] = []
        self._before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def before(self, func: Any, args: Any, kwargs: Any) -> None:
        """Keep what is in the memory that an operation will write to."""
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
        """Keep an operation."""
        self._operations.append((torch.is_grad_enabled(), func, args, kwargs, result))

    def undo(self) -> None:
        """Leave memory as it was before the capture."""
        for memory, before in self._before.values():
            memory.copy_(before)

    def replay(self) -> None:
        """Repeat all operations in the same memory."""
        with torch._C._DisableTorchDispatch(), torch._C._AutoDispatchBelowAutograd():
            for training, func, args, kwargs, kept in self._operations:
                with torch.set_grad_enabled(training):  # the LSTM keeps what its backward pass needs
                    again = func(*args, **kwargs)
                for new, old in zip(tree_leaves(again), tree_leaves(kept), strict=True):
                    if isinstance(old, torch.Tensor) and _memory(new) != _memory(old):
                        old.copy_(new)


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())


@contextlib.contextmanager
def capturing(graph: Graph, **_: Any) -> Iterator[None]:
    """Capture what is done on the device.

    Raises:
        device.Devices: the host would wait for the device, or something is copied between both.
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
    """Give this process the device, to its end."""
    _replace_torchs()
    emulated = device.emulated()
    emulated.__enter__()
    atexit.register(emulated.__exit__, None, None, None)


_CAPABILITY = (8, 0)
"""The oldest for which torch has bfloat16 and TF32, so that a script that asks for them goes its usual way."""


def _replace_torchs() -> None:
    """Put all this where torch has its own."""
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
    # A build for CUDA asks a driver that is not there for all of this; a build for the CPU says that there is no device
    accelerator = torch.accelerator
    accelerator.current_accelerator, accelerator.current_stream = _constant(torch.device("cuda")), lambda *_: Stream()
    found |= {"current_device_index": 0, "current_device_idx": 0}
    for name, value in {**found, **dict.fromkeys(nothing)}.items():
        if hasattr(accelerator, name):
            setattr(accelerator, name, _constant(value))


def _uncompiled(model: Any = None, **_: Any) -> Any:
    """The function itself: Inductor has no code for this device, so what is compiled, and captured, is eager code."""
    return _uncompiled if model is None else model


def _constant(value: Any) -> Callable[..., Any]:
    """A function of its own for each name: torch.compile has one rule for each function."""
    return lambda *_, **__: value
