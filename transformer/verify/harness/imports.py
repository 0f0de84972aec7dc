"""Calls a function on a module as soon as it is imported; treats modules next to the script like the script."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from .instrument import HOOKS_NAME, Hook, compile_with_hooks

Patch = Callable[[ModuleType], None]


def patch_on_import(patches: dict[str, Patch]) -> None:
    """Call each of `patches` once on the module with its name, after the module has been imported."""
    for name in patches.keys() & sys.modules.keys():  # by a sitecustomize.py, for example
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


def hook_modules_of(places: Sequence[Path], hooks: Mapping[str, Hook]) -> None:
    """Also route the calls in modules of some folders, and of some files, through `hooks`: they are the script's code.

    A conversion may merge them into the script, so the same rules must apply to them before and after.
    """
    sys.meta_path.insert(sys.meta_path.index(PathFinder), _Hooked(places, hooks))  # after the finders that patch


class _Hooked(importlib.abc.MetaPathFinder):
    """Finds the modules in some folders, and of some files."""

    def __init__(self, places: Sequence[Path], hooks: Mapping[str, Hook]) -> None:
        self._places, self._hooks = places, hooks

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or not isinstance(spec.loader, SourceFileLoader):
            return None
        file = Path(spec.origin)
        if not any(file.is_relative_to(place) or file.resolve() == place for place in self._places):
            return None
        spec.loader = _HookingLoader(fullname, spec.origin, self._hooks)
        return spec


class _HooksOfMain:
    """The hooks of the running script: several ranks in one process share modules, but have separate hooks."""

    def __getitem__(self, name: str) -> Hook:
        hooks: Mapping[str, Hook] = sys.modules["__main__"].__dict__[HOOKS_NAME]
        return hooks[name]


class _HookingLoader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, hooks: Mapping[str, Hook]) -> None:
        super().__init__(fullname, path)
        self._hooks = hooks

    def get_code(self, fullname: str) -> CodeType:
        return compile_with_hooks(Path(self.path), self._hooks)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__[HOOKS_NAME] = _HooksOfMain()
        super().exec_module(module)
