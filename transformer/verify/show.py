"""A verification as a terminal table and as JSON."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from transformer.verify.checks import Check, Row
from transformer.verify.harness.job import Episodes
from transformer.verify.names import OTHER_ARGUMENTS, SHORT_EPISODES
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


def print_verification(verification: Verification, console: Console) -> None:
    """Print one table line per compared quantity of each check, and below it what is different and what to know."""
    console.print(_table(verification))
    for check in verification.checks:
        console.print(_remarks(check))
    if verification.not_exercised:
        console.print(Text("not exercised, so that a mistake there was not seen:", style="bold"))
    for sentence in verification.not_exercised:
        console.print(Text(f"  {sentence}", style="yellow"))
    for name, given in zip((OTHER_ARGUMENTS, SHORT_EPISODES), verification.other_arguments, strict=False):
        console.print(Text(f"{name}: {' '.join(given.args)}{_cut_short(given.episodes)}", style="dim"))
    for note in verification.notes:
        console.print(Text(note, style="dim"))


def _cut_short(episodes: Episodes | None) -> str:
    if episodes is None:
        return ""
    return (
        f", episodes of gym's and gymnasium's environments truncated after {episodes.truncated} steps; after "
        f"{episodes.barren}, each step ends one without a reward"
    )


def print_seeds(result: SeedsResult, console: Console) -> None:
    """Print the outcome of the trainings over several seeds."""
    console.print(Text(result.describe(), style="green" if result.alike else "bold red"))


def as_json(verification: Verification, required: tuple[str, ...], seeds: SeedsResult | None) -> dict[str, Any]:
    """The same, and every finding, for machines. Infinite differences are the string `inf`."""
    failing = verification.verdict(required)
    alike = seeds is None or seeds.alike
    return {
        "verdict": "equal" if failing is None and alike else failing.status if failing is not None else "different",
        "first_failing_check": None if failing is None else failing.name,
        "arguments": list(verification.args),
        "other_arguments": {
            name: {"arguments": list(given.args), "episodes": given.episodes and given.episodes._asdict()}
            for name, given in zip((OTHER_ARGUMENTS, SHORT_EPISODES), verification.other_arguments, strict=False)
        },
        "not_exercised": list(verification.not_exercised),
        "iterations": verification.original.iterations,
        "versions": dict(verification.original.versions),
        "checks": [_check_json(check) for check in verification.checks],
        "seeds": None if seeds is None else seeds.as_json(),
        "notes": list(verification.notes),
    }


def _table(verification: Verification) -> Table:
    table = Table(title=f"{verification.original.iterations} iterations", title_justify="left")
    table.add_column("compared", overflow="fold")
    table.add_column("values", justify="right")
    table.add_column("difference", justify="right")
    table.add_column("allowed", justify="right")
    table.add_column("where", overflow="fold")
    for check in verification.checks:
        title = Text(f"{check.name}: {check.status.upper()}", style=_STYLES[check.status])
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


def _remarks(check: Check) -> RenderableType:
    lines = [Text(f"  {finding}", style="red") for finding in check.findings[:_FINDINGS_SHOWN]]
    if len(check.findings) > _FINDINGS_SHOWN:
        more = len(check.findings) - _FINDINGS_SHOWN
        lines.append(Text(f"  and {more} more (--format json has them all)", style="red"))
    lines += [Text(f"  {note}", style="dim") for note in check.notes]
    if check.reason:
        lines.append(Text(f"  {check.reason}", style=_STYLES[check.status]))
    heading = [Text(f"{check.name}:", style="bold")] if lines else []
    return Group(*heading, *lines)


def _check_json(check: Check) -> dict[str, Any]:
    return {
        "name": check.name,
        "status": check.status,
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
