"""What a conversion did, for people (a table, findings, the next command) and for machines (JSON)."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from transformer.conversion.result import Applied, Conversion, Refused, Skipped, Step
from transformer.syntax.diagnostics import Diagnostic

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

UNSAVED = "CONVERTED.py"
"""Stands for the converted script in commands where it went to standard output."""


@dataclass(frozen=True)
class Result:
    """One script's conversion and where it went."""

    script: str
    """The script as the user named it."""
    conversion: Conversion
    output: str | None = None
    """The file that holds the converted script; None where it went to standard output or nowhere."""
    failure: str | None = None
    """Why the script could not be read or the output not be written; None where that went well."""

    stale: str | None = None
    """How the file differs from what converting the script gives now; None where it does not, or was not asked."""

    @property
    def done(self) -> bool:
        """Whether there is a converted script, and it is where it should be."""
        return self.conversion.converted and self.failure is None and self.stale is None

    @property
    def applied(self) -> tuple[Step, ...]:
        """The steps that changed the script."""
        return tuple(s for s in self.conversion.steps if s.applied)

    @property
    def lines_changed(self) -> tuple[int, int]:
        """Lines added and lines removed, summed over the steps."""
        return sum(s.changed[0] for s in self.applied), sum(s.changed[1] for s in self.applied)

    @property
    def commands(self) -> dict[str, str]:
        """The shell commands that run the converted script, by the hardware that they are for."""
        names = {s.transform.name for s in self.applied}
        run = ["python", self.output or UNSAVED]
        options = dict(self.conversion.options)
        commands = {"cpu": shlex.join([*run, options.get("compile", "--compile")] if "compile" in names else run)}
        if "cudagraphs" in names:
            commands["cuda"] = f"{commands['cpu']} {options.get('cudagraphs', '--cudagraphs')}"
        return commands


def describe(step: Step) -> tuple[str, str]:
    """A step's outcome as a word (applied, skipped, not selected, refused), and its notes or reason."""
    match step.outcome:
        case Applied(notes):
            return "applied", " ".join(notes)
        case Skipped(reason=reason, chosen=chosen):
            return ("skipped", reason) if chosen else ("not selected", "")
        case Refused(diagnostics):
            return "refused", "; ".join(d.message for d in diagnostics)


def as_json(results: Sequence[Result]) -> dict[str, Any]:
    """The report as plain data: `{"scripts": [...]}`, one entry per script in the order given."""
    return {"scripts": [_result_as_json(r) for r in results]}


def _result_as_json(result: Result) -> dict[str, Any]:
    return {
        "script": result.script,
        "output": result.output,
        "converted": result.done,
        "failure": result.failure,
        "stale": result.stale,
        "transforms": [_step_as_json(s) for s in result.conversion.steps],
        "diagnostics": [diagnostic_as_json(d) for d in result.conversion.diagnostics],
        "commands": result.commands if result.done else {},
    }


def _step_as_json(step: Step) -> dict[str, Any]:
    outcome, reason = describe(step)
    added, removed = step.changed
    return {
        "name": step.transform.name,
        "summary": step.transform.summary,
        "outcome": outcome,
        "reason": reason,
        "kind": step.outcome.kind if isinstance(step.outcome, Skipped) and step.outcome.chosen else None,
        "lines_added": added,
        "lines_removed": removed,
    }


def diagnostic_as_json(d: Diagnostic) -> dict[str, Any]:
    """A finding as plain data."""
    return {
        **({"file": d.file} if d.file else {}),
        "code": d.code,
        "severity": d.severity,
        "line": d.line,
        "column": d.column,
        "message": d.message,
        "advice": d.advice,
    }


def print_report(console: Console, results: Sequence[Result], *, verbose: bool = False) -> None:
    """Print what was done: one script's transforms, or several scripts one a row; warnings; what to run next.

    Args:
        console: where to.
        results: the scripts in the order given.
        verbose: tell of each transform that is not needed why it is not, and of each applied one what it did in full.
    """
    only = results[0] if len(results) == 1 else None
    if only is None:
        console.print(_overview(results))
    elif only.applied:
        _print_steps(console, only, verbose=verbose)
    for result in results:
        print_diagnostics(console, result.script, result.conversion.warnings)
    if only is not None and only.done:
        console.print()
        for hardware, command in only.commands.items():
            print_line(console, (f"{hardware.upper():<5}", "dim"), (command, "bold"))
        if only.output is not None:
            print_line(console, ("next ", "dim"), shlex.join(["lean-convert", "verify", only.script, only.output]))


def print_errors(console: Console, results: Sequence[Result]) -> None:
    """Print, of the scripts that were not converted or not written, all reasons."""
    for result in results:
        print_diagnostics(console, result.script, result.conversion.errors)
        for why in filter(None, (result.failure, result.stale)):
            print_line(console, ("Error: ", "red"), why)


def print_diagnostics(console: Console, script: str, diagnostics: Sequence[Diagnostic]) -> None:
    """Print findings as `file:line:col: CODE message`, each followed by what to do about it."""
    for d in diagnostics:
        style = "red" if d.severity == "error" else "yellow"
        print_line(console, f"{d.file or script}:{d.line}:{d.column}: ", (d.code, style), f" {d.message}")
        print_line(console, (f"    {d.advice}", "dim"))


def print_line(console: Console, *parts: str | tuple[str, str]) -> None:
    """Print one line, however long: editors and grep read it, and a shell gets it pasted."""
    from rich.text import Text

    console.print(Text.assemble(*parts), soft_wrap=True)


def _table(*headings: str) -> Table:
    from rich.table import Column, Table

    columns = (Column(h, overflow="fold") for h in headings)  # a long path is broken, not shortened
    return Table(*columns, box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(headings))


def _print_steps(console: Console, result: Result, *, verbose: bool) -> None:
    """What was applied, a line each; what was held back, why, and what that costs; how many were not needed."""
    added, removed = result.lines_changed
    what = f"{len(result.applied)} transforms applied"
    print_line(console, (what, "bold"), "  ", (f"+{added}", "green"), " ", (f"-{removed}", "red"))
    applied, held, rest = _table(), _table(), _table()
    unneeded = []
    for step in result.conversion.steps:
        outcome, reason = describe(step)
        name = f"  {step.transform.name}"
        if step.applied:
            did = step.transform.summary if verbose else step.transform.brief
            applied.add_row(name, _lines(*step.changed), _told(did, reason))
        elif isinstance(step.outcome, Skipped) and step.outcome.held_back:
            costs = "" if reason.startswith("needs ") else step.transform.costs
            held.add_row(name, _told(reason, costs))
        elif outcome != "not selected":
            unneeded.append(step.transform.name)
            rest.add_row(name, _told("", reason))
    console.print(applied)
    if held.row_count:
        print_line(console, ("held back", "bold yellow"))
        console.print(held)
    if unneeded and verbose:
        print_line(console, ("not needed here", "bold"))
        console.print(rest)
    elif unneeded:
        print_line(console, (f"{len(unneeded)} not needed here; -v says why", "dim"))


def _told(what: str, more: str) -> Text:
    from rich.text import Text

    return Text.assemble(what, (f"{chr(10) if what and more else ''}{more}", "dim"))


def _overview(results: Sequence[Result]) -> Table:
    """One row a script: how many transforms applied, how much changed, and where the result is or why there is none."""
    from rich.text import Text

    table = _table("script", "applied", "lines", "warnings", "result")
    for r in results:
        if r.failure is not None:
            outcome = Text("not written", "red")
        elif not r.conversion.converted:
            outcome = Text(f"refused: {', '.join(sorted({d.code for d in r.conversion.errors}))}", "red")
        else:
            outcome = Text(r.output or "", "green")
        applied = Text(f"{len(r.applied)} of {len(r.conversion.steps)}") if r.applied else Text()
        lines = _lines(*r.lines_changed) if r.applied else Text()
        table.add_row(Text(r.script), applied, lines, Text(str(len(r.conversion.warnings) or "")), outcome)
    return table


def _lines(added: int, removed: int) -> Text:
    from rich.text import Text

    return Text.assemble((f"+{added}", "green"), " ", (f"-{removed}", "red"))
