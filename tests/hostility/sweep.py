"""Tries every hostile script, and writes down what became of them.

    PYTHONPATH=tests/support:tests/support/standins python tests/hostility/sweep.py [--jobs N] [--write] [TITLE...]

With `--drawn N`, it tries N scripts that are drawn instead, and tells at the end which kinds went wrong most. With
`--write`, benchmarks/results/hostile.json and the page benchmarks/logs/hostile.md are made anew. The exit status says
whether anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drawn import drawn
from forking import preload
from hostile_page import write_page
from judge import RIGHT, Outcome, judge
from scenarios import Scenario, scenarios


def main() -> int:
    """Try the scripts whose titles contain all given texts; without texts, try all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("titles", nargs="*", metavar="TITLE")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--part", default="1/1", help="each N-th script only, from the I-th on")
    parser.add_argument("--write", action="store_true", help="write the committed results")
    parser.add_argument(
        "--folder", type=Path, default=Path("build/hostile"), help="for results, and scripts gone wrong"
    )
    parser.add_argument("--drawn", type=int, default=0, metavar="N", help="so many scripts of drawn.py instead")
    parser.add_argument("--seed", type=int, default=0, help="draws others")
    options = parser.parse_args()
    assert not (options.drawn and options.write)
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.jobs > 1:
        parts = [f"{i}/{options.jobs}" for i in range(1, options.jobs + 1)]
        command = [sys.executable, __file__, *options.titles, "--folder", str(options.folder)]
        command += ["--drawn", str(options.drawn), "--seed", str(options.seed)]
        running = [subprocess.Popen([*command, "--part", part]) for part in parts]
        for process in running:
            process.wait()
    else:
        parts = [options.part]
        part, count = map(int, options.part.split("/"))
        tried = list(drawn(options.drawn, options.seed)) if options.drawn else scenarios()
        sweep([s for s in tried[part - 1 :: count] if all(t in s.title for t in options.titles)],
              options.folder, options.part)  # fmt: skip
    results = [r for part in parts for r in read_results(results_file(options.folder, part))]
    if options.write:
        write_page(results)
    if options.drawn:
        tell_of_kinds(results)
        results = [r for r in results if r["kind"] != "unusable"]
    return 0 if all(r["kind"] in RIGHT for r in results) else 1


def tell_of_kinds(results: Sequence[dict[str, Any]]) -> None:
    """Print how many drawn scripts went wrong, by what they do; scripts that do one thing tell which it was."""
    kinds = Counter(r["kind"] for r in results)
    print(f"{len(results)} drawn: {dict(kinds)}")
    wrong = [r for r in results if r["kind"] not in (*RIGHT, "unusable")]
    deeds = Counter(r["family"] for r in wrong)
    for family, number in deeds.most_common():
        print(f"{number:5} of {sum(r['family'] == family for r in results):5}  {family}")
    for title, number in Counter(r["title"].partition(" (")[0] for r in wrong).most_common(30):
        print(f"{number:5}  {title}")


def results_file(folder: Path, part: str) -> Path:
    """The file with the results of one part: a line of JSON for each script."""
    return folder / f"part-{part.replace('/', '-of-')}.jsonl"


def read_results(path: Path) -> list[dict[str, Any]]:
    """The results of one part."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def sweep(chosen: Sequence[Scenario], folder: Path, part: str) -> None:
    """Judge scripts one by one, and print each one that fails."""
    preload()
    kinds: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory(prefix="lean-hostile-") as scratch,
        results_file(folder, part).open("w", encoding="utf-8") as results,
    ):
        for number, scenario in enumerate(chosen, start=1):
            outcome = judge(Path(scratch) / "hostile.py", scenario.source)
            kinds[outcome.kind] += 1
            results.write(json.dumps(described(scenario, outcome)) + "\n")
            results.flush()
            if not outcome.right:
                (folder / f"{scenario.key}.py").write_text(scenario.source, encoding="utf-8")
                print(f"{outcome.kind}: {scenario.title} [{scenario.key}]", *outcome.said, sep="\n    ", flush=True)
            if number % 50 == 0:
                print(f"{number} of {len(chosen)}: {dict(kinds)}", flush=True)
    print(dict(kinds))


def described(scenario: Scenario, outcome: Outcome) -> dict[str, Any]:
    """A script's outcome as JSON."""
    final = outcome.original.final if outcome.original else {}
    return {
        "title": scenario.title,
        "family": scenario.family,
        "key": scenario.key,
        "kind": outcome.kind,
        "said": outcome.said,
        "applied": outcome.applied,
        "skipped": outcome.skipped,
        "trained": [tensor.digest for tensor in final.values()],
    }


if __name__ == "__main__":
    sys.exit(main())
