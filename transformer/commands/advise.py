"""`lean-convert advise SCRIPT...`: report what costs time in scripts, without converting them."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from transformer.advise import engine
from transformer.advise.base import Finding
from transformer.advise.rules import RULES
from transformer.commands.convert import SCRIPT
from transformer.commands.report import (
    diagnostic_as_json,
    linked,
    pointed,
    print_diagnostics,
    print_line,
    screen,
    shown,
)
from transformer.commands.selection import together_option
from transformer.conversion.of_file import NO_FOLDER, STDIN, read_script
from transformer.conversion.selection import SelectionError
from transformer.conversion.together.gathered import NotImported
from transformer.recognition.refusals import Unconvertible
from transformer.syntax import text
from transformer.syntax.diagnostics import Diagnostic

if TYPE_CHECKING:
    from rich.console import Console

BY_CODE = {rule.code: rule for rule in RULES}


@click.command()
@click.argument("scripts", nargs=-1, required=True, type=SCRIPT, metavar="SCRIPT...")
@together_option
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Form of the report.")
@click.option("--strict", is_flag=True, help="Exit with 1 if there is advice.")
def advise(scripts: tuple[str, ...], together: tuple[Path, ...], form: str, strict: bool) -> None:
    """Report what costs time in each eager SCRIPT (`-` is standard input), whether or not it can be converted.

    Each piece of advice has its position, its reason and what to write instead; `lean-convert explain LA001` says more
    about that of the code LA001.

    A script without a training loop is reported as such. With --with FILE, what SCRIPT imports of FILE is read with it.

    Exit codes: 0 done; 1 a script is not Python, or --strict was given and there is advice; 2 bad usage, or a file
    cannot be read.
    """
    try:
        results = [advise_script(script, together) for script in scripts]
    except SelectionError as error:
        raise click.UsageError(str(error)) from None
    if form == "json":
        click.echo(json.dumps(as_json(results), indent=2))
    else:
        print_advice(screen(), results)
        print_unread(screen(to_stderr=True), results)
    if any(r.failure is not None for r in results):
        sys.exit(2)
    if any(not r.read or (strict and r.findings) for r in results):
        sys.exit(1)


@dataclass(frozen=True)
class Advised:
    """The advice on one script."""

    script: str
    """The script, as the user named it."""
    findings: tuple[Finding, ...] = ()
    source: str = ""
    """The script's text, as far as it could be read."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """Why the text is not Python; empty if it is."""
    nothing_hot: Diagnostic | None = None
    """Why the script has no code to give advice on; None if it has."""
    failure: str | None = None
    """Why the script could not be read; None if it was."""
    together: tuple[Path, ...] = ()
    """Files that were read with the script."""

    @property
    def stays_on_cpu(self) -> bool:
        """Whether neither the script nor a file read with it names a device."""
        others = (text.read(path).content for path in self.together)
        return all(map(engine.stays_on_cpu, (self.source, *others)))

    @property
    def read(self) -> bool:
        """Whether the script could be read and parsed."""
        return self.failure is None and not self.diagnostics


def advise_script(script: str, together: Sequence[Path] = ()) -> Advised:
    """Read a script and give advice on it; `-` is standard input. Errors are part of the result.

    Args:
        script: as the user names it.
        together: files that it imports, to be read with it.

    Raises:
        SelectionError: one of these is not imported.
    """
    name = "<stdin>" if script == STDIN else script
    source = ""
    try:
        source = read_script(script).content
        if together and script == STDIN:
            raise NotImported(NO_FOLDER)
        found = engine.advise_together(Path(script), source, together) if together else engine.advise(source)
        cold = None if found else engine.nothing_hot(source)
        return Advised(name, found, source, nothing_hot=cold, together=tuple(together))
    except OSError as error:
        return Advised(name, failure=f"{name} cannot be read: {error.strerror or error}")
    except text.NotText as refusal:
        return Advised(name, diagnostics=(refusal.diagnostic,))
    except Unconvertible as refusal:
        return Advised(name, source=source, diagnostics=refusal.diagnostics)


def as_json(results: Sequence[Advised]) -> dict[str, Any]:
    """The advice as plain data: `{"scripts": [...]}`, one entry per script in the order given."""
    return {
        "scripts": [
            {
                "script": r.script,
                "failure": r.failure,
                "diagnostics": [
                    diagnostic_as_json(d, r.source) for d in (*r.diagnostics, *filter(None, [r.nothing_hot]))
                ],
                "advice": [_finding_as_json(f) for f in r.findings],
            }
            for r in results
        ]
    }


def _finding_as_json(finding: Finding) -> dict[str, Any]:
    rule = BY_CODE[finding.code]
    return {
        "code": finding.code,
        "weight": rule.weight,
        **({"file": finding.file} if finding.file else {}),
        "line": finding.line,
        "column": finding.column,
        "title": rule.title,
        "message": finding.message,
        "reason": rule.reason,
        "instead": rule.instead,
        "transform": finding.transform,
    }


ON_CPU = "it names no device and computes on the CPU, where reads of values (`.item()`, `.cpu()`) wait for nothing"
ONLY_RL = "Nothing was found. No environment is stepped here, and only reinforcement learning is converted."
NOTHING = "Nothing was found; a conversion reports what it changes, and what it leaves as it was, and why."


def print_advice(console: Console, results: Sequence[Advised]) -> None:
    """Print each kind of finding once, with all its lines and what to write instead, then the number of places."""
    for result in results:
        kinds: dict[tuple[str, str], list[Finding]] = {}
        for finding in result.findings:
            kinds.setdefault((finding.file, finding.code), []).append(finding)
        for alike in kinds.values():
            _print_findings(console, result, alike)
        if result.read and result.source and result.nothing_hot is None and result.stays_on_cpu:
            print_line(console, (f"{result.script}: {ON_CPU}", "dim"))
    found = [f for r in results for f in r.findings]
    if not found:
        if all(r.read and r.nothing_hot is None for r in results):
            supervised = all(engine.learns_from_no_environment(r.source) and not r.together for r in results)
            print_line(console, ONLY_RL if supervised else NOTHING)
        return
    done = sum(f.transform is not None for f in found)
    texts = [f"{len(found)} {'place' if len(found) == 1 else 'places'}", f"lean-convert rewrites {done} of them"]
    print_line(console, ", ".join(texts) + f"; `lean-convert explain {found[0].code}` says more.")


def print_unread(console: Console, results: Sequence[Advised]) -> None:
    """Print why scripts could not be read, or have no code to give advice on."""
    for result in results:
        seen = result.diagnostics if result.nothing_hot is None else (result.nothing_hot,)
        print_diagnostics(console, result.script, seen, result.source)
        if result.failure is not None:
            print_line(console, ("Error: ", "red"), result.failure)


def _print_findings(console: Console, result: Advised, alike: Sequence[Finding]) -> None:
    """Print the findings of one rule in one file: the first with its position, all with their lines."""
    first, rule = alike[0], BY_CODE[alike[0].code]
    style = linked(console, f"advise#{rule.code.lower()}", "yellow" if rule.weight == "costly" else "cyan")
    same = len({f.message for f in alike}) == 1
    places = f" ({len(alike)} places)" if len(alike) > 1 else ""
    print_line(
        console,
        f"{first.file or result.script}:{first.line}:{first.column}: ",
        (first.code, style),
        f" {first.message if same else rule.title}{places}",
    )
    for finding in alike:
        found = shown(finding.file, finding.line, finding.column, result.source)
        for line in pointed(found) if found else ():
            print_line(console, "    ", line)
    named = Counter(f.transform for f in alike if f.transform)
    does = (f"The transform {name} does {'it' if n == len(alike) else f'{n} of them'}." for name, n in named.items())
    print_line(console, (" ".join(["   ", rule.instead, *does]), "dim"))
