"""The game of Snake on a grid; the board is given as channels of bytes."""

from typing import Any

import gymnasium
from noise_world import environment, space


class SnakeGame(environment(gymnasium, "Image(4, 12, 12)", "Discrete(4)", ["snake_length"])):  # type: ignore[misc]
    """A board of random pieces, and which moves are possible."""

    ITEM = 255

    def __init__(self, board_size: int = 12, n_channel: int = 4, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.observation_space = space(gymnasium, f"Image({n_channel}, {board_size}, {board_size})")


gymnasium.register("gym_snakegame/SnakeGame-v0", entry_point=SnakeGame)
