"""Runs mutants on those checks of `lean-convert verify` that compile nothing, until one check kills the mutant."""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import forking
import torch
from forking import TimedOut, in_forks, record_forked
from generate import Mutant, canonical, mutants
from observe import Kinds, Observed, observe
from targets import ASIDE, Target

from transformer import verify as checking
from transformer.verify.arguments import added_options, lines_without_options, without_options
from transformer.verify.checks import lockstep_check, recorded_check
from transformer.verify.compare import compare
from transformer.verify.first_iteration import OTHER_CLOCK, compare_first_log
from transformer.verify.lockstep import run_in_lockstep
from transformer.verify.names import (
    COMPILED_GRAPHS,
    FLAGS,
    FLAGS_OFF,
    FLAGS_ON,
    FLAGS_ON_GRAPHS,
    GRAPHS,
    OTHER_ARGUMENTS,
    SHORT_EPISODES,
)
from transformer.verify.recording import Recording
from transformer.verify.run import Run, RunFailed
from transformer.verify.verify import SAME, Configuration, Task, verify

SECONDS = 6
"""Processor time that a mutant may take; the scripts themselves take less than half a second."""
EMULATED_SECONDS = 25
"""The same on the emulated CUDA device, where they take two."""
PATIENCE = 300.0
"""Wall-clock seconds."""
VALUES = 2**26
"""Bytes of values to keep, for the size of a difference."""
CAPTURED = (GRAPHS, COMPILED_GRAPHS)
"""Checks on which captured functions are compared with eager ones; torch.compile hands back the function itself."""


@dataclass(frozen=True)
class Place:
    """A check, and the name of the arguments of its runs."""

    check: str
    name: str
    """`base` for the target's arguments; other names are those of arguments that `verify` derives from them."""

    def __str__(self) -> str:
        """The form that outcomes store, such as `flags-off, base`."""
        return f"{self.check}, {self.name}"

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags that the converted script gets."""
        return tuple(f"--{flag}" for flag in FLAGS.get(self.check, ()))

    @property
    def emulated(self) -> bool:
        """Whether the scripts find a CUDA device, which is computed on the CPU."""
        return "--cudagraphs" in self.flags

    @property
    def seconds(self) -> int:
        """Processor time that a mutant may take."""
        return EMULATED_SECONDS if self.emulated else SECONDS


PLACES = (
    *(Place(check, name) for check in (FLAGS_OFF, FLAGS_ON) for name in ("base", OTHER_ARGUMENTS)),
    Place(FLAGS_ON, SHORT_EPISODES),
    *(Place(check, "base") for check in (FLAGS_ON_GRAPHS, *CAPTURED)),
)
"""Places in the order in which they are tried: the fastest runs first."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of running a mutant."""

    killed: str
    """How it was killed: `flags-off`, `flags-on`, `fails` or `hangs`; empty if it survived or was not run."""
    where: str
    """The check and arguments that killed it, such as `flags-off, base`; empty if it survived."""
    what: str
    """The first difference, or the last line of the error."""
    runs: int
    """The number of runs."""


ALIVE = Outcome("", "", "", 0)
"""The outcome of a mutant that was not run."""


class Range:
    """A target and everything that its mutants are compared with."""

    def __init__(self, target: Target) -> None:
        """Verify the converted script, and record the original with each configuration's arguments.

        Raises:
            AssertionError: they are not equal, or are not run with other arguments. Only
                scripts with switches have short episodes.
        """
        self.target = target
        self.text = canonical(target.converted.read_text(encoding="utf-8"))
        self._before = target.original.read_text(encoding="utf-8")
        self._added = added_options(self._before, self.text)
        _surroundings()  # as they are now
        with in_forks():
            found = verify(Task(Run(target.original, target.arguments), self.text, up_to=OTHER_ARGUMENTS))
        bad = [f"{check.name}: {check.findings} {check.reason}" for check in found.checks if check.status not in SAME]
        assert found.other_arguments and not bad, f"{target.name}: {bad}"
        self._configurations = {
            "base": Configuration(found.args, None),
            **dict(zip((OTHER_ARGUMENTS, SHORT_EPISODES), found.other_arguments, strict=False)),
        }
        self.places = [place for place in PLACES if place.name in self._configurations]
        self._originals: dict[tuple[str, bool], Recording] = {}

    @property
    def arguments(self) -> dict[str, tuple[str, ...]]:
        """The arguments, by configuration."""
        return {name: given.args for name, given in self._configurations.items()}

    @cached_property
    def observed(self) -> dict[Place, Observed]:
        """What is seen of the converted script, by place."""
        return {
            place: observe(
                self._run(place, self.text, place.flags), uncompiled=place.check != FLAGS_OFF, **self._how(place)
            )
            for place in self.places
        }

    @cached_property
    def mutants(self) -> list[Mutant]:
        """All mutants of the converted script, those aside that nothing here runs."""
        kinds: dict[str, Kinds] = {}
        for place, observed in self.observed.items():
            for scope, names in {} if place.emulated else observed.kinds.items():
                kinds.setdefault(scope, {}).update(names)
        aside = [name for names in ASIDE.values() for name in names]
        return mutants(self.text, kinds, [*aside, *self.target.aside])

    def runs(self, mutant: Mutant) -> bool:
        """Whether the statement that is edited runs at all here."""
        return any(mutant.line in observed.lines for observed in self.observed.values())

    def outcome(self, mutant: Mutant) -> Outcome:
        """Run a mutant in all places where its statement runs, until it is killed."""
        source = mutant.applied(self.text)
        places = [place for place in self.places if mutant.line in self.observed[place].lines]
        for runs, place in enumerate(places, start=1):
            try:
                found = self._differences(place, source)
            except TimedOut:
                return Outcome("hangs", str(place), f"after {place.seconds} s", runs)
            except RunFailed as failure:
                if not failure.not_emulated:
                    return Outcome("fails", str(place), str(failure).strip().splitlines()[-1], runs)
                continue  # the run stopped at something the emulated device lacks, which says nothing about the mutant
            if found:
                return Outcome(place.check, str(place), found, runs)
        return Outcome("", "", "", len(places))

    def digest(self, mutant: Mutant) -> str:
        """A digest of the mutant and of everything else that its outcome depends on."""
        parts = (mutant.applied(self.text), self._before, str(self._configurations), _surroundings())
        return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()

    def _run(self, place: Place, source: str, flags: tuple[str, ...] = ()) -> Run:
        arguments = (*self._configurations[place.name].args, *flags)
        return Run(self.target.original, arguments, source, timeout=PATIENCE)

    def _how(self, place: Place) -> dict[str, Any]:
        return {"emulated": place.emulated, "episodes": self._configurations[place.name].episodes}

    def _record(self, place: Place, run: Run, **options: Any) -> Recording:
        options |= {"values_limit": VALUES, **self._how(place)}
        return record_forked(run, cpu_seconds=place.seconds, **options)

    def _original(self, place: Place, clock_rate: int = 1) -> Recording:
        """The original's recording with a place's arguments, on its device."""
        key = f"{place.name} {clock_rate}", place.emulated
        if key not in self._originals:
            self._originals[key] = self._record(place, self._run(place, self._before), clock_rate=clock_rate)
        return self._originals[key]

    def _differences(self, place: Place, source: str) -> str:
        """The first difference from the original; empty where there is none."""
        run, original = self._run(place, source, place.flags), self._original(place)
        if place.check in CAPTURED:
            with in_forks(place.seconds):
                lockstep = run_in_lockstep(run, emulated=True)
            (log,) = lockstep.logs
            log = replace(log, prints=tuple(lines_without_options(log.prints, self._added, on=True)))
            other = self._original(place, OTHER_CLOCK)
            check = lockstep_check(place.check, lockstep, [compare_first_log(original, other, log)])
        else:
            recording = self._record(place, run, uncompiled=place.check != FLAGS_OFF)
            recording = without_options(recording, self._added, on=place.check != FLAGS_OFF)
            check = recorded_check(place.check, original, recording, compare(original, recording))
        return check.findings[0] if check.findings else ""


@cache
def _surroundings() -> str:
    """A digest of the code that runs and compares the mutants."""
    files = [*sorted(Path(checking.__file__).parent.rglob("*.py")), Path(forking.__file__), Path(__file__)]
    contents = hashlib.blake2b(b"\0".join(f.read_bytes() for f in files)).hexdigest()
    return f"{contents} {platform.python_version()} {torch.__version__}"
