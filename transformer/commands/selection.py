"""The options that control a conversion: the arguments of `convert`, as options of every command that converts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import click

from transformer.conversion.settings import Target


def transform_names(_: click.Context, __: click.Parameter, values: Sequence[str]) -> tuple[str, ...] | None:
    """Click callback: the names in a repeatable, comma-separated option; None if it was not given."""
    names = tuple(name.strip() for value in values for name in value.split(",") if name.strip())
    return names or None


def together_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add an option for files that are converted with a script, as the argument `together`."""
    return click.option(
        "--with",
        "together",
        multiple=True,
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Also read this file, which SCRIPT imports, and convert its definitions. Repeatable.",
    )(command)


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments of `convert` as options, for every command that converts."""
    command = click.option(
        "--target",
        type=click.Choice(get_args(Target)),
        help="Where the converted script will run; code for the other kind of machine is left out.  [default: any]",
    )(command)
    for flag, does in (
        ("--distribute/--no-distribute", "Let the script train in several processes under torchrun."),
        ("--workers/--no-workers", "Give the script --env-workers N: environments in N worker processes."),
        ("--checkpoint/--no-checkpoint", "Let the script save checkpoints, from which a killed run continues."),
        (
            "--precision/--no-precision",
            "Give the script --precision {fp32,bf16,tf32}, for lower precision.",
        ),
        ("--fuse-envs/--no-fuse-envs", "Step SyncVectorEnv and known wrappers with fewer numpy calls."),
        ("--measure/--no-measure", "Let the script show its steps per second in a progress bar."),
        (
            "--tune/--no-tune",
            "Also set up the host: idle threads, vector instructions, memory; see `explain tune-host`.",
        ),
    ):
        command = click.option(flag, default=None, help=does)(command)
    for flag, does in (("--ignore", "Leave these transforms out."), ("--select", "Apply only these transforms.")):
        help_text = f"{does} Repeatable, comma-separated; see `lean-convert transforms`."
        command = click.option(flag, multiple=True, metavar="NAME", callback=transform_names, help=help_text)(command)
    return command
