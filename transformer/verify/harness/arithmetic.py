"""Float32 in a script that asks for lower precision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def float32() -> Iterator[None]:
    """Inside the context, `torch.autocast` has no effect, and float32 matrix products stay in float32."""
    autocast, set_precision = torch.autocast, torch.set_float32_matmul_precision
    before = torch.get_float32_matmul_precision()
    set_precision("highest")
    torch.autocast = lambda device_type, *_, **__: autocast(device_type, enabled=False)
    torch.set_float32_matmul_precision = lambda precision: None
    try:
        yield
    finally:
        torch.autocast, torch.set_float32_matmul_precision = autocast, set_precision
        set_precision(before)
