"""The command line: `lean-convert COMMAND ...`, and `lean-convert SCRIPT ...` for its main command, `convert`.

Commands are imported on demand, so that no command pays for the imports of another.
"""

from __future__ import annotations

import difflib
import importlib
import os
import signal
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from transformer.conversion.settings import SettingsError
from transformer.run import Handover

DEFAULT_COMMAND = "convert"


class Command(NamedTuple):
    """Where to find a command, and the line `--help` shows for it without importing it."""

    module: str
    """The module in `transformer.commands` that defines the command."""
    summary: str


COMMANDS = {
    "convert": Command("convert", "Convert scripts (the default command)."),
    "verify": Command("verify", "Run the original and the converted script and compare them."),
    "run": Command("run", "Train with the conversion, as if it were the original."),
    "bench": Command("bench", "Measure how fast the original and the converted script train."),
    "migrate": Command("migrate", "Make an Atari script train on envpool, which changes the results."),
    "diff": Command("diff", "Show what a conversion changes, transform by transform."),
    "blame": Command("diff", "Print the conversion, with the transform behind each line."),
    "advise": Command("advise", "Report what costs time in scripts, without converting them."),
    "transforms": Command("explain", "List the transforms in order, one line each."),
    "explain": Command("explain", "Explain a transform, a diagnostic or a piece of advice."),
}
"""The commands, in the order of `--help`."""


def _choose_color(_: click.Context, __: click.Parameter, wanted: bool | None) -> None:
    """Set the environment variables for colour that Rich, and scripts that are run, read."""
    if wanted is not None:
        chosen, other = ("FORCE_COLOR", "NO_COLOR") if wanted else ("NO_COLOR", "FORCE_COLOR")
        os.environ[chosen] = "1"
        os.environ.pop(other, None)


COLOR = click.Option(
    ["--color/--no-color"],
    default=None,
    expose_value=False,
    callback=_choose_color,
    help="Turn colors on or off. Default: on in a terminal unless NO_COLOR is set, or anywhere if FORCE_COLOR is set.",
)
"""An option of every command."""


OF_CONVERTED = ("--compile", "--cudagraphs")
"""Flags of converted scripts that lean-convert does not have."""


class LazyGroup(click.Group):
    """A group that imports its commands on demand and falls back to :data:`DEFAULT_COMMAND`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        try:
            module = importlib.import_module(f"transformer.commands.{COMMANDS[cmd_name].module}")
        except ModuleNotFoundError as error:
            ctx.fail(f"{cmd_name} needs {error.name}, which is not installed here: pip install {error.name}")
        command: click.Command = getattr(module, cmd_name)
        if not any(param.name == COLOR.name for param in command.params):  # every call returns the same object
            command.params.append(COLOR)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; invalid project settings are a usage error in every command that converts.

        After Ctrl-C it ends with the exit code that shells use for this, which cannot be mistaken for a verdict.
        """
        try:
            return super().invoke(ctx)
        except SettingsError as error:
            raise click.UsageError(str(error)) from None
        except click.NoSuchOption as error:
            flag = error.option_name
            if flag not in OF_CONVERTED:
                raise
            instead = f"lean-convert ppo.py -o out.py, then python out.py {flag}"
            if error.ctx is not None and error.ctx.info_name == "run":
                instead = "run sets it where it helps, and --eager turns it off"
            raise click.UsageError(f"{flag} is a flag of the converted script: {instead}", error.ctx) from None
        except KeyboardInterrupt:
            click.echo("\nInterrupted", err=True)
            ctx.exit(128 + signal.SIGINT)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer scripts as well as commands, for the default command."""
        return [*super().shell_complete(ctx, incomplete), CompletionItem(incomplete, type="file")]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Prepend the default command's name if the arguments name no command."""
        own_options = {name for param in self.get_params(ctx) for name in param.opts}
        if args and args[0] not in COMMANDS and args[0] not in own_options:
            self._check_misspelled(ctx, args[0])
            args = [DEFAULT_COMMAND, *args]
        return super().parse_args(ctx, args)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command, and then the script to which it hands the process over, if any."""
        try:
            return super().main(*args, **kwargs)
        except Handover as handover:
            start = handover.start
        return start()

    @staticmethod
    def _check_misspelled(ctx: click.Context, word: str) -> None:
        """Fail if the word is a misspelled command rather than a script."""
        similar = difflib.get_close_matches(word, COMMANDS, n=1)
        if similar and not Path(word).exists():
            ctx.fail(f"{word!r} is neither a file nor a command; did you mean {similar[0]!r}?")


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done; 1 a script cannot be converted; 2 bad usage, or a file cannot be read or written.",
)
@click.version_option(package_name="lean-convert", prog_name="lean-convert")
def main() -> None:
    """Rewrite an eager RL training script for torch.compile and CUDA graphs, with equal results.

    PPO, PQN, DQN, C51, DDPG, TD3 and SAC are supported; they are recognised by what the code does.

    `lean-convert SCRIPT -o OUT` is short for `lean-convert convert SCRIPT -o OUT`.
    """
