"""Observes the options that a script's parser returns: their names, values and spelling."""

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
    """An option whose value is a number, a boolean or None."""

    spelled: str
    """`--clip-coef`."""
    attribute: str
    """The attribute of the parsed arguments that holds it: `clip_coef`."""
    value: Value
    flipped: tuple[str, ...]
    """The arguments that flip a boolean; empty if it is not a boolean, or cannot be flipped."""


class ParsedOptions:
    """The options of every parser that the script uses: argparse's and tyro's."""

    def __init__(self) -> None:
        self.found: dict[str, Option] = {}
        """The options by their spelling."""

    def counts(self) -> dict[str, int]:
        """The options with positive integer values."""
        return {name: o.value for name, o in self.found.items() if type(o.value) is int and o.value > 0}

    def install(self) -> None:
        """Observe what these parsers return, without importing tyro."""
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
    """The arguments that flip a boolean option; empty if there are none."""
    if isinstance(action, argparse.BooleanOptionalAction):
        return [s for s in action.option_strings if s.startswith("--no-") == value and s.startswith("--")][:1]
    if action.nargs == 0:
        return [action.option_strings[-1]] if action.const is not value else []
    for word in ("true", "false", "True", "False", "1", "0", "yes", "no", "on", "off"):
        try:
            if callable(action.type) and action.type(word) is (not value):
                return [action.option_strings[-1], word]
        except Exception:
            continue  # a word that this option does not accept
    return []


def _attributes(prefix: str, parsed: Any) -> Iterator[Option]:
    """The options in an object's attributes, nested ones included, with tyro's spelling."""
    for name, value in getattr(parsed, "__dict__", {}).items():
        option = prefix + name.replace("_", "-")
        if isinstance(value, Value):
            path, _, last = option.rpartition(".") if "." in option else ("--", "", option[2:])
            other = f"{path}{'.' if path != '--' else ''}no-{last}" if value else option
            yield Option(option, name, value, (other,) if isinstance(value, bool) else ())
        elif hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value):
            yield from _attributes(f"{option}.", value)
