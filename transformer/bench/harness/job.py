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
    """By phase: line and column of its first and its last statement. Empty if not known."""
    others: dict[str, list[tuple[int, int]]]
    """The calls that step an environment in files that the script imports, by their paths without links."""
    phases_in: str | None
    """The file that holds the phases, where that is one of these."""
    steps_per_iteration: int | None
    """If the phases are not known: the steps of all environments that count as an iteration."""
    burnin: int
    """Iterations before the measurement."""
    turns: int
    """The number of turns; before each, the script waits for the baton, and after the last it is ended."""
    baton: str
    """Folder of the baton."""
    iterations: int | None
    """End a turn after this many iterations; None for no such limit."""
    seconds: float | None
    """End a turn after this many seconds and at least one iteration; None for no such limit."""
    synchronise: bool
    """Wait for the GPU wherever a phase begins or ends."""
    products: bool
    """After the last turn, measure how long matrix products and convolutions take, if possible."""
