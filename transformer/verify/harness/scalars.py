"""Records every scalar and every text that the script logs, through any of the supported packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import torch

from .imports import patch_on_import
from .journal import Journal


class ScalarRecorder:
    """Records tensorboard's and tensorboardX's `add_scalar`, `add_scalars` and `add_text`, and wandb's `log`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._inside = False

    def install(self) -> None:
        """Patch these packages once the script imports them; none is imported here."""
        patch_on_import(
            {
                "torch.utils.tensorboard.writer": self._patch_writer,
                "tensorboardX.writer": self._patch_writer,
                "wandb.sdk.wandb_run": self._patch_wandb,
            }
        )

    def _patch_writer(self, module: ModuleType) -> None:
        self._replace(module.SummaryWriter, "add_scalar", self._note_scalar)
        self._replace(module.SummaryWriter, "add_scalars", self._note_scalars)
        self._replace(module.SummaryWriter, "add_text", self._note_text)

    def _patch_wandb(self, module: ModuleType) -> None:
        self._replace(module.Run, "log", self._note_wandb)

    def _replace(self, owner: type, name: str, note: Callable[..., None]) -> None:
        """Make a method call `note` with its arguments first, unless another recorded method called it."""
        real = getattr(owner, name)

        def method(this: Any, *args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return real(this, *args, **kwargs)
            note(*args, **kwargs)
            self._inside = True
            try:
                return real(this, *args, **kwargs)
            finally:
                self._inside = False

        setattr(owner, name, method)

    def _note_scalar(self, tag: str, scalar_value: Any, global_step: Any = None, *_: Any, **__: Any) -> None:
        self._record_scalar(tag, global_step, scalar_value)

    def _note_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: Any = None, *_: Any, **__: Any
    ) -> None:
        for tag, value in tag_scalar_dict.items():
            self._record_scalar(f"{main_tag}/{tag}", global_step, value)

    def _note_text(self, tag: str, text_string: str, global_step: Any = None, *_: Any, **__: Any) -> None:
        step = "" if global_step is None else f" at step {int(global_step)}"
        for line in (f"{tag}{step}", *text_string.split("\n")):
            self._journal.add("texts", line)

    def _note_wandb(self, data: Mapping[str, Any], step: Any = None, *_: Any, **__: Any) -> None:
        for tag, value in data.items():
            if isinstance(value, Mapping):
                self._note_wandb({f"{tag}.{key}": part for key, part in value.items()}, step)
            elif _is_one_number(value):
                self._record_scalar(tag, step, value)

    def _record_scalar(self, tag: str, step: Any, value: Any) -> None:
        self._journal.add("scalars", tag, None if step is None else int(step), _float64(value))


def _is_one_number(value: Any) -> bool:
    if isinstance(value, (str, bytes)) or (not np.isscalar(value) and not hasattr(value, "shape")):
        return False
    return bool(np.prod(np.shape(value)) == 1)


def _float64(value: Any) -> float:
    """Convert a number, or an array or tensor with one element, to float64; exact for every narrower dtype."""
    return float(value.detach().item() if isinstance(value, torch.Tensor) else np.asarray(value).reshape(()))
