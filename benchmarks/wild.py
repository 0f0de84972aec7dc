"""Other people's scripts: converts the scripts in a list, runs them, and reports the result of each.

    python benchmarks/wild.py DIRECTORY [--list NAME] [--matching TEXT] [--fetch] [--run [--again]] [--compile]
                                        [--tenth] [--write]

The list is wild.toml, or another one, as with `--list wild_off_policy`; wild_choose.py has chosen its scripts. Each
script is read from DIRECTORY/owner/name/path, where a checkout of its repository at the given commit has it; the
scripts are not part of this project. Every call converts all scripts of the list, or only those whose repository and
path contain TEXT. The other options do more:

- `--fetch` gets missing checkouts.
- `--run` compares runs of the original and the conversion, with flags off, and with flags on but nothing compiled. Each
  result is stored in the list at once, so that an interrupted call can be repeated: a script that ran, or whose
  original does not run, is not run again while its conversion stays the same, except with `--again`.
- `--compile` does the same for the check that compares compiled functions with eager ones, for scripts that ran equal.
  It takes minutes for each.
- `--tenth` does both, but only for a tenth of the list: first the scripts never compiled, then those compiled longest
  ago.
- `--write` writes the page, which stands beside the list.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import shutil
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path

import click
import wild_run

from transformer import convert
from transformer.conversion.of_file import convert_script
from transformer.conversion.result import Applied, Conversion, Skipped
from transformer.syntax.text import NotText, read

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent

LISTS = {
    "wild": (
        "Scripts in the wild",
        "How other people's descendants of cleanrl's PPO fare. The repositories were found by the names of files that "
        "such scripts have, and taken as they came; of each, the first three scripts in the order of their paths that "
        "step an environment and an optimizer and use at least three of cleanrl's own names, less those that equal "
        "one of cleanrl's but for white space. Those that run here ran two iterations with little data,",
    ),
    "wild_off_policy": (
        "Off-policy scripts in the wild",
        "How other people's descendants of cleanrl's DQN, C51, DDPG, TD3 and SAC fare. The repositories were found by "
        "the names of files that such scripts have, and chosen before anything of them was read, most of those that "
        "are named cleanrl left out; of each, the first two scripts in the order of their paths that step an "
        "environment and an optimizer and use at least three of cleanrl's own names for what replay needs, less those "
        "that equal one of cleanrl's but for white space. Those that run here ran a few hundred steps of the "
        "environment, from little stored data on,",
    ),
    "wild_other": (
        "PPO that other people wrote themselves",
        "How PPO scripts fare that are not made of cleanrl's. The repositories were found by the names of files and "
        "repositories that such scripts have, and chosen before anything of them was read; of each, the first two "
        "scripts in the order of their paths that step an environment and an optimizer, speak of PPO and of a clipped "
        "ratio, and use fewer than three of cleanrl's own names. Those that run here ran two iterations with little "
        "data,",
    ),
    "wild_classes": (
        "The codes that most people start from: classes, helpers, several files",
        "How the reinforcement-learning codes fare that people copy most and that are not written in cleanrl's form: "
        "agents as classes, helpers, modules of their own, which are converted together (`--with`). The repositories "
        "were named by hand, as those that people start from; of each, the scripts that train with "
        "an optimizer of torch. Those that run here ran two iterations, or some hundred steps of the environment,",
    ),
}
"""The lists, each with the title of its page, and a text on how its scripts were chosen and run."""

RAN = {
    "equal": "ran, equal",
    "differs": "ran, **differs**",
    "not run": "not run",
}
"""The values of the field `ran`, each with its text in the table."""
KEPT = (
    "ran",
    "note",
    "uncompiled",
    "conversion",
    "seen",
    "compiled",
    "compiled_note",
    "compiled_seen",
    "failing",
    "first",
)
"""The fields with the results of a script."""
FIRST = ("repository", "commit", "path", "holdout", "first")
"""The first fields of an entry of a list."""


@dataclass(frozen=True, kw_only=True)
class Script(wild_run.Setting):
    """One entry of a list, including how the script is run."""

    repository: str
    commit: str
    path: str
    holdout: str = ""
    """The day on which the script was added, if it was chosen without checking whether it converts."""
    first: str = ""
    """The kind of outcome when the script was first converted, on that day."""
    together: Sequence[str] = ()
    """The files that are converted with the script, by their paths in the repository."""
    impossible: str = ""
    """Why the script is not run."""
    ran: str = "not run"
    """The result of running original and converted script against each other: a key of RAN."""
    note: str = ""
    """Why the script did not run, or what differs."""
    uncompiled: str = ""
    """The result with flags on and nothing compiled: `equal` or `differs`; empty if this was not run."""
    conversion: str = ""
    """A digest of the converted script that ran."""
    seen: str = ""
    """The day of the run, and the version of the converter."""
    compiled: str = ""
    """The result of comparing compiled functions with eager ones, if this was run: `equal`, `differs`, `not run`."""
    compiled_note: str = ""
    """Why compiled functions did not run, or what differs."""
    compiled_seen: str = ""
    """The day of that comparison, and the version of the converter."""
    failing: str = ""
    """Since when the script is refused, raises or differs: day and version; empty if it does none of these."""

    def __post_init__(self) -> None:
        if self.ran not in RAN:
            raise ValueError(f"{self.repository} {self.path}: ran = {self.ran!r} is none of {', '.join(RAN)}")


@dataclass(frozen=True)
class Outcome:
    """The result of converting a script."""

    kind: str
    """`converted`, `refused`, `missing` (not in the directory) or `raised`."""
    detail: str = ""
    seconds: float = 0.0
    source: str = ""
    """The converted script."""
    held_back: Mapping[str, str] = field(default_factory=dict)
    """The transforms that might have applied, but did not, each with the reason."""
    applied: Set[str] = frozenset()
    """The transforms that applied."""

    @property
    def deep(self) -> bool:
        """Whether acting is a function, and the update is a function that compiles as one graph."""
        acts = not self.applied.isdisjoint(("policy", "acting-method", "acting-statements"))
        return acts and self.applied >= {"update", "one-graph"}

    @property
    def digest(self) -> str:
        """A digest of the converted script."""
        return hashlib.sha256(self.source.encode()).hexdigest()[:12]


def outcome_of(path: Path, together: Sequence[Path] = ()) -> Outcome:
    """Convert one script, with files that it imports; errors are outcomes, too."""
    began = time.process_time()
    try:
        _, conversion = convert_script(str(path), together) if together else ("", convert(read(path).content))
    except FileNotFoundError:
        return Outcome("missing")
    except NotText as refusal:
        return Outcome("refused", refusal.diagnostic.message)
    except Exception as error:
        return Outcome("raised", f"{type(error).__name__}: {error}")
    kind = "converted" if conversion.converted else "refused"
    held_back = {
        s.transform.name: s.outcome.reason
        for s in conversion.steps
        if isinstance(s.outcome, Skipped) and s.outcome.left_as_it_was and not s.outcome.reason.startswith("needs ")
    }
    seconds = time.process_time() - began
    applied = {s.transform.name for s in conversion.steps if isinstance(s.outcome, Applied)}
    return Outcome(kind, _detail(conversion, held_back), seconds, conversion.source, held_back, applied)


def _detail(conversion: Conversion, held_back: Mapping[str, str]) -> str:
    if not conversion.converted:
        return "; ".join(f"{d.code} line {d.line}: {d.message}" for d in conversion.errors)
    applied = sum(isinstance(s.outcome, Applied) for s in conversion.steps)
    reasons = "".join(f"; {name}: {reason}" for name, reason in held_back.items())
    return f"{applied} of {len(conversion.steps)} transforms{reasons}"


def summary(scripts: list[Script], outcomes: list[Outcome]) -> str:
    """The counts, in sentences."""
    kinds = Counter(o.kind for o in outcomes)
    converted = [s for s, o in zip(scripts, outcomes, strict=True) if o.kind == "converted"]
    ran, flagged = Counter(s.ran for s in converted), Counter(s.uncompiled for s in converted)
    old = sum(_ran_earlier(s, o) for s, o in zip(scripts, outcomes, strict=True))
    repositories = len({s.repository for s in scripts})
    slowest = max((o.seconds for o in outcomes), default=0.0)
    deep = sum(o.kind == "converted" and o.deep for o in outcomes)
    return (
        f"{len(scripts)} scripts of {repositories} repositories: "
        + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        + f". In {deep} of the converted ({deep / max(1, len(converted)):.0%}) what acts is a function, and an update "
        f"is one graph. {ran['equal']} of the converted were run against their originals and are equal bit by bit, "
        f"{ran['differs']} differ, {ran['not run']} were not run, as the table says. "
        + (f"With their flags on and nothing compiled {flagged['equal']} are equal, {flagged['differs']} differ. ")
        + (f"Of those that ran {old} ran with an earlier version of the converter. " if old else "")
        + _compiled(scripts)
        + _added(scripts)
        + f"The slowest conversion took {slowest:.1f} s of processor time."
    )


def _compiled(scripts: list[Script]) -> str:
    """A sentence on the scripts whose compiled functions were compared with eager ones."""
    ran = Counter(s.compiled for s in scripts if s.compiled)
    if not ran:
        return ""
    repositories = len({s.repository for s in scripts if s.compiled == "equal"})
    return (
        f"Of {sum(ran.values())} the compiled functions were compared with the eager ones, call by call: "
        f"{ran['equal']} are equal within the tolerances, of {repositories} repositories, {ran['differs']} differ, "
        f"{ran['not run']} could not be compared. "
    )


def _added(scripts: list[Script]) -> str:
    """The first results of scripts that were chosen without checking whether they convert."""
    days: dict[str, list[Script]] = {}
    for script in scripts:
        if script.holdout and script.first:
            days.setdefault(script.holdout, []).append(script)
    told = []
    for day, added in sorted(days.items()):
        converted = sum(s.first == "converted" for s in added)
        repositories = len({s.repository for s in added})
        told.append(
            f"Of the {len(added)} scripts of {repositories} repositories that were added on {day} (marked \u2020), "
            f"{converted} converted as they came ({converted / len(added):.0%}). "
        )
    return "".join(told)


def _ran_earlier(script: Script, outcome: Outcome) -> bool:
    """Whether the script now converts to another text than the one that was run."""
    return outcome.kind == "converted" and script.ran != "not run" and script.conversion != outcome.digest


def table(scripts: list[Script], outcomes: list[Outcome], name: str = "wild") -> str:
    """The page of a list: failures first, the most recent ones at the top."""
    title, chosen = LISTS[name]
    introduction = (
        f"{chosen} compared as by `lean-convert verify --up-to flags-on`; environments and packages that cannot be "
        "had are stood in for by random ones of the same interface (`tests/support/standins`, "
        f"`benchmarks/wild_standins`), with the settings that `benchmarks/lists/{name}.toml` has for each. "
        "`make wild` makes it; `make strangers` does so night by night, and compiles a tenth each time. `seen` is the "
        "day and the version of the converter with which a script ran, or since which it is known to fail; this stands "
        "first, the newest on top."
    )
    lines = [
        f"# {title}",
        "",
        *textwrap.wrap(introduction, 110, break_on_hyphens=False),
        "",
        summary(scripts, outcomes),
        "",
        "| repository | commit | script | outcome | run | seen | why |",
        "|---|---|---|---|---|---|---|",
    ]
    rows = list(zip(scripts, outcomes, strict=True))
    newest = sorted({s.failing for s in scripts}, reverse=True)
    for script, outcome in sorted(rows, key=lambda row: (not row[0].failing, newest.index(row[0].failing))):
        lines.append(f"| {' | '.join(_cells(script, outcome))} |")
    return "\n".join(lines) + "\n"


def _cells(script: Script, outcome: Outcome) -> tuple[str, ...]:
    """A row of the table."""
    converted = outcome.kind == "converted"
    compiled = script.compiled_note and f"compiled: {script.compiled_note}"
    notes = (outcome.detail, script.impossible or script.note, compiled) if converted else (outcome.detail,)
    why = "; ".join(filter(None, notes)).replace("|", "\\|").replace("\n", " ")
    ran = RAN[script.ran] + ", earlier version" * _ran_earlier(script, outcome) if converted else ""
    ran += f"; with flags {script.uncompiled}" if converted and script.uncompiled else ""
    ran += f"; compiled {script.compiled}" if converted and script.compiled else ""
    seen = f"fails since {script.failing}" if script.failing else script.seen if converted else ""
    seen += f"; compiled {script.compiled_seen}" if converted and script.compiled_seen else ""
    repository = script.repository + " \u2020" * bool(script.holdout)
    return repository, f"`{script.commit[:10]}`", f"`{script.path}`", outcome.kind, ran, seen, why


def fetch(script: Script, root: Path) -> None:
    """Fetch a script's repository at its commit, without history.

    If this fails, as without a network, nothing is left behind, and its scripts count as missing.
    """
    root.mkdir(parents=True)
    for command in (
        ["init", "--quiet"],
        ["fetch", "--quiet", "--depth", "1", f"https://github.com/{script.repository}", script.commit],
        ["checkout", "--quiet", "FETCH_HEAD"],
    ):
        if subprocess.run(["git", *command], cwd=root, check=False).returncode != 0:
            shutil.rmtree(root)
            return


def listed(scripts: list[Script], name: str = "wild") -> str:
    """The text of a list."""
    entries = [
        f"# Other people's scripts, as benchmarks/logs/{name}.md tells. `ran` and `note` record what running them gave"
        ".\n"
    ]
    names = [*FIRST, *(f.name for f in fields(Script) if f.name not in FIRST)]
    for script in scripts:
        given = {n: v for n in names if (v := getattr(script, n)) or (n == "speed_args" and v is not None)}
        entries.append("\n".join(["[[script]]", *(f"{n} = {json.dumps(v)}" for n, v in given.items())]) + "\n")
    return "\n".join(entries)


def ran(script: Script, outcome: Outcome, directory: Path) -> Script:
    """The script with the result of running it."""
    told = wild_run.run(*_case(script, directory, outcome.source))
    note = _short(told.ran, told.note)
    return replace(
        script, ran=told.ran, note=note, uncompiled=told.uncompiled, conversion=outcome.digest, seen=version()
    )


def compiled(script: Script, outcome: Outcome, directory: Path) -> Script:
    """The script with the result of comparing its compiled functions."""
    told, note = wild_run.run_compiled(*_case(script, directory, outcome.source))
    return replace(script, compiled=told, compiled_note=_short("", note), compiled_seen=version())


def _case(script: Script, directory: Path, converted: str) -> tuple[Path, Path, str, Script, Path, list[Path]]:
    """The arguments of a run."""
    root = directory / script.repository
    together = [root / name for name in script.together]
    return root / script.path, root, converted, script, directory / ".packages", together


@cache
def version() -> str:
    """Today's date, and the converter's commit, with a `+` if there are uncommitted changes."""

    def git(*command: str) -> str:
        return subprocess.run(["git", *command], cwd=HERE, capture_output=True, text=True, check=True).stdout.strip()

    changed = "+" if git("status", "--porcelain", "../transformer", "../templates") else ""
    return f"{datetime.date.today()} {git('rev-parse', '--short=10', 'HEAD')}{changed}"


def judged(script: Script, outcome: Outcome) -> Script:
    """The script, marked with since when it fails, if it does."""
    differs = outcome.kind == "converted" and "differs" in (script.ran, script.uncompiled, script.compiled)
    if outcome.kind == "missing":
        return script
    failing = (script.failing or version()) if differs or outcome.kind != "converted" else ""
    return replace(script, failing=failing, first=script.first or (outcome.kind if script.holdout else ""))


def in_turn(scripts: list[Script]) -> set[tuple[str, str]]:
    """Repository and path of a tenth of the scripts: those never compiled first, then those compiled longest ago."""
    able = sorted((s for s in scripts if s.ran == "equal"), key=lambda s: s.compiled_seen)
    return {(s.repository, s.path) for s in able[: math.ceil(len(scripts) / 10)]}


def _short(told: str, note: str) -> str:
    """Show a result, and return the last line of its note."""
    click.echo(f"{'':10} {told} {note}")
    lines = note.replace(f"{HERE.parent}/", "").strip().splitlines()
    return f"{'the original stops: ' if told == 'not run' else ''}{lines[-1][:200]}" if lines else ""


def read_list(path: Path) -> list[Script]:
    """The entries of a list."""
    return [Script(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("script", [])]


def keep(script: Script, path: Path) -> None:
    """Write the result of one script into a list, keeping changes that were made to the list meanwhile."""
    told = {name: getattr(script, name) for name in KEPT}
    same = (script.repository, script.path)
    scripts = [replace(s, **told) if (s.repository, s.path) == same else s for s in read_list(path)]
    whole = path.with_suffix(".new")  # so that nobody reads half a list
    whole.write_text(listed(scripts, path.stem), encoding="utf-8")
    whole.replace(path)


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, resolve_path=True, path_type=Path))
@click.option("--list", "name", type=click.Choice(tuple(LISTS)), default="wild", help="Which scripts.")
@click.option("--fetch", "fetches", is_flag=True, help="Get the missing checkouts from GitHub.")
@click.option("--run", "runs", is_flag=True, help="Run the converted ones against their originals; keep the outcomes.")
@click.option(
    "--compile", "compiles", is_flag=True, help="Compare also the compiled functions of those that ran equal."
)
@click.option("--matching", default="", help="Only those whose repository and path contain this text.")
@click.option("--again", is_flag=True, help="Run also what ran before and has not changed since.")
@click.option("--tenth", is_flag=True, help="Run again, and compile, a tenth of the list: those whose turn it is.")
@click.option("--write", is_flag=True, help="Write the page.")
def main(
    directory: Path,
    name: str,
    fetches: bool,
    runs: bool,
    compiles: bool,
    matching: str,
    again: bool,
    tenth: bool,
    write: bool,
) -> None:
    """Convert a list's scripts found in DIRECTORY; fails if the converter raised an error or a run differs."""
    if matching and write:
        raise click.UsageError("--write makes a page of all scripts: it does not go with --matching")
    path = HERE / "lists" / f"{name}.toml"
    scripts = [s for s in read_list(path) if matching in f"{s.repository} {s.path}"]
    turn = in_turn(scripts) if tenth else set()
    outcomes = []
    for number, script in enumerate(scripts):
        root = directory / script.repository
        if fetches and not root.exists():
            fetch(script, root)
        outcome = outcome_of(root / script.path, [root / name for name in script.together])
        outcome = replace(outcome, detail=outcome.detail.replace(f"{root}/", ""))
        outcomes.append(outcome)
        click.echo(f"{outcome.kind:10} {outcome.seconds:4.1f} s  {script.repository} {script.path}: {outcome.detail}")
        its_turn = (script.repository, script.path) in turn
        if outcome.kind == "converted":
            wanted = runs and (again or not _known(script, outcome))
            if (wanted or its_turn) and not script.impossible:
                script = ran(script, outcome, directory)
                keep(script, path)
            wanted = compiles and (again or not script.compiled)
            if (wanted or its_turn) and script.ran == "equal":
                script = compiled(script, outcome, directory)
        scripts[number] = judged(script, outcome)
        if scripts[number] != script or compiles or tenth:
            keep(scripts[number], path)
    click.echo(summary(scripts, outcomes))
    if write:
        (HERE / "logs" / f"{name}.md").write_text(table(scripts, outcomes, name), encoding="utf-8")
    if any(o.kind == "raised" for o in outcomes) or any(
        "differs" in (s.ran, s.uncompiled, s.compiled) for s in scripts
    ):
        sys.exit(1)


def _known(script: Script, outcome: Outcome) -> bool:
    """Whether the result for the script's present conversion is known, and not a difference."""
    unchanged = script.conversion == outcome.digest and bool(script.seen)
    return unchanged and "differs" not in (script.ran, script.uncompiled)


if __name__ == "__main__":
    main()
