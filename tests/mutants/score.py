"""Measures the teeth of `lean-convert verify`: how many single edits of converted fixtures it detects.

    python tests/mutants/score.py [--mutants 400] [--minutes 30] [--proofs] [--write] [SCRIPT...]

Each mutant is run on the checks that compile nothing, until one of them tells it. Outcomes are kept in build/mutants,
by all that they depend on, so a run that was broken off goes on where it stopped. With --write the figures go to
benchmarks/logs/mutants.md and benchmarks/results/mutants.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "support"))
from equivalent import proof
from figures import Score, Scored
from forking import preload
from generate import Mutant
from kill import ALIVE, Outcome, Range
from page import write
from reasons import reasons
from targets import TARGETS

ROOT = Path(__file__).parent.parent.parent
CACHE = ROOT / "build" / "mutants" / "outcomes.jsonl"
PROGRESS_SECONDS = 30.0


def sample(mutants: Sequence[Mutant], size: int | None) -> list[Mutant]:
    """A pseudo-random sample of `size` mutants, the same ones each time; all of them if there are fewer."""
    return sorted(mutants, key=lambda m: hashlib.blake2b(m.key.encode()).digest())[:size]


def score(range_: Range, size: int | None, outcomes: Outcomes, proofs: bool, until: float) -> Score:
    """Run a sample of a script's mutants, where `proofs`, the ones that are proved to be equivalent as well.

    Those that come after the time `until` (of `time.monotonic`) are left out, unless their outcomes are known.

    Raises:
        AssertionError: one of these is told.
    """
    run = [m for m in range_.mutants if range_.runs(m)]
    why = {key: reason for reason in reasons(range_.target.name) for key in reason.keys}
    scored = []
    told = time.monotonic()
    for number, mutant in enumerate(chosen := sample(run, size), start=1):
        proved = proof(mutant, range_.text)
        if time.monotonic() > until and not (proved or outcomes.knows(range_, mutant)):
            continue
        outcome = ALIVE if proved and not proofs else outcomes.of(range_, mutant)
        if proved and outcome.killed:
            raise AssertionError(f"{mutant.key} is told, but was proved to be equivalent: {proved}")
        scored.append(Scored(mutant, outcome, proved, None if outcome.killed else why.get(mutant.key)))
        if time.monotonic() - told > PROGRESS_SECONDS:
            told = time.monotonic()
            lived = sum(not (s.outcome.killed or s.proof) for s in scored)
            print(f"{range_.target.name}: {number} of {len(chosen)}, {lived} survive", flush=True)
    killed = {s.mutant.key for s in scored if s.outcome.killed}
    stale = tuple(key for key in why if key in killed or key not in {m.key for m in run})
    of_all = len(range_.mutants), len(range_.mutants) - len(run)
    return Score(range_.target.name, range_.arguments, *of_all, tuple(scored), stale)


class Outcomes:
    """The outcomes of earlier runs, in a file that grows."""

    def __init__(self, path: Path) -> None:
        """Read the file, where there is one."""
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self._known = {digest: Outcome(**fields) for digest, fields in map(json.loads, lines)}

    def knows(self, range_: Range, mutant: Mutant) -> bool:
        """Whether a mutant has been run before."""
        return range_.digest(mutant) in self._known

    def of(self, range_: Range, mutant: Mutant) -> Outcome:
        """A mutant's outcome. The mutant is run if it is not known."""
        digest = range_.digest(mutant)
        if digest not in self._known:
            self._known[digest] = range_.outcome(mutant)
            with self._path.open("a", encoding="utf-8") as file:
                print(json.dumps([digest, asdict(self._known[digest])]), file=file)
        return self._known[digest]


def _told(scores: Sequence[Score]) -> Iterator[str]:
    """The lines that the command prints."""
    for one in scores:
        yield f"{one.script}: {one.killed} of {len(one.scored) - one.proved} killed, {one.part:.1%}"
        for survivor in one.survivors:
            why = survivor.reason.why if survivor.reason else "NO REASON"
            yield f"  {survivor.mutant.kind}, {survivor.mutant.key}: {why}"
        yield from (f"  stale reason: {key}" for key in one.stale)


def main() -> int:
    """Print the survivors. The exit status is 1 if a survivor has no reason or a reason is stale."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT", help="names of fixtures; all targets by default")
    parser.add_argument("--mutants", type=int, default=None, help="how many of each script, the same ones each time")
    parser.add_argument("--minutes", type=float, default=math.inf, help="then none is run that was not run before")
    parser.add_argument("--proofs", action="store_true", help="run what is proved equivalent, to see that it is")
    parser.add_argument("--write", action="store_true", help="write the page and the figures")
    options = parser.parse_args()
    preload()
    outcomes = Outcomes(CACHE)
    targets = [t for t in TARGETS if t.name in options.scripts or not options.scripts]
    until = time.monotonic() + 60 * options.minutes
    scores = [score(Range(target), options.mutants, outcomes, options.proofs, until) for target in targets]
    print("\n".join(_told(scores)))
    if options.write:
        write(scores)
    return int(any(one.stale or any(s.reason is None for s in one.survivors) for one in scores))


if __name__ == "__main__":
    sys.exit(main())
