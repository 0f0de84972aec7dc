"""Measures the cost and the gain of several processes on this machine, extrapolates to more, and prints a page.

    python benchmarks/ranks.py FOLDER

`FOLDER` has cleanrl's `ppo.py` and `ppo_atari_envpool.py`. Each is converted with --distribute and trained for a few
iterations: as one process with its share of the environments, and as two under torchrun. Steps per second are those
of the iterations behind the first.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed

from transformer import convert

CASES = {
    "ppo.py": ("CartPole-v1, MLP", 8, 128, 9_155, ("--num-envs", "--num-steps", "128")),
    "ppo_atari_envpool.py": ("Breakout, CNN", 8, 32, 1_686_693, ("--num-envs", "--num-steps", "32")),
}
"""By script: a description, environments, steps of each per iteration, parameters, and options (the first one gets the
number of environments)."""
ITERATIONS = 12
UPDATES = 16
"""Optimizer steps per iteration: 4 epochs of 4 minibatches."""
QUIET = 1.5
"""The highest load at which the machine counts as quiet."""
RANKS = (2, 4, 8, 16, 32, 64)


def all_reduce_seconds(elements: int, times: int) -> float:
    """The median time of an all-reduce of float32 over gloo, as every rank of this launch runs it."""
    flat = torch.zeros(elements)
    taken = []
    for _ in range(times):
        torch.distributed.barrier()
        start = time.perf_counter()
        torch.distributed.all_reduce(flat)
        taken.append(time.perf_counter() - start)
    return sorted(taken)[len(taken) // 2]


def as_rank() -> None:
    """The work of each rank when this file is launched by torchrun."""
    torch.distributed.init_process_group("gloo")
    seconds = [all_reduce_seconds(case[3], 60) for case in CASES.values()]
    if torch.distributed.get_rank() == 0:
        print(*seconds)
    torch.distributed.destroy_process_group()


def launch(processes: int, script: Path, *args: str) -> str:
    """The output of a script started by torchrun, or directly if `processes` is 0."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"] if processes else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *torchrun, str(script), *args]
    with tempfile.TemporaryDirectory() as work:
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=400)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def steps_per_second(processes: int, script: Path, case: tuple, environments: int) -> float:
    """Environment steps of all processes per second, after the first iteration."""
    _, _, steps, _, (option, *others) = case
    unit = environments * steps
    printed = launch(processes, script, option, str(environments), *others, "--total-timesteps", str(unit * ITERATIONS))
    rates = [int(rate) for rate in re.findall(r"^SPS: (\d+)", printed, re.MULTILINE)]
    first, last = unit / rates[0], unit * len(rates) / rates[-1]
    return unit * (len(rates) - 1) / (last - first)


def main(folder: Path) -> None:
    """Measure, and print the page."""
    load = os.getloadavg()[0]
    reduced = [float(s) for s in launch(2, Path(__file__).resolve()).split()]
    small, large = (case[3] for case in CASES.values())
    per_element = (reduced[1] - reduced[0]) / (large - small)
    fixed = reduced[0] - per_element * small

    def predicted(elements: int, ranks: int) -> float:
        """The predicted seconds of an all-reduce: a latency for each hop in a tree, plus the bytes sent in a ring."""
        return max(fixed, 0) * (ranks - 1).bit_length() + per_element * elements * 2 * (ranks - 1) / ranks

    print("# Several processes on one machine, and what that predicts\n")
    print(__doc__.split("\n\n")[-1].strip() + "\n")
    print(f"torch {torch.__version__}, gloo, {os.cpu_count()} cores, load {load:.1f} when this was begun.", end=" ")
    if load > QUIET:
        print(
            "Other work ran beside it,\nso the figures show orders of magnitude, and ratios of two of them little more."
        )
    print()
    print("| message | parameters | all-reduce, 2 processes | per iteration of 16 updates |\n|-|-|-|-|")
    for case, seconds in zip(CASES.values(), reduced, strict=True):
        print(f"| {case[0]} | {case[3]:,} | {seconds * 1e6:,.0f} us | {seconds * UPDATES * 1e3:.1f} ms |")
    print("\n| script | processes | environments | steps/s | of ideal |\n|-|-|-|-|-|")
    for name, case in CASES.items():
        source = convert((folder / name).read_text(), distribute=True).source
        with tempfile.TemporaryDirectory() as made:
            script = Path(made, name)
            script.write_text(source)
            whole = case[1]
            one = steps_per_second(0, script, case, whole)
            half = steps_per_second(0, script, case, whole // 2)
            strong = steps_per_second(2, script, case, whole)
            weak = steps_per_second(2, script, case, 2 * whole)
        print(f"| {case[0]} | 1 | {whole} | {one:,.0f} | |")
        print(f"| its share alone | 1 | {whole // 2} | {half:,.0f} | |")
        print(f"| strong scaling | 2 | {whole} | {strong:,.0f} | {strong / one / 2:.0%} |")
        print(f"| weak scaling | 2 | {2 * whole} | {weak:,.0f} | {weak / one / 2:.0%} |")
        sys.stdout.flush()
        each = whole * case[2] / one
        rows = [(n, n * whole * case[2] / (each + UPDATES * predicted(case[3], n)) / one) for n in RANKS]
        case_rows.append((case[0], rows))
    print("\nPredicted weak scaling, each process on a core or GPU of its own, the network as fast as gloo within this")
    print("machine, and no process slower than another; how often as many steps per second as one process:\n")
    print("| | " + " | ".join(f"{n} ranks" for n in RANKS) + " |\n|-|" + "-|" * len(RANKS))
    for name, rows in case_rows:
        print(f"| {name} | " + " | ".join(f"{times:.1f}" for _, times in rows) + " |")
    print("\nNot run: NCCL, several GPUs, several machines.")


case_rows: list = []
if __name__ == "__main__":
    as_rank() if "RANK" in os.environ else main(Path(sys.argv[1]))
