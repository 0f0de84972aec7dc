"""Runs a script with its fast functions compared to the eager ones, call by call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformer.verify.call_error import CallError
from transformer.verify.recording import Log, load_log
from transformer.verify.run import Run

EVERY = 25
"""Every nth call is compared, in addition to the first calls and those after the warm-up."""
ACTIONS_LIMIT = 64 * 2**20
"""Bytes of the first iteration's actions that are kept."""


@dataclass(frozen=True)
class Function:
    """A function that the script compiled or captured."""

    name: str
    calls: int
    replays: int
    """Calls after the warm-up."""


@dataclass(frozen=True)
class Fault:
    """Something wrong with a call that cannot be measured."""

    function: str
    call: int
    text: str


@dataclass(frozen=True)
class Compilation:
    """A compilation during a call of a function."""

    function: str
    call: int
    iteration: int
    """The number of iterations completed before."""
    reason: str
    """The guard that failed, if this was a recompilation; otherwise empty."""
    code: str = ""
    """torch's name of the compiled code: of the function, or of the piece below a graph break."""


@dataclass(frozen=True)
class Lockstep:
    """All comparisons of one run."""

    functions: tuple[Function, ...]
    errors: tuple[CallError, ...]
    faults: tuple[Fault, ...]
    iterations: int
    seconds: float
    compilations: tuple[Compilation, ...] = ()
    logs: tuple[Log, ...] = ()
    """The logs and prints of each process, and the actions of its first iteration."""


def run_in_lockstep(
    run: Run,
    *,
    every: int = EVERY,
    iterations: int | None = None,
    emulated: bool = False,
    uncompiled: bool = False,
    in_float32: bool = False,
    on_iteration: Callable[[int], None] | None = None,
) -> Lockstep:
    """Run a script whose arguments turn on compilation, and compare its fast functions on sampled calls.

    Args:
        run: the converted script, with its flags among the arguments.
        every: compare every nth call of a function, and always the first two and the three around the warm-up's end.
        iterations: end the run after this many iterations; if None, let it end by itself.
        emulated: give the script a CUDA device emulated on the CPU.
        uncompiled: compile nothing.
        in_float32: let the eager functions compute in float32, without autocast and TF32.
        on_iteration: called with the number of finished iterations whenever it grows.

    Raises:
        RunFailed: the script ended with an error, or ran out of time.
        OSError: the script or the interpreter cannot be read or started.
    """
    options: dict[str, Any] = {
        "every": every,
        "emulated": emulated,
        "uncompiled": uncompiled,
        "in_float32": in_float32,
        "values_limit": ACTIONS_LIMIT,
    }
    with run.under_harness("lockstep", on_iteration, iterations=iterations, **options) as scratch:
        lockstep = load_lockstep(*(output / "journal.json" for output in scratch.outputs))
        return replace(lockstep, logs=tuple(map(load_log, scratch.outputs)))


def load_lockstep(*paths: Path) -> Lockstep:
    """Read the journal that the harness wrote in each process; functions of ranks above 0 are marked with the rank."""
    journals = [json.loads(path.read_text()) for path in paths]

    def entries(kind: str) -> Iterator[list[Any]]:
        for rank, of_rank in enumerate(journals):
            for _, name, *rest in of_rank.get(kind, ()):
                yield [f"{name} (rank {rank})" if rank else name, *rest]

    journal = journals[0]
    return Lockstep(
        functions=tuple(Function(*entry) for entry in entries("functions")),
        errors=tuple(CallError(*entry) for entry in entries("calls")),
        faults=tuple(Fault(*entry) for entry in entries("faults")),
        compilations=tuple(Compilation(*entry) for entry in entries("compilations")),
        iterations=journal["iterations"],
        seconds=journal["seconds"],
    )
