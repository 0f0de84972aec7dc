"""Sees which options a script has, what they are set to, and how they are spelled, as its parser returns them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from .imports import patch_on_import

Value = int | float | bool | None


@dataclass(frozen=True)
class Option:
    """One option with a number, a truth value or None."""

    spelled: str
    """`--clip-coef`."""
    attribute: str
    """The attribute of the parsed arguments that holds it: `clip_coef`."""
    value: Value
    flipped: tuple[str, ...]
    """The arguments that turn a truth value over; none where it is no truth value, or cannot be."""


class ParsedOptions:
    """The options of every parser that the script uses: argparse's and tyro's."""

    def __init__(self) -> None:
        self.found: dict[str, Option] = {}
        """By how they are spelled."""

    def counts(self) -> dict[str, int]:
        """The positive whole numbers among their values."""
        return {name: o.value for name, o in self.found.items() if type(o.value) is int and o.value > 0}

    def install(self) -> None:
        """See what these parsers return; tyro is not imported here."""
        real = argparse.ArgumentParser.parse_known_args
        found = self.found

        def parse_known_args(parser: argparse.ArgumentParser, *args: Any, **kwargs: Any) -> Any:
            parsed = real(parser, *args, **kwargs)
            found.update((o.spelled, o) for o in _of_argparse(parser, parsed[0]))
            return parsed

        argparse.ArgumentParser.parse_known_args = parse_known_args  # type: ignore[method-assign, assignment]
        patch_on_import({"tyro": self._patch_tyro})

    def _patch_tyro(self, module: ModuleType) -> None:
        real = module.cli

        def cli(*args: Any, **kwargs: Any) -> Any:
            parsed = real(*args, **kwargs)
            self.found.update((o.spelled, o) for o in _attributes("--", parsed))
            return parsed

        module.cli = cli  # type: ignore[attr-defined]


def _of_argparse(parser: argparse.ArgumentParser, namespace: argparse.Namespace) -> Iterator[Option]:
    for action in parser._actions:
        value = getattr(namespace, action.dest, argparse.SUPPRESS)
        if action.option_strings and isinstance(value, Value):
            spelled = next((s for s in action.option_strings if s.startswith("--")), action.option_strings[-1])
            yield Option(spelled, action.dest, value, tuple(_flip(action, value)) if isinstance(value, bool) else ())


def _flip(action: argparse.Action, value: bool) -> list[str]:
    """The arguments that set an option to the other truth value; empty where there are none."""
    if isinstance(action, argparse.BooleanOptionalAction):
        return [s for s in action.option_strings if s.startswith("--no-") == value and s.startswith("--")][:1]
    if action.nargs == 0:
        return [action.option_strings[-1]] if action.const is not value else []
    for word in ("true", "false", "True", "False", "1", "0", "yes", "no", "on", "off"):
        try:
            if callable(action.type) and action.type(word) is (not value):
                return [action.option_strings[-1], word]
        except Exception:
            continue  # a word that this option does not take
    return []


def _attributes(prefix: str, parsed: Any) -> Iterator[Option]:
    """Options from an object whose attributes, and theirs, are options, as tyro spells them."""
    for name, value in getattr(parsed, "__dict__", {}).items():
        option = prefix + name.replace("_", "-")
        if isinstance(value, Value):
            path, _, last = option.rpartition(".") if "." in option else ("--", "", option[2:])
            other = f"{path}{'.' if path != '--' else ''}no-{last}" if value else option
            yield Option(option, name, value, (other,) if isinstance(value, bool) else ())
        elif hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value):
            yield from _attributes(f"{option}.", value)
