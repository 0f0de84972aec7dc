"""Calls a function on a module as soon as the script imports it, without importing it sooner."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

Patch = Callable[[ModuleType], None]


def patch_on_import(patches: dict[str, Patch]) -> None:
    """Have each of `patches` called on the module of its name, once, when that has been imported."""
    for name in patches.keys() & sys.modules.keys():  # by a sitecustomize.py, say
        patches[name](sys.modules[name])
    sys.meta_path.insert(0, _PatchOnImport(patches))


class _PatchOnImport(importlib.abc.MetaPathFinder):
    """Finds no module itself."""

    def __init__(self, patches: dict[str, Patch]) -> None:
        self._patches = dict(patches)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        patch = self._patches.pop(fullname, None)
        spec = importlib.util.find_spec(fullname) if patch is not None else None
        if patch is None or spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            patch(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
