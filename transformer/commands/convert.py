"""`lean-convert [convert] SCRIPT`: convert scripts, write the results, report what was done."""

from __future__ import annotations

import difflib
import json
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from difflib import unified_diff
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import click

from transformer.commands import output
from transformer.commands.report import UNSAVED, Result, as_json, print_errors, print_report, screen, summary
from transformer.commands.script_args import Remembering, ScriptFile, as_given
from transformer.commands.selection import selection_options, together_option
from transformer.conversion.of_file import STDIN
from transformer.conversion.of_files import Converted, converting
from transformer.conversion.result import Conversion
from transformer.conversion.selection import SelectionError
from transformer.conversion.settings import SettingsError
from transformer.syntax import header, text

SCRIPT = ScriptFile(exists=True, dir_okay=False, allow_dash=True)


@click.command(cls=Remembering)
@click.argument(
    "scripts",
    nargs=-1,
    required=True,
    type=click.Path(allow_dash=True),  # a missing script does not stop the others
    metavar="SCRIPT...",
)
@click.option("-o", "--output", "file", metavar="OUT", help="Write the converted script to this file.")
@click.option(
    "--output-dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write each script to DIR/NAME; of one script, also the files given by --with.",
)
@together_option
@selection_options
@click.option(
    "--force",
    is_flag=True,
    help="Overwrite an existing file that lean-convert did not write, or that was edited since.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the report.",
)
@click.option("-q", "--quiet", is_flag=True, help="Report errors only.")
@click.option("-v", "--verbose", is_flag=True, help="Report in full, also the transforms that were not needed.")
@click.option("--check", is_flag=True, help="Write nothing; fail if the output is out of date.")
@click.option("--diff", is_flag=True, help="Write nothing; print what would change as a patch of each script.")
def convert(
    scripts: tuple[str, ...],
    file: str | None,
    output_dir: Path | None,
    together: tuple[Path, ...],
    force: bool,
    form: str,
    quiet: bool,
    verbose: bool,
    check: bool,
    diff: bool,
    **selection: Any,
) -> None:
    """Convert each SCRIPT (`-` is standard input).

    Without -o or --output-dir, the converted script goes to standard output and the report to standard error.
    If a script cannot be converted, all reasons are reported and nothing is written for it. A written file begins
    with a comment that contains a digest, so that edited results are not overwritten.

    With --with FILE, what SCRIPT imports from FILE is converted, too. It becomes part of the one file that -o writes;
    --output-dir writes several files, as they were, where that is known to be the same. Other imports stay.

    Exit codes: 0 converted; 1 a script cannot be converted, or --check found an output that is out of date; 2 bad
    usage, or a file cannot be read or written.
    """
    targets = _targets(scripts, file, output_dir) if file or output_dir or not diff else [None] * len(scripts)
    if check and None in targets:
        raise click.UsageError("--check needs a file to compare with; name it with -o or --output-dir")
    put = _compare_with_output if check else _print_diff if diff else partial(_write, force=force)
    try:
        for path in targets:
            if path is not None:
                output.check_target(path, [*(Path(s) for s in scripts if s != STDIN), *together])
    except output.OutputError as error:
        raise click.UsageError(str(error)) from None

    results = []
    separately = output_dir is not None and len(scripts) == 1
    with converting(scripts, together=together, separately=separately, **selection) as conversions:
        work = list(zip(scripts, targets, conversions, strict=True))
        for script, path, converted in _with_progress(work, shown=len(scripts) > 1 and not quiet):
            try:
                results.append(_convert_one(script, path, converted, put))
            except SelectionError as error:
                raise click.UsageError(str(error)) from None
            except Exception as error:  # a failure does not stop the other scripts
                if len(scripts) == 1:
                    raise
                alone = shlex.join(["lean-convert", script])
                why = str(error) if isinstance(error, SettingsError) else f"{error!r}; `{alone}` shows where that is"
                results.append(Result(script, Conversion(""), failure=f"{script}: {why}"))
    quiet = quiet or (check and form == "text")
    _report(results, form=form, quiet=quiet, verbose=verbose, to_stderr=diff or targets == [None], alone=not together)
    if any(r.failure is not None for r in results):
        sys.exit(2)
    if not all(r.done for r in results):
        sys.exit(1)


def _targets(scripts: Sequence[str], target: str | None, output_dir: Path | None) -> list[Path | None]:
    """The output file of each script; None for standard output."""
    if target is not None and output_dir is not None:
        raise click.UsageError("-o and --output-dir exclude each other")
    if output_dir is not None:
        names = [Path(s).name for s in scripts]
        if STDIN in names:
            raise click.UsageError("standard input has no name to use in --output-dir; use -o")
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise click.UsageError(f"several scripts are called {', '.join(twice)}: one would overwrite the other")
        return [output_dir / name for name in names]
    if len(scripts) > 1:
        raise click.UsageError("several scripts need --output-dir")
    if target is None or target == STDIN:
        return [None]
    if not Path(target).absolute().parent.exists():
        raise click.UsageError(f"{Path(target).parent} does not exist; --output-dir makes directories")
    return [Path(target)]


def _scripts_beside(path: Path) -> list[str]:
    """The names of Python files in a path's folder."""
    return sorted(one.name for one in path.parent.glob("*.py")) if path.parent.is_dir() else []


def _convert_one(script: str, target: Path | None, converted: Converted, put: Put) -> Result:
    """Convert one script and pass the result to `put`. Errors are part of it, except for an impossible selection."""
    path = None if script == STDIN else Path(script)
    name = "<stdin>" if path is None else script
    try:
        original, conversion = converted()
    except FileNotFoundError as error:
        missing = name if error.filename is None else error.filename
        similar = difflib.get_close_matches(Path(missing).name, _scripts_beside(Path(missing)), n=1)
        meant = f" Did you mean {Path(missing).with_name(similar[0])}?" if similar else ""
        return Result(name, Conversion(""), failure=f"File '{missing}' does not exist.{meant}")
    except OSError as error:
        return Result(name, Conversion(""), failure=f"{name} cannot be read: {error.strerror or error}")
    if not conversion.converted:
        return Result(name, conversion)
    done = Result(name, conversion, output=None if target is None else str(target))
    several = conversion.several
    data = original.encode(
        header.add(several.script if several is not None else conversion.source, header.quoted(path))
    )
    try:
        return put(done, data, path)
    except output.OutputError as error:
        return Result(name, conversion, failure=str(error))


Work: TypeAlias = "tuple[str, Path | None, Converted]"
"""A script, its output file, and a function that waits for its conversion."""
Put: TypeAlias = Callable[[Result, bytes, "Path | None"], Result]
"""A function that outputs the bytes of a result; its last argument is the script, None for standard input."""


def _write(result: Result, data: bytes, script: Path | None, *, force: bool) -> Result:
    if result.output is None:
        output.write_stdout(data)
        return result
    modes = {Path(result.output): None if script is None else script.stat().st_mode & 0o777}
    files = {Path(result.output): data}
    for path, (original, content) in result.others.items():
        output.check_target(path, [original])
        files[path], modes[path] = content, original.stat().st_mode & 0o777
    output.write_together(Path(result.output), files, modes, force=force)
    return result


def _compare_with_output(result: Result, data: bytes, script: Path | None) -> Result:
    assert result.output is not None, "asked for"
    others = {path: content for path, (_, content) in result.others.items()}
    for path, content in {Path(result.output): data, **others}.items():
        found = output.staleness(path, content)
        if found is None:
            continue
        stale, edited = found
        again = as_given(without="--check")
        advice = f"`{again}` writes it"
        if edited:
            advice = f"`{again} --force` overwrites the edits"
            if path not in result.others:
                edits = output.shows_edits(path, text.decode(path.read_bytes()).content)
                advice = f"`{edits}` shows the edits, `{again} --force` overwrites them"
        return replace(result, stale=f"{stale}; {advice}")
    return result


def _print_diff(result: Result, data: bytes, script: Path | None) -> Result:
    """Print the patch from the script to its conversion."""
    names = (result.script, result.output or UNSAVED)
    patch = _patch(result.conversion.original, data, names)
    for path, (original, content) in result.others.items():
        before = text.read(original).content
        if header.without(text.decode(content).content) != header.without(before):
            patch += _patch(before, content, (str(original), str(path)))
    output.write_stdout(patch.encode())
    return replace(result, output=None)


def _patch(before: str, data: bytes, names: tuple[str, str]) -> str:
    lines = unified_diff(before.splitlines(), text.decode(data).content.splitlines(), *names, lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _with_progress(work: Sequence[Work], *, shown: bool) -> Iterator[Work]:
    """Iterate over `work`, with a progress bar on a terminal."""
    if not (shown and sys.stderr.isatty()):
        yield from work
        return
    from rich.progress import track

    yield from track(work, description="Converting", console=screen(to_stderr=True), transient=True)


def _report(results: Sequence[Result], *, form: str, quiet: bool, verbose: bool, to_stderr: bool, alone: bool) -> None:
    """Print the report to the stream that the converted script does not use; errors in text go to standard error."""
    if form == "json":
        if not quiet:
            click.echo(json.dumps(as_json(results), indent=2), err=to_stderr)
        return
    if not quiet:
        print_report(screen(to_stderr=to_stderr), results, verbose=verbose)
    if not all(r.done for r in results):
        print_errors(screen(to_stderr=True), results, alone=alone)
    if len(results) > 1 and not quiet:
        click.echo(summary(results), err=to_stderr or not all(r.done for r in results))
