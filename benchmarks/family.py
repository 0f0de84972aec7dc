"""cleanrl's own scripts: verifies them in both generations, and records the results in family.md.

    python benchmarks/family.py WHEEL CHECKOUT [--only NAME:GENERATION]... [--up-to CHECK] [--no-run]

WHEEL is the wheel of cleanrl 1.2.0, CHECKOUT a checkout of vwxyzjn/cleanrl. Results are kept in results/family.json
with a digest of the converted script, so that the page can mark results of another version of the converter.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import family_torch
import torch

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "support"))

from family import FAMILY, GENERATIONS, Member  # noqa: E402

from transformer import convert  # noqa: E402
from transformer.conversion.of_files import processors  # noqa: E402
from transformer.conversion.result import Conversion, Skipped  # noqa: E402
from transformer.verify.names import CHECKS, COMPILED, FLAGS_OFF, FLAGS_ON  # noqa: E402
from transformer.verify.run import RunFailed  # noqa: E402
from transformer.verify.side_by_side import MOST, served  # noqa: E402
from transformer.verify.verify import CannotVerify, Task, verify  # noqa: E402

RESULTS = HERE / "results" / "family.json"
PAGE = HERE / "logs" / "family.md"
COLUMNS = (FLAGS_OFF, FLAGS_ON, COMPILED)
CAPABILITIES = ("default", "avx2", "avx512")
"""The instruction sets that ATEN_CPU_CAPABILITY makes torch use."""
APPLIED = RESULTS.with_name("family_applied.json")
"""The transforms that are applied to each script, which the pages of docs/transforms/ count."""
FAILED = {"status": "failed", "digest": ""}

INTRODUCTION = """\
# The family

cleanrl's scripts in PyTorch, of the published package 1.2.0 (older) and of the repository (newer), converted and run on
a CPU with little data, for three iterations, or for 130 steps of the environment from the first update on: *flags-off*
compares the conversion with its flags off with the original, bit by bit; *flags-on* does so with its flags on and
nothing compiled; *compiled* compares every compiled function with the eager one, call by call. Environments that cannot
be had are stood in for by those of `tests/support/standins`; the distributed scripts run in two processes.
The last column but one names the instructions (torch's `ATEN_CPU_CAPABILITY`) under which *flags-off* was seen equal,
where it was run under others than the processor's own: `make test-processors`. `make family` makes this page. An
asterisk marks what was seen with an earlier version of the converter.
"""


def digest(source: str) -> str:
    """A digest of a converted script."""
    return hashlib.sha256(source.encode()).hexdigest()[:12]


def script(member: Member, generation: str, place: Path) -> str:
    """The text of a script."""
    with tempfile.TemporaryDirectory() as folder:
        run = member.run(generation, place, Path(folder))
        assert run is not None, f"{member.name} is not among the {generation} scripts"
        return run.script.read_text(encoding="utf-8")


def observe(member: Member, generation: str, place: Path, up_to: str, jobs: int) -> dict[str, Any]:
    """Verify one script; returns the status of each check, and the seconds that this took."""
    with tempfile.TemporaryDirectory() as folder:
        run = member.run(generation, place, Path(folder))
        assert run is not None, f"{member.name} is not among the {generation} scripts"
        conversion = convert(run.script.read_text(encoding="utf-8"))
        begin = time.monotonic()
        try:
            with served(run, jobs) as forked:
                checks = verify(Task(forked, conversion.source, up_to=up_to, jobs=jobs)).checks
            seen = {r.name: r.status for r in checks}
            untold = ("equal", "emulated")
            reasons = {r.name: _in_short(r.reason or r.findings[0]) for r in checks if r.status not in untold}
            why = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        except (CannotVerify, RunFailed) as failure:
            seen, reasons, why = {}, {}, _in_short(str(failure))
        kept = {r: {"status": s, "digest": digest(conversion.source)} for r, s in seen.items()}
        capability = os.environ.get("ATEN_CPU_CAPABILITY")
        return {
            "checks": kept,
            "processors": {capability: kept.get(FLAGS_OFF, FAILED)} if capability else {},
            "why": why,
            "reasons": reasons,
            "seconds": round(time.monotonic() - begin),
        }


def _in_short(reason: str) -> str:
    """The first line of a reason, and the last line, which is the error of a failed script."""
    lines = reason.strip().splitlines()
    return lines[0] if len(lines) == 1 else f"{lines[0]}: {lines[-1].strip()}"


def page(results: dict[str, Any], conversions: dict[str, Conversion]) -> str:
    """The table, one line per script and generation."""
    lines = [
        f"| script | generation | transforms | {' | '.join(COLUMNS)} | instructions | held back |",
        "|-" * (len(COLUMNS) + 5) + "|",
    ]
    for key, conversion in conversions.items():
        name, generation = key.split(":")
        checks = results.get(key, {}).get("checks", {})
        now = digest(conversion.source)
        cells = []
        for column in COLUMNS:
            check = checks.get(column, {"status": "not run", "digest": now})
            cells.append(check["status"] + ("" if check["digest"] == now or check["status"] == "not run" else "*"))
        under = results.get(key, {}).get("processors", {})
        cells.append(
            ", ".join(
                (c if under[c]["status"] == "equal" else f"{c}: {under[c]['status']}")
                + ("" if under[c]["digest"] == now else "*")
                for c in CAPABILITIES
                if c in under
            )
        )
        skipped = {s.transform.name: s.outcome for s in conversion.steps if isinstance(s.outcome, Skipped)}
        reasons = "; ".join(f"{name}: {outcome.reason}" for name, outcome in skipped.items() if outcome.left_as_it_was)
        applied = f"{sum(s.applied for s in conversion.steps)} of {len(conversion.steps)}"
        lines.append(f"| `{name}` | {generation} | {applied} | {' | '.join(cells)} | {reasons} |")
    digests = {key: digest(conversion.source) for key, conversion in conversions.items()}
    return "\n".join([INTRODUCTION, *lines, "", family_torch.table(digests)])


@click.command()
@click.argument("wheel", type=click.Path(exists=True, path_type=Path))
@click.argument("checkout", type=click.Path(exists=True, path_type=Path))
@click.option("--only", multiple=True, metavar="NAME:GENERATION", help="Run this script alone; may be repeated.")
@click.option("--up-to", type=click.Choice(CHECKS), default=CHECKS[-1], help="The last check.")
@click.option("--jobs", default=min(MOST, processors()), type=click.IntRange(1), help="Runs at once.")
@click.option("--run/--no-run", default=True, help="Run the scripts, or only write the page anew.")
def main(wheel: Path, checkout: Path, only: tuple[str, ...], up_to: str, jobs: int, run: bool) -> None:
    """Verify the family, note what was seen, and write the page."""
    results: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    places = dict(zip(GENERATIONS, (wheel, checkout), strict=True))
    members = {f"{Path(m.name).name}:{g}": (m, g) for m in FAMILY for g in GENERATIONS if m.only in (None, g)}
    for key in (only or members) if run else ():
        member, generation = members[key]
        seen = observe(member, generation, places[generation], up_to, jobs)
        reasons = seen.pop("reasons")
        before = results.get(key, {})
        results[key] = seen | {part: before.get(part, {}) | seen[part] for part in ("checks", "processors")}
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        if up_to == CHECKS[-1] and seen["checks"]:
            family_torch.note(key, torch.__version__, seen["checks"], reasons)
        click.echo(f"{key}: {seen}")
    texts = {key: script(member, generation, places[generation]) for key, (member, generation) in members.items()}
    conversions = {key: convert(text) for key, text in texts.items()}
    PAGE.write_text(page(results, conversions), encoding="utf-8")
    applied = {key: [s.transform.name for s in c.steps if s.applied] for key, c in conversions.items()}
    APPLIED.write_text(json.dumps(applied, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
