"""`lean-convert migrate SCRIPT`: replace gymnasium's Atari wrappers by envpool, and report the differences."""

from __future__ import annotations

import shlex
import sys
from difflib import unified_diff
from pathlib import Path

import click

from transformer.commands import output
from transformer.commands.report import print_diagnostics, print_line, screen
from transformer.conversion.of_file import read_script
from transformer.conversion.settings import settings_of
from transformer.migrate.differences import DIFFERENCES
from transformer.migrate.to_envpool import migrate as migrate_source
from transformer.syntax import text

UNSAVED = "MIGRATED.py"


@click.command()
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@click.option("-o", "--output", "file", metavar="OUT", type=click.Path(path_type=Path), help="Write to this file.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option("--diff", is_flag=True, help="Write nothing; print what would change as a patch.")
@click.option("-q", "--quiet", is_flag=True, help="Report errors only.")
def migrate(script: str, file: Path | None, force: bool, diff: bool, quiet: bool) -> None:
    """Make SCRIPT, which trains on gymnasium's or gym's Atari wrappers, train on envpool.

    THE RESULTS CHANGE: unlike all other commands, this one changes the environment, and so what is learned. The report
    lists the differences. Anything but exactly the wrappers of cleanrl's ppo_atari.py is refused.

    Without -o, the script goes to standard output and the report to standard error. Convert the result with
    `lean-convert OUT`, which keeps its results.

    Exit codes: 0 done; 1 the script cannot be migrated; 2 bad usage, or a file cannot be read or written.
    """

    errors = screen(to_stderr=True)
    path = Path(script)
    try:
        if file is not None and not diff:
            output.check_target(file, [path])
    except output.OutputError as error:
        raise click.UsageError(str(error)) from None
    try:
        original = read_script(script)
        width = settings_of(path.parent).arguments["line_length"]
    except text.NotText as refusal:
        print_diagnostics(errors, script, (refusal.diagnostic,))
        sys.exit(1)
    except OSError as error:
        raise click.FileError(script, error.strerror or str(error)) from None
    migration = migrate_source(original.content, width)
    if not migration.migrated:
        print_diagnostics(errors, script, migration.diagnostics, original.content)
        sys.exit(1)
    try:
        if diff:
            lines = (original.content.splitlines(), migration.source.splitlines())
            patch = unified_diff(*lines, script, str(file or UNSAVED), lineterm="")
            output.write_stdout("".join(f"{line}\n" for line in patch).encode())
        elif file is None:
            output.write_stdout(original.encode(migration.source))
        else:
            output.write(file, original.encode(migration.source), mode=path.stat().st_mode & 0o777, force=force)
    except output.OutputError as error:
        raise click.UsageError(str(error)) from None
    if not quiet:
        console = screen(to_stderr=diff or file is None)
        _print_differences(console)
        if file is not None and not diff:
            print_line(console, f"wrote {file}")
            print_line(console, ("next ", "dim"), shlex.join(["lean-convert", str(file), "-o", f"{file.stem}_lean.py"]))


def _print_differences(console: object) -> None:
    """Print the table of differences."""
    from rich.console import Console
    from rich.table import Table

    assert isinstance(console, Console)
    print_line(console, ("another environment: results are not equal", "bold yellow"), "; what is different:")
    table = Table("", "gymnasium's wrappers", "envpool", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for difference in DIFFERENCES:
        table.add_row(*difference)
    console.print(table)
