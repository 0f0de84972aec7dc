"""A verification as a terminal table and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from transformer.verify.checks import Check, Row, never_called
from transformer.verify.harness.job import Episodes
from transformer.verify.names import CHECKS, GRAPHS, OTHER_ARGUMENTS, SHORT_EPISODES, line_of, of_group, shown
from transformer.verify.seeds import SeedsResult
from transformer.verify.verify import Verification

_STYLES = {
    "equal": "green",
    "emulated": "cyan",
    "close": "cyan",
    "different": "bold red",
    "not run": "yellow",
    "failed": "bold red",
}
_FINDINGS_SHOWN = 8
_PLACES_SHOWN = 3
_NO_LOG = "nothing was logged or printed in these runs, so logs were not compared; {}"


def print_verdict(
    verification: Verification,
    console: Console,
    required: tuple[str, ...] = (),
    *,
    lines_were_told: bool = False,
    all_was_told: bool = False,
) -> None:
    """Print a line for each kind of check, what is wrong with the first that is not equal, and finally the verdict.

    Args:
        verification: what to print.
        console: where to print.
        required: names of checks that must have run.
        lines_were_told: whether the lines were already printed when the checks ended.
        all_was_told: whether :func:`print_verification` was also called.
    """
    if not lines_were_told:
        lines: dict[str, list[Check]] = {}
        for check in verification.checks:
            lines.setdefault(line_of(check.name), []).append(check)
        console.print(table_of_lines(lines))
    if verification.verdict(required) is None:
        left = () if all_was_told else verification.not_exercised
        for sentence in left[:_PLACES_SHOWN]:
            console.print(Text(f"not exercised: {sentence}", style="dim"), soft_wrap=True)
        if len(left) > _PLACES_SHOWN:
            number = len(left) - _PLACES_SHOWN
            places = "1 more place: -v shows it" if number == 1 else f"{number} more places: -v shows them"
            more = f"and {places}; {_REACHED_BY}"
            console.print(Text(f"               {more}", style="dim"), soft_wrap=True)
        elif left:
            console.print(Text(f"               {_REACHED_BY}", style="dim"), soft_wrap=True)
        if verification.unlogged is not None:
            said = _NO_LOG.format(verification.unlogged)
            console.print(Text(said, style="dim"), soft_wrap=True)
    _print_outcome(verification, console, required)


def table_of_lines(lines: Mapping[str, Sequence[Check]], width: int | None = None) -> Table:
    """A line for each kind of check.

    Args:
        lines: the checks of each.
        width: of the longest name, to align lines that are printed one by one.
    """
    apart = width is not None and any(check.status != "not run" for checks in lines.values() for check in checks)
    said, much, time_taken = _WIDTHS if apart else (None, None, None)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, min_width=width)
    table.add_column(overflow="fold", min_width=said)
    table.add_column(no_wrap=True, min_width=much)
    table.add_column(justify="right", no_wrap=True, min_width=time_taken)
    for name, checks in lines.items():
        worst = max(checks, key=lambda check: _GRAVITY.index(check.status))
        cells = _outcome(worst, checks)
        seconds = sum(check.seconds for check in checks)
        time = _duration(seconds) if worst.status != "not run" and seconds else ""
        table.add_row(name, Text(cells[0], style=_STYLES[worst.status]), cells[1], time)
    return table


_WIDTHS = len("agreed, emulated: no GPU"), len("allowed 1e-04 to 1e-03"), len("99 min 59 s")
"""The widths of outcome, amount and time if lines are printed one by one; a reason may take the whole line."""


def _print_outcome(verification: Verification, console: Console, required: tuple[str, ...]) -> None:
    failing = verification.verdict(required)
    last = f"{summary(verification, required)}   {_duration(verification.seconds)}"
    if failing is not None and failing.status == "failed":
        console.print(Text(failing.reason, style="red"), soft_wrap=True)
        console.print(_WHOSE_FAULT, soft_wrap=True)
        console.print(Text(last, style="bold red"), soft_wrap=True)
        return
    if failing is None:
        console.print(Text(last, style="bold green"), soft_wrap=True)
        return
    cause, _, meaning = (failing.findings or (failing.reason,))[0].partition(". This points to: ")
    if meaning:
        console.print(Text(f"This points to: {meaning}", style="bold red"), soft_wrap=True)
    console.print(Text(f"  {cause}", style="red"), soft_wrap=True)
    if len(failing.findings) > 1:
        worst = max((row for row in failing.rows if not row.equal and row.error), key=_error, default=None)
        much = "" if worst is None else f", with differences of up to {_error(worst):.3g} ({worst.what})"
        more = f"  {len(failing.findings) - 1} more that may follow from it{much}: -v shows them"
        console.print(Text(more, style="dim"), soft_wrap=True)
    console.print(_table(verification, [failing]))
    console.print(Text(last, style="bold red"), soft_wrap=True)


def _error(row: Row) -> float:
    return row.error or 0.0


def summary(verification: Verification, required: tuple[str, ...] = ()) -> str:
    """The verdict in a line: what it covers, or the check that fails."""
    failing = verification.verdict(required)
    if failing is None:
        return _equal_on(verification)
    said = {"failed": "FAILED", "not run": "NOT RUN, and required", "emulated": "NOT RUN, and required"}
    return f"{said.get(failing.status, 'DIFFERENT')}: {shown(failing.name)}"


_REACHED_BY = "more --iterations may reach it, or other arguments after `--`"
_WHOSE_FAULT = (
    "The original ran with the same arguments. Unless the converted script was edited, or torch cannot compile on this "
    "machine, this is a bug in lean-convert: --each-transform finds the transform, and `lean-convert convert "
    "--ignore TRANSFORM` leaves it out."
)

_GRAVITY = ("not run", "equal", "emulated", "close", "different", "failed")
"""The statuses by increasing weight, for a line with several checks: those that did not run do not hide the others."""


def _outcome(check: Check, checks: Sequence[Check]) -> tuple[str, str]:
    """The outcome of a line, and how much was compared or what was allowed."""
    if check.status == "not run":
        return f"not run: {check.reason.splitlines()[0]}", ""
    if check.status == "emulated":
        return "agreed, emulated: no GPU", ""
    if check.status != "equal":
        return {"close": "close to float32", "different": "DIFFERENT", "failed": "FAILED"}[check.status], ""
    if check.lockstep is None:
        return "same bits", f"{_amount(sum(row.values for c in checks for row in c.rows))} values"
    rows = [row for c in checks for row in c.rows if row.tolerance and row.error is not None]
    largest = max((row.error or 0.0 for row in rows), default=0.0)
    if not largest:
        return "same bits", ""
    allowed = sorted({f"{row.tolerance:.0e}" for row in rows}, key=float)
    return f"within {_rounded_up(largest)}", f"allowed {' to '.join(dict.fromkeys((allowed[0], allowed[-1])))}"


def _rounded_up(error: float) -> str:
    """An upper bound with one digit: `2e-05` for 0.0000128."""
    if not math.isfinite(error):
        return f"{error:.0e}"
    unit = 10.0 ** math.floor(math.log10(error))
    return f"{math.ceil(error / unit) * unit:.0e}"


def _amount(number: int) -> str:
    return f"{number / 1e6:.1f} M" if number >= 1e5 else f"{number:,}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _equal_on(verification: Verification) -> str:
    """The verdict if nothing is different."""
    apart = ["how the new script shuffles by itself"] if verification.other_shuffles else []
    if idle := never_called(verification.checks):
        apart.append(f"{' and '.join(f'{name}()' for name in idle)}, which never ran")
    elif verification.not_exercised:
        apart.append("what was not exercised")
    besides = f" Not compared: {'; '.join(apart)}." if apart else ""
    statuses = {g: [check.status for check in verification.checks if of_group(check.name, g)] for g in CHECKS}
    ran = [group for group, found in statuses.items() if set(found) - {"not run"}]
    if ran and not statuses[CHECKS[-1]]:
        return f"EQUAL up to {shown(ran[-1])}.{besides}"
    graphs = [check.status for check in verification.checks if GRAPHS in check.name]
    if graphs and set(graphs) == {"emulated"}:
        return f"EQUAL on all that can run here; CUDA graphs need a GPU.{besides}"
    left = any(check.status == "not run" for check in verification.checks)
    return f"EQUAL on all that could run.{besides}" if left else f"EQUAL.{besides}"


def print_verification(verification: Verification, console: Console) -> None:
    """Print one row per compared quantity of each check, with the differences and remarks below."""
    console.print(_table(verification, verification.checks))
    for check in verification.checks:
        for line in _remarks(check):
            console.print(line, soft_wrap=True)
    if verification.not_exercised:
        console.print(Text("not exercised, so that a mistake there was not seen:", style="bold"), soft_wrap=True)
    for sentence in verification.not_exercised:
        console.print(Text(f"  {sentence}", style="yellow"), soft_wrap=True)
    for name, given in zip((OTHER_ARGUMENTS, SHORT_EPISODES), verification.other_arguments, strict=False):
        console.print(
            Text(f"{shown(name)}: {' '.join(given.args)}{_cut_short(given.episodes)}", style="dim"), soft_wrap=True
        )
    for note in verification.notes:
        console.print(Text(note, style="dim"), soft_wrap=True)


def _cut_short(episodes: Episodes | None) -> str:
    if episodes is None:
        return ""
    return (
        f", episodes of gym's and gymnasium's environments truncated after {episodes.truncated} steps; after "
        f"{episodes.barren}, each step ends one without a reward"
    )


def print_seeds(result: SeedsResult, console: Console) -> None:
    """Print the result of training with several seeds."""
    console.print(Text(result.describe(), style="green" if result.alike else "bold red"))


def as_json(verification: Verification, required: tuple[str, ...], seeds: SeedsResult | None) -> dict[str, Any]:
    """The same, and every finding, for machines. Infinite differences are the string `inf`."""
    failing = verification.verdict(required)
    alike = seeds is None or seeds.alike
    return {
        "scripts": verification.scripts,
        "verdict": "equal" if failing is None and alike else failing.status if failing is not None else "different",
        "summary": summary(verification, required) if alike or failing is not None else "DIFFERENT: seeds",
        "first_failing_check": None if failing is None else failing.name,
        "arguments": list(verification.args),
        "other_arguments": {
            name: {"arguments": list(given.args), "episodes": given.episodes and given.episodes._asdict()}
            for name, given in zip((OTHER_ARGUMENTS, SHORT_EPISODES), verification.other_arguments, strict=False)
        },
        "not_exercised": list(verification.not_exercised),
        "iterations": verification.original.iterations,
        "seconds": round(verification.seconds, 1),
        "versions": dict(verification.original.versions),
        "checks": [_check_json(check) for check in verification.checks],
        "seeds": None if seeds is None else seeds.as_json(),
        "notes": list(verification.notes),
    }


def _table(verification: Verification, checks: Sequence[Check]) -> Table:
    counted = "updates" if verification.stepwise else "iterations"
    table = Table(title=f"{verification.original.iterations} {counted}", title_justify="left")
    table.add_column("compared", overflow="fold")
    table.add_column("values", justify="right")
    table.add_column("difference", justify="right")
    table.add_column("allowed", justify="right")
    table.add_column("where", overflow="fold")
    for check in checks:
        title = Text(f"{shown(check.name)}: {check.status.upper()}", style=_STYLES[check.status])
        table.add_row(title, end_section=not check.rows)
        for i, row in enumerate(check.rows, start=1):
            table.add_row(*_cells(row), end_section=i == len(check.rows), style="" if row.equal else "red")
    return table


def _cells(row: Row) -> tuple[str, ...]:
    error = "-" if row.error is None else "0" if row.error == 0 else f"{row.error:.3g}"
    if row.error is None and not row.equal:
        error = "different"
    allowed = "none" if row.tolerance is None else f"{row.tolerance:.0e}" if row.tolerance else "none"
    return f"  {escape(row.what)}", f"{row.values:,}", error, allowed, escape(row.where)


def _remarks(check: Check) -> list[Text]:
    lines = [Text(f"  {finding}", style="red") for finding in check.findings[:_FINDINGS_SHOWN]]
    if len(check.findings) > _FINDINGS_SHOWN:
        more = len(check.findings) - _FINDINGS_SHOWN
        lines.append(Text(f"  and {more} more (--format json has them all)", style="red"))
    lines += [Text(f"  {note}", style="dim") for note in check.notes]
    if check.reason:
        lines.append(Text(f"  {check.reason}", style=_STYLES[check.status]))
    heading = [Text(f"{shown(check.name)}:", style="bold")] if lines else []
    return heading + lines


def _check_json(check: Check) -> dict[str, Any]:
    return {
        "name": check.name,
        "status": check.status,
        "seconds": round(check.seconds, 1),
        "reason": check.reason or None,
        "findings": list(check.findings),
        "notes": list(check.notes),
        "compared": [
            {
                "what": row.what,
                "values": row.values,
                "largest_difference": _finite(row.error),
                "where": row.where or None,
                "allowed": row.tolerance,
                "equal": row.equal,
            }
            for row in check.rows
        ],
    }


def _finite(error: float | None) -> float | str | None:
    return "inf" if error is not None and math.isinf(error) else error
