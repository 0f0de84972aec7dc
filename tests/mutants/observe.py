"""Watches one run of a script: which lines run, and of what kind its variables and its arguments are."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from forking import record_forked

from transformer.verify.run import Mode, Run

Kinds = dict[str, str]
"""Names in the order in which they were bound, and what tells a value of one kind from one of another."""

OPTIONS = "args"
"""The object whose attributes are the script's options."""


@dataclass(frozen=True)
class Observed:
    """What was seen of a run."""

    lines: frozenset[int]
    """Numbers of the lines that ran."""
    kinds: dict[str, Kinds]
    """By scope: `Class.function`, empty for the module; the options' are under the name `args`."""


def observe(run: Run, mode: Mode = "record", **options: Any) -> Observed:
    """Run a script to its end.

    Raises:
        RunFailed: it does not get there.
    """
    with tempfile.TemporaryDirectory(prefix="lean-observed-") as folder:
        path = Path(folder, "observed.json")
        observer = _Observer(run.script.name, path)
        record_forked(run, mode, prepare=lambda: sys.settrace(observer.enter), **options)
        seen = json.loads(path.read_text())
    return Observed(frozenset(seen["lines"]), seen["kinds"])


class _Observer:
    def __init__(self, name: str, path: Path) -> None:
        self._name, self._path = name, path
        self._mine: dict[str, bool] = {}
        self.lines: set[int] = set()
        self.kinds: dict[str, Kinds] = {}

    def enter(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        """Watch the frames of the script alone."""
        file = frame.f_code.co_filename
        if file not in self._mine:
            self._mine[file] = Path(file).name == self._name
        return self.inside if self._mine[file] else None

    def inside(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        """Note a line, or what the variables hold as a function returns."""
        if event == "line":
            self.lines.add(frame.f_lineno)
        elif event == "return":
            scope = frame.f_code.co_qualname.replace("<locals>.", "").replace("<module>", "")
            found = self.kinds.setdefault(scope, {})
            found |= {name: kind for name, value in frame.f_locals.items() if (kind := _kind(value))}
            if isinstance(args := frame.f_locals.get(OPTIONS), object) and hasattr(args, "__dict__"):
                self.kinds[OPTIONS] = {n: kind for n, v in vars(args).items() if (kind := _kind(v))}
            if not scope:
                self._path.write_text(json.dumps({"lines": sorted(self.lines), "kinds": self.kinds}))
        return self.inside


def _kind(value: object) -> str:
    """Empty for values without neighbours of their kind: classes, modules, other objects."""
    if isinstance(value, torch.Tensor):
        return f"tensor {value.dtype} {[*value.shape]}"
    if isinstance(value, np.ndarray):
        return f"array {value.dtype} {[*value.shape]}"
    if isinstance(value, (FunctionType, MethodType)):
        return f"function of {value.__code__.co_argcount - isinstance(value, MethodType)}"
    if isinstance(value, (bool, int, float, list, tuple, dict)):
        return type(value).__name__
    return ""
