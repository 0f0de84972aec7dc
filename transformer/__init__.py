"""lean-convert: rewrite an eager PPO script for torch.compile and CUDA graphs, with equal results."""

from transformer.conversion import Applied, Conversion, Refused, Skipped, Step, TransformInfo
from transformer.diagnostics import Diagnostic
from transformer.pipeline import SelectionError, all_transforms, convert

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
