"""How long a script computes matrix products and convolutions.

Compiled code calls the same routines for these as eager code does: what they take stays.
"""

from __future__ import annotations

import sys
from time import perf_counter
from typing import Any

OPERATORS = frozenset(
    f"aten::{name}"
    for name in (
        "mm addmm bmm baddbmm mv addmv dot convolution convolution_backward mkldnn_rnn_layer mkldnn_rnn_layer_backward"
    ).split()
)
"""By the names that autograd's backward pass calls, too."""


class Products:
    """A clock for these operators, between :meth:`begin` and :meth:`end`. All others take longer meanwhile."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._mode: Any = None

    @property
    def running(self) -> bool:
        """Whether it has begun."""
        return self._mode is not None

    def begin(self) -> None:
        """Start it, in the thread of the caller, whose backward passes run there, too."""
        self._mode = _mode_of(self)
        self._mode.__enter__()

    def end(self) -> None:
        """Stop it."""
        self._mode.__exit__(None, None, None)


def can_be_told() -> bool:
    """Whether the script uses torch, and a CPU alone: a GPU computes while the host goes on."""
    torch = sys.modules.get("torch")
    return torch is not None and not torch.cuda.is_initialized()


def _mode_of(products: Products) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Timing(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func._schema.name not in OPERATORS:
                return func(*args, **(kwargs or {}))
            before = perf_counter()
            try:
                return func(*args, **(kwargs or {}))
            finally:
                products.seconds += perf_counter() - before

    return Timing()
