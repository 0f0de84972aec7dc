"""Seeding, as stable-baselines3 does it."""

import random

import numpy as np
import torch


def set_random_seed(seed: int) -> None:
    """Seed all three generators."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
