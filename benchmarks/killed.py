"""Kills converted scripts repeatedly, and compares the results with runs that were not killed.

    python benchmarks/killed.py WHEEL CHECKOUT WILD [--only TEXT]... [--kills 10] [--seed 0] [--no-run]

WHEEL is the wheel of cleanrl 1.2.0, CHECKOUT a checkout of vwxyzjn/cleanrl, WILD a folder with other people's
repositories as benchmarks/wild.py fetches them. Each script is converted with --checkpoint and runs on stateless
environments (kill_run.py), in a fork of this process. It is killed with SIGKILL at random moments: half of them points
in time, half of them points in a save. The same command is repeated until the script reaches its end. Then printed and
logged values, networks, optimizers and random generators are compared bit by bit with those of a run that was not
killed and saved nothing. The results are kept in results/kill.json; their page is logs/kill.md.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import random
import shutil
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import click
import kill_run
import wild_run
from kill_run import EVENTS, Ended, Job

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "support"))

from family import FAMILY, GENERATIONS, STANDINS  # noqa: E402
from forking import preload  # noqa: E402
from lasting_cases import SAVED, forgetful  # noqa: E402

from transformer import convert  # noqa: E402
from transformer.conversion.result import Applied  # noqa: E402

RESULTS = HERE / "results" / "kill.json"
PAGE = HERE / "logs" / "kill.md"
GROUPS = {"family": "cleanrl's", "fixture": "this project's", "wild": "other people's", "case": "what was once lost"}
NUMBERS = ("kills", "in writing", "resumes", "compared")
TWICE = ("--total-timesteps", "--total_timesteps")
LITTLE = {**wild_run.LITTLE, "num-envs": 4, "num-steps": 16, "total-timesteps": 512}
"""Options for eight iterations; wild.py runs two such iterations."""

INTRODUCTION = """\
# Killed and started again

Converted with `--checkpoint` and run with `--checkpoint-every 1` on a CPU, nothing compiled, each script was killed
with SIGKILL at moments that were drawn, half of them moments of writing a checkpoint (before it, in the middle, between
the steps that put it in its place), and the same command was given again until it came to its end. Printed and logged
values, networks with their buffers and modes, optimizers with their options, and the states of torch's, numpy's and
Python's random generators were compared bit by bit with a run that was not killed and saved nothing. Environments
that checkpoints hold are what they are (*saved*). Others are held still, so that they have nothing to forget: spaces
and wrappers are the script's own, each observation is that of a reset, and the reward follows from the action. What
normalises observations runs on Pendulum-v1, whose state is saved: around environments that are not put back, the first
observation when a run goes on is normalised by what a reset knows, and not by what the run had seen by then. The
clock goes by steps, so that steps per second are compared too. `make kill` makes this page.
"""


@dataclass(frozen=True)
class Script:
    """One script of the table."""

    key: str
    group: str
    """A key of GROUPS."""
    text: str
    args: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    folders: tuple[str, ...] = ()
    ends: int = -1
    """The number of steps of an episode; -1 if the script's wrappers determine it."""


def scripts(wheel: Path, checkout: Path, wild: Path) -> Iterator[Script]:
    """All scripts; those that are not available are left out and reported."""
    with zipfile.ZipFile(wheel) as archive:
        for member in FAMILY:
            for generation in GENERATIONS:
                if member.only not in (None, generation):
                    continue
                older = generation == "older"
                path = f"cleanrl/{member.name}.py"
                text = archive.read(path).decode() if older else (checkout / path).read_text(encoding="utf-8")
                args = (*member.args, *(member.older if older else member.newer))
                name = f"{Path(member.name).name} ({generation})"
                if "continuous_action (" in name:
                    args = (*args, "--env-id", "Pendulum-v1")  # checkpoints save its state
                yield Script(name, "family", text, _twice(args), folders=(str(STANDINS),))
    arguments = tomllib.loads((HERE.parent / "fixtures" / "ARGS.toml").read_text(encoding="utf-8"))
    for path in sorted((HERE.parent / "fixtures").glob("*.py")):
        args = tuple(arguments.get(path.name, {}).get("args", ()))
        yield Script(path.name, "fixture", path.read_text(encoding="utf-8"), _twice(args), folders=(str(STANDINS),))
    for name in ("wild", "wild_other"):
        for entry in _listed(name):
            root = wild / entry["repository"]
            path = root / entry["path"]
            if not path.exists():
                click.echo(f"{entry['repository']}: not at {root}, and left out", err=True)
                continue
            text = path.read_text(encoding="utf-8")
            setting = wild_run.Setting(**{k: v for k, v in entry.items() if k in wild_run.Setting.__annotations__})
            wild_run.LITTLE = LITTLE
            with wild_run.environment(path, root, text, setting, wild / "packages"):
                variables = tuple((k, v) for k, v in os.environ.items() if k.startswith("WILD_"))
            folders = (*map(str, wild_run.STANDINS), str(path.parent), str(root))
            key = f"{entry['repository']} {entry['path']}"
            text = wild_run.as_run(text, setting)
            args = tuple(wild_run.options(text, setting.args))
            if "NormalizeObservation" in text:
                args = (*args, "--env-id", "Pendulum-v1")
            yield Script(key, "wild", text, args, variables, folders)
    for name, parts in SAVED.items():
        yield Script(name, "case", forgetful(parts), ("--num-iterations", "8"))


@cache
def _listed(name: str) -> list[dict[str, Any]]:
    """The scripts of lists/kill.toml that are in a list of wild.py, with the settings of that list."""
    chosen = tomllib.loads((HERE / "lists" / "kill.toml").read_text(encoding="utf-8"))[name]
    entries = tomllib.loads((HERE / "lists" / f"{name}.toml").read_text(encoding="utf-8"))["script"]
    known = {f"{entry['repository']} {entry['path']}": entry for entry in entries}
    return [known[key] for key in chosen]


def _twice(args: tuple[str, ...]) -> tuple[str, ...]:
    """Arguments for twice as many steps as in the quick tests."""
    return tuple(str(2 * int(a)) if before in TWICE else a for before, a in zip(("", *args), args, strict=False))


def examine(script: Script, kills: int, seed: int) -> dict[str, Any]:
    """Convert a script, kill it, start it again, and compare.

    Args:
        script: the script.
        kills: how often to kill it.
        seed: the seed of the moments.
    """
    conversion = convert(script.text, checkpoint=True)
    if not conversion.converted:
        return {"outcome": "no checkpoint", "why": f"it is not converted: {conversion.errors[0].message}"}
    outcome = next((s.outcome for s in conversion.steps if s.transform.name == "checkpoint"), None)
    if not isinstance(outcome, Applied):
        return {"outcome": "no checkpoint", "why": outcome.reason if outcome else "the order has no place for it"}
    ends = script.ends if script.ends >= 0 else 1 if "MaxAndSkip" in script.text else 4
    folders = (*map(str, kill_run.STANDINS), *script.folders)
    job = Job(conversion.source, script.args, dict(script.variables), folders, ends, still=False)
    told = kill(job, kills, f"{seed} {script.key}")
    return told if told["why"] else {**told, "why": "; ".join(outcome.notes)}


def kill(job: Job, kills: int, seed: str) -> dict[str, Any]:
    """Kill a job, start it again, and compare; returns its row in the page."""
    drawn = random.Random(seed)
    told: dict[str, Any] = dict.fromkeys(NUMBERS, 0)
    with tempfile.TemporaryDirectory(prefix="lean-kill-") as name:
        if not saves_environments(job, Path(name) / "probe"):
            job = replace(job, still=True)
        told["environments"] = "held still" if job.still else "saved"
        plain, whole = Trial(job, Path(name) / "plain"), Trial(job, Path(name) / "whole")
        ended = plain.start(every=0)
        if ended.code:
            return {"outcome": "does not run", "why": _last(ended)}
        ended = whole.start()
        if different := _last(ended) if ended.code else whole.differs(plain):
            return {**told, "outcome": "differs", "why": f"not killed: {different}"[:300]}
        if (saves := whole.marks("checkpoint")) < 2:
            return {"outcome": "does not run", "why": f"it saves {saves} times: too few iterations"}
        seconds = ended.seconds
        while told["kills"] < kills:
            trial = Trial(job, Path(name) / f"{told['compared']}")
            while True:
                in_writing = drawn.random() < 0.5
                moment = drawn.randrange(EVENTS * saves) if in_writing else None
                after = None if in_writing else drawn.uniform(0, seconds)
                last = told["kills"] >= kills
                ended = trial.start(kill_at=None if last else moment, kill_after=None if last else after)
                told["resumes"] += trial.went_on
                if ended.code != -9:
                    break
                told["kills"] += 1
                told["in writing"] += in_writing
            told["compared"] += 1
            if different := _last(ended) if ended.code else trial.differs(plain):
                return {**told, "outcome": "differs", "why": different[:300]}
            shutil.rmtree(trial.place)
        return {**told, "outcome": "equal", "why": ""}


def saves_environments(job: Job, place: Path) -> bool:
    """Whether the script's environments are restored when it continues."""
    trial = Trial(job, place)
    if "put_back_environments" not in job.text or trial.start(kill_at=EVENTS).code != -9:
        return False
    trial.start(kill_at=0)
    return any(entry == ["goes on with", True] for entry in trial.entries())


class Trial:
    """One run, which may be killed and started again any number of times."""

    def __init__(self, job: Job, place: Path) -> None:
        self.job, self.place = job, place
        self.went_on = False
        """Whether the last start continued from a checkpoint."""

    def start(self, *, every: int = 1, kill_at: int | None = None, kill_after: float | None = None) -> Ended:
        """Start the run, or start it again."""
        checkpoint = any(p.suffix in (".pt", ".before") for p in (self.place / "work").glob("checkpoints/*"))
        if not checkpoint:  # the run starts from the beginning
            (self.place / "log").unlink(missing_ok=True)
        ended = kill_run.start(self.job, self.place / "work", every, kill_at=kill_at, kill_after=kill_after)
        self.went_on = any(e[0] == "goes on" and e[2] == ended.process for e in self.entries())
        if checkpoint and ended.code == 0 and not self.went_on:
            return Ended(1, ended.seconds, "it began anew, and a checkpoint was there")
        if ended.code == 0 and every and list((self.place / "work" / "checkpoints").iterdir()):
            return Ended(1, ended.seconds, "it left files behind")
        return ended

    def entries(self) -> list[list[Any]]:
        """The entries of the run's log."""
        path = self.place / "log"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def marks(self, kind: str) -> int:
        """The number of marks of a kind in its log."""
        return sum(entry[0] == kind for entry in self.entries())

    def differs(self, other: Trial) -> str:
        """The first difference from another run; empty if there is none."""
        mine, others = (
            [e for e in t.entries() if e[0] not in ("checkpoint", "goes on", "goes on with")] for t in (self, other)
        )
        for here, there in zip(mine, others, strict=False):
            if here != there:
                return f"it tells {here}, not {there}"
        if len(mine) != len(others):
            return f"it tells {len(mine)} things, not {len(others)}"
        final, finals = (json.loads((t.place / "final").read_text(encoding="utf-8")) for t in (self, other))
        for name in {**final, **finals}:
            if final.get(name) != finals.get(name):
                return f"{name} is {final.get(name)}, not {finals.get(name)}"
        return ""


def _last(ended: Ended) -> str:
    lines = ended.errors.splitlines()
    return f"exit code {ended.code}: {lines[-1] if lines else ''}"[:300]


def page(results: dict[str, Any]) -> str:
    """The table, one line per script."""
    rows = {group: {k: r for k, r in results.items() if r["group"] == group} for group in GROUPS}
    counts = Counter(r["outcome"] for r in results.values())
    added = {n: sum(r.get(n, 0) for r in results.values()) for n in NUMBERS}
    lines = [
        INTRODUCTION,
        f"{len(results)} scripts: {', '.join(f'{n} {o}' for o, n in counts.most_common())}. {added['kills']} kills, "
        f"{added['in writing']} of them at moments of writing; {added['resumes']} starts went on from a checkpoint; "
        f"{added['compared']} runs came to their end and were compared.",
        "",
    ]
    for group, title in GROUPS.items():
        lines += [f"## {title.capitalize()}", ""]
        heads = ("script", "result", "environments", *NUMBERS, "begins anew, or why not", "seen")
        lines += [f"| {' | '.join(heads)} |", "|-|-|-|-:|-:|-:|-:|-|-|"]
        for key, row in rows[group].items():
            numbers = " | ".join(str(row.get(n, "")) for n in ("environments", *NUMBERS))
            outcome = f"**{row['outcome']}**" if row["outcome"] == "differs" else row["outcome"]
            why = row["why"].replace("|", "\\|").replace("\n", " ")
            lines.append(f"| `{key}` | {outcome} | {numbers} | {why} | {row['seen']} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def versions() -> str:
    """Today's date and the versions of the packages."""
    names = ("torch", "numpy", "gymnasium", "gym")
    return f"{datetime.date.today()}, " + ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


@click.command()
@click.argument("wheel", type=click.Path(exists=True, path_type=Path))
@click.argument("checkout", type=click.Path(exists=True, path_type=Path))
@click.argument("wild", type=click.Path(path_type=Path))
@click.option("--only", multiple=True, metavar="TEXT", help="Scripts whose names or groups hold this; may be repeated.")
@click.option("--kills", default=10, help="How often each is killed.")
@click.option("--seed", default=0, help="Of the moments.")
@click.option("--run/--no-run", default=True, help="Run the scripts, or only write the page anew.")
def main(wheel: Path, checkout: Path, wild: Path, only: tuple[str, ...], kills: int, seed: int, run: bool) -> None:
    """Kill scripts, note what was seen, and write the page; ends with 1 where one differs."""
    if run:
        preload()
    for script in {s.key: s for s in scripts(wheel, checkout, wild)}.values() if run else ():
        if only and not any(text in (script.key, script.group) for text in only):
            continue
        seen = examine(script, kills, seed) | {"group": script.group, "seen": versions()}
        click.echo(f"{script.key}: {seen}")
        results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
        results[script.key] = seen
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    PAGE.write_text(page(results), encoding="utf-8")
    sys.exit(any(r["outcome"] == "differs" for r in results.values()))


if __name__ == "__main__":
    main()
