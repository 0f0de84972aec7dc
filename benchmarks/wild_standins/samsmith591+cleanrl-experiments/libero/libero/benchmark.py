"""The suites of tasks."""

from types import SimpleNamespace
from typing import Any

import numpy as np


class Suite:
    """The tasks of one kind."""

    def get_task(self, number: int) -> Any:
        """A task: its file, and what is to be done."""
        return SimpleNamespace(
            name=f"task_{number}", language="put it there", problem_folder="suite", bddl_file=f"task_{number}.bddl"
        )

    def get_task_init_states(self, number: int) -> Any:
        """States of the simulator, one a row."""
        return np.zeros((50, 92))


def get_benchmark_dict() -> dict[str, type[Suite]]:
    """The suites by their names."""
    return dict.fromkeys(("libero_spatial", "libero_object", "libero_goal", "libero_10", "libero_90"), Suite)
