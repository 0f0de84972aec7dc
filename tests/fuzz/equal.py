"""Runs mutants that the converter accepts against their conversions, bit by bit.

    python tests/fuzz/equal.py [--runs 150] [--seed S] [SCRIPT...]

What still runs after its mutation must do the same when it is converted; a mutant that itself fails is left out. The
scripts are fixtures, with the arguments of fixtures/ARGS.toml. Runs are forks of a process that has imported torch.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tomllib
from examine import examine
from fuzz import FIXTURES, be_quick, keep, mutant

from transformer.checking import compare
from transformer.checking.record import _files
from transformer.checking.recording import Recording, load
from transformer.checking.run import HARNESS, Run, Scratch

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


def preload() -> None:
    """Import what scripts import, but for the packages that the harness patches as they are imported."""
    for name in ("torch", "tensordict", "gym", "gymnasium", "tyro", "tqdm", "tensorboard.compat.proto.event_pb2"):
        if importlib.util.find_spec(name.partition(".")[0]) is not None:
            importlib.import_module(name)
    import torch

    torch.set_num_threads(1)


def run(script: Path, source: str, args: Sequence[str]) -> Recording | str:
    """Record `source` in the script's place for a few iterations; a failed run's last lines."""
    with tempfile.TemporaryDirectory(prefix="lean-fuzz-") as name:
        scratch = Scratch(Path(name))
        job = scratch.lay_out(
            Run(script, tuple(args), source), {"mode": "record", "iterations": ITERATIONS, "values_limit": 2**28}
        )
        reading, writing = os.pipe()
        process = os.fork()
        if process == 0:
            _become(scratch, job, reading, writing)
        os.close(reading)
        try:
            status = _wait(process)
        finally:
            os.close(writing)
        if status != 0:
            return scratch.last_lines() or f"status {status}"
        return load(scratch.output, _files(scratch.work))


def _become(scratch: Scratch, job: Path, reading: int, writing: int) -> None:
    """Be the harness's process for one run; does not return."""
    status = 1
    try:
        os.setpgid(0, 0)
        os.close(writing)
        os.dup2(reading, 0)
        os.dup2(os.open(scratch.root / "stderr", os.O_WRONLY | os.O_CREAT), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.chdir(scratch.work)
        os.environ |= {"TMPDIR": str(scratch.root / "tmp"), "WANDB_MODE": "offline"}
        tempfile.tempdir = None
        sys.path.insert(0, "")  # the harness puts the script's folder in its place
        spec = importlib.util.spec_from_file_location("lean_harness_main", HARNESS / "__main__.py")
        assert spec is not None and spec.loader is not None
        entry = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(entry)
        entry._load_package()
        status = importlib.import_module("_lean_harness.execute").main(str(job))
    except SystemExit as leave:
        status = 0 if leave.code in (None, 0) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _wait(process: int) -> int:
    """The exit status.

    Raises:
        TimeoutError: the run took too long, and was ended.
    """
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    raise TimeoutError


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
        if isinstance(original, str):
            return Outcome("fails")
        if not original.steps:
            return Outcome("trains nothing")
        converted = run(script, conversion.source, args)
    except TimeoutError:
        return Outcome("takes too long")
    if isinstance(converted, str):
        return Outcome("wrong", ("the conversion fails: " + " / ".join(converted.splitlines()[-3:]),))
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
