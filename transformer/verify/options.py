"""A script's options and their values, as its first iteration told them; how to set them anew."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Option:
    """One option with a number, a truth value or None."""

    spelled: str
    """`--clip-coef`."""
    attribute: str
    """The attribute of the parsed arguments that holds it."""
    value: int | float | bool | None
    flipped: tuple[str, ...] = ()
    """The arguments that turn a truth value over; none where it is no truth value, or cannot be."""


def with_option(args: Sequence[str], given: Sequence[str]) -> tuple[str, ...]:
    """Arguments with one option set anew: `given` is the option, and its value if it takes one."""
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
