"""A game of random pictures, in place of the games of Atari."""

from __future__ import annotations

from typing import Any

import numpy as np


def list_games() -> list[str]:
    """The names of all games."""
    return ["space_invaders"]


def get_game_path(name: str) -> str:
    """Where a game would lie."""
    return name


class ALEInterface:
    """Three lives of forty frames."""

    def __init__(self) -> None:
        self.age, self.noise = 0, np.random.default_rng(1)
        self.setInt = self.setFloat = self.setBool = lambda *_: None

    def loadROM(self, path: str) -> None:
        """Begin."""
        self.reset_game()

    def reset_game(self) -> None:
        """Begin again."""
        self.age = 0

    def getMinimalActionSet(self) -> list[int]:
        """The numbers of the actions."""
        return [0, 1, 3, 4]

    def act(self, action: int) -> float:
        """Play a frame."""
        self.age += 1
        return float(self.age % 7 == action)

    def lives(self) -> int:
        """Lives that are left."""
        return 3 - self.age // 40

    def game_over(self) -> bool:
        """Whether none are."""
        return self.lives() <= 0

    def getScreenGrayscale(self) -> Any:
        """A picture."""
        return self.noise.integers(0, 255, (210, 160), np.uint8)
