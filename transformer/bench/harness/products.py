"""Measures the time that a script spends in matrix products and convolutions.

Compiled code calls the same routines for them as eager code, so compilation does not reduce this time.
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
"""The operators, including those that autograd's backward pass calls."""


class Products:
    """A clock for these operators, between :meth:`begin` and :meth:`end`. While it runs, other operators are slower."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._mode: Any = None

    @property
    def running(self) -> bool:
        """Whether the clock was started."""
        return self._mode is not None

    def begin(self) -> None:
        """Start the clock in the caller's thread, in which backward passes run, too."""
        self._mode = _mode_of(self)
        self._mode.__enter__()

    def end(self) -> None:
        """Stop the clock."""
        self._mode.__exit__(None, None, None)


def can_be_told() -> bool:
    """Whether the time can be measured: the script uses torch only on a CPU; for a GPU, the host would not wait."""
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
