"""A network over four frames, with the name and the constructor of the script's that is imported as a teacher."""

from typing import Any

import torch
from torch import nn


class QNetwork(nn.Module):
    def __init__(self, env: Any) -> None:
        super().__init__()
        self.look = nn.Conv2d(4, 8, 12, stride=8)
        self.rate = nn.Linear(800, env.single_action_space.n)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rate(self.look(x / 255.0).relu().flatten(1))
