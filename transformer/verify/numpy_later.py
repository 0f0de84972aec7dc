"""numpy, imported on first use, so that `verify --help` and `bench --help` do not need it."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
else:

    class _Later(ModuleType):
        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module("numpy"), name)

    np = _Later("numpy")

__all__ = ["np"]
