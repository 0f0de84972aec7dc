"""A script's options and their values, as found in its first iteration; setting them to other values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Option:
    """An option whose value is a number, a boolean or None."""

    spelled: str
    """`--clip-coef`."""
    attribute: str
    """The attribute of the parsed arguments that holds it."""
    value: int | float | bool | None
    flipped: tuple[str, ...] = ()
    """The arguments that flip a boolean; empty if it is not a boolean, or cannot be flipped."""


def with_option(args: Sequence[str], given: Sequence[str]) -> tuple[str, ...]:
    """Arguments with one option set: `given` is the option, and its value if it takes one."""
    kept: list[str] = []
    rest = list(args)
    while rest:
        arg = rest.pop(0)
        name, has_value, _ = arg.partition("=")
        if _positive(name) != _positive(given[0]):
            kept.append(arg)
        elif not has_value and len(given) > 1:
            del rest[:1]
    return (*kept, *given)


def _positive(spelled: str) -> str:
    """An option without the `no-` that turns it off."""
    return re.sub(r"^(--(?:.+\.)?)no-", r"\1", spelled.replace("_", "-"))
