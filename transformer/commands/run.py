"""`lean-convert run SCRIPT -- ARGS`: convert into a cache, and run the result as if it were the original."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import click

from transformer.commands.script_args import WithScriptArgs, script_args
from transformer.commands.selection import selection_options, together_option
from transformer.conversion.imported_files import reached_files
from transformer.conversion.settings import settings_of
from transformer.run import Handover
from transformer.run.cache import Cache, Cleaned, NotPrivate, default_folder, key_of, open_cache, open_temporary
from transformer.run.flags import with_all_that_pays
from transformer.run.start import FILLED, Aside, Job, start, temporary

if TYPE_CHECKING:
    from transformer.syntax.diagnostics import Diagnostic

CANNOT_CONVERT, COULD_NOT_RUN = 1, 2
_ROOT = Path(__file__).parent.parent.parent


@click.command(cls=WithScriptArgs)
@click.argument("script", type=click.Path(exists=True, dir_okay=False), required=False, metavar="SCRIPT")
@click.option("--eager", is_flag=True, help="Run the conversion with its flags off.")
@click.option("--flags", metavar="'FLAGS'", help="Run it with these flags. [default: those that suit this machine]")
@click.option("--or-eager", is_flag=True, help="Run a script that cannot be converted unconverted.")
@click.option("--verify", is_flag=True, help="First compare a short run with the original; train only if equal.")
@together_option
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
@click.option("-v", "--verbose", is_flag=True, help="Also report a damaged conversion in the cache.")
@click.option("--clean", is_flag=True, help="Run nothing; remove all conversions from the cache but those in use.")
@selection_options
@click.pass_context
def run(
    ctx: click.Context,
    /,
    script: str | None,
    eager: bool,
    flags: str | None,
    or_eager: bool,
    verify: bool,
    together: tuple[Path, ...],
    quiet: bool,
    verbose: bool,
    clean: bool,
    **selection: Any,
) -> NoReturn:
    """Run the conversion of SCRIPT, which is updated when SCRIPT changes. The arguments after `--` go to the script.

    The conversion runs with --compile, and on CUDA with --cudagraphs, if it has them, in place of the original:
    tracebacks, warnings and the names of runs are the original's. It has --fuse-envs, which changes no bit, unless
    --no-fuse-envs or --select is given. It is stored in a private cache folder, or only for this run if there is no
    room.
    `torchrun ... -m transformer run SCRIPT -- ARGS` runs it in several processes; `transformer` is this tool's package.

    Exit codes: the script's own; 1 it cannot be converted, or --verify found a difference; 2 bad usage, or a cache
    that others can write to.
    """
    started = time.perf_counter()
    if clean:
        if script is not None:
            raise click.UsageError("--clean runs nothing: leave the script out")
        _clean()
    if script is None:
        raise click.MissingParameter(param_hint="'SCRIPT'", param_type="argument")
    if eager and flags is not None:
        raise click.UsageError("--eager and --flags exclude each other")
    if verify and "RANK" in os.environ:
        raise click.UsageError("--verify cannot run in several processes: run `lean-convert verify` first")
    try:
        chosen = () if eager else None if flags is None else tuple(shlex.split(flags))
    except ValueError as error:
        raise click.UsageError(f"--flags {flags!r}: {error}") from None
    if chosen and not chosen[0].startswith("-"):
        raise click.UsageError(f"--flags {flags!r} begins with no flag: write --flags={shlex.quote(f'--{flags}')}")
    path = Path(script)
    source = path.read_bytes()
    options = with_all_that_pays(settings_of(path.parent).overridden(**selection)).arguments
    try:
        cache, why = _cache()
    except NotPrivate as error:
        _fail(f"the cache of conversions is not used: {error}")
    except OSError as error:
        _fail(f"there is no place for a conversion: {error}; XDG_CACHE_HOME sets another place")
    job = Job(
        script=script,
        source=source,
        args=script_args(ctx),
        cache=cache,
        options=options,
        key=key_of(source, path.name, options, _dependencies(path, source, together)),
        together=together,
        flags=chosen,
        or_eager=or_eager,
        quiet=quiet,
        verbose=verbose,
    )
    if why is not None:
        _tell_no_cache(job, why)
    try:
        found = job.find()
    except NotPrivate as error:
        _fail(f"the cache of conversions is not used: {error}")
    converting = Aside(partial(_convert, job)) if found is None else None
    if verify:
        if converting is not None and converting.wait() == 0:
            job, converting = job.where_it_is(converting), None
            found = job.find()
        if found is not None and (code := _verify(found.text, job)):
            sys.exit(code)
    raise Handover(partial(start, job, converting, started))


def _dependencies(script: Path, source: bytes, together: Sequence[Path]) -> dict[str, bytes]:
    """What a conversion depends on besides the script, if files were given with it: these, and all local imports.

    Another local file may prevent that the given files are merged, for example by importing one of them.
    """
    if not together:
        return {}
    names = {f"--with {file}": str(file.resolve()).encode() for file in together}
    return names | {str(file): data for file, data in reached_files(script, source).items()}


def _cache() -> tuple[Cache, OSError | None]:
    """The user's cache, or a temporary one for this run only, with the reason.

    Raises:
        NotPrivate: others could write to the user's cache.
        OSError: neither can be created.
    """
    filled = os.environ.pop(FILLED, None)
    if filled is not None:  # this process has filled it before it restarted itself
        return temporary(open_cache(Path(filled)).folder), None
    try:
        return open_cache(), None
    except OSError as error:
        return temporary(open_temporary().folder), error


def _tell_no_cache(job: Job, why: OSError) -> None:
    job.tell(f"converted without a cache, for this run only: {why}; XDG_CACHE_HOME sets another place for it")


def _clean() -> NoReturn:
    """Empty the cache, and print how much was removed."""
    try:
        folder = default_folder()
        cleaned = open_cache(folder).clean() if folder.exists() else Cleaned()
    except (NotPrivate, OSError, RuntimeError) as error:
        _fail(f"the cache of conversions cannot be cleaned: {error}")
    what = "1 conversion" if cleaned.conversions == 1 else f"{cleaned.conversions} conversions"
    stays = f"; {cleaned.in_use} {'is in use, and stays' if cleaned.in_use == 1 else 'are in use, and stay'}"
    size = f"{cleaned.size / 1e6:.1f} MB"
    click.echo(f"removed {what}, {size}, from {folder}{stays if cleaned.in_use else ''}", err=True)
    sys.exit(0)


def _convert(job: Job, say_where: Callable[[str], None]) -> int:
    """Convert into the cache, or print why it is not possible; returns the exit code.

    If the cache has no room, the conversion goes to a folder for this run only, which is passed to `say_where`.
    """

    from transformer.commands.report import Result, print_diagnostics, print_errors, screen
    from transformer.conversion.of_file import convert_together
    from transformer.conversion.pipeline import convert
    from transformer.conversion.selection import SelectionError
    from transformer.conversion.told import warnings_told
    from transformer.run.prepare import facts_of
    from transformer.syntax.text import NotText, decode

    source = ""

    def say(found: Sequence[Diagnostic]) -> None:
        if os.environ.get("RANK", "0") == "0":
            print_diagnostics(screen(to_stderr=True), job.script, found, source)

    try:
        original = decode(job.source)
        source = original.content
        if job.together:
            conversion = convert_together(Path(job.script), original, job.together, job.options)
        else:
            conversion = convert(source, **job.options)
    except NotText as refusal:
        say([refusal.diagnostic])
        return CANNOT_CONVERT
    except SelectionError as error:
        click.echo(f"Error: {error}", err=True)
        return COULD_NOT_RUN
    except OSError as error:
        click.echo(f"Error: {error}", err=True)
        return COULD_NOT_RUN
    if not conversion.converted:
        if os.environ.get("RANK", "0") == "0":
            print_errors(screen(to_stderr=True), [Result(job.script, conversion)], alone=not job.together)
        return CANNOT_CONVERT
    if not job.quiet:
        say(warnings_told(conversion))
    kept = job.key, job.name, original.encode(conversion.source), facts_of(conversion)
    try:
        job.cache.put(*kept)
    except OSError as error:
        try:
            other = open_temporary()
            other.put(*kept)
        except OSError:
            click.echo(f"Error: there is no place for the conversion: {error}", err=True)
            return COULD_NOT_RUN
        say_where(str(other.folder))
        _tell_no_cache(job, error)
    return 0


def _verify(converted: Path, job: Job) -> int:
    """Run the two checks that compile nothing, in a separate process; returns its exit code.

    The output goes to standard error, because standard output belongs to the script.
    """
    code = f"import sys; sys.path[0] = {str(_ROOT)!r}; from transformer.cli import main; main(prog_name='lean-convert')"
    options = ["--up-to", "flags-on", "--", *job.args]
    return run_and_hand_signals_on(
        [sys.executable, "-c", code, "verify", job.script, str(converted), *options], stdout=sys.stderr
    )


def run_and_hand_signals_on(command: list[str], stdout: TextIO | None = None) -> int:
    """Run a command to its end, and forward signals that would end this process; returns its exit code, as in a shell.

    The command's output goes to `stdout`, by default this process's own.
    """
    import subprocess

    # In a session of its own, the command gets Ctrl-C only once, from here
    process = subprocess.Popen(command, stdout=stdout, start_new_session=True)
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    before = {n: signal.signal(n, lambda number, _: process.send_signal(number)) for n in numbers}
    try:
        code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def _fail(message: str) -> NoReturn:
    click.echo(f"Error: {message}", err=True)
    sys.exit(COULD_NOT_RUN)
