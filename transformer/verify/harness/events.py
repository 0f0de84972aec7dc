"""Records events of environments and writers other than steps and scalars: made, reset, closed."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from .imports import patch_on_import
from .instrument import Hook
from .journal import Journal


def _kind(owner: Any) -> str:
    """The name of an object's kind: its class, or VectorEnv for any of gym's vector environments."""
    classes = [cls.__name__ for cls in type(owner).__mro__]
    return "VectorEnv" if "VectorEnv" in classes else classes[0]


class Events:
    """Records resets of environments, creations of writers, and all calls of close()."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.hooks: dict[str, Hook] = {"reset": self._replace_reset, "close": self._replace_close}

    def install(self) -> None:
        """Watch for writers being made, without importing their packages."""
        patch_on_import(
            {"torch.utils.tensorboard.writer": self._patch_writer, "tensorboardX.writer": self._patch_writer}
        )

    def _patch_writer(self, module: ModuleType) -> None:
        real = module.SummaryWriter.__init__

        def init(this: Any, *args: Any, **kwargs: Any) -> None:
            self._journal.add("events", f"{type(this).__name__} made")
            real(this, *args, **kwargs)

        module.SummaryWriter.__init__ = init

    def _replace_reset(self, function: Any) -> Any:
        """Wrap an environment's `reset` to record it; any other `reset` is unchanged."""
        owner = getattr(function, "__self__", None)
        return self._noted(function, f"{_kind(owner)} reset") if hasattr(owner, "step") else function

    def _replace_close(self, function: Any) -> Any:
        """Wrap `close` of an object to record it."""
        owner = getattr(function, "__self__", None)
        if owner is None or isinstance(owner, ModuleType):
            return function
        return self._noted(function, f"{_kind(owner)} closed")

    def _noted(self, function: Any, event: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._journal.add("events", event)
            return function(*args, **kwargs)

        return call
