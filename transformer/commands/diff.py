"""`lean-convert diff SCRIPT` and `lean-convert blame SCRIPT`: show a conversion without writing it."""

from __future__ import annotations

import io
import sys
import webbrowser
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import click
from rich.console import Console

from transformer.commands import output
from transformer.commands.convert import SCRIPT
from transformer.commands.report import Result, print_errors, screen
from transformer.commands.selection import selection_options, together_option, transform_names
from transformer.conversion import pipeline
from transformer.conversion.of_file import STDIN, convert_script
from transformer.conversion.result import Applied, Conversion, Skipped
from transformer.conversion.selection import SelectionError, no_such_transform, today
from transformer.diff import patches
from transformer.diff.compare import Stats, compare
from transformer.diff.edited import NotKnown, read_edited
from transformer.diff.story import chapters
from transformer.diff.terminal import SIDE_BY_SIDE_WIDTH, print_blame, print_diff, print_stats, print_story
from transformer.diff.verified import NotAVerification, Verified, read_verified
from transformer.syntax import text

CANNOT_CONVERT = 1
ALREADY_CONVERTED = "LC002"
EXCLUSIVE = ("total", "stat", "patch", "patch_series", "check", "html", "open_page", "edits")
"""The output forms of `diff`. They exclude each other, except for the combinations in TOGETHER."""
TOGETHER = ({"html", "open_page"}, {"total", "stat"}, {"edits", "patch"})


def _known_names(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...] | None:
    """Click callback: names of transforms."""
    names = transform_names(ctx, param, values)
    known = {info.name for info in pipeline.all_transforms()}
    chosen = tuple(sorted(today(names or ())))
    for name in chosen:
        if name not in known:
            raise click.BadParameter(no_such_transform(name))
    return chosen or None


@click.command()
@click.argument("script", type=SCRIPT, required=False, metavar="SCRIPT")
@click.argument("others", nargs=-1, metavar="")
@click.option(
    "--transform",
    "names",
    multiple=True,
    metavar="NAME",
    callback=_known_names,
    help="Show only these transforms. Repeatable, comma-separated.",
)
@click.option("--total", is_flag=True, help="Show one flat diff of the whole conversion.")
@click.option("--stat", is_flag=True, help="Show only how many lines each transform adds, removes and moves.")
@click.option(
    "--side-by-side",
    is_flag=True,
    help=f"Show old code left and new code right, on a terminal of at least {SIDE_BY_SIDE_WIDTH} columns.",
)
@click.option(
    "-U",
    "--context",
    default=3,
    show_default=True,
    type=click.IntRange(0),
    help="Unchanged lines to show around each change.",
)
@click.option("--patch", is_flag=True, help="Print the whole conversion as a plain patch for `git apply` or `patch`.")
@click.option(
    "--patch-series",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write one patch per transform into DIR, for `git am`.",
)
@click.option("--check", is_flag=True, help="Print nothing; exit with 1 if a conversion would change the file.")
@click.option(
    "--edits",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="OUT",
    help="Show what was edited in OUT since its conversion. SCRIPT defaults to the file that its header names.",
)
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write an HTML page to FILE."
)
@click.option("--open", "open_page", is_flag=True, help="Open the page in the browser.")
@click.option(
    "--verified",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Show on the page what `lean-convert verify --format json` wrote to FILE.",
)
@together_option
@selection_options
@click.pass_context
def diff(
    ctx: click.Context,
    /,
    script: str | None,
    others: tuple[str, ...],
    names: tuple[str, ...] | None,
    total: bool,
    stat: bool,
    side_by_side: bool,
    context: int,
    patch: bool,
    patch_series: Path | None,
    check: bool,
    edits: Path | None,
    html: Path | None,
    open_page: bool,
    verified: Path | None,
    **selection: Any,
) -> None:
    """Show what a conversion of SCRIPT (`-` is standard input) changes, transform by transform, without writing it.

    Code that only moved is shown in its new place, apart from code that changed. --edits OUT instead shows what was
    edited in the converted script OUT since; --patch prints that as a patch. On a terminal, long output is shown in a
    pager (turn it off with PAGER=cat).

    Exit codes: 0 done; 1 the script cannot be converted (or, with --check, would change); 2 bad usage, or a file cannot
    be read or written.
    """
    _check_usage(ctx.params)
    if others:
        raise click.UsageError(
            f"diff converts SCRIPT and shows what changes. What was edited in a converted script since, "
            f"`lean-convert diff --edits {others[0]}` shows."
        )
    if edits is not None:
        _show_edits(edits, script, selection, patch=patch, context=context, side_by_side=side_by_side)
        return
    if script is None:
        raise click.MissingParameter(param_hint="'SCRIPT'", param_type="argument")
    found = _check_output(script, html, patch_series, verified)
    source, conversion = _read_and_convert(script, selection)
    if check and [d.code for d in conversion.errors] == [ALREADY_CONVERTED]:
        return
    _refuse(script, conversion, alone=not selection.get("together"))
    name = "stdin.py" if script == STDIN else patches.path_in_repository(Path(script))
    if check:
        sys.exit(conversion.source != conversion.original)
    if patch:
        _write_stdout(patches.unified(source.encode(conversion.original), source.encode(conversion.source), name))
    elif patch_series is not None:
        _write_series(patch_series, patches.series(conversion, name, source.encode))
    elif html is not None or open_page:
        if found is not None:
            own = conversion.original if script == STDIN else text.read(Path(script)).content
            try:
                found.check_scripts(own, conversion.source)
            except NotAVerification as error:
                raise click.UsageError(f"{verified}: {error}") from None
        _write_page(conversion, script, html, open_page, found)
    elif stat:
        whole = compare(conversion.original, conversion.source)
        _show(lambda console: print_stats(console, [] if total else chapters(conversion, names), whole.stats))
    elif total:
        whole = compare(conversion.original, conversion.source)
        _show(lambda console: print_diff(console, whole, context=context, side_by_side=side_by_side), side_by_side)
    else:
        told = chapters(conversion, names)
        _show(
            lambda console: print_story(console, conversion, told, context=context, side_by_side=side_by_side),
            side_by_side,
        )
        outcomes = {step.transform.name: step.outcome for step in conversion.steps}
        for name in names or ():
            outcome = outcomes.get(name)
            if not isinstance(outcome, Applied):
                why = outcome.reason if isinstance(outcome, Skipped) else "it is for another kind of training"
                click.echo(f"{name} does not apply: {why}", err=True)
        if sys.stdout.isatty() and names is None and len(told) > 1:
            click.echo("--stat prints the line counts alone, --transform NAME one transform", err=True)


@click.command()
@click.argument("script", type=SCRIPT)
@together_option
@selection_options
def blame(script: str, **selection: Any) -> None:
    """Print the conversion of SCRIPT, with the transform that last changed each line and the line it came from.

    Exit codes: 0 done; 1 the script cannot be converted; 2 bad usage, or a file cannot be read.
    """
    _, conversion = _read_and_convert(script, selection)
    _refuse(script, conversion, alone=not selection.get("together"))
    _show(lambda console: print_blame(console, conversion))


def _show_edits(
    file: Path,
    script: str | None,
    selection: Mapping[str, Any],
    *,
    patch: bool,
    context: int,
    side_by_side: bool,
) -> None:
    try:
        edited = read_edited(file, script, **selection)
    except (NotKnown, SelectionError) as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.UsageError(f"{error.filename} cannot be read: {error.strerror or error}") from None
    if isinstance(edited, Conversion):
        _refuse(script or str(file), edited)
        return
    if edited.unedited:
        click.echo(f"{file} was not edited since its conversion", err=True)
    elif patch:
        before, after = (edited.found.encode(content) for content in (edited.written, edited.found.content))
        _write_stdout(patches.unified(before, after, patches.path_in_repository(file)))
    else:
        diff = compare(edited.written, edited.found.content)
        if diff.stats == Stats(0, 0, 0):
            click.echo("only line ends and trailing whitespace were edited; --patch shows these edits", err=True)
        _show(lambda console: print_diff(console, diff, context=context, side_by_side=side_by_side), side_by_side)


def _check_usage(params: dict[str, Any]) -> None:
    """Refuse options that exclude each other."""
    forms = [name for name in EXCLUSIVE if params[name]]
    if set(forms) not in TOGETHER and len(forms) > 1:
        flags = ["--" + name.removesuffix("_page").replace("_", "-") for name in forms]
        raise click.UsageError(f"{' and '.join(flags)} exclude each other")
    if params["names"] and (forms and forms != ["stat"]):
        raise click.UsageError("--transform works only with the default output and with --stat")
    if params["verified"] and not (params["html"] or params["open_page"]):
        raise click.UsageError("--verified needs --html or --open")


def _read_and_convert(script: str, selection: Mapping[str, Any]) -> tuple[text.Text, Conversion]:
    try:
        return convert_script(script, **selection)
    except OSError as error:
        raise click.UsageError(f"{script} cannot be read: {error.strerror or error}") from None
    except SelectionError as error:
        raise click.UsageError(str(error)) from None


def _refuse(script: str, conversion: Conversion, *, alone: bool = True) -> None:
    """Exit with all reasons if there is no conversion to show; `alone` if no files were given with the script."""
    if not conversion.converted:
        name = "<stdin>" if script == STDIN else script
        print_errors(screen(to_stderr=True), [Result(name, conversion)], alone=alone)
        sys.exit(CANNOT_CONVERT)


def _show(render: Callable[[Console], None], side_by_side: bool = False) -> None:
    """Print the output of `render`: plain if standard output is no terminal, in a pager if it is longer than that."""
    terminal = sys.stdout.isatty()
    seen = Console() if side_by_side else screen()
    if side_by_side and seen.width < SIDE_BY_SIDE_WIDTH:
        click.echo(f"--side-by-side needs {SIDE_BY_SIDE_WIDTH} columns; the terminal has {seen.width}", err=True)
    buffer = io.StringIO()
    render(Console(file=buffer, force_terminal=True if terminal else None, width=seen.width, highlight=False))
    if terminal and buffer.getvalue().count("\n") >= seen.height:
        click.echo_via_pager(buffer.getvalue())
    else:
        click.echo(buffer.getvalue(), nl=False, color=True)  # Rich has decided on colors


def _write_stdout(data: bytes) -> None:
    try:
        output.write_stdout(data)
    except output.OutputError as error:
        raise click.UsageError(str(error)) from None


def _check_output(script: str, html: Path | None, series: Path | None, verified: Path | None) -> Verified | None:
    """Check up front that the page or the patches can be written; return the verification that the page shows."""
    try:
        if html is not None:
            output.check_target(html, [] if script == STDIN else [Path(script)])
        if series is not None:
            if series.exists() and any(series.iterdir()):
                message = f"{series} is not empty; other patches in it would be applied as well"
                raise click.UsageError(message)
            output.check_folder(series)
    except output.OutputError as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.UsageError(f"{series} cannot be read: {error.strerror or error}") from None
    try:
        return None if verified is None else read_verified(verified.read_text("utf-8"))
    except (NotAVerification, UnicodeDecodeError, OSError) as error:
        raise click.UsageError(f"{verified}: {error}") from None


def _write_series(folder: Path, series: list[patches.Patch]) -> None:
    """Write patches into a new or empty folder, so that it contains only this series."""
    try:
        for file in output.write_all(folder, {patch.filename: patch.mail for patch in series}):
            click.echo(file)
    except output.OutputError as error:
        raise click.UsageError(str(error)) from None


def _write_page(
    conversion: Conversion, script: str, html: Path | None, open_page: bool, verified: Verified | None
) -> None:
    from transformer.diff.page import render_page  # imports jinja2 and pygments, which only the page needs

    name = "stdin" if script == STDIN else Path(script).name
    target = Path(mkdtemp(prefix="lean-convert-"), f"{Path(name).stem}.html") if html is None else html
    try:
        output.write(target, render_page(conversion, name, verified).encode(), force=True)
    except output.OutputError as error:
        raise click.UsageError(str(error)) from None
    click.echo(f"wrote {target}", err=True)
    if open_page:
        webbrowser.open(target.resolve().as_uri())
