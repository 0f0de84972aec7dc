"""`lean-convert run SCRIPT -- ARGS`: convert into a cache, and run as if it were the original."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from transformer.commands.script_runs import WithScriptArgs, script_args
from transformer.commands.selection import selection_options
from transformer.conversion.settings import settings_of
from transformer.run import Handover
from transformer.run.cache import NotPrivate, key_of, open_cache
from transformer.run.start import Aside, Job, start

if TYPE_CHECKING:
    from transformer.syntax.diagnostics import Diagnostic

CANNOT_CONVERT, COULD_NOT_RUN = 1, 2
_ROOT = Path(__file__).parent.parent.parent


@click.command(cls=WithScriptArgs)
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@click.option("--eager", is_flag=True, help="Run the conversion with its flags off.")
@click.option("--flags", metavar="'FLAGS'", help="Run it with these flags. [default: those that suit this machine]")
@click.option("--or-eager", is_flag=True, help="Run a script that cannot be converted as it is.")
@click.option("--verify", is_flag=True, help="First compare, in a short run, what it computes; train only if equal.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
@selection_options
@click.pass_context
def run(
    ctx: click.Context,
    /,
    script: str,
    eager: bool,
    flags: str | None,
    or_eager: bool,
    verify: bool,
    quiet: bool,
    **selection: Any,
) -> NoReturn:
    """Run SCRIPT as its conversion, which is made anew where SCRIPT has changed; what follows `--` are its arguments.

    The conversion runs with --compile, and on CUDA with --cudagraphs, under the original's name and in its place:
    tracebacks, warnings and the names of runs are the original's. It is kept in a folder of the cache that nobody else
    can write to. `torchrun ... -m transformer run SCRIPT -- ARGS` runs it in several processes.

    Exit codes: the script's own; 1 it cannot be converted, or --verify found a difference, 2 bad usage or no cache.
    """
    started = time.perf_counter()
    if eager and flags is not None:
        raise click.UsageError("--eager and --flags exclude each other")
    if verify and "RANK" in os.environ:
        raise click.UsageError("--verify cannot run in each of several processes: run `lean-convert verify` before")
    try:
        chosen = () if eager else None if flags is None else tuple(shlex.split(flags))
    except ValueError as error:
        raise click.UsageError(f"--flags {flags!r}: {error}") from None
    path = Path(script)
    source = path.read_bytes()
    options = settings_of(path.parent).overridden(**selection).arguments
    try:
        cache = open_cache()
        job = Job(
            script=script,
            source=source,
            args=script_args(ctx),
            cache=cache,
            options=options,
            key=key_of(source, path.name, options),
            flags=chosen,
            or_eager=or_eager,
            quiet=quiet,
        )
        found = job.find()
    except NotPrivate as error:
        _fail(f"the cache of conversions is not used: {error}")
    except OSError as error:
        _fail(f"the cache of conversions cannot be used: {error}; XDG_CACHE_HOME names another place")
    converting = Aside(partial(_convert, job)) if found is None else None
    if verify:
        if converting is not None and converting.wait() == 0:
            found, converting = job.find(), None
        if found is not None:
            code = _verify(found.text, job)
            if code:
                sys.exit(code)
    raise Handover(partial(start, job, converting, started))


def _convert(job: Job) -> int:
    """Convert into the cache, or say why not; the exit code."""
    from rich.console import Console

    from transformer.commands.report import print_diagnostics
    from transformer.conversion.pipeline import convert
    from transformer.conversion.selection import SelectionError
    from transformer.run.prepare import facts_of
    from transformer.syntax.text import NotText, decode

    def say(found: Sequence[Diagnostic]) -> None:
        if os.environ.get("RANK", "0") == "0":
            print_diagnostics(Console(stderr=True, highlight=False), job.script, found)

    try:
        original = decode(job.source)
        conversion = convert(original.content, **job.options)
    except NotText as refusal:
        say([refusal.diagnostic])
        return CANNOT_CONVERT
    except SelectionError as error:
        click.echo(f"Error: {error}", err=True)
        return COULD_NOT_RUN
    if not conversion.converted:
        say(conversion.errors)
        return CANNOT_CONVERT
    if not job.quiet:
        say(conversion.warnings)
    try:
        job.cache.put(job.key, job.name, original.encode(conversion.source), facts_of(conversion))
    except OSError as error:
        click.echo(f"Error: the conversion cannot be kept: {error}", err=True)
        return COULD_NOT_RUN
    return 0


def _verify(converted: Path, job: Job) -> int:
    """Compare the two rungs that compile nothing, in a process of its own; the exit code."""
    import subprocess

    code = f"import sys; sys.path[0] = {str(_ROOT)!r}; from transformer.cli import main; main(prog_name='lean-convert')"
    options = ["--up-to", "uncompiled", "--no-stress", "--", *job.args]
    command = [sys.executable, "-c", code, "verify", job.script, str(converted), *options]
    return subprocess.run(command, stdout=sys.stderr, check=False).returncode


def _fail(message: str) -> NoReturn:
    click.echo(f"Error: {message}", err=True)
    sys.exit(COULD_NOT_RUN)
