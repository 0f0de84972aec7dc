"""Modules that cannot be had: all that is asked of one exists, can be called, derived from, entered, and does nothing.

Only what a script or a module beside it imports is made up; a package that tries whether another one is there is told
the truth.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

HERE = Path(__file__).parent
INSTALLED = ("site-packages", "dist-packages", ".packages", sys.base_prefix, "<frozen", str(HERE))
"""Parts of the paths of code that is no script's."""


class Kind(type):
    """What holds of a made-up class as of its instances: it has every attribute, and nothing in it."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __iter__(cls) -> Any:
        return iter(())


class Anything(metaclass=Kind):
    """An object that has every attribute and item, and whose every call gives another such object."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take whatever is given."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Take whatever a class statement gives."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Another such object; a decorated function as it is."""
        function = args[0] if len(args) == 1 and not kwargs else None
        return function if isinstance(function, type) or hasattr(function, "__code__") else Anything()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *args: object) -> None:
        """Nothing is entered, so nothing is left."""

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __getitem__(self, key: Any) -> Any:
        return Anything()

    def __setitem__(self, key: Any, value: Any) -> None:
        """Nothing is kept."""

    def __bool__(self) -> bool:
        return False


class Module(ModuleType):
    """A module that has every attribute: a class where the name is written like one."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = Kind(name, (Anything,), {}) if name[:1].isupper() else Anything()
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Comes last, and finds what a script imports in vain, but for the parts of real packages."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """A made-up module."""
        parent = sys.modules.get(name.rpartition(".")[0])
        stands_in = parent is None or isinstance(parent, Module) or _below(HERE.parent.parent, parent)
        if stands_in and (isinstance(parent, Module) or _asked_by_script()):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """An empty one."""
        return Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is in it."""


def _below(folder: Path, module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).is_relative_to(folder)


def _asked_by_script() -> bool:
    """Whether the import statement being executed stands in a script or in a module beside it."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file != __file__ and not file.startswith("<frozen"):
            return not any(part in file for part in INSTALLED) and "_lean_harness" not in frame.f_globals.get(
                "__name__", ""
            )
        frame = frame.f_back
    return False
