"""Runs mutants on the rungs of `lean-convert verify` that compile nothing, until one sees a difference."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from pathlib import Path

import forking
import torch
from forking import TimedOut, in_forks, record_forked
from generate import Mutant, canonical, mutants
from observe import Observed, observe
from targets import ASIDE, Target

from transformer import verify as checking
from transformer.verify.arguments import added_options, without_options
from transformer.verify.compare import compare
from transformer.verify.flags import find_flags
from transformer.verify.recording import Recording
from transformer.verify.run import Run, RunFailed
from transformer.verify.rungs import recorded_rung
from transformer.verify.verify import REFACTORED, UNCOMPILED, Task, verify

SECONDS = 6
"""Processor time that a mutant may take; the scripts themselves take less than half a second."""
PATIENCE = 300.0
"""Wall-clock seconds."""
VALUES = 2**26
"""Bytes of values to keep, for the size of a difference."""
RUNGS = (REFACTORED, UNCOMPILED)
CONFIGURATIONS = ("base", "stress")
"""The target's arguments, and those that `verify` derives from them."""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant."""

    killed: str
    """How: `refactored`, `uncompiled`, `fails` or `hangs`; empty where it survived, or where nothing ran it."""
    where: str
    """The rung and the arguments, as in `refactored, base`; empty where it survived."""
    what: str
    """The first difference, or the last line of the error."""
    runs: int
    """How many runs it took."""


ALIVE = Outcome("", "", "", 0)
"""That of a mutant that was not run."""


class Range:
    """A target with all that its mutants are compared with."""

    def __init__(self, target: Target) -> None:
        """Verify the converted script, and record the original with both configurations' arguments.

        Raises:
            AssertionError: they are not equal, or are not run under stress.
        """
        self.target = target
        self.text = canonical(target.converted.read_text(encoding="utf-8"))
        self._before = target.original.read_text(encoding="utf-8")
        self._added = added_options(self._before, self.text)
        _surroundings()  # as they are now
        with in_forks():
            found = verify(Task(Run(target.original, target.arguments), self.text, up_to=UNCOMPILED))
        different = [f"{rung.name}: {rung.findings} {rung.reason}" for rung in found.rungs if rung.status != "equal"]
        assert found.stress and not different, f"{target.name}: {different}"
        self.arguments = dict(zip(CONFIGURATIONS, (found.args, found.stress), strict=True))
        """By configuration."""
        self._originals = {
            name: self._record(REFACTORED, self._run(REFACTORED, name, self._before)) for name in CONFIGURATIONS
        }

    @cached_property
    def observed(self) -> dict[tuple[str, str], Observed]:
        """What is seen of the converted script, by rung and arguments."""
        return {
            (rung, name): observe(self._run(rung, name, self.text), uncompiled=rung == UNCOMPILED)
            for rung, name in self._places()
        }

    @cached_property
    def mutants(self) -> list[Mutant]:
        """All mutants of the converted script, those aside that nothing here runs."""
        kinds = {}
        for observed in self.observed.values():
            for scope, names in observed.kinds.items():
                kinds.setdefault(scope, {}).update(names)
        aside = [name for names in ASIDE.values() for name in names]
        return mutants(self.text, kinds, [*aside, *self.target.aside])

    def runs(self, mutant: Mutant) -> bool:
        """Whether the statement that is edited runs at all here."""
        return any(mutant.line in observed.lines for observed in self.observed.values())

    def outcome(self, mutant: Mutant) -> Outcome:
        """Run a mutant with all arguments on all rungs on which its statement runs, until it is killed."""
        source = mutant.applied(self.text)
        places = [place for place in self._places() if mutant.line in self.observed[place].lines]
        for runs, (rung, name) in enumerate(places, start=1):
            where = f"{rung}, {name}"
            try:
                found = self._differences(rung, name, source)
            except TimedOut:
                return Outcome("hangs", where, f"after {SECONDS} s", runs)
            except RunFailed as failure:
                return Outcome("fails", where, str(failure).strip().splitlines()[-1], runs)
            if found:
                return Outcome(rung, where, found, runs)
        return Outcome("", "", "", len(places))

    def digest(self, mutant: Mutant) -> str:
        """Changes with the mutant, and with whatever else its outcome depends on."""
        parts = (mutant.applied(self.text), self._before, str(self.arguments), _surroundings())
        return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()

    @staticmethod
    def _places() -> Iterator[tuple[str, str]]:
        return product(RUNGS, CONFIGURATIONS)

    def _run(self, rung: str, name: str, source: str) -> Run:
        flags = find_flags(self.text).options(["compile"]) if rung == UNCOMPILED else []
        assert flags is not None
        return Run(self.target.original, (*self.arguments[name], *flags), source, timeout=PATIENCE)

    @staticmethod
    def _record(rung: str, run: Run) -> Recording:
        return record_forked(run, cpu_seconds=SECONDS, values_limit=VALUES, uncompiled=rung == UNCOMPILED)

    def _differences(self, rung: str, name: str, source: str) -> str:
        """The first difference from the original; empty where there is none."""
        recording, original = self._record(rung, self._run(rung, name, source)), self._originals[name]
        recording = without_options(recording, self._added, on=rung == UNCOMPILED)
        found = recorded_rung(rung, original, recording, compare(original, recording))
        return found.findings[0] if found.findings else ""


@cache
def _surroundings() -> str:
    """A digest of the code that runs and compares the mutants."""
    files = [*sorted(Path(checking.__file__).parent.rglob("*.py")), Path(forking.__file__), Path(__file__)]
    contents = hashlib.blake2b(b"\0".join(f.read_bytes() for f in files)).hexdigest()
    return f"{contents} {platform.python_version()} {torch.__version__}"
