"""lean-convert: rewrite an eager PPO script for torch.compile and CUDA graphs, with equal results."""

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
