"""`lean-convert verify ORIGINAL [CONVERTED]`: run both scripts and compare what they compute."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from transformer.commands import output
from transformer.commands.report import Result, screen
from transformer.commands.script_args import WithScriptArgs, script_args
from transformer.commands.script_runs import (
    FILE,
    CheckBars,
    python_option,
    terminated_like_interrupted,
)
from transformer.commands.selection import together_option
from transformer.conversion.of_file import convert_script
from transformer.conversion.of_files import processors
from transformer.conversion.result import Conversion, Skipped
from transformer.conversion.selection import SelectionError
from transformer.syntax import header, text
from transformer.verify import plots, show
from transformer.verify.flags import find_flags
from transformer.verify.lockstep import EVERY
from transformer.verify.names import CHECKS, FORMER, OTHER_ARGUMENTS
from transformer.verify.ranks import joins_ranks, verify_ranks
from transformer.verify.run import Run, RunFailed
from transformer.verify.seeds import FEWEST_SEEDS, NoReturns, SeedsResult, compare_seeds
from transformer.verify.side_by_side import MOST, served
from transformer.verify.verify import ITERATIONS, STEPS, CannotVerify, Task, Verification
from transformer.verify.verify import verify as run_checks

NOT_EQUAL = 1
COULD_NOT_RUN = 2


class CannotConvert(Exception):
    """The original cannot be converted; the message has the reasons with their lines."""


class CheckName(click.Choice):  # type: ignore[type-arg]
    """A check, by its present name or by its name in an earlier release."""

    def __init__(self) -> None:
        super().__init__(CHECKS)

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The present name of the check."""
        return str(super().convert(FORMER.get(value, value), param, ctx))


@click.command(cls=WithScriptArgs)
@click.argument("original", type=FILE)
@click.argument("converted", type=FILE, required=False)
@together_option
@python_option("The interpreter to run both scripts with.")
@click.option(
    "--iterations",
    type=click.IntRange(1),
    help="Iterations of rollout and update to run; off-policy, environment steps from the first update on.  "
    f"[default: {ITERATIONS}, or {STEPS} such steps]",
)
@click.option(
    "--every",
    default=EVERY,
    show_default=True,
    type=click.IntRange(1),
    help="Compare every Nth call of a compiled function, besides the first ones and those after its warm-up.",
)
@click.option(
    "--up-to",
    default=CHECKS[-1],
    type=CheckName(),
    help="The last check to run; all by default. Compiling takes half a minute or more.",
)
@click.option(
    "--other-arguments/--no-other-arguments",
    "--stress/--no-stress",
    default=True,
    show_default=True,
    help="Also compare a short run whose arguments exercise what a usual run does not: clipping, early exits, ...",
)
@click.option("--each-transform", is_flag=True, help="Also compare the script after each transform.")
@click.option("--require", multiple=True, type=CheckName(), help="Fail if this check cannot run here. Repeatable.")
@click.option(
    "--seeds",
    type=click.IntRange(FEWEST_SEEDS),
    metavar="N",
    help="Train to the end with N seeds, flags off and on, and test whether the returns differ. Slow.",
)
@click.option(
    "--nproc",
    type=click.IntRange(1),
    metavar="N",
    help="Train in N processes under torchrun, on this machine: converted with --distribute, and compared with one "
    "process that averages gradients by hand; or with the original, if that trains in several processes itself.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    help="Number of simultaneous runs, which divide the processors; always one with a GPU.  "
    f"[default: one per processor, at most {MOST}]",
)
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="Time limit for one run.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the result.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show each compared quantity, and what was not exercised.")
@click.option("--report", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Draw plots into DIR.")
@click.pass_context
def verify(
    ctx: click.Context,
    original: Path,
    converted: Path | None,
    together: tuple[Path, ...],
    python: str,
    iterations: int | None,
    every: int,
    up_to: str,
    other_arguments: bool,
    each_transform: bool,
    require: tuple[str, ...],
    seeds: int | None,
    nproc: int | None,
    jobs: int | None,
    timeout: float | None,
    form: str,
    verbose: bool,
    report: Path | None,
) -> None:
    """Run ORIGINAL and CONVERTED for a few iterations and show that they compute the same, or where they differ.

    Without CONVERTED, ORIGINAL is converted first. Both run in a scratch directory with the real environment; the
    arguments after `--` go to both. First, the converted script must be equal bit by bit with its flags off, and with
    its flags on and nothing compiled. Then it runs compiled, with CUDA graphs, and with both, and is compared call by
    call with the eager functions. Without a GPU, the checks with CUDA graphs run on an emulated one.

    Exit codes: 0 equal; 1 different, or the converted script fails, or ORIGINAL cannot be converted, or a required
    check did not run; 2 bad usage, or ORIGINAL does not run.
    """
    args = script_args(ctx)
    if each_transform and converted is not None:
        raise click.UsageError("--each-transform converts ORIGINAL itself, so leave CONVERTED out")
    if together and converted is not None:
        raise click.UsageError("--with is for the conversion of ORIGINAL, so leave CONVERTED out")
    if converted is not None and converted.samefile(original):
        raise click.UsageError(f"{original} and {converted} are the same file: name the script and its conversion")
    left_out = next((check for check in require if CHECKS.index(check) > CHECKS.index(up_to)), None)
    if left_out is not None:
        raise click.UsageError(f"--require {left_out}: --up-to {up_to} leaves that check out")
    if OTHER_ARGUMENTS in require and not other_arguments:
        raise click.UsageError(f"--require {OTHER_ARGUMENTS}: --no-other-arguments leaves that check out")
    if report is not None and importlib.util.find_spec("matplotlib") is None:
        raise click.UsageError("--report needs matplotlib, which is not installed: pip install matplotlib")
    if report is not None:
        try:
            output.check_folder(report)
        except output.OutputError as error:
            _fail(str(error), form)
    jobs = jobs or min(MOST, processors())
    asked = Run(original, args, python=python, timeout=timeout, processes=nproc, together=tuple(together))
    if converted is not None:
        _check_source(original, converted)
        asked = replace(asked, place=converted)
    bars = CheckBars(screen(to_stderr=True), screen(to_stderr=form == "json"))
    with terminated_like_interrupted(), bars, served(asked, jobs) as run:
        try:
            source, prefixes = _sources(original, converted, together, each_transform, distribute=nproc is not None)
            task = Task(
                run,
                source,
                iterations,
                every,
                up_to,
                prefixes,
                other_arguments,
                "" if converted is None else str(converted),
                jobs,
                report is not None,
            )
            if nproc is not None and joins_ranks(text.read(original).content, source):
                alone = replace(task, original=replace(run, processes=None))
                verification = verify_ranks(alone, nproc, bars)
            else:
                verification = run_checks(task, bars)
        except RunFailed as failure:
            _fail(f"the original {original} failed: {failure}", form)
        except CannotConvert as error:
            _fail(str(error), form, "cannot be converted", NOT_EQUAL)
        except (CannotVerify, OSError) as error:
            _fail(str(error), form)
        try:
            by_seed = None if seeds is None else _by_seed(task, verification, seeds, bars)
        except RunFailed as failure:
            _fail(f"the converted script {converted or original} failed: {failure}", form, "failed", NOT_EQUAL)
        except (CannotVerify, NoReturns, OSError) as error:
            _fail(str(error), form)
    _show(verification, require, by_seed, form, verbose, lines_were_told=not bars.shown)
    if report is not None:
        _write_report(verification, report)
    sys.exit(_exit_code(verification, require, by_seed))


def _check_source(original: Path, converted: Path) -> None:
    """Print a note if the converted script's header names another source, or the script was edited since.

    This is no error, because the header has the source's name, but no digest of it: the script may have been renamed.

    Raises:
        click.UsageError: the two are given in the wrong order.
    """
    try:
        contents = [text.read(path).content for path in (original, converted)]
    except (text.NotText, OSError):  # the run will report it
        return
    first, found = map(header.find, contents)
    if first is not None and found is None:
        raise click.UsageError(f"{original} is a conversion, and {converted} is not: the original comes first")
    if found is None:
        return
    name = found.source_name
    if name is not None and found.source != header.quoted(original):
        said = name if name.isprintable() else found.source
        click.echo(f"Note: {converted} says that it was converted from {said}, not from {original.name}", err=True)
    if not header.is_unedited(contents[1]):
        click.echo(
            f"Note: {converted} was edited since it was converted; a change that takes effect after these iterations "
            "is not seen",
            err=True,
        )


def _write_report(verification: Verification, folder: Path) -> None:
    """Draw the plots, each completely or not at all; a failure does not change the verdict."""
    try:
        with TemporaryDirectory(prefix="lean-convert-") as scratch:
            drawn = plots.write_report(verification, Path(scratch))
            if not drawn:
                click.echo(
                    "nothing to draw: no scalar was logged, no parameter differs, nothing was compiled", err=True
                )
            for file in drawn:
                output.write(folder / file.name, file.read_bytes(), force=True)
                click.echo(f"wrote {folder / file.name}", err=True)
    except (output.OutputError, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(COULD_NOT_RUN)


def _sources(
    original: Path, converted: Path | None, together: Sequence[Path], each_transform: bool, *, distribute: bool
) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The converted script, and the states before it if wanted; converts the original if only that was given."""
    try:
        if converted is not None:
            return text.read(converted).content, ()
        _, conversion = convert_script(str(original), together, distribute=True if distribute else None)
    except SelectionError as error:
        raise click.UsageError(str(error)) from None
    except text.NotText as error:
        raise CannotVerify(str(error)) from None
    if not conversion.converted:
        hint = "" if together else Result(str(original), conversion).files_to_try
        raise CannotConvert(conversion.refusal(str(original)) + (f"\n{hint}" if hint else ""))
    held = next((s.outcome for s in conversion.steps if s.transform.name == "distribute" and not s.applied), None)
    if distribute and isinstance(held, Skipped) and held.left_as_it_was:
        raise CannotConvert(f"the original cannot be made to train in several processes: {held.reason}")
    return conversion.source, tuple(_prefixes(conversion)) if each_transform else ()


def _prefixes(conversion: Conversion) -> Iterator[tuple[str, str]]:
    """The script after each applied transform but the last, whose result is the converted script: name and text."""
    applied = [step for step in conversion.steps if step.applied]
    for step in applied[:-1]:
        yield f"after {step.transform.name}", step.after


def _by_seed(task: Task, verification: Verification, seeds: int, bars: CheckBars) -> SeedsResult:
    """Compare whole training runs with all flags that can be used here."""
    flags = find_flags(task.whole)
    checks = ("compile", "cudagraphs") if verification.original.versions["cuda"] else ("compile",)
    options = flags.options(checks)
    if options is None:
        raise CannotVerify(f"the converted script has no flag for {' and '.join(checks)}")
    run = replace(task.original, source=task.converted)
    return compare_seeds(run, options, seeds, bars)


def _show(
    verification: Verification,
    require: tuple[str, ...],
    by_seed: SeedsResult | None,
    form: str,
    verbose: bool,
    lines_were_told: bool,
) -> None:
    if form == "json":
        click.echo(json.dumps(show.as_json(verification, require, by_seed), indent=2))
        return
    console = screen()
    if verbose:
        show.print_verification(verification, console)
    show.print_verdict(verification, console, require, lines_were_told=lines_were_told, all_was_told=verbose)
    if by_seed is not None:
        show.print_seeds(by_seed, console)


def _exit_code(verification: Verification, require: tuple[str, ...], by_seed: SeedsResult | None) -> int:
    equal = verification.verdict(require) is None and (by_seed is None or by_seed.alike)
    return 0 if equal else NOT_EQUAL


def _fail(message: str, form: str, verdict: str = "could not run", code: int = COULD_NOT_RUN) -> None:
    """Exit with the message, as JSON on standard output if that format was chosen."""
    if form == "json":
        click.echo(json.dumps({"verdict": verdict, "error": message}, indent=2))
    click.echo(f"Error: {message}", err=True)
    sys.exit(code)
