"""Verifies a script converted to train in several processes, also against a single process that averages by hand."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from transformer.verify.arguments import added_options, without_options
from transformer.verify.checks import Check, Row, lockstep_check, recorded_check
from transformer.verify.compare import compare
from transformer.verify.flags import find_flags
from transformer.verify.length import Length, find_length, probe
from transformer.verify.lockstep import run_in_lockstep
from transformer.verify.names import CHECKS, COMPILED, FLAGS_ON
from transformer.verify.options import with_option
from transformer.verify.record import VALUES_LIMIT, record_run
from transformer.verify.recording import OptimizerStep, Recording, load
from transformer.verify.run import Run, RunFailed
from transformer.verify.verify import (
    ITERATIONS,
    CannotVerify,
    CheckProgress,
    NoProgress,
    Progress,
    Task,
    Told,
    Verification,
    verify,
)

LONGEST = 600.0
"""The default number of seconds after which ranks that wait for each other count as failed."""

ONE_RANK = "1-rank"
BY_HAND = "-by-hand"
"""The suffix of the check against one process that averages gradients by hand."""


@dataclass(frozen=True)
class _Shares:
    """How to make the original train with one rank's share of the environments."""

    option: str
    environments: int
    """The number of environments of one rank."""
    length: Length


def verify_ranks(task: Task, processes: int, progress: CheckProgress | None = None) -> Verification:
    """Run the checks of one process, then those of several, until one is not equal.

    Args:
        task: the original, and the script that trains in several processes.
        processes: the number of processes, on this machine.
        progress: is notified of each run.

    Raises:
        CannotVerify, RunFailed, OSError: as for `verify`.
    """
    progress = progress or NoProgress()
    names = _check_names(task, processes)
    verification = verify(task, progress, names)
    if verification.verdict() is not None:
        return verification
    checks = Told(progress)
    climb = _Ranks(task, processes, progress, verification).climb(names)
    begin = time.monotonic()
    for _ in checks.through(names):
        since = time.monotonic()
        if check := next(climb, None):
            checks.append(replace(check, seconds=time.monotonic() - since))
    seconds = verification.seconds + time.monotonic() - begin
    return replace(verification, checks=(*verification.checks, *checks), seconds=seconds)


def _check_names(task: Task, processes: int) -> list[str]:
    """The names of the checks of several processes, in order."""
    name = f"{processes}-ranks"
    names = [ONE_RANK, *([name, f"{name}{BY_HAND}"] if processes > 1 else []), f"{name}-{FLAGS_ON}"]
    return names + ([f"{name}-{COMPILED}"] if CHECKS.index(task.up_to) >= CHECKS.index(COMPILED) else [])


class _Ranks:
    def __init__(self, task: Task, processes: int, progress: Progress, alone: Verification) -> None:
        self._task = task
        self._progress = progress
        self._processes = processes
        self._original = alone.original
        self._iterations = task.iterations or ITERATIONS
        self._timeout = task.original.timeout or LONGEST
        length = find_length(task.original)
        self._stop_after = self._iterations if length.option is None else None
        self._run = replace(length.shortened(task.original, self._iterations), timeout=self._timeout)

    def climb(self, names: Sequence[str]) -> Iterator[Check]:
        """The checks, up to the first that is not equal."""
        ends = {BY_HAND: self._by_hand, f"-{FLAGS_ON}": self._uncompiled, f"-{COMPILED}": self._compare_compiled}
        for name in names:
            climb = self._one_rank if name == ONE_RANK else self._alike
            climb = next((check for end, check in ends.items() if name.endswith(end)), climb)
            try:
                check = climb(name)
            except RunFailed as failure:
                check = Check(name, "failed", reason=str(failure))
            yield check
            if check.status in ("different", "failed"):
                return

    def _record(self, name: str, processes: int, args: Sequence[str] = (), *, uncompiled: bool = False) -> Recording:
        run = replace(self._run, source=self._task.converted, processes=processes, args=(*self._run.args, *args))
        with self._progress.run(name, self._iterations) as on_iteration:
            return record_run(run, iterations=self._stop_after, on_iteration=on_iteration, uncompiled=uncompiled)

    def _one_rank(self, name: str) -> Check:
        """Compare one process started by torchrun with the original."""
        script = self._task.original.script
        before = self._task.original.source or script.read_text(encoding="utf-8")
        recording = self._record(name, 1)
        recording = without_options(recording, added_options(before, self._task.whole, script), on=False)
        return recorded_check(name, self._original, recording, compare(self._original, recording))

    def _alike(self, name: str) -> Check:
        """Compare all processes with the first, after each optimizer step."""
        self._ranks = self._record(name, self._processes)
        return alike(name, self._ranks)

    def _by_hand(self, name: str) -> Check:
        """Compare all processes with one that averages their gradients by hand."""
        if self._processes > 2:
            return Check(name, "not run", reason="more than two gradients are added in an order that gloo chooses")
        shares = self._shares()
        if shares is None:
            return Check(name, "not run", reason="no option was found for the number of environments")
        run = replace(self._run, args=with_option(self._task.original.args, (shares.option, str(shares.environments))))
        environment = {"OMP_NUM_THREADS": _threads(), **run.environment}
        run = replace(shares.length.shortened(run, self._iterations), environment=environment)
        reference = record_by_hand(run, self._processes, shares.environments, self._stop_after)
        ranks = training_alone(self._ranks)
        return recorded_check(name, reference, ranks, compare(reference, ranks))

    def _uncompiled(self, name: str) -> Check:
        """Compare flags on, with nothing compiled, with flags off."""
        options = find_flags(self._task.whole).options(["compile"])
        if options is None or self._processes == 1:
            return Check(name, "not run", reason="the converted script has no flag for it, or one rank is one process")
        recording = training_alone(self._record(name, self._processes, options, uncompiled=True))
        before = training_alone(self._ranks)
        return recorded_check(name, before, recording, compare(before, recording))

    def _compare_compiled(self, name: str) -> Check:
        """Compare compiled functions with eager ones in all processes."""
        options = find_flags(self._task.whole).options(["compile"])
        if options is None:
            return Check(name, "not run", reason="the converted script has no flag for it")
        args = (*self._run.args, *options)
        run = replace(self._run, source=self._task.converted, processes=self._processes, args=args)
        with self._progress.run(name, self._iterations) as on_iteration:
            lockstep = run_in_lockstep(
                run, every=self._task.every, iterations=self._stop_after, on_iteration=on_iteration
            )
        return lockstep_check(name, lockstep)

    def _shares(self) -> _Shares | None:
        """The option for the number of environments, found by its effect."""
        original = self._task.original
        length, number = probe(original)
        share, rest = divmod(number, self._processes)
        if rest:
            raise CannotVerify(f"{self._processes} processes cannot share {number} environments evenly")
        options = [o for o in length.options if type(o.value) is int and o.value == number]
        for option in sorted(options, key=lambda o: "env" not in o.attribute):
            try:
                found, fewer = probe(replace(original, args=with_option(original.args, (option.spelled, str(share)))))
            except RunFailed:
                continue
            if fewer == share:
                return _Shares(option.spelled, share, found)
        return None


def joins_ranks(original: str, converted: str) -> bool:
    """Whether the converted script can train in several processes and the original cannot."""
    talks = re.compile(r"torch\.distributed|from torch import .*\bdistributed\b")
    return bool(talks.search(converted)) and not talks.search(original)


def _threads() -> str:
    """The number of threads that torchrun would give each process."""
    return os.environ.get("OMP_NUM_THREADS", "1")


def record_by_hand(run: Run, ranks: int, share: int, iterations: int | None = None) -> Recording:
    """Run an original for several ranks in one process, which averages their gradients by hand.

    Args:
        run: the original, with arguments for one rank's share of the environments.
        ranks: the number of ranks that take turns.
        share: the number of environments of each.
        iterations: end the run after this many; if None, let it end by itself.

    Returns:
        rank 0's actions, parameters and random states, with the other ranks as its peers; logs are not recorded.

    Raises:
        RunFailed: the script ended with an error, or the ranks diverged.
        OSError: the script or the interpreter cannot be read or started.
    """
    options: dict[str, Any] = {"by_hand": ranks, "share": share, "values_limit": VALUES_LIMIT}
    with run.under_harness("by_hand", iterations=iterations, **options) as scratch:
        first, *peers = (load(scratch.root / "out" / f"rank{rank}", ()) for rank in range(ranks))
        return replace(first, peers=tuple(peers))


def training_alone(recording: Recording) -> Recording:
    """A recording without logs, prints and files."""
    peers = tuple(map(training_alone, recording.peers))
    return replace(recording, scalars=(), prints=(), texts=(), events=(), files=(), handed=None, peers=peers)


def alike(name: str, ranks: Recording) -> Check:
    """The check that all ranks keep the same parameters and take different actions."""
    findings: list[str] = []
    values = 0
    for number, peer in enumerate(ranks.peers, start=1):
        if len(peer.steps) != len(ranks.steps):
            findings.append(f"rank {number} takes {len(peer.steps)} optimizer steps, and rank 0 {len(ranks.steps)}")
        first = None
        for i, (own, theirs) in enumerate(zip(ranks.steps, peer.steps, strict=False), start=1):
            values += sum(t.elements for t in own.tensors.values())
            first = first or next(((i, what) for what in _differing(own, theirs)), None)
        if first is not None:
            findings.append(f"after optimizer step {first[0]}, {first[1]} of rank {number} differs from rank 0's")
        if _same_actions(ranks, peer):
            findings.append(f"rank {number} takes the actions of rank 0 throughout, as with the same seeds")
    row = Row("parameters of all ranks", values, 0.0 if not findings else None, "", None, not findings)
    return Check(name, "different" if findings else "equal", (row,), tuple(findings), recording=ranks)


def _differing(own: OptimizerStep, theirs: OptimizerStep) -> Iterator[str]:
    for key in {**own.tensors, **theirs.tensors}:
        a, b = own.tensors.get(key), theirs.tensors.get(key)
        if a is None or b is None or a.digest != b.digest:
            yield key
    for key in {**own.numbers, **theirs.numbers}:
        if own.numbers.get(key) != theirs.numbers.get(key):
            yield key


def _same_actions(ranks: Recording, peer: Recording) -> bool:
    pairs = [
        (x, y)
        for a, b in zip(ranks.actions, peer.actions, strict=False)
        for x, y in zip(a.arrays, b.arrays, strict=False)
    ]
    return bool(pairs) and all(x is not None and y is not None and x.tobytes() == y.tobytes() for x, y in pairs)
