"""Runs mutants that the converter accepts against their conversions, bit by bit.

    python tests/fuzz/equal.py [--runs 150] [--seed S] [SCRIPT...]

What still runs after its mutation must do the same when it is converted; a mutant that itself fails is left out. The
scripts are fixtures, with the arguments of fixtures/ARGS.toml. Runs are forks of a process that has imported torch.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from examine import examine
from fuzz import FIXTURES, be_quick, keep, mutant

from transformer.verify import compare
from transformer.verify.recording import Recording
from transformer.verify.run import Run, RunFailed

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

sys.path.append(str(Path(__file__).parent.parent / "support"))
from forking import TimedOut, preload, record_forked

ITERATIONS = 3
SECONDS = 240.0
"""Wall-clock time that one run may take."""
GENTLE = ("insert", "insert", "insert", "swap", "duplicate", "operator", "constant", "drop")
"""Kinds of mutations that leave most scripts running; another name seldom does."""
QUICK = ("plain_prints.py", "gym_classic_discrete.py", "in_main.py", "renamed.py", "in_train_function.py",
         "extra_buffer.py", "module_level.py", "recurrent_lstm.py", "name_collisions.py",
         "target_kl.py", "two_optimizers.py", "uneven_minibatches.py", "no_annealing_rmsprop.py")  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant.

    refused; fails (the mutant itself); trains nothing; takes too long (on this machine, now); equal; or wrong, with
    what is wrong with its conversion.
    """

    kind: str
    differences: tuple[str, ...] = ()


def run(script: Path, source: str, args: Sequence[str]) -> Recording:
    """Record `source` in the script's place for a few iterations.

    Raises:
        RunFailed: it ended with an error, or took too long.
    """
    return record_forked(Run(script, tuple(args), source, timeout=SECONDS), iterations=ITERATIONS, values_limit=2**28)


def check(script: Path, source: str, args: Sequence[str]) -> Outcome:
    """Convert a mutant, run both, compare."""
    conversion, complaints = examine(source)
    if complaints:
        return Outcome("wrong", tuple(complaints))
    assert conversion is not None
    if not conversion.converted:
        return Outcome("refused")
    try:
        original = run(script, source, args)
    except TimedOut:
        return Outcome("takes too long")
    except RunFailed:
        return Outcome("fails")
    if not original.steps:
        return Outcome("trains nothing")
    try:
        converted = run(script, conversion.source, args)
    except TimedOut:
        return Outcome("takes too long")
    except RunFailed as failure:
        return Outcome("wrong", ("the conversion fails: " + " / ".join(str(failure).splitlines()[-3:]),))
    differences = compare(original, converted)
    return Outcome("wrong", tuple(map(str, differences[:2]))) if differences else Outcome("equal")


def main() -> int:
    """Print what is wrong; the exit status says whether anything was."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("scripts", nargs="*", type=Path, metavar="SCRIPT")
    parser.add_argument("--runs", type=int, default=150, help="how many mutants that run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--failures", type=Path, default=Path("build/fuzz"), help="folder for the mutants that failed")
    options = parser.parse_args()
    arguments = tomllib.loads((FIXTURES / "ARGS.toml").read_text(encoding="utf-8"))
    scripts = options.scripts or [FIXTURES / name for name in QUICK]
    paths = {p.name: p for p in scripts}
    options.failures.mkdir(parents=True, exist_ok=True)
    preload()
    be_quick()
    outcomes: Counter[str] = Counter()
    number = options.start
    while outcomes["equal"] + outcomes["wrong"] < options.runs:
        one = mutant(scripts, options.seed, number, GENTLE)
        outcome = check(paths[one.script], one.source, arguments[one.script]["args"])
        outcomes[outcome.kind] += 1
        if outcome.kind == "wrong":
            keep(options.failures, one, options.seed, "; ".join(outcome.differences))
        number += 1
        if number % 10 == 0:
            print(f"{number - options.start} mutants: {dict(outcomes)}", flush=True)
    print(f"{number - options.start} mutants: {dict(outcomes)}")
    return 1 if outcomes["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
