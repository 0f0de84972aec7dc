"""The arguments that a command was given, and those after `--`, which it leaves to the script.

This module imports nothing heavy, so that `run` starts quickly.
"""

from __future__ import annotations

import shlex
from typing import Any

import click

_SCRIPT_ARGS = "transformer.script_args"
_GIVEN = "transformer.given"


class Remembering(click.Command):
    """A command that remembers its arguments, to tell the user how to repeat it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the arguments, and parse them."""
        ctx.meta[_GIVEN] = tuple(args)
        return super().parse_args(ctx, args)


def as_given(*, without: str) -> str:
    """The running command, quoted for a shell, without one of its flags."""
    given: tuple[str, ...] = click.get_current_context().meta.get(_GIVEN, ())
    return shlex.join(["lean-convert", *(word for word in given if word != without)])


class WithScriptArgs(click.Command):
    """A command that leaves everything after `--` to the scripts."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Set the scripts' arguments aside, so that none is parsed as an argument of the command."""
        if "--" in args:
            at = args.index("--")
            args, ctx.meta[_SCRIPT_ARGS] = args[:at], tuple(args[at + 1 :])
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if self.name != "convert" and error.option_name in _options_of_convert(ctx):
                message = (
                    f"{error.message} It is an option of convert: give it there, and the file that it writes here."
                )
                raise click.UsageError(message, error.ctx) from None
            message = f"{error.message} Put arguments of the script after `--`."
            raise click.NoSuchOption(error.option_name, message, error.possibilities, error.ctx) from None

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Add the scripts' arguments to the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- SCRIPT ARGS...]"]


def _options_of_convert(ctx: click.Context) -> set[str]:
    """The options of the command `convert`, for an error message."""
    commands = ctx.find_root().command
    convert = commands.get_command(ctx, "convert") if isinstance(commands, click.Group) else None
    return {option for parameter in (convert.params if convert else ()) for option in parameter.opts}


def script_args(ctx: click.Context) -> tuple[str, ...]:
    """The arguments after `--`."""
    args: tuple[str, ...] = ctx.meta.get(_SCRIPT_ARGS, ())
    return args


class ScriptFile(click.Path):
    """An existing file; error messages do not name the argument."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path.

        Raises:
            UsageError: there is no such file, or it cannot be read.
        """
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            raise click.UsageError(error.message, ctx) from None
