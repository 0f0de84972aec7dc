"""Mutates scripts and examines what the converter makes of them.

    python tests/fuzz/fuzz.py --mutants 10000 --seed 0 --jobs 2 --failures build/fuzz [SCRIPT...]

The scripts are cleanrl's where they can be fetched and the fixtures beside them, unless some are named. Mutant N of
a seed is the same whatever the number of processes. Every complaint is printed once, and the mutant that caused it
is kept. With --equal K, K of the mutants that convert and still run are run against their conversions.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from examine import examine
from mutate import KINDS, Mutation, mutate
from real import real_scripts

from transformer.syntax import layout

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
PROGRESS_SECONDS = 20.0


@dataclass(frozen=True)
class Mutant:
    """One mutant: its number, the script that it comes from, and its text."""

    number: int
    script: str
    mutations: tuple[Mutation, ...]
    source: str


@dataclass
class Tally:
    """Counts of what happened to the mutants."""

    mutants: int = 0
    accepted: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Number of refused mutants by diagnostic code."""
    complaints: dict[str, int] = field(default_factory=dict)
    """Maps each complaint to the number of the first mutant that caused it."""
    slowest: float = 0.0
    """The longest conversion, in seconds of processor time."""


def mutations(random: random.Random, kinds: Sequence[str] = tuple(KINDS)) -> tuple[Mutation, ...]:
    """One to three mutations, most of them in the training loop."""
    big = 10**6
    return tuple(
        Mutation(random.choice(kinds), random.randrange(big), random.randrange(big), random.random() < 0.8)
        for _ in range(random.choice((1, 1, 2, 3)))
    )


def mutant(scripts: Sequence[Path], seed: int, number: int, kinds: Sequence[str] = tuple(KINDS)) -> Mutant:
    """Mutant `number` of a seed, by mutations of these kinds."""
    source = random.Random(f"{seed} {number}")
    script = scripts[source.randrange(len(scripts))]
    changes = mutations(source, kinds)
    return Mutant(number, script.name, changes, mutate(_read(script), changes))


@lru_cache
def _read(script: Path) -> str:
    return script.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Finding:
    """The result for one mutant."""

    number: int
    codes: tuple[str, ...]
    """Codes of the refusal; empty if the mutant was converted."""
    complaints: tuple[str, ...]
    seconds: float


class Examiner:
    """Examines mutants by their numbers, in a process of its own."""

    def __init__(self, scripts: Sequence[Path], seed: int) -> None:
        self.scripts, self.seed = scripts, seed

    def __call__(self, number: int) -> Finding:
        """Make mutant `number` and convert it."""
        one = mutant(self.scripts, self.seed, number)
        began = time.process_time()
        conversion, complaints = examine(one.source, every_state=number % 4 == 0)
        seconds = time.process_time() - began
        if number % 4 == 0:
            gc.collect()
        codes = sorted({d.code for d in conversion.errors}) if conversion is not None else ["raised"]
        return Finding(number, tuple(codes), tuple(complaints), seconds)


def be_quick() -> None:
    """Ask the formatter once for each piece of code, as mutants emit mostly the same, and collect garbage seldom."""
    layout._ruff = lru_cache(maxsize=None)(layout._ruff)
    gc.disable()


def examined(examiner: Examiner, numbers: range, jobs: int) -> Iterator[Finding]:
    """The findings, in any order."""
    with multiprocessing.get_context("fork").Pool(jobs, be_quick) as pool:
        yield from pool.imap_unordered(examiner, numbers, chunksize=8)


def main() -> int:
    """Print the complaints; the exit status says whether there were any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("scripts", nargs="*", type=Path, metavar="SCRIPT")
    parser.add_argument("--mutants", type=int, default=10_000, help="how many, over all scripts")
    parser.add_argument("--start", type=int, default=0, help="number of the first one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--failures", type=Path, default=Path("build/fuzz"), help="folder for the mutants that failed")
    options = parser.parse_args()
    scripts = options.scripts or [*real_scripts(), *sorted(FIXTURES.glob("*.py"))]
    options.failures.mkdir(parents=True, exist_ok=True)
    examiner, tally, shown = Examiner(scripts, options.seed), Tally(), time.monotonic()
    numbers = range(options.start, options.start + options.mutants)
    print(f"{len(numbers)} mutants of {len(scripts)} scripts, seed {options.seed}", flush=True)
    for finding in examined(examiner, numbers, options.jobs):
        tally.mutants += 1
        tally.accepted += not finding.codes
        tally.refused.update(finding.codes)
        tally.slowest = max(tally.slowest, finding.seconds)
        for complaint in finding.complaints:
            if complaint not in tally.complaints:
                tally.complaints[complaint] = finding.number
                keep(options.failures, mutant(scripts, options.seed, finding.number), options.seed, complaint)
        if time.monotonic() - shown > PROGRESS_SECONDS:
            shown = time.monotonic()
            print(f"{tally.mutants}/{len(numbers)}: {tally.accepted} accepted", flush=True)
            (options.failures / f"tally_{options.seed}.json").write_text(json.dumps(vars(tally), indent=1))
    (options.failures / f"tally_{options.seed}.json").write_text(json.dumps(vars(tally), indent=1))
    refused = ", ".join(f"{n} {code}" for code, n in tally.refused.most_common())
    print(f"{tally.mutants} mutants: {tally.accepted} accepted; refused: {refused}; slowest {tally.slowest:.1f} s")
    print(f"{len(tally.complaints)} complaints")
    return 1 if tally.complaints else 0


def keep(folder: Path, one: Mutant, seed: int, complaint: str) -> None:
    """Save a mutant that failed, and say so."""
    path = folder / f"mutant_{seed}_{one.number}.py"
    path.write_text(one.source, encoding="utf-8")
    print(f"{one.script}: {complaint}: {path}: {one.mutations}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
