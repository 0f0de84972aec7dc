"""speed.md and the README's table of speeds, generated from the result files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mend_leanrl
from speed_rows import ROWS, Goal, Row

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGE = HERE / "logs" / "speed.md"
ONE_LINE = "one line by hand"
"""The name of the script in benchmarks/one_line.py's results."""
NOT_YET = "not measured yet"
DEVICES = {"cpu": "CPU", "gpu": "GPU"}
RUNG = {"cpu": "compile", "gpu": "compile + cudagraphs"}
"""By device: the mode whose warm-up the README shows."""
FUSED = "compile"
"""The mode that is also measured with fused wrappers, as `lean-convert run` has it on a CPU."""
FUSED_TOO = f"{FUSED}, fused"

_INTRODUCTION = """\
# Speed

How fast the converted scripts train, on the scripts of cleanrl 1.2.0 with their default arguments, and how fast
[LeanRL](https://github.com/meta-pytorch/LeanRL)'s scripts do, which were written by hand to the same end. Off-policy
scripts are those of cleanrl's repository, and learn from an earlier step on, as `bench` has them. `make bench-speed`
measures all of it (LEANRL=CHECKOUT for LeanRL's scripts, CLEANRL=CHECKOUT for cleanrl's) and writes this page; the
figures are those of [`lean-convert bench`](../../docs/bench.md), which defines each of them.

- Every script is a process of its own with an empty compile cache. Once all are warm, they train in turns of a few
  seconds, while the others wait. Ratios are to the unmodified original in the same turn; they are the medians of all
  turns, and `±` is half the 95% interval of that median.
- A ratio above 1 is in steady state. *Pays off after* says when the longer start is made up for.
- Converted scripts keep all of the original's logging; LeanRL's log less, every tenth iteration. *By hand* is what
  LeanRL published for an H100; on a CPU it was measured here with their scripts mended, before this project began.
- Figures depend on the machine. Compare ratios, not steps per second; and not a CPU's with a GPU's.
"""

_WITHOUT_GPU = """No CUDA device was at hand.

What can be counted without one is how often the host waits for the device: [waits.md](waits.md)."""

_MENDED = """\
## LeanRL's scripts

They are from LeanRL's repository, at the version that the checkout given has. They no longer run on current torch and
tensordict, so they are mended in memory before they are run:
"""


def load(device: str, what: str = "speed") -> dict[str, Any]:
    """The result file of `cpu` or `gpu`; without rows if there is none."""
    path = RESULTS / f"{what}-{device}.json"
    if not path.exists():
        return {"rows": {}}
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def readme_table() -> str:
    """One line for each script and device: ratios to the original, and what the speed costs."""
    graphs = bool(load("gpu")["rows"])
    by_hand = {device: load(device, "one-line")["rows"] for device in DEVICES}
    lines_by_hand = any(by_hand.values())
    heads = ["script", "on", "original, steps/s", *[ONE_LINE] * lines_by_hand, "LeanRL"]
    fused = any(FUSED_TOO in _names(r) for d in DEVICES for r in load(d)["rows"].values())
    heads += ["flags off", "`--compile`", *["`run`"] * fused, *["`--compile --cudagraphs`"] * graphs]
    heads += ["warm-up", "pays off after"]
    lines = [f"| {' | '.join(heads)} |", "|-" * len(heads) + "|"]
    for device, name in DEVICES.items():
        measured = load(device)["rows"]
        rows = [r for r in ROWS if device in r.goals and r.readme]
        not_yet = [NOT_YET, *[""] * (len(heads) - 3)]
        if not measured:
            lines.append(f"| {' | '.join(['all', name, *not_yet])} |")
            continue
        for row in rows:
            benchmark = measured.get(row.key)
            cells = not_yet if benchmark is None else _readme_cells(RUNG[device], benchmark, fused, graphs)
            if lines_by_hand and benchmark is not None:
                cells.insert(1, _one_line(by_hand[device].get(row.key)))
            lines.append(f"| {' | '.join([row.title, name, *cells])} |")
    return "\n".join(lines)


def age() -> str:
    """When and where the figures of the table were measured."""
    said = []
    for device, name in DEVICES.items():
        for what in ("speed", "one-line"):
            rows = list(load(device, what)["rows"].values())
            if rows:
                machine, versions = rows[0]["machine"], rows[0]["versions"]
                which = f"*{ONE_LINE}* " if what == "one-line" else f"On a {name}: measured "
                said.append(
                    f"{which}{_days(rows)}, {machine['processor']}, {machine['cores']} cores, torch {versions['torch']}"
                )
            if rows and what == "one-line":
                said[-1] += (
                    f", busy (load {machine['load']:.1f}), where `--{RUNG[device].replace(' + ', ' --')}` was "
                    f"{_ratio(_of(rows[0], RUNG[device]))}"
                )
    return "; ".join(said) + "." if said else ""


def _one_line(benchmark: dict[str, Any] | None) -> str:
    """The gain of one line by hand, measured next to a conversion; empty if not measured."""
    if benchmark is None:
        return ""
    result = _of(benchmark, ONE_LINE)
    ratio = result["ratio"]
    width = f" ±{50 * (ratio['high'] - ratio['low']) / ratio['median']:.0f}%" if result["status"] == "measured" else ""
    return _ratio(result) + width


def _of(benchmark: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(r for r in benchmark["results"] if r["name"] == name)
    return found


def _names(benchmark: dict[str, Any]) -> list[str]:
    return [result["name"] for result in benchmark["results"]]


def _readme_cells(rung: str, benchmark: dict[str, Any], fused: bool, graphs: bool) -> list[str]:
    by_name = {r["name"]: r for r in benchmark["results"]}
    best = by_name[rung]
    others = [r for r in benchmark["results"] if r["name"].startswith("LeanRL")]
    run = by_name.get(FUSED_TOO)  # missing in figures older than it; not measured where nothing can be fused
    run = by_name[FUSED] if run is not None and run["status"] != "measured" else run
    return [
        f"{by_name['original']['steps_per_second']['median']:,.0f}",
        _ratio(others[0]) if others else "",
        *(_ratio(by_name[rung]) for rung in ("flags off", "compile")),
        *[_ratio(run) if run is not None else ""] * fused,
        *[_ratio(by_name["compile + cudagraphs"])] * graphs,
        f"{best['warmup_seconds']['median']:.0f} s" if best["status"] == "measured" else "",
        _pays_off(best),
    ]


def _ratio(result: dict[str, Any]) -> str:
    return f"{result['ratio']['median']:.2f}x" if result["status"] == "measured" else result["status"]


def _pays_off(result: dict[str, Any]) -> str:
    if result["status"] != "measured" or result["name"] == "original":
        return ""
    found = result["break_even"]
    if found is None:
        return "never"
    steps = float(f"{found['steps']:.2g}")
    words = f"{found['seconds']:,.0f} s / {steps:,.0f} steps" if found["steps"] else "at once"
    return words if result["told_apart"] else f"{words}?"


def page() -> str:
    """speed.md."""
    parts = [_INTRODUCTION]
    for device, name in DEVICES.items():
        parts.append(f"## On a {name}\n")
        measured = load(device)
        if not measured["rows"]:
            parts.append(f"{NOT_YET.capitalize()}. {_WITHOUT_GPU if device == 'gpu' else ''}".strip() + "\n")
            continue
        parts.append(_machine(list(measured["rows"].values()), measured["minutes"]))
        parts += [_row(row, device, measured["rows"].get(row.key)) for row in ROWS if device in row.goals]
    parts.append(_MENDED)
    parts.append("\n".join(_mends()) + "\n")
    return "\n".join(parts)


def _days(rows: list[dict[str, Any]]) -> str:
    """The day on which rows were measured, or the first and the last."""
    days = sorted({row["machine"]["time"][:10] for row in rows})
    return " to ".join(dict.fromkeys((days[0], days[-1])))


def _machine(rows: list[dict[str, Any]], minutes: float) -> str:
    benchmark = rows[0]
    machine = benchmark["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in benchmark["versions"].items())
    device = f"{benchmark['cuda']}; " if benchmark["cuda"] else ""
    return (
        f"{device}{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}; "
        f"{versions}; {_days(rows)}. All of it took {minutes:.0f} minutes.\n"
    )


def _row(row: Row, device: str, benchmark: dict[str, Any] | None) -> str:
    goal = row.goals[device]
    heading = f"### {row.title}\n\n`{' '.join([row.script, *row.args])}`"
    if benchmark is None:
        return f"{heading}: {NOT_YET}.\n"
    results = benchmark["results"]
    rounds = f"{benchmark['rounds']} rounds of " if benchmark["rounds"] > 1 else ""
    turns = f"{rounds}{benchmark['turns']} turns of {benchmark['measured_seconds']:g} s"
    lines = [
        f"{heading}. {turns}. Load of the machine at the beginning: {benchmark['machine']['load']}. "
        f"{_goal(goal, results)}",
        "",
        "| version | steps/s | ratio | warm-up s | pays off after | peak MiB | turns |",
        "|-|-|-|-|-|-|-|",
        *(_speed_line(r) for r in results),
        "",
        "Microseconds per environment step, and what torch.compile did:",
        "",
        "| version | all | rollout | of it env | gae | update | other | graph breaks | recompiled | after burn-in |",
        "|-|-|-|-|-|-|-|-|-|-|",
        *(_phase_line(r) for r in results if r["status"] == "measured"),
        "",
    ]
    lines += [
        f"{r['name']}, {r['status']}: {_first_line(r['reason'])}.\n" for r in results if r["status"] != "measured"
    ]
    lines.append(f"![Speeds, phases, and steps over time](../results/speed-{device}-{row.key}.png)\n")
    return "\n".join(lines)


def _goal(goal: Goal, results: list[dict[str, Any]]) -> str:
    reached = next((r["ratio"]["median"] for r in results if r["name"] == goal.rung and "ratio" in r), None)
    words = f"Goal on *{goal.rung}*: {goal.least:g}, hoped for {goal.aim:g} (by hand {goal.by_hand})"
    if reached is None:
        return f"{words}; {NOT_YET}."
    return f"{words}; {'reached' if reached >= goal.least else '**not reached**'}: {reached:.2f}."


def _speed_line(result: dict[str, Any]) -> str:
    if result["status"] != "measured":
        return f"| {result['name']} | {result['status']} | | | | | |"
    cells = [
        result["name"],
        _with_range(result["steps_per_second"], 0),
        _with_range(result["ratio"], 2),
        f"{result['warmup_seconds']['median']:.1f}",
        _pays_off(result),
        ", ".join(f"{_MEMORY[name]}{amount:,.0f}" for name, amount in result["peak_mib"].items()),
        str(sum(len(r["turns"]) for r in result["rounds"])),
    ]
    return f"| {' | '.join(cells)} |"


_MEMORY = {"rss_mib": "", "cuda_allocated_mib": "GPU ", "cuda_reserved_mib": "GPU reserved "}


def _with_range(spread: dict[str, float], digits: int) -> str:
    around = 50 * (spread["high"] - spread["low"]) / spread["median"]
    return f"{spread['median']:,.{digits}f} ±{around:.0f}%"


def _phase_line(result: dict[str, Any]) -> str:
    split = result["seconds_per_step"]
    names = ("rollout", "env_step", "gae", "update", "other")
    parts = (f"{split[name] * 1e6:,.1f}" if name in split else "not known" for name in names)
    functions = result["functions"].values()
    counts = (sum(f[name] for f in functions) for name in _COUNTS)
    compiled = [str(count) for count in counts] if functions else [""] * len(_COUNTS)
    whole = f"{1e6 / result['steps_per_second']['median']:,.1f}"
    return f"| {' | '.join([result['name'], whole, *parts, *compiled])} |"


_COUNTS = ("graph_breaks", "recompilations", "recompilations_after_burnin")


def _first_line(reason: str) -> str:
    return reason.splitlines()[0]


def _mends() -> Iterator[str]:
    for name, mends in mend_leanrl.MENDS.items():
        yield f"- `{name}`"
        for mend in mends:
            yield f"  - `{mend.old.strip()}`: {mend.why}"


def write() -> None:
    """Write speed.md."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write()
