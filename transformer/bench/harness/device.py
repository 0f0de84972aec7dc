"""The script's CUDA device, accessed through the script's torch, if the script has imported it."""

from __future__ import annotations

import sys
from typing import Any


def cuda_name() -> str | None:
    """The name of the CUDA device that can be used here, whether or not the script uses it."""
    torch: Any = sys.modules.get("torch")
    return torch.cuda.get_device_name() if torch is not None and torch.cuda.is_available() else None


def synchronise() -> None:
    """Wait until the GPU has finished its work, if one is in use."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()
