"""results.md: a summary of all benchmarks, generated from their data (`make docs`)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import speed_page
import wild_speed

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

HERE = Path(__file__).parent
PAGE = HERE / "results.md"
LISTS = {
    "wild": "descendants of cleanrl's PPO",
    "wild_off_policy": "DQN, DDPG, TD3, SAC",
    "wild_other": "PPO written anew",
    "wild_classes": "agents as classes, several files",
}
"""The lists of other people's scripts, and what they contain."""


def page() -> str:
    """The page: how fast, how many are equal, and how well differences are detected."""
    return "\n".join([_HEAD, *_speed(), *_equal(), *_attacks(), _MORE])


def write() -> None:
    """Write results.md."""
    PAGE.write_text(page(), encoding="utf-8")


_HEAD = """\
# Results

Made of the data in [results/](results) and [lists/](lists) by `make docs`; the [logs](logs) have every script. Each
section says how old its figures are. Nothing here is a GPU's: none was at hand.
"""
_MORE = """\
## More

- [How fast, with spreads, phases and machines](logs/speed.md); [other people's scripts](logs/wild_speed.md)
- [cleanrl's own scripts](logs/family.md); other people's [PPO](logs/wild.md), [off-policy](logs/wild_off_policy.md) and
  [own PPO](logs/wild_other.md) and [classes](logs/wild_classes.md), script by script, with the reason of each that is
  refused or could not be run
- [Edits that verify tells](logs/mutants.md); [hostile scripts](logs/hostile.md)
- [Waits for a device](logs/waits.md); [environments in processes](logs/env_workers.md); [several ranks](logs/ranks.md)
- [What was tried and did not help](did_not_help.md)
"""


def _speed() -> Iterable[str]:
    yield "## How fast\n"
    yield "cleanrl's scripts with their default arguments, ratios to the original in the same turns:\n"
    yield speed_page.readme_table()
    yield f"\n{speed_page.age()}\n"
    measured = [e for e in _json("wild-speed") if e.get("results")]
    yield "Other people's scripts that ran equal, with their own sizes, on one thread:\n"
    yield "| of them | scripts | median | geometric mean | from, to | slower than the original |"
    yield "|-|-:|-:|-:|-|-:|"
    for rung, classes in product(("flags off", "compile"), (False, True)):
        results = [e["results"].get(rung, {}) for e in measured if wild_speed.is_of_classes(e) == classes]
        found = [r for r in results if r.get("status") == "measured"]
        if not found:
            continue
        ratios = [r["ratio"]["median"] for r in found]
        slower = sum(r["ratio"]["high"] < 1 for r in found)
        yield (
            f"| {rung}{', agents as classes' * classes} | {len(ratios)} | {median(ratios):.2f}x "
            f"| {geometric_mean(ratios):.2f}x | {min(ratios):.2f}x, {max(ratios):.2f}x | {slower} |"
        )
    yield f"\nMeasured {_span(e['machine']['time'][:10] for e in measured)}. *Slower*: by more than the interval.\n"


def _equal() -> Iterable[str]:
    yield "## How many are equal\n"
    family = _json("family").values()
    yield "| scripts | listed | converted | run with the original | same bits | different | equal, compiled |"
    yield "|-|-:|-:|-:|-:|-:|-:|"
    bits = [
        [s["status"] for n, s in one["checks"].items() if not n.startswith(("compiled", "cuda-graphs"))]
        for one in family
    ]
    ran = [b for b in bits if set(b) & {"equal", "different", "failed"}]
    different = sum("different" in b or "failed" in b for b in ran)
    compiled = _of_compared(one["checks"].get("compiled", {}).get("status") for one in family)
    counts = (len(bits), len(bits), len(ran), len(ran) - different, different, compiled)
    yield f"| cleanrl's own, two generations | {' | '.join(map(str, counts))} |"
    seen: list[str] = []
    for name, what in LISTS.items():
        scripts = _listed(name)
        outcomes = Counter(s.get("ran") for s in scripts)
        converted = sum("failing" not in s for s in scripts)
        equal, differs = outcomes["equal"], outcomes["differs"]
        compiled = _of_compared(s.get("compiled") for s in scripts)
        counts = (len(scripts), converted, equal + differs, equal, differs, compiled)
        yield f"| other people's: {what} | {' | '.join(map(str, counts))} |"
        seen += [s["seen"][:10] for s in scripts if "seen" in s]
    yield (
        f"\nSeen {_span(seen)}. What was not run lacks a package, data or a working original. *Equal, compiled*: each "
        f"call within rounding, of the scripts of which that was compared. {as_they_came()}\n"
    )


def _of_compared(statuses: Iterable[str | None]) -> str:
    found = Counter(statuses)
    compared = found["equal"] + found["different"] + found["differs"] + found["failed"]
    return f"{found['equal']} of {compared}" if compared else "none compared"


def as_they_came() -> str:
    """Two sentences: how many scripts that were added to lists unseen could be converted at once, and for how many of
    all scripts the conversion ran equal, with and without compilation."""
    told, unseen = [], 0
    scripts = [script for name in LISTS for script in _listed(name)]
    ran = Counter(script.get("ran") for script in scripts)
    for name, what in LISTS.items():
        came = [s["first"] == "converted" for s in _listed(name) if s.get("first")]
        if came:
            told.append(f"{sum(came) / len(came):.0%} of {len(came)} ({what})")
            unseen += len(came)
    run, equal, differ = ran["equal"] + ran["differs"], ran["equal"], ran["differs"]
    compiled = _of_compared(script.get("compiled") for script in scripts)
    return (
        f"Of {unseen} scripts that it had not seen, it converted at once {', '.join(told)}. Of all {len(scripts)} "
        f"listed ones, {run} could be run here: with flags off {equal} are equal and {differ} differ; "
        f"compiled, {compiled} that were compared are equal."
    )


def _listed(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads((HERE / "lists" / f"{name}.toml").read_text(encoding="utf-8"))["script"]
    return found


def _attacks() -> Iterable[str]:
    yield "## Would a difference be seen?\n"
    mutants, hostile = _json("mutants"), _json("hostile")
    killed = sum(m["killed"] for m in mutants.values())
    scored = sum(m["scored"] for m in mutants.values())
    proved = sum(m["proved equivalent"] for m in mutants.values())
    yield (
        f"- Of {scored - proved} single edits of {len(mutants)} converted scripts' training code, without those proved "
        f"to change nothing, `verify` tells {killed} ({100 * killed / (scored - proved):.1f}%)."
    )
    yield (
        f"- Of {hostile['scripts']} scripts made to be converted wrongly, {hostile['kinds'].get('equal', 0)} are "
        f"equal, {hostile['kinds'].get('refused', 0)} refused, {len(hostile['wrong'])} wrong.\n"
    )


def _json(name: str) -> Any:
    return json.loads((HERE / "results" / f"{name}.json").read_text(encoding="utf-8"))


def _span(days: Iterable[str]) -> str:
    found: Sequence[str] = sorted(set(days))
    return found[0] if len(found) == 1 else f"{found[0]} to {found[-1]}"
