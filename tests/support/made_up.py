"""Synthetic benchmarks, for tests of their display."""

from __future__ import annotations

from pathlib import Path

from transformer.bench.bench import Benchmark, Result, Task
from transformer.bench.contenders import RUNGS, Contender
from transformer.bench.figures import figures
from transformer.bench.measure import Measurement, Row
from transformer.verify.run import Run

UPDATE = {
    "compilations": 4,
    "recompilations": 2,
    "recompilations_after_burnin": 1,
    "graph_breaks": 3,
    "not_compiled": 0,
    "compile_seconds": 1.5,
}
MACHINE = {
    "processor": "Abacus",
    "cores": 2,
    "memory_gib": 8.0,
    "system": "Linux",
    "load": 0.1,
    "time": "2030-01-02T03",
}
PHASES = ("rollout", "gae", "update", "other")


def measurement(
    per_step: float,
    warmup: float,
    *,
    phases: tuple[str, ...] = PHASES,
    memory: dict[str, float] | None = None,
    functions: dict[str, object] | None = None,
    cuda: str | None = None,
) -> Measurement:
    """A warm-up, then five iterations (two of burn-in) of 10 steps, `per_step` seconds each, equally in all phases."""
    rows = tuple(
        Row(warmup + t, 10 * i, t / 5, {phase: t / len(phases) for phase in phases})
        for i, t in ((i, 10 * i * per_step) for i in range(6))
    )
    compiled = {"functions": functions or {}, "compilations": []}
    return Measurement(rows, (2, 5), compiled, memory or {"rss_mib": 100.0}, {"torch": "9.9"}, cuda)


def benchmark(*lines: tuple[str, list[Measurement] | str], cuda: str | None = None) -> Benchmark:
    """A benchmark of these contenders, the original first, each with its rounds, or the reason why it did not run."""
    originals = lines[0][1]
    assert isinstance(originals, list)
    results = []
    for name, rounds in lines:
        contender = Contender(name, Run(Path("ppo.py")))
        if isinstance(rounds, str):
            results.append(Result(contender, "not run", rounds))
        else:
            found = figures(rounds, originals[: len(rounds)], rounds, is_original=name == "original")
            results.append(Result(contender, "measured", "", found, tuple(rounds)))
    return Benchmark(Task([r.contender for r in results]), tuple(results), MACHINE, {"torch": "9.9"}, cuda)


def on_a_cpu() -> Benchmark:
    """A benchmark of the original, all modes, and another script whose phases are not known."""
    return benchmark(
        ("original", [measurement(s, 4.0) for s in (0.002, 0.0021, 0.0019)]),
        (RUNGS[0], [measurement(s, 4.0) for s in (0.0021, 0.0020, 0.0022)]),
        (RUNGS[1], [measurement(s, 40.0, functions={"update": UPDATE}) for s in (0.001, 0.001, 0.001)]),
        (RUNGS[2], "there is no CUDA device here"),
        (RUNGS[3], "there is no CUDA device here"),
        ("LeanRL, mended", [measurement(0.0015, 180.0, phases=())]),
    )
