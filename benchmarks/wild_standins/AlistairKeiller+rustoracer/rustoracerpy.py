"""A racing simulation written in Rust."""

from typing import Any

import gymnasium
from noise_world import Batch


class RustoracerEnv(Batch):
    """Distances and motion in, steering and throttle out."""

    def __init__(self, yaml: str, num_envs: int = 1, **_: Any) -> None:
        super().__init__(gymnasium, num_envs, "Box(110)", "Box(2)")
