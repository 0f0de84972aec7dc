"""What the harness is asked to do, as read from its job file."""

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
    """Folder that takes `run.json`, `burned_in.json` and `progress` (one byte per begun iteration)."""
    started: float
    """When the process was asked for, on the clock of `time.perf_counter`, which all processes share."""
    env_steps: list[tuple[int, int]]
    """Line and column of each call that steps an environment."""
    phases: dict[str, tuple[tuple[int, int], tuple[int, int]]]
    """By phase: line and column of its first and of its last statement. Empty where they are not known."""
    steps_per_iteration: int | None
    """Where the phases are not known: steps of all environments after which an iteration counts as over."""
    burnin: int
    """Iterations before the measurement."""
    turns: int
    """Parts of the measurement; before each, the script waits for the baton, and after the last it is ended."""
    baton: str
    """Folder of the baton."""
    iterations: int | None
    """End a turn after so many iterations; None for no such limit."""
    seconds: float | None
    """End a turn after so long, but one iteration at least; None for no such limit."""
    synchronise: bool
    """Wait for the GPU wherever a phase begins or ends."""
    products: bool
    """After the last turn, tell how long matrix products and convolutions take, where that can be told."""
