"""The harness's job, as read from its job file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """One timed run of one script."""

    mode: str
    script: str
    """Path of the script."""
    argv: list[str]
    """The script's own arguments."""
    output: str
    """The folder for `run.json`, `burned_in.json` and `progress` (one byte per started iteration)."""
    started: float
    """When the process was started, by `time.perf_counter`, which all processes share."""
    env_steps: list[tuple[int, int]]
    """Line and column of each call that steps an environment."""
    phases: dict[str, tuple[tuple[int, int], tuple[int, int]]]
    """For each phase, line and column of its first and of its last statement; empty if the phases are not known."""
    others: dict[str, list[tuple[int, int]]]
    """The calls that step an environment in files that the script imports, by the files' resolved paths."""
    phases_in: str | None
    """The imported file that contains the phases; None if the script does."""
    steps_per_iteration: int | None
    """The steps of all environments that count as an iteration if the phases are not known."""
    burnin: int
    """Iterations before the measurement."""
    turns: int
    """The number of turns; before each, the script waits for the baton, and after the last, the script is ended."""
    baton: str
    """The folder of the baton."""
    iterations: int | None
    """End a turn after this many iterations; None for no such limit."""
    seconds: float | None
    """End a turn after this many seconds and at least one iteration; None for no such limit."""
    synchronise: bool
    """Wait for the GPU wherever a phase begins or ends."""
    products: bool
    """After the last turn, measure how long matrix products and convolutions take, if possible."""
