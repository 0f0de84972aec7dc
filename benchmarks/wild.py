"""Other people's scripts: converts those that wild.toml names, and says what became of each.

    python benchmarks/wild.py DIRECTORY [--fetch] [--run [--matching TEXT]] [--write]

Each script is read from DIRECTORY/owner/name/path, as checkouts of the repositories at the given commits have it; the
scripts themselves are not part of this project. The outcomes of conversion are counted anew; those of running (the
field `ran`) are as wild.toml has them. `--fetch` gets the checkouts that are missing,
`--run` runs the scripts (those whose path holds TEXT) and notes there how that
went, `--write` makes wild.md of both.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import click
import wild_run

from transformer import convert
from transformer.conversion import Applied, Conversion, Skipped
from transformer.text import NotText, read

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
LIST = HERE / "wild.toml"
TABLE = HERE / "wild.md"

EARLIER = "with an earlier version of the converter"
"""The note of a script whose run was not repeated."""

RAN = {
    "equal": "ran, equal",
    "differs": "ran, **differs**",
    "not run": "not run",
}
"""What the field `ran` may say, and how the table says it."""


@dataclass(frozen=True)
class Script:
    """One entry of wild.toml."""

    repository: str
    commit: str
    path: str
    ran: str
    """Whether original and converted were run against each other, and how that went: a key of RAN."""
    note: str = ""
    """Why it was not run, or what differs."""

    def __post_init__(self) -> None:
        if self.ran not in RAN:
            raise ValueError(f"{self.repository} {self.path}: ran = {self.ran!r} is none of {', '.join(RAN)}")


@dataclass(frozen=True)
class Outcome:
    """What the converter made of a script."""

    kind: str
    """`converted`, `refused`, `missing` (not in the directory) or `raised`."""
    detail: str = ""
    seconds: float = 0.0
    source: str = ""
    """The converted script."""


def outcome_of(path: Path) -> Outcome:
    """Convert one script; whatever happens is an outcome."""
    began = time.process_time()
    try:
        conversion = convert(read(path).content)
    except FileNotFoundError:
        return Outcome("missing")
    except NotText as refusal:
        return Outcome("refused", refusal.diagnostic.message)
    except Exception as error:
        return Outcome("raised", f"{type(error).__name__}: {error}")
    kind = "converted" if conversion.converted else "refused"
    return Outcome(kind, _detail(conversion), time.process_time() - began, conversion.source)


def _detail(conversion: Conversion) -> str:
    if not conversion.converted:
        return "; ".join(f"{d.code} line {d.line}: {d.message}" for d in conversion.errors)
    applied = sum(isinstance(s.outcome, Applied) for s in conversion.steps)
    reasons = [
        f"{s.transform.name}: {s.outcome.reason}"
        for s in conversion.steps
        if isinstance(s.outcome, Skipped) and not s.outcome.reason.startswith(("needs ", "nothing to change"))
    ]
    return f"{applied} of {len(conversion.steps)} transforms" + "".join(f"; {reason}" for reason in reasons)


def summary(scripts: list[Script], outcomes: list[Outcome]) -> str:
    """The counts, in sentences."""
    kinds = Counter(o.kind for o in outcomes)
    ran = Counter(s.ran for s, o in zip(scripts, outcomes, strict=True) if o.kind == "converted")
    old = sum(s.note == EARLIER for s, o in zip(scripts, outcomes, strict=True) if o.kind == "converted")
    repositories = len({s.repository for s in scripts})
    slowest = max((o.seconds for o in outcomes), default=0.0)
    return (
        f"{len(scripts)} scripts of {repositories} repositories: "
        + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        + f". Of the converted, {ran['equal']} were run against their originals and are equal bit by bit, "
        f"{ran['differs']} differ, {ran['not run']} were not run, as the table says. "
        f"Of the equal ones {old} were run {EARLIER}. "
        f"The slowest conversion took {slowest:.1f} s of processor time."
    )


def table(scripts: list[Script], outcomes: list[Outcome]) -> str:
    """wild.md."""
    lines = [
        "# Scripts in the wild",
        "",
        "How other people's descendants of cleanrl's PPO fare. The repositories were found by the names of files that",
        "such scripts have, and taken as they came; of each, the first three scripts in the order of their paths that",
        "step an environment and an optimizer and use at least three of cleanrl's own names, less those that equal one",
        "of cleanrl's but for white space. Those that run here ran two iterations with little data, compared as by",
        "`lean-convert verify --up-to refactored`; environments and packages that cannot be had are stood in for by",
        "random ones of the same interface (`tests/standins`, `benchmarks/wild_standins`). `make wild` makes it.",
        "",
        summary(scripts, outcomes),
        "",
        "| repository | commit | script | outcome | run | why |",
        "|---|---|---|---|---|---|",
    ]
    for script, outcome in zip(scripts, outcomes, strict=True):
        note = script.note if outcome.kind == "converted" else ""
        why = "; ".join(filter(None, (outcome.detail, note))).replace("|", "\\|").replace("\n", " ")
        ran = RAN[script.ran] if outcome.kind == "converted" else ""
        cells = script.repository, f"`{script.commit[:10]}`", f"`{script.path}`", outcome.kind, ran, why
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def fetch(script: Script, root: Path) -> None:
    """Get a script's repository at its commit, and nothing of its history; without network its scripts are missing."""
    root.mkdir(parents=True)
    for command in (
        ["init", "--quiet"],
        ["fetch", "--quiet", "--depth", "1", f"https://github.com/{script.repository}", script.commit],
        ["checkout", "--quiet", "FETCH_HEAD"],
    ):
        subprocess.run(["git", *command], cwd=root, check=False)


def listed(scripts: list[Script]) -> str:
    """wild.toml."""
    entries = [
        "# Other people's scripts, as benchmarks/wild.md tells. `ran` and `note` record what running them gave.\n"
    ]
    for script in scripts:
        fields = {name: value for name, value in vars(script).items() if value}
        entries.append("\n".join(["[[script]]", *(f"{n} = {json.dumps(v)}" for n, v in fields.items())]) + "\n")
    return "\n".join(entries)


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--fetch", "fetches", is_flag=True, help="Get the missing checkouts from GitHub.")
@click.option("--run", "runs", is_flag=True, help="Run the converted ones against their originals; keep the outcomes.")
@click.option("--matching", default="", help="Run those alone whose repository and path hold this text.")
@click.option("--write", is_flag=True, help="Write wild.md.")
def main(directory: Path, fetches: bool, runs: bool, matching: str, write: bool) -> None:
    """Convert the scripts of wild.toml found in DIRECTORY; fails where the converter raised."""
    entries = tomllib.loads(LIST.read_text(encoding="utf-8"))["script"]
    scripts = [Script(**entry) for entry in entries]
    outcomes = []
    for number, script in enumerate(scripts):
        root = directory / script.repository
        if fetches and not root.exists():
            fetch(script, root)
        outcome = outcome_of(root / script.path)
        outcomes.append(outcome)
        click.echo(f"{outcome.kind:10} {outcome.seconds:4.1f} s  {script.repository} {script.path}: {outcome.detail}")
        if runs and outcome.kind == "converted" and matching in f"{script.repository} {script.path}":
            ran, note = wild_run.run(root / script.path, root, outcome.source)
            click.echo(f"           {ran} {note}")
            scripts[number] = replace(script, ran=ran, note=note)
            LIST.write_text(listed(scripts), encoding="utf-8")
    click.echo(summary(scripts, outcomes))
    if write:
        TABLE.write_text(table(scripts, outcomes), encoding="utf-8")
    if any(o.kind == "raised" for o in outcomes):
        sys.exit(1)


if __name__ == "__main__":
    main()
