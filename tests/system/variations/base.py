"""A variation, and what several of them are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scripts import PARTS


@dataclass(frozen=True)
class Variation:
    """A script in parts, and which transforms are skipped, each with a piece of the reason."""

    title: str
    parts: Mapping[str, str]
    skipped: Mapping[str, str | None] = field(default_factory=dict)
    """None for one that most scripts do not need, and this one does."""

    def __str__(self) -> str:
        return self.title


WRAPPER = "class Wrapped:\n    def __init__(self, envs):\n        self.envs = envs\n\n"
"""The head of a class of environments around those of the script."""
WRAPPED = "envs = Wrapped(envs)\n" + PARTS["make_agent"]
