"""What is put around an environment."""

from typing import Any


def GymWrapper(env: Any, keys: Any = None) -> Any:
    """It has gymnasium's interface as it is."""
    return env
