"""lean-convert: rewrite an eager PPO or off-policy script for torch.compile and CUDA graphs, with equal results."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformer.conversion.pipeline import all_transforms, convert
    from transformer.conversion.result import Applied, Conversion, Refused, Skipped, Step
    from transformer.conversion.selection import SelectionError
    from transformer.syntax.diagnostics import Diagnostic
    from transformer.transforms.base import TransformInfo

__all__ = [
    "Applied",
    "Conversion",
    "Diagnostic",
    "Refused",
    "SelectionError",
    "Skipped",
    "Step",
    "TransformInfo",
    "all_transforms",
    "convert",
]

_HOMES = {
    "conversion.pipeline": ("all_transforms", "convert"),
    "conversion.result": ("Applied", "Conversion", "Refused", "Skipped", "Step"),
    "conversion.selection": ("SelectionError",),
    "syntax.diagnostics": ("Diagnostic",),
    "transforms.base": ("TransformInfo",),
}


def __getattr__(name: str) -> Any:
    """Import on demand: LibCST takes half a second, and a cached run does not need it."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"transformer.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
