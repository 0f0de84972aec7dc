"""The checks of a verification: what each compared, how many values, and how far apart they were."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from transformer.transforms import ORDER as TRANSFORMS
from transformer.verify.call_error import CallError
from transformer.verify.difference import ORDER, Difference, Quantity
from transformer.verify.first_iteration import LogComparison
from transformer.verify.lockstep import Compilation, Function, Lockstep
from transformer.verify.recording import Recording
from transformer.verify.tolerances import LOGGED, tolerance, within

_REGROUPS = {transform.info.name: transform.info.regroups for transform in TRANSFORMS}

OTHER_ARITHMETIC = "lower precision than float32, and not equal to it: compared within the tolerances of its dtype"

NOTHING_HANDED = "with its flags on, the script passes nothing to torch.compile or CudaGraphModule"

Status = Literal["equal", "emulated", "close", "different", "not run", "failed"]
"""`emulated`: equal on a CUDA device emulated on the CPU. `close`: lower precision, which is not equal, but within its
dtype's tolerances of float32. `failed`: the script ended with an error, so there was nothing to compare."""


@dataclass(frozen=True)
class Row:
    """One line of a check's table."""

    what: str
    values: int
    """The number of values compared."""
    error: float | None
    """The largest difference; None if it has no size, or the values were not kept."""
    where: str
    """The place of the largest error, or of the first difference; empty if there is none."""
    tolerance: float | None
    """The largest allowed relative error; None if bits must be equal."""
    equal: bool


@dataclass(frozen=True)
class Check:
    """The outcome of one check."""

    name: str
    status: Status
    rows: tuple[Row, ...] = ()
    findings: tuple[str, ...] = ()
    """The differences, one sentence each, the likely cause first."""
    reason: str = ""
    """Why the check did not run or failed."""
    notes: tuple[str, ...] = ()
    """What was compared differently from the rest, one sentence each."""
    lockstep: Lockstep | None = field(default=None, repr=False)
    recording: Recording | None = field(default=None, repr=False)
    seconds: float = 0.0
    """Wall-clock time from the end of the previous check; the runs of several checks overlap."""


_OF_STEPS = ("gradient norm", "hyperparameter", "optimizer state", "parameter", "random state", "other network")
"""Quantities that are compared when both runs take a step or end an iteration."""


def recorded_check(name: str, original: Recording, converted: Recording, differences: tuple[Difference, ...]) -> Check:
    """The check that two recordings are equal bit by bit."""
    by_quantity: defaultdict[Quantity, list[Difference]] = defaultdict(list)
    for difference in differences:
        by_quantity[difference.quantity].append(difference)
    counts = _count(original)
    rows = [
        _bit_row(quantity, counts[quantity], by_quantity[quantity])
        for quantity in ORDER
        if counts[quantity] or by_quantity[quantity]
    ]
    if by_quantity["optimizer"]:  # not all steps have a counterpart
        rows = [
            replace(row, error=None, where="not all compared") if row.equal and row.what in _OF_STEPS else row
            for row in rows
        ]
    findings = [str(d) for d in differences]
    if differences:
        findings[0] += f". This points to: {differences[0].meaning}"
    errors = [e for recording in (converted, *converted.peers) for e in recording.regrouped_errors]
    rows += _lockstep_rows(errors)
    findings += [_sentence(e) for e in _first_of_each(e for e in errors if not within(e))]
    findings += [NOTHING_HANDED] if converted.handed == () else []
    status: Status = "different" if findings else "equal"
    notes = tuple(f"{name}: {_REGROUPS[name]}" for name in converted.regrouped)
    return Check(name, status, tuple(rows), tuple(findings), recording=converted, notes=notes)


def lockstep_check(name: str, lockstep: Lockstep, logs: Sequence[LogComparison] = ()) -> Check:
    """The check that compiled functions agree with the eager ones within the tolerances.

    Args:
        name: the check's name.
        lockstep: all comparisons of calls.
        logs: the comparison of the first iteration's log, by process.
    """
    if not lockstep.functions:
        return Check(name, "not run", reason="the script compiled no function")
    idle = [f for f in lockstep.functions if not f.replays]
    if len(idle) < len(lockstep.functions):
        idle = [f for f in idle if f.calls]  # functions that these arguments never call do not block the verdict
    rows = (*_lockstep_rows(lockstep.errors), *_log_rows(logs))
    faults = tuple(f"{f.function}, call {f.call}: {f.text}" for f in lockstep.faults)
    wrong = tuple(_sentence(e) for e in _first_of_each(e for e in lockstep.errors if not within(e)))
    wrong += tuple(finding for log in logs for finding in log.findings)
    wrong += tuple(still_compiled(lockstep))
    notes = tuple(
        f"the first iteration's log was not compared: rounding changed {log.flipped} of the rollout, and what follows"
        for log in logs
        if log.flipped
    )
    notes += tuple(graph_breaks(lockstep))
    if faults or wrong:
        return Check(name, "different", rows, faults + wrong, lockstep=lockstep, notes=notes)
    if idle:
        return Check(name, "not run", rows, reason=_idle(idle, lockstep.iterations), lockstep=lockstep, notes=notes)
    compared = {e.function for e in lockstep.errors}
    if unseen := [f"{f.name}()" for f in lockstep.functions if f.calls and f.name not in compared]:
        what = "changes no parameter, and returns no tensor, array, number or distribution"
        reason = f"not compared: {', '.join(unseen)} {what}"
        return Check(name, "not run", rows, reason=reason, lockstep=lockstep, notes=notes)
    return Check(name, "equal", rows, lockstep=lockstep, notes=notes)


GIVES_UP = 7
"""How often torch recompiles a function before it runs it eagerly (`torch._dynamo.config.recompile_limit`)."""


def still_compiled(lockstep: Lockstep) -> Iterator[str]:
    """The functions that are still recompiled at the end, or that torch gave up on, with the guard that fails.

    A single recompilation for a new branch, or for a size that turns out to vary, does not count.
    """
    by_guard: defaultdict[tuple[str, str], list[Compilation]] = defaultdict(list)
    for one in lockstep.compilations:
        if one.reason:
            by_guard[one.function, _guard(one.reason)].append(one)
    for (function, _), found in by_guard.items():
        iterations = {one.iteration for one in found}
        if len(found) >= GIVES_UP:
            yield (
                f"{function}() was compiled {len(found) + 1} times, until torch.compile gave up on it: each time this "
                f"guard failed: {found[-1].reason}"
            )
        elif len(iterations) > 1 and max(iterations) >= lockstep.iterations - 1:
            yield (
                f"{function}() is still being compiled at the end of the run, {len(found) + 1} times so far: at call "
                f"{found[-1].call} this guard failed: {found[-1].reason}. torch.compile gives up in the end"
            )


_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_(\d+)$")


def graph_breaks(lockstep: Lockstep) -> Iterator[str]:
    """The functions that torch compiles in several pieces, and where each but the first begins."""
    found: dict[str, list[str]] = {}
    for one in lockstep.compilations:
        if (resumed := _RESUMED.match(one.code)) and (place := resumed[2]) not in found.setdefault(one.function, []):
            found[one.function].append(place)
    for function, places in found.items():
        lines = f"line{'s' * (len(places) > 1)} {' and '.join(places)}"
        yield (
            f"{function}() is compiled in {len(places) + 1} pieces, which is slower: its graph breaks on {lines}; "
            "TORCH_LOGS=graph_breaks tells why"
        )


def _guard(reason: str) -> str:
    """What a guard checks, without the expected value."""
    text = re.sub(r"^\d+/\d+: ", "", reason)
    return re.split(r" == | is | in |, actual|; ", text)[0].strip()


def never_called(checks: Iterable[Check]) -> list[str]:
    """The compiled functions that were never called in any check."""
    functions = [f for check in checks if check.lockstep is not None for f in check.lockstep.functions]
    called = {f.name for f in functions if f.calls}
    return [*dict.fromkeys(f.name for f in functions if f.name not in called)]


def _idle(functions: Sequence[Function], iterations: int) -> str:
    """Why functions that were never called after their warm-up cannot be judged, and what to do."""
    uncalled = ", ".join(f"{f.name}()" for f in functions if not f.calls)
    early = ", ".join(f"{f.name}() ({f.calls} calls)" for f in functions if f.calls)
    reasons = []
    if uncalled:
        reasons.append(
            f"compiled or captured, but not called with these flags in {iterations} iterations: {uncalled}; compile "
            "only what is called with the flags, or give more --iterations if the script calls it later"
        )
    if early:
        reasons.append(f"called too rarely, only while warming up: {early}; more --iterations are needed")
    return ". ".join(reasons)


def precision_check(name: str, lockstep: Lockstep, dtype: str) -> Check:
    """The check that functions in lower precision are close to float32.

    Args:
        name: the check's name.
        lockstep: all comparisons of calls.
        dtype: the dtype whose tolerances replace those of float32.
    """
    errors = [replace(e, dtype=dtype) if e.dtype == "float32" else e for e in lockstep.errors]
    check = lockstep_check(name, replace(lockstep, errors=tuple(errors)))
    if check.status != "equal":
        return check
    if not any(error.relative for error in errors):
        return replace(check, status="different", findings=("nothing differs from float32: the option does nothing",))
    return replace(check, status="close", notes=(OTHER_ARITHMETIC,))


def _bit_row(quantity: Quantity, count: int, differences: list[Difference]) -> Row:
    if not differences:
        return Row(quantity, count, 0.0, "", None, True)
    first = differences[0]
    error = max((d.error for d in differences if d.error is not None), default=None)
    return Row(quantity, count, error, f"{first.name} {first.where}".strip(), None, False)


def _lockstep_rows(errors: Iterable[CallError]) -> Iterable[Row]:
    """One row for each function, kind and dtype, with the comparison closest to its tolerance."""
    groups: defaultdict[tuple[str, str, str], list[CallError]] = defaultdict(list)
    for error in errors:
        groups[error.function, error.kind, error.dtype].append(error)
    for (function, kind, dtype), group in groups.items():
        worst = max(group, key=lambda e: e.relative)
        where = f"{worst.name}, call {worst.call}" if worst.relative else ""
        values = sum(e.values for e in group)
        equal = all(map(within, group))
        yield Row(f"{function}: {kind}, {dtype}", values, worst.relative, where, tolerance(worst), equal)


def _log_rows(logs: Iterable[LogComparison]) -> Iterable[Row]:
    """One row for the numbers and lines that were logged in the first iteration, with the largest difference."""
    compared = [log for log in logs if log.values]
    if compared:
        worst = max(compared, key=lambda log: log.error)
        values = sum(log.values for log in compared)
        equal = not any(log.findings for log in compared)
        yield Row("first iteration's log", values, worst.error, worst.where, LOGGED, equal)


def _first_of_each(errors: Iterable[CallError]) -> list[CallError]:
    """The first comparison of each function and tensor."""
    first: dict[tuple[str, str, str], CallError] = {}
    for error in errors:
        first.setdefault((error.function, error.kind, error.name), error)
    return list(first.values())


def _sentence(error: CallError) -> str:
    stage = "after its warm-up" if error.replay else "while warming up"
    what = error.name if error.name.startswith(error.kind) else f"{error.kind} {error.name}"
    return (
        f"{error.function}, call {error.call} ({stage}): {what} is {error.relative:.3g} away from "
        f"the eager function's, more than {tolerance(error):.3g} (largest difference {error.largest:.3g})"
    )


def _count(recording: Recording) -> Counter[Quantity]:
    """The number of values of each quantity in a recording, over all its processes."""
    counts: Counter[Quantity] = Counter()
    counts["action"] = sum(array.size for action in recording.actions for array in action.arrays if array is not None)
    counts["scalar"] = len(recording.scalars)
    counts["print"] = len(recording.prints)
    counts["text"] = len(recording.texts)
    counts["event"] = len(recording.events)
    counts["optimizer"] = counts["gradient norm"] = len(recording.steps)
    counts["random state"] = sum(len(states) for _, states in recording.random)
    counts["other network"] = sum(len(digests) for _, digests in recording.others)
    counts["file"] = len(recording.files)
    counts["final parameter"] = sum(t.elements for t in recording.final.values())
    for step in recording.steps:
        for name in step.numbers:
            counts["optimizer state" if ": " in name else "hyperparameter"] += 1
        for name, tensor in step.tensors.items():
            counts["optimizer state" if ": " in name else "parameter"] += tensor.elements
    return sum(map(_count, recording.peers), counts)
