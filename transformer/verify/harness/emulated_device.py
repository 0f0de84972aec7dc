"""A device of type "cuda" in host memory: operations run on the CPU, by CUDA's rules.

In Python its tensors are on "cuda:0"; in torch's C++ code they are wrappers on the device "meta", the only device
besides the CPU in every build of torch. Operations arrive in `__torch_dispatch__`, which checks that all operands are
on one device, notes where the host waits for the device, and runs the operation on the CPU.

It cannot reproduce the numerics of CUDA's kernels, CUDA's random numbers, asynchronous execution, or speed.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map_only

aten = torch.ops.aten

CUDA = torch.device("cuda", 0)
META = torch.device("meta")
CPU = torch.device("cpu")

WAITS = {
    aten._local_scalar_dense.default: "item",
    aten.equal.default: "equal",
    aten.nonzero.default: "nonzero",
    aten.masked_select.default: "masked_select",
    aten._unique2.default: "unique",
    # Both validate their arguments on the host
    aten.multinomial.default: "multinomial",
    aten.normal.Tensor_Tensor: "normal",
    aten.normal.float_Tensor: "normal",
}
"""Operations that make the host read something from the device."""
MIXED = {aten._to_copy.default, aten.copy_.default, aten._foreach_copy_.default, aten.set_.source_Tensor}
"""Operations whose operands may be on different devices."""
INDEXED = {aten.index.Tensor, aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default}
"""Operations on the device whose second operand, the indices, may be on the host."""
ONE_DEVICE = {aten.cat.default, aten.stack.default, aten.mm.default, aten.addmm.default, aten.bmm.default}
"""Operations that do not accept even a scalar from the host."""


class Devices(RuntimeError):
    """An error that CUDA would raise."""


def falls_short(error: BaseException) -> bool:
    """Whether an error, or its cause, is due to a limit of the emulation rather than to the script."""
    chain = [error]
    while (earlier := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(earlier)
    if any(isinstance(e, Devices) for e in chain):
        return False
    return any(isinstance(e, NotImplementedError) or re.search(_NOT_EMULATED, str(e)) for e in chain)


_NOT_EMULATED = r"(?i)\bmeta\b|compiled with CUDA|NVIDIA|_cuda"
"""Messages of torch that reveal the emulation."""


class DeviceTensor(torch.Tensor):  # type: ignore[misc]
    """A tensor on the emulated device; `inner` is the tensor on the CPU that has its values."""

    made = False
    """Whether a tensor of this class exists, so that the script has put something on the device."""
    inner: torch.Tensor
    device = property(lambda _: CUDA)
    is_cuda = property(lambda _: True)
    is_meta = property(lambda _: False)
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> DeviceTensor:
        """Wrap a tensor on the CPU."""
        wrapper: DeviceTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=META,
        )
        wrapper.inner = inner
        DeviceTensor.made = True
        return wrapper

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation with a tensor of this class."""
        return dispatch(func, args, kwargs or {})

    # With these two, torch.nn.Module swaps whole tensors instead of their memory
    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, torch.Tensor], *_: Any) -> DeviceTensor:
        return DeviceTensor(parts["inner"])

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            copy = DeviceTensor(self.inner.detach().clone()).requires_grad_(self.requires_grad)
            memo[id(self)] = (
                torch.nn.Parameter(copy, self.requires_grad) if isinstance(self, torch.nn.Parameter) else copy
            )
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.detach().cpu().__reduce_ex__(protocol)  # saved as a CPU tensor

    def data_ptr(self) -> int:
        """Return the address of the tensor's memory."""
        return int(self.inner.data_ptr())

    def t_(self) -> DeviceTensor:
        """Transpose both the wrapper and the wrapped tensor in place."""
        self.inner = self.inner.t()
        self.data = DeviceTensor(self.inner)
        return self

    def get_device(self) -> int:
        """Return the index of the tensor's device."""
        return 0

    def numpy(self, *_: Any, **__: Any) -> Any:
        """Refuse, as CUDA's tensors do."""
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")

    __array__ = numpy

    def __format__(self, spec: str) -> str:
        return str(self.item().__format__(spec) if self.dim() == 0 else super().__format__(spec))

    def tolist(self) -> Any:
        """Return its values, for which the host waits."""
        return self.cpu().tolist()

    def pin_memory(self, *_: Any) -> Any:
        """Refuse, as CUDA's tensors do."""
        raise RuntimeError("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned")


class Capture(Protocol):
    """Is notified of each operation on the device, with operands and results on the CPU."""

    def before(self, func: Any, args: Any, kwargs: Any) -> None:
        """Called before an operation runs."""

    def after(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Called with the result of an operation."""


waits: Counter[str] = Counter()
"""How often the host has waited for the device, by `kind:line` of the script."""
capture: Capture | None = None
"""Records the operations for a replay while a graph is captured."""


def _note(kind: str) -> None:
    if capture is not None:
        raise Devices(f"operation not permitted when stream is capturing: {kind}")
    frame: Any = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__") != "__main__":
        frame = frame.f_back
    waits[f"{kind}:{frame.f_lineno if frame else 0}"] += 1


def _check_devices(func: Any, args: Any, kwargs: Any) -> None:
    """Make sure that the operands are on one device.

    Raises:
        Devices: they are not.
    """
    if func in INDEXED and isinstance(args[0], DeviceTensor):
        args = (args[0], *args[2:])
    host = [x for x in tree_iter((args, kwargs)) if isinstance(x, torch.Tensor) and not isinstance(x, DeviceTensor)]
    if any(x.dim() or func in ONE_DEVICE for x in host):
        raise Devices(f"Expected all tensors to be on the same device, but found at least two devices: {func}")


def dispatch(func: Any, args: Any, kwargs: Any) -> Any:
    """Run an operation of torch by the rules of the emulated device.

    Raises:
        Devices: CUDA would not run it.
    """
    wrappers: dict[int, DeviceTensor] = {}

    def inner(wrapper: DeviceTensor) -> torch.Tensor:
        wrappers[id(wrapper.inner)] = wrapper
        return wrapper.inner

    if any(isinstance(x, torch.Tensor) and x.is_meta for x in tree_iter((args, kwargs))):
        raise NotImplementedError(f"{func} is given a tensor on the device meta, whose values are lost")
    target = kwargs.get("device")
    given, named = tree_map_only(DeviceTensor, inner, (args, kwargs))
    to_device = bool(wrappers) if target is None else target.type != "cpu"  # "cuda" by default
    if target is not None:
        named["device"] = CPU
    if wrappers and func not in MIXED:
        _check_devices(func, args, kwargs)
    _note_wait(func, args, kwargs, bool(wrappers), to_device)
    recorded = capture if wrappers or to_device else None
    if recorded is not None:
        # A host scalar is passed to the kernel by value: a capture records its value, not its address
        given, named = tree_map_only(torch.Tensor, lambda t: t if id(t) in wrappers else t.clone(), (given, named))
        recorded.before(func, given, named)
    result = func(*given, **named)
    if func is aten._to_copy.default and result is given[0]:
        result = result.clone()
    if any(wrapper.shape != tensor.shape for wrapper, tensor in ((w, w.inner) for w in wrappers.values())):
        raise NotImplementedError(f"{func} changes a shape in place")
    if recorded is not None:
        recorded.after(func, given, named, result)
    if not to_device:
        return result
    if func is aten.copy_.default and not isinstance(args[0], DeviceTensor):
        return args[0]
    return tree_map_only(torch.Tensor, lambda t: wrappers[id(t)] if id(t) in wrappers else DeviceTensor(t), result)


def _note_wait(func: Any, args: Any, kwargs: Any, reads_device: bool, to_device: bool) -> None:
    if func is aten._to_copy.default:
        if isinstance(args[0], DeviceTensor) != to_device:
            _note_copy(to_device, kwargs.get("non_blocking", False))
    elif func is aten.copy_.default:
        to, source = (isinstance(x, DeviceTensor) for x in args[:2])
        if to != source and (args[1].dim() or not to):
            _note_copy(to, len(args) > 2 and args[2])
    elif reads_device and func in WAITS:
        _note(WAITS[func])
    elif reads_device and func in INDEXED:
        if any(x is not None and x.dtype in (torch.bool, torch.uint8) for x in args[1]):
            _note("mask")
        if any(x is not None and not isinstance(x, DeviceTensor) for x in args[1]):
            _note_copy(True, False)


def _note_copy(to_device: bool, non_blocking: bool) -> None:
    """Note a copy between host and device; the host waits unless it is a non-blocking copy to the device."""
    if capture is not None:
        raise Devices(
            "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned."
        )
    if not to_device:
        _note("download")
    elif not non_blocking:
        _note("upload")


class _Operations(TorchDispatchMode):  # type: ignore[misc]
    """Handles operations without an operand on the device, such as those that make a tensor there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatch(func, args, kwargs or {})


NAMING = {torch.device, torch._C._nn._parse_to}
FROM_DATA = {torch.tensor, torch.as_tensor, torch.asarray}
INDEXING = {torch.Tensor.__getitem__, torch.Tensor.__setitem__}


class _Names(TorchFunctionMode):  # type: ignore[misc]
    """Replaces the device "cuda" in Python by "meta" for torch's C++ code."""

    default: Any = None
    """The device of new tensors."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in NAMING:
            return func(*args, **kwargs)
        if func in FROM_DATA and _is_cuda(kwargs.get("device") or self.default):
            return func(*args, **{**kwargs, "device": CPU}).to(META)  # on "meta", the data would be lost
        if func in INDEXING and isinstance(args[0], DeviceTensor):
            indices = tuple(map(_as_tensor, args[1])) if isinstance(args[1], tuple) else _as_tensor(args[1])
            return func(args[0], indices, *args[2:])
        return func(*map(_as_meta, args), **{name: _as_meta(x) for name, x in kwargs.items()})


def _as_tensor(index: Any) -> Any:
    """An index; a list becomes a tensor on the host, because torch's C++ code would make one on "meta"."""
    return torch.tensor(index) if isinstance(index, list) and index else index


def _is_cuda(x: Any) -> bool:
    return (isinstance(x, torch.device) and x.type == "cuda") or (isinstance(x, str) and x.partition(":")[0] == "cuda")


def _as_meta(x: Any) -> Any:
    return META if _is_cuda(x) else x


@contextlib.contextmanager
def emulated() -> Iterator[None]:
    """Make the device available in torch."""
    load, set_default_device, names = torch.load, torch.set_default_device, _Names()

    def load_to(file: Any, map_location: Any = None, **others: Any) -> Any:
        found = load(file, map_location="cpu", **others)
        return tree_map_only(torch.Tensor, lambda t: t.to(META), found) if _is_cuda(map_location) else found

    def set_default(device: Any) -> None:
        names.default = device
        set_default_device(_as_meta(device))

    torch.load, torch.set_default_device = load_to, set_default
    try:
        with names, _Operations():
            yield
    finally:
        torch.load, torch.set_default_device = load, set_default_device
