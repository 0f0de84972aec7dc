"""How much faster other people's scripts get: the scripts in the lists that ran equal, with their own sizes.

    python benchmarks/wild_speed.py DIRECTORY [--fetch] [--matching TEXT] [--part K/N] [--minutes M] [--turns N]
                                              [--page]

The original, its conversion with flags off, and its conversion under `--compile` are measured in turns, as by
`lean-convert bench`, with the stand-ins and settings of benchmarks/wild.py. Results are stored in
results/wild-speed.json after each script, so that an interrupted call can be repeated: a known conversion is not
measured again. Calls for different parts may run at the same time, each on a core of its own (`taskset -c 0 ...
--part 1/2`). wild_speed.md and its picture are made from that file alone; `--page` makes them and measures nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import statistics
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import click
import wild
import wild_run

from transformer.bench import show
from transformer.bench.bench import Task, bench
from transformer.bench.contenders import FLAGS_OFF, ORIGINAL, Contender, line_up
from transformer.bench.measure import Length
from transformer.bench.warm_up import past_warm_up
from transformer.syntax.text import read
from transformer.verify.run import Run, RunFailed

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "wild-speed.json"
PICTURE = RESULTS.with_suffix(".png")
PAGE = HERE / "logs" / "wild_speed.md"
RUNGS = (FLAGS_OFF, "compile")
BURN_IN = 2
"""The iterations of rollout and update in the burn-in."""
BURN_IN_STEPS = 1100
"""Off-policy, the steps in the burn-in from the first update on: DQN updates its target network, and so compiles that
update, after 500 or 1000 steps."""
AIM = 1.8
"""The geometric mean to reach under --compile."""
SAME = ("the environment's steps", "neither rollout, advantages nor update", "matrix products and convolutions")
"""The parts of the time that no transform reduces; the last one is contained in other phases, too."""
MANY = 0.4
"""The share of time in matrix products from which a script counts as one with big networks."""
DECISIVE = frozenset("policy acting evaluate-once update shuffle one-graph compile".split())
"""The transforms that decide the speed under --compile."""
KEPT = ("status", "reason", "steps_per_second", "ratio", "warmup_seconds", "seconds_per_step", "functions")
"""The figures of each contender that are stored."""
FEWEST = 3
"""The minimum number of turns for results on a contender that ended by itself."""
LIMIT = 1800
"""The seconds for which a process may live, including the time in which others compile and have their turns."""

CLASSES = "wild_classes"
"""The list whose scripts have their own section: agents as classes, helpers, several files."""

INTRODUCTION = (
    "How fast the scripts of [wild.md](wild.md), [wild_off_policy.md](wild_off_policy.md) and "
    "[wild_other.md](wild_other.md) that ran equal train, and below them those of [wild_classes.md](wild_classes.md), "
    "with their own sizes and one thread: ratios to the unmodified original in the same turn, medians of all turns; "
    "± is half the width of the 95% interval of that median. Environments that cannot be had are stood in for by "
    "random ones of the same interface, whose steps cost next to nothing: there the ratio is above what the real one "
    "would give. `make wild-speed` measures them, one after the other."
)


@contextmanager
def lined_up(
    script: wild.Script, converted: str, root: Path, packages: Path, limit: float, rungs: Sequence[str]
) -> Iterator[list[Contender]]:
    """The contenders for one script and its conversion, with the settings with which it was run."""
    path = root / script.path
    text = read(path).content
    args = script.args if script.speed_args is None else script.speed_args
    quiet = [a for a in wild_run.options(text) if a == "--no-capture-video"]
    run = wild_run.as_run(text, script)
    with tempfile.TemporaryDirectory() as folder, wild_run.environment(path, root, text, script, packages):
        if run != text and script.together:  # the places to time are searched in the files themselves
            root = Path(shutil.copytree(root, Path(folder, "mended"), ignore=shutil.ignore_patterns(".git")))
            path = root / script.path
            path.write_text(run, encoding="utf-8")
            text = run
        output = Path(folder, path.name)
        output.write_text(wild_run.as_run(converted, script), encoding="utf-8")
        together = tuple(root / name for name in script.together)
        source = None if run == text else run
        original = Run(path, (*args, *quiet), source, timeout=limit, together=together)
        yield line_up(original, output, (), rungs)


def measured(contenders: Sequence[Contender], turns: int, cache: Path | None) -> dict[str, Any]:
    """Measure a script, its conversion, and the conversion under `--compile`; returns JSON without single turns.

    Raises:
        RunFailed: the original cannot be run or measured.
        OSError: it cannot be read.
    """
    task = Task(contenders, 1, Length(BURN_IN, None, 1.0, turns), cache=cache, products=True)
    kept = KEPT if cache is None else tuple(k for k in KEPT if k != "warmup_seconds")
    return concise(show.as_json(bench(past_warm_up(task, BURN_IN_STEPS))), kept)


def warm_ups(contenders: Sequence[Contender]) -> dict[str, float | None]:
    """The last contender's warm-up in seconds, with an empty and with a full cache of compiled code.

    Raises:
        RunFailed: the original cannot be run or measured.
        OSError: it cannot be read.
    """
    found: dict[str, float | None] = {"cores": len(os.sched_getaffinity(0))}
    for filled, warm in (("empty", False), ("full", True)):
        task = Task(contenders, 1, Length(BURN_IN, 1, None, 1), warm_cache=warm)
        figures = bench(past_warm_up(task, BURN_IN_STEPS)).results[-1].figures
        found[filled] = None if figures is None else round(figures.warmup_seconds.median, 1)
    return found


def concise(benchmark: Mapping[str, Any], kept: Sequence[str]) -> dict[str, Any]:
    """The part of a benchmark that is stored: figures by contender, and the machine's processor and load at the start.

    Raises:
        RunFailed: the original ended too early.
    """
    results = {r["name"]: {k: r[k] for k in kept if k in r} for r in benchmark["results"]}
    for result in benchmark["results"]:
        if result["status"] == "measured" and (done := len(result["rounds"][0]["turns"])) < FEWEST:
            reason = f"it ended after {done} of {benchmark['turns']} turns"
            if result["name"] == ORIGINAL:
                raise RunFailed(reason)
            results[result["name"]] = {"status": "too short", "reason": reason}
    return {"machine": benchmark["machine"], "turns": benchmark["turns"], "results": results}


def ratio(entry: Mapping[str, Any], rung: str) -> float | None:
    """Steps per second of a mode divided by the original's; None if not measured."""
    result = entry.get("results", {}).get(rung, {})
    return float(result["ratio"]["median"]) if result.get("status") == "measured" else None


def summary(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """For each mode, the geometric mean, the worst and the best ratio, and the share of scripts that are slower."""
    lines = []
    for rung in RUNGS:
        ratios = sorted(r for e in entries if (r := ratio(e, rung)) is not None)
        if ratios:
            spreads = [e["results"][rung]["ratio"] for e in entries if ratio(e, rung) is not None]
            slower, surely = sum(r < 1 for r in ratios), sum(s["high"] < 1 for s in spreads)
            lines.append(
                f"- *{rung}*, {len(ratios)} scripts: geometric mean {statistics.geometric_mean(ratios):.2f}x, median "
                f"{statistics.median(ratios):.2f}x, {ratios[0]:.2f}x to {ratios[-1]:.2f}x; {slower} below 1.0x, "
                f"{surely} of them by more than their interval."
            )
    shares = [(spent, r) for e in entries if (r := ratio(e, RUNGS[-1])) and (spent := _products(e)) is not None]
    for few, words in ((True, "less"), (False, "more")):
        group = [r for spent, r in shares if (spent < MANY) == few]
        if group:
            lines.append(
                f"- Where {words} than {MANY:.0%} of the original's time are {SAME[2]}, {len(group)} scripts: "
                f"geometric mean {statistics.geometric_mean(group):.2f}x under `--compile`."
            )
    cores = Counter(e["machine"]["cores"] for e in entries if "cores" in e.get("machine", {}))
    if cores[1]:
        lines.append(
            f"- {cores[1]} scripts were measured on one core, while another was measured on the other: their warm-up, "
            "in which torch.compile uses all cores, took longer than it does on two."
        )
    return lines


def page(entries: Sequence[Mapping[str, Any]]) -> str:
    """The page: the results, the fastest first; scripts of the list CLASSES stand below the others."""
    lines = ["# How much faster strangers' scripts get", "", *textwrap.wrap(INTRODUCTION, 118), ""]
    lines += _told([e for e in entries if not is_of_classes(e)], picture=True)
    if of_classes := [e for e in entries if is_of_classes(e)]:
        lines += ["", "# Agents as classes, helpers, several files", "", *_told(of_classes)]
    return "\n".join(lines) + "\n"


def is_of_classes(entry: Mapping[str, Any]) -> bool:
    """Whether a script is in the list CLASSES."""
    return (entry["repository"], entry["path"]) in _classes()


@cache
def _classes() -> frozenset[tuple[str, str]]:
    return frozenset((s.repository, s.path) for s in wild.read_list(HERE / "lists" / f"{CLASSES}.toml"))


def _told(entries: Sequence[Mapping[str, Any]], *, picture: bool = False) -> list[str]:
    """The lines of a page on some scripts."""
    ordered = sorted(entries, key=lambda e: -(ratio(e, RUNGS[-1]) or ratio(e, RUNGS[0]) or 0))
    loads = [e["machine"]["load"] for e in entries if "machine" in e and e["machine"].get("load") is not None]
    lines = summary(entries)
    if loads:
        lines.append(f"- The machine's load at the beginning of each: {min(loads):.1f} to {max(loads):.1f}.")
    if picture:
        lines += ["", f"![Ratios, script by script](../results/{PICTURE.name})"]
    lines += [
        "",
        "Microseconds per environment step, of the original and under `--compile`:",
        "",
        "| script | flags off | compile | warm-up s | step | of it env | compiled: step | update | compiled anew |",
        "|-|-|-|-|-|-|-|-|-|",
    ]
    lines += [f"| {' | '.join(_cells(entry))} |" for entry in ordered]
    lines += warm_up_table(ordered)
    reasons = [(entry, why) for entry in ordered if (why := held(entry))]
    if reasons:
        lines += ["", f"## Below {AIM}x, and why", ""]
        lines += [f"- {e['repository']} `{e['path']}`, {ratio(e, RUNGS[-1]):.2f}x: {'; '.join(w)}" for e, w in reasons]
    return lines


def warm_up_table(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table of the scripts whose warm-up was measured separately."""
    chosen = [e for e in entries if "warm_up" in e]
    if not chosen:
        return []
    cores = max(e["warm_up"]["cores"] for e in chosen)
    lines = [
        *("", "## Warm-up", ""),
        f"Seconds from the start of the process under `--compile` to steady state, on {cores} idle cores, with an "
        "empty cache of compiled code and with that of an earlier run:",
        *("", "| script | empty | full |", "|-|-|-|"),
    ]
    for e in chosen:
        seconds = ("" if s is None else f"{s:.0f}" for s in (e["warm_up"]["empty"], e["warm_up"]["full"]))
        lines.append(f"| {e['repository']} `{e['path']}` | {' | '.join(seconds)} |")
    return lines


def held(entry: Mapping[str, Any]) -> list[str]:
    """Why a script gains less than AIM under --compile: where its time goes, and the decisive transforms it lacks.

    The time of environment steps, and of all that is neither rollout nor update, stays the same: it limits the ratio
    even if everything else took no time.
    """
    gained = ratio(entry, RUNGS[-1])
    if gained is None or gained >= AIM:
        return []
    before, after = (_shares(entry["results"][name]) for name in (ORIGINAL, RUNGS[-1]))
    most = max(after, key=lambda phase: after[phase])  # products are not timed in the conversion
    found = [f"{before[phase]:.0%} of its time are {phase}" for phase in SAME if before.get(phase, 0) > 0.2]
    found.append(f"compiled, {after[most]:.0%} are {most}")
    return [*found, *(f"{name}: {why}" for name, why in entry.get("held_back", {}).items() if name in DECISIVE)]


def _products(entry: Mapping[str, Any]) -> float | None:
    """The share of the original's time in matrix products and convolutions; None if these were not timed."""
    original = entry["results"][ORIGINAL]
    return _shares(original)[SAME[2]] if "products" in original["seconds_per_step"] else None


def _shares(result: Mapping[str, Any]) -> dict[str, float]:
    """The shares of a step's time, by what it is spent on."""
    seconds = {"env_step": 0.0, "rollout": 0.0, **result["seconds_per_step"]}
    spent = {
        SAME[0]: seconds["env_step"],
        SAME[2]: seconds.get("products", 0.0),
        "the policy and what surrounds it": seconds["rollout"] - seconds["env_step"],
        "the update": seconds.get("update", 0.0),
        "the advantages": seconds.get("gae", 0.0),
        SAME[1]: seconds.get("other", 0.0),
    }
    whole = 1 / result["steps_per_second"]["median"]
    return {name: amount / whole for name, amount in spent.items()}


def _cells(entry: Mapping[str, Any]) -> list[str]:
    name = f"{entry['repository']} `{entry['path']}`"
    if "results" not in entry:
        return [name, f"not measured: {entry['reason']}".replace("|", "\\|"), *[""] * 7]
    results = entry["results"]
    compiled = results[RUNGS[-1]]
    done = compiled["status"] == "measured"
    anew = sum(f["recompilations_after_burnin"] for f in compiled.get("functions", {}).values()) if done else ""
    return [
        name,
        *(_ratio(results[rung]) for rung in RUNGS),
        f"{compiled['warmup_seconds']['median']:.0f}" if done and "warmup_seconds" in compiled else "",
        _step(results[ORIGINAL]),
        _phase(results[ORIGINAL], "env_step"),
        _step(compiled) if done else "",
        _phase(compiled, "update") if done else "",
        str(anew),
    ]


def _ratio(result: Mapping[str, Any]) -> str:
    if result["status"] != "measured":
        return f"{result['status']}: {_why(result['reason'])[:120]}".replace("|", "\\|")
    spread = result["ratio"]
    return f"{spread['median']:.2f} ±{50 * (spread['high'] - spread['low']) / spread['median']:.0f}%"


def _step(result: Mapping[str, Any]) -> str:
    return f"{1e6 / result['steps_per_second']['median']:,.0f}"


def _phase(result: Mapping[str, Any], phase: str) -> str:
    seconds = result["seconds_per_step"].get(phase)
    return "" if seconds is None else f"{1e6 * seconds:,.0f}"


def draw(entries: Sequence[Mapping[str, Any]]) -> None:
    """The picture: a bar for each script, sorted."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    both = [(r, ratio(e, RUNGS[0])) for e in entries if (r := ratio(e, RUNGS[-1])) is not None]
    both.sort(key=lambda pair: pair[0])
    figure, axes = pyplot.subplots(figsize=(9, 3.2))
    axes.bar(range(len(both)), [compiled for compiled, _ in both], color="#4c78a8", label="--compile")
    axes.plot(range(len(both)), [off for _, off in both], "k.", markersize=4, label="flags off")
    axes.axhline(1, color="#888888", linewidth=0.8)
    axes.set_ylabel("steps/s by the original's")
    axes.set_xlabel("scripts, the slowest ratio first")
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=110)
    pyplot.close(figure)


def one_of_each_first(scripts: Sequence[wild.Script]) -> list[wild.Script]:
    """The first script of each repository, then the second of each, and so on: a short call measures a variety."""
    earlier: Counter[str] = Counter()
    turns: list[tuple[int, wild.Script]] = []
    for script in scripts:
        turns.append((earlier[script.repository], script))
        earlier[script.repository] += 1
    return [script for _, script in sorted(turns, key=lambda turn: turn[0])]


class Part(click.ParamType):
    """The type of an option `K/N`: every N-th script, from the K-th on."""

    name = "K/N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> slice:
        """The slice of a list."""
        found = re.fullmatch(r"(\d+)/(\d+)", value) if isinstance(value, str) else None
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            self.fail(f"{value!r} is no part such as 1/2", param, ctx)
        return slice(int(found[1]) - 1, None, int(found[2]))


def _why(failed: object) -> str:
    """The line that says why a script was not measured: a timeout, its error, or else its last line of output."""
    lines = str(failed).strip().splitlines() or [""]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Unsupported)\b", line)]
    line = lines[0] if "still running" in lines[0] else [lines[-1], *errors][-1]
    return line.replace(f"{HERE.parent}{os.sep}", "")[:200]


def load() -> list[dict[str, Any]]:
    """The stored results."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []  # type: ignore[no-any-return]


def keep(entry: dict[str, Any]) -> None:
    """Store the result of one script, in place of an earlier one."""
    with RESULTS.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # calls for other parts may write at the same time
        others = [e for e in load() if (e["repository"], e["path"]) != (entry["repository"], entry["path"])]
        ordered = sorted([*others, entry], key=lambda e: (e["repository"].lower(), e["path"]))
        RESULTS.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


def write_page() -> None:
    """Write the page and the picture of the stored results."""
    PAGE.write_text(page(load()), encoding="utf-8")
    draw([e for e in load() if not is_of_classes(e)])


@dataclass(frozen=True)
class Wanted:
    """What to measure of each script, and how."""

    turns: int
    limit: float
    """The seconds for which one process may live."""
    cache: Path | None
    """The folder in which compiled code is kept from script to script."""
    again: bool
    """Whether to measure known conversions again."""
    warm_up: bool
    """Whether only the warm-up is measured."""


def go_on(script: wild.Script, root: Path, packages: Path, wanted: Wanted) -> str | None:
    """Measure a script and store the result; returns a message, or None if it is known or the script is refused."""
    outcome = wild.outcome_of(root / script.path, [root / name for name in script.together])
    known = next((e for e in load() if (e["repository"], e["path"]) == (script.repository, script.path)), None)
    done = known is not None and known["conversion"] == outcome.digest and not wanted.warm_up
    if outcome.kind != "converted" or (done and not wanted.again):
        return None
    entry: dict[str, Any] = {"repository": script.repository, "path": script.path, "conversion": outcome.digest}
    entry["held_back"] = {name: why.replace(f"{root}/", "") for name, why in outcome.held_back.items()}
    rungs = RUNGS[-1:] if wanted.warm_up else RUNGS
    try:
        with lined_up(script, outcome.source, root, packages, wanted.limit, rungs) as contenders:
            if wanted.warm_up:
                entry = {**(known or entry), "warm_up": warm_ups(contenders)}
            else:
                entry |= measured(contenders, wanted.turns, wanted.cache)
    except (RunFailed, OSError) as failed:
        entry["reason"] = _why(failed)
    keep(entry)
    return f"{script.path}: {entry.get('warm_up')}" if wanted.warm_up else " | ".join(_cells(entry))


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, resolve_path=True, path_type=Path))
@click.option("--list", "names", multiple=True, type=click.Choice(tuple(wild.LISTS)), default=tuple(wild.LISTS))
@click.option("--fetch", "fetches", is_flag=True, help="Get the missing checkouts from GitHub.")
@click.option("--matching", default="", help="Those alone whose repository and path hold this text.")
@click.option("--part", type=Part(), default="1/1", help="Each N-th script alone, from the K-th on.")
@click.option("--minutes", type=float, help="Start no further script after this many minutes.")
@click.option("--turns", default=6, show_default=True, help="Of one second each, whole iterations.")
@click.option("--limit", default=LIMIT, show_default=True, help="Seconds that one process may live.")
@click.option(
    "--cache",
    type=click.Path(file_okay=False, resolve_path=True, path_type=Path),
    help="Where compiled code is kept, as many scripts compile the same: quicker, and the warm-ups are not kept.",
)
@click.option("--again", is_flag=True, help="Measure also what is known of the same conversion.")
@click.option(
    "--warm-up",
    "only_warm_up",
    is_flag=True,
    help="Measure instead how long --compile warms up, with an empty cache of compiled code and with a full one.",
)
@click.option("--page", "only_page", is_flag=True, help="Make the page of what is known, and measure nothing.")
def main(
    directory: Path,
    names: tuple[str, ...],
    fetches: bool,
    matching: str,
    part: slice,
    minutes: float | None,
    turns: int,
    limit: float,
    cache: Path | None,
    again: bool,
    only_warm_up: bool,
    only_page: bool,
) -> None:
    """Measure the scripts found in DIRECTORY that ran equal, and make the page."""
    began = time.monotonic()
    listed = [s for name in names for s in wild.read_list(HERE / "lists" / f"{name}.toml")]
    scripts = [s for s in listed if s.ran == "equal" and matching in f"{s.repository} {s.path}"]
    wanted = Wanted(turns, limit, cache, again, only_warm_up)
    for script in one_of_each_first(scripts)[part] if not only_page else ():
        if minutes is not None and time.monotonic() - began > 60 * minutes:
            break
        root = directory / script.repository
        if fetches and not root.exists():
            wild.fetch(replace(script), root)
        if (told := go_on(script, root, directory / ".packages", wanted)) is not None:
            click.echo(f"{time.monotonic() - began:6.0f} s  {told}")
    write_page()
    for classes in (False, True):
        click.echo("\n".join(summary([e for e in load() if is_of_classes(e) == classes])))


if __name__ == "__main__":
    main()
