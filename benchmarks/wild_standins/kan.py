"""Networks with trainable activation functions: here, layers whose input goes through cubic polynomials."""

from itertools import pairwise
from typing import Any

import torch
from torch import nn


class KAN(nn.Module):
    """Maps `(batch, width[0])` to `(batch, width[-1])`."""

    def __init__(self, width: list[int], **_: Any) -> None:
        super().__init__()
        pairs = list(pairwise(width))
        self.layers = nn.ModuleList(nn.Linear(before, after) for before, after in pairs)
        self.cubic = nn.ParameterList(nn.Parameter(torch.full((before,), 0.1)) for before, _ in pairs)

    def speed(self) -> "KAN":
        """Nothing to leave out."""
        return self

    def forward(self, x: Any) -> Any:
        for layer, cubic in zip(self.layers, self.cubic, strict=True):
            x = layer(x + cubic * x.tanh() ** 3)
        return x
