"""The committed results of the hostile scripts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformer import all_transforms

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

HEAD = """\
# Hostile scripts

Small PPO scripts, generated, each with something that a conversion could lose: networks and optimizers that are changed
in every way, reached by every path, in every form, at every place; values of the rollout and the update that are
changed in place or kept; networks of odd signatures; odd loops; and, off-policy, targets, buffers, schedules and runs
that are resumed. Each is run as it is, converted with its flags off,
and, where `compile` applies, converted with `--compile` where torch.compile hands back the function itself; actions,
parameters after each optimizer step, prints and random states are compared bit by bit. Made by

    make hostile

"""


def write_page(results: Sequence[dict[str, Any]]) -> None:
    """Write the table of results and its page."""
    kinds = sorted({r["kind"] for r in results} | {"equal", "refused"})
    families = list(dict.fromkeys(r["family"] for r in results))
    rows = [[f, *(sum(r["kind"] == k and r["family"] == f for r in results) for k in kinds)] for f in families]
    total = ["all", *(sum(row[i] for row in rows) for i in range(1, len(kinds) + 1))]
    converted = [r for r in results if r["applied"]]
    skips = {
        t.name: Counter(r["skipped"][t.name] for r in converted if t.name in r["skipped"]) for t in all_transforms()
    }
    trained = len({tuple(r["trained"]) for r in results})
    lines = [
        "| about | scripts | " + " | ".join(kinds) + " |",
        "|-|-:|" + "-:|" * len(kinds),
        *(f"| {row[0]} | {sum(row[1:])} | {' | '.join(map(str, row[1:]))} |" for row in [*rows, total]),
        "",
        f"They end with {trained} different sets of trained parameters. With the flags on and nothing compiled, "
        f"{sum('compile' in r['applied'] for r in converted)} were run.",
        "",
        "| transform | applied | skipped |",
        "|-|-:|-:|",
        *(f"| `{n}` | {len(converted) - s.total()} | {s.total()} |" for n, s in skips.items()),
    ]
    (BENCHMARKS / "logs" / "hostile.md").write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    wrong = [
        {k: r[k] for k in ("title", "key", "kind", "said")} for r in results if r["kind"] not in ("equal", "refused")
    ]
    data = {
        "scripts": len(results),
        "kinds": Counter(r["kind"] for r in results),
        "families": {row[0]: dict(zip(kinds, row[1:], strict=True)) for row in rows},
        "trained_differently": trained,
        "uncompiled": sum("compile" in r["applied"] for r in converted),
        "applied": {n: len(converted) - s.total() for n, s in skips.items()},
        "wrong": wrong,
    }
    text = json.dumps(data, indent=1)
    (BENCHMARKS / "results" / "hostile.json").write_text(text + "\n", encoding="utf-8")
