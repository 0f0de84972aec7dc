"""State of modules in Python, other than parameters and buffers: counters, and lists of results."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from copy import copy
from typing import Any

import torch

HOLDING = (list, dict, set, deque)
"""Types of attributes that may be changed in place."""


class Attributes:
    """The attributes of modules at one moment, and the elements of containers among them, which are not copied."""

    def __init__(self, modules: Iterable[torch.nn.Module]) -> None:
        self._values = [(module, _script_attributes(module)) for module in modules]
        held = {id(v): v for _, values in self._values for v in values.values() if type(v) in HOLDING}
        self._contents = [(container, copy(container)) for container in held.values()]

    def restore(self) -> None:
        """Restore the attributes, and remove attributes that have appeared since."""
        for module, values in self._values:
            present = vars(module)  # bypasses nn.Module.__setattr__, which would register modules
            for name in _script_attributes(module).keys() - values.keys():
                del present[name]
            present.update(values)
        for container, content in self._contents:
            container.clear()
            container.extend(content) if isinstance(container, (list, deque)) else container.update(content)


def _script_attributes(module: torch.nn.Module) -> dict[str, Any]:
    """All attributes except torch's own, whose names begin with an underscore."""
    return {name: value for name, value in vars(module).items() if not name.startswith("_")}
