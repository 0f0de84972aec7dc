"""Runs the checks: the converted script against the original, and compiled against eager."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from transformer.syntax import header, text
from transformer.verify.arguments import added_options, lines_without_options, without_options
from transformer.verify.bits import same_number
from transformer.verify.checks import Check, lockstep_check, never_called, precision_check, recorded_check
from transformer.verify.compare import compare
from transformer.verify.exercised import not_exercised, sites_of
from transformer.verify.first_iteration import OTHER_CLOCK, compare_first_log
from transformer.verify.flags import PRECISION, PRECISIONS, WORKERS, find_flags
from transformer.verify.harness.job import Episodes
from transformer.verify.length import Length, find_length
from transformer.verify.lockstep import EVERY, Lockstep, run_in_lockstep
from transformer.verify.names import (
    CHECKS,
    COMPILED,
    COMPILED_GRAPHS,
    COMPILED_OTHERS,
    EAGER,
    FLAGS,
    FLAGS_OFF,
    FLAGS_ON,
    OTHER_ARGUMENTS,
    SHORT_EPISODES,
    line_of,
    of_group,
    with_end,
)
from transformer.verify.options import with_option
from transformer.verify.other_arguments import (
    OTHER_ITERATIONS,
    changes_branch,
    every_other_switch,
    most_that_run,
    other_arguments,
    rare_log,
)
from transformer.verify.record import record_run
from transformer.verify.recording import Recording
from transformer.verify.run import Run, RunFailed
from transformer.verify.side_by_side import Runs

ITERATIONS = 3
STEPS = 130
"""The number of environment steps with learning: enough for what is done every hundred steps."""
NUM_WORKERS = 2
"""The number of worker processes in their check, which is run if the converted script has an option for them."""
DTYPES = dict(zip(PRECISIONS, ("bfloat16", "float16"), strict=True))
"""For each precision, the dtype of its tolerances. A precision is checked if the converted script has the option."""
SAME = ("equal", "emulated")
"""The statuses of a check without differences."""
RANKS_PART = "the script's processes step their optimizers at different times"
"""Happens if each process decides alone when to leave the epochs."""
_FEW_STEPS = 5
"""The minimum number of steps after which an episode is truncated."""

PERMUTATIONS = (
    "Original and converted script drew their minibatch permutations from one private stream, which leaves the "
    "generators of torch, numpy and Python alone."
)


class CannotVerify(Exception):
    """The original produces nothing to compare with, or is not reproducible. The message says what to do."""


class Progress(Protocol):
    """Is notified of the progress of each run."""

    def run(self, name: str, iterations: int | None) -> AbstractContextManager[Callable[[int], None]]:
        """A run begins; within the context, call the result with the number of finished iterations."""


class CheckProgress(Progress, Protocol):
    """Is also notified of the checks, by their lines in the verdict."""

    def plan(self, lines: Sequence[str]) -> None:
        """These lines will follow, in this order."""

    def begin(self, line: str) -> None:
        """The checks of this line begin."""

    def finish(self, line: str, checks: Sequence[Check]) -> None:
        """The checks of this line have ended; `checks` is empty if there are none."""


class NoProgress:
    """Ignores all progress."""

    def run(self, name: str, iterations: int | None) -> AbstractContextManager[Callable[[int], None]]:
        """Nothing is shown."""
        return nullcontext(lambda done: None)

    def plan(self, lines: Sequence[str]) -> None:
        """Nothing is shown."""

    def begin(self, line: str) -> None:
        """Nothing is shown."""

    def finish(self, line: str, checks: Sequence[Check]) -> None:
        """Nothing is shown."""


@dataclass(frozen=True)
class Task:
    """What to verify."""

    original: Run
    converted: str
    """Text of the converted script."""
    iterations: int | None = None
    """Iterations of rollout and update to run, or environment steps from the first update on; if None, ITERATIONS or
    STEPS."""
    every: int = EVERY
    """Every nth call of a compiled function is compared."""
    up_to: str = CHECKS[-1]
    """The last check to run."""
    prefixes: tuple[tuple[str, str], ...] = ()
    """Name and text of each state of the conversion, to be compared with the original before anything else."""
    other_arguments: bool = True
    """Whether to also compare runs with other arguments, which exercise what a usual run does not."""
    converted_name: str = ""
    """Path of the converted script, as given; empty if the original was converted for the verification."""
    jobs: int = 1
    """The number of simultaneous runs; one with a GPU."""
    find_timed: bool = False
    """Whether to determine which scalars depend on time."""

    @property
    def whole(self) -> str:
        """The text of the converted script and of its own modules."""
        return self.original.whole(self.converted)


@dataclass(frozen=True)
class Configuration:
    """How both scripts were run."""

    args: tuple[str, ...]
    episodes: Episodes | None
    """How episodes were truncated; None if they were not."""


@dataclass(frozen=True)
class Verification:
    """The checks, in order, and the original's recording."""

    checks: tuple[Check, ...]
    original: Recording
    args: tuple[str, ...]
    """Arguments that both scripts received."""
    notes: tuple[str, ...] = field(default=(PERMUTATIONS,))
    other_arguments: tuple[Configuration, ...] = ()
    """For the checks with other arguments and those with short episodes; empty if there were none."""
    scripts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Name and digest of `original` and `converted`."""
    not_exercised: tuple[str, ...] = ()
    """Branches of the original's training code that no run took, one sentence each."""
    seconds: float = 0.0
    """Wall-clock time of all checks."""
    other_shuffles: bool = False
    """Whether the converted script draws the order of minibatches by torch.randperm, and the original does not."""
    timed: frozenset[str] = frozenset()
    """Tags of scalars that depend on time, if requested: the original logs them differently with another clock."""
    stepwise: bool = False
    """Whether the original's iterations are updates between environment steps."""
    unlogged: str | None = None
    """What would make the original log something, if none of its runs did; None if one did."""

    def verdict(self, required: Sequence[str] = ()) -> Check | None:
        """The first check that is different or failed, or that was required and did not run; None if all is well."""
        for check in self.checks:
            missing = check.status != "equal" and any(of_group(check.name, group) for group in required)
            if check.status in ("different", "failed") or missing:
                return check
        return None


def verify(task: Task, progress: CheckProgress | None = None, then: Sequence[str] = ()) -> Verification:
    """Run the original and the converted script and compare them, check by check, until one is not equal.

    Args:
        task: the scripts, and how to run them.
        progress: is notified of each run and check.
        then: names of the checks that the caller runs after these.

    Raises:
        CannotVerify: the original never steps an optimizer, logs nothing, or is not reproducible.
        RunFailed: the original ended with an error, or ran out of time.
        OSError: the script or the interpreter cannot be read or started.
    """
    return _Checks(task, progress or NoProgress(), then).run()


class Told(list[Check]):
    """Finished checks; notifies progress of each line of the verdict."""

    def __init__(self, progress: CheckProgress) -> None:
        super().__init__()
        self._progress = progress

    def through(self, names: Sequence[str]) -> Iterator[str]:
        """The names of checks, in order. Checks appended while a name is current belong to that name."""
        lines = [line_of(name) for name in names]
        for i, (name, line) in enumerate(zip(names, lines, strict=True)):
            if line not in lines[:i]:
                self._progress.begin(line)
            yield name
            if line not in lines[i + 1 :]:
                self._progress.finish(line, [check for check in self if line_of(check.name) == line])


Pending = Callable[[], Check]
"""Waits for the runs of a check, and returns the check."""


class _Checks:
    def __init__(self, task: Task, progress: CheckProgress, then: Sequence[str]) -> None:
        self._since = time.monotonic()
        task = replace(task, original=replace(task.original, halt=threading.Event()))
        self._task = task
        self._progress = progress
        self._checks = Told(progress)
        self._check_names = _check_names(task)
        progress.plan(list(dict.fromkeys(map(line_of, (*self._check_names, *then)))))
        self._length = find_length(task.original)
        # It is not known how many runs fit into a GPU's memory
        self._runs = Runs(1 if self._length.cuda else task.jobs, task.original.halt)
        self._told = self._since
        """When the last check ended: simultaneous checks share their time."""
        self._usual = self._comparison(task.original, self._iterations(task.iterations))
        self._notes = list[str]()
        self._pending: dict[str, Pending] = {}

    def _iterations(self, given: int | None) -> int:
        """The number of updates to run: the given one; in stepwise training, those in the given environment steps."""
        if not self._length.stepwise:
            return given or ITERATIONS
        return self._length.updates(given) if given else self._length.updates(STEPS, ITERATIONS)

    def _comparison(self, run: Run, iterations: int, *how: Any) -> _Comparison:
        return _Comparison(self._task, self._progress, self._runs, self._length, run, iterations, *how)

    def run(self) -> Verification:
        try:
            return self._run()
        finally:
            self._runs.end()

    def _run(self) -> Verification:
        checks = self._checks
        others: list[_Comparison] = []
        self._begin(self._first_names())
        _check_usable(self._usual.original)
        timed = self._usual.timed() if self._task.find_timed else frozenset()
        for name in checks.through(self._check_names):
            if name == OTHER_ARGUMENTS and self._blocked("") is None:
                found = self._other_checks()
                others = [comparison for comparison, _ in found]
                self._begin_compiled(others)
                self._begin(self._check_names)
                for _, pending in found:
                    if self._blocked("") is None:
                        self._end_others(pending)
            elif name in self._pending or name not in (OTHER_ARGUMENTS, COMPILED_OTHERS):
                self._append(self._blocked(name) or self._pending[name]())
        if any(step.permutations for step in self._usual.original.steps):
            self._notes.insert(0, PERMUTATIONS)
        return Verification(
            tuple(checks),
            self._usual.original,
            self._usual.run.args,
            tuple(self._notes),
            tuple(Configuration(comparison.run.args, comparison.episodes) for comparison in others),
            _scripts(self._task),
            (
                *not_exercised(sites_of(c.original for c in (self._usual, *others))),
                *(f"{name}() is compiled, but never called with these arguments" for name in never_called(checks)),
            ),
            time.monotonic() - self._since,
            self._draws_otherwise(),
            timed,
            self._length.stepwise,
            self._unlogged([self._usual, *others]),
        )

    def _unlogged(self, compared: Sequence[_Comparison]) -> str | None:
        """What to do if no run logged anything; None if one did."""
        if any(comparison.original.has_logs for comparison in compared):
            return None
        source = self._task.original.source or text.read(self._task.original.script).content
        return rare_log(source, self._length.options, sites_of(c.original for c in compared))

    def _draws_otherwise(self) -> bool:
        served = any(step.permutations for step in self._usual.original.steps)
        original = self._task.original.source or text.read(self._task.original.script).content
        return served and "randperm" in self._task.whole and "randperm" not in original

    def _first_names(self) -> Sequence[str]:
        """The checks to start first: those before other arguments, which depend on the first run.

        Compiling takes longest, so it also starts at once if there is a processor for it.
        """
        if OTHER_ARGUMENTS not in self._check_names:
            return self._check_names
        first = self._check_names[: self._check_names.index(OTHER_ARGUMENTS)]
        return [COMPILED, *first] if self._runs.beside and COMPILED in self._check_names else first

    def _begin(self, names: Sequence[str]) -> None:
        """Start the runs of the checks that have not started yet."""
        for name in names:
            if name not in (*self._pending, OTHER_ARGUMENTS, COMPILED_OTHERS):
                self._pending[name] = self._usual_check(name)

    def _begin_compiled(self, others: Sequence[_Comparison]) -> None:
        """Start the compiled check with other arguments, if they change a branch of compiled code."""
        flags_on = next((check.recording for check in self._checks if check.name == FLAGS_ON), None)
        if COMPILED in self._check_names and others and flags_on is not None:
            usual, other = (sites_of([c.original]) for c in (self._usual, others[0]))
            if changes_branch(self._task.whole, flags_on.handed or (), usual, other):
                self._pending[COMPILED_OTHERS] = others[0].compiled_calls()

    def _usual_check(self, name: str) -> Pending:
        """A check with the given arguments."""
        sources = {**dict(self._task.prefixes), FLAGS_OFF: self._task.converted}
        if name in sources:
            return self._usual.flags_off(name, sources[name])
        if name == WORKERS:
            return self._usual.with_workers()
        return self._usual.with_flags(name) if name in CHECKS else self._usual.with_precision(name)

    def _append(self, check: Check) -> None:
        """Add a finished check; after one that is not equal, end all runs."""
        now = time.monotonic()
        self._checks.append(replace(check, seconds=now - self._told))
        self._told = now
        if self._blocked("") is not None:
            self._runs.end()

    def _blocked(self, name: str) -> Check | None:
        """The check as not run if an earlier check is not equal; otherwise None."""
        failed = next((r.name for r in self._checks if r.status in ("different", "failed")), None)
        return None if failed is None else Check(name, "not run", reason=f"{failed} comes first")

    def _other_checks(self) -> list[tuple[_Comparison, dict[str, Pending]]]:
        """The original with arguments that exercise more of it, and with short episodes; each with started checks."""
        original = self._task.original
        source = original.source or text.read(original.script).content
        wanted = other_arguments(source, self._length.options, sites_of([self._usual.original]))
        failures: list[str] = []

        def run(
            changes: tuple[tuple[str, ...], ...], suffix: str = OTHER_ARGUMENTS, episodes: Episodes | None = None
        ) -> _Comparison:
            args = original.args
            for change in changes:
                args = with_option(args, change)
            stepwise = self._length.stepwise
            iterations = self._iterations(None) if stepwise else OTHER_ITERATIONS + (episodes is not None)
            comparison = self._comparison(replace(original, args=args), iterations, suffix, episodes)
            try:
                if comparison.original.ranks_part:
                    raise RunFailed(RANKS_PART)
            except RunFailed as failure:
                failures.append(str(failure).splitlines()[-1])
                raise
            return comparison

        silent = not self._usual.original.has_logs
        kept, others = most_that_run(wanted, run) if wanted else ((), None)
        if left_out := [" ".join(change) for change in wanted if change not in kept]:
            names = ", ".join(left_out)
            self._notes.append(
                f"With other arguments, the original fails with {names}, which was left out: {failures[-1]}"
            )
        if others is None and silent:
            with suppress(RunFailed):  # logs may come only after a number of episodes
                others = run((), episodes=_short_episodes(self._usual.original))
        if others is None:
            if not wanted:
                self._notes.append("Not run with other arguments: the script has none that is known to exercise more.")
            return []
        found = [(others, self._with_other_arguments(others))]
        other, episodes = every_other_switch(kept, self._length.options), _episodes(self._usual.original)
        if silent and not others.original.has_logs:
            other, episodes = other or kept, _short_episodes(self._usual.original)
        if other not in ((), kept) or (silent and not others.original.has_logs and others.episodes is None):
            with suppress(RunFailed):  # the failure of the first run says more
                short = run(other, SHORT_EPISODES, episodes)
                found.append((short, self._with_other_arguments(short)))
        return found

    def _other_names(self, suffix: str) -> list[str]:
        """The checks that compile nothing; with short episodes only the one with flags, if the script has any."""
        names = [FLAGS_OFF]
        if any(flag in find_flags(self._task.whole).by_use for flag in FLAGS[COMPILED_GRAPHS]):
            names.append(FLAGS_ON)
        return names if suffix == OTHER_ARGUMENTS else names[-1:]

    def _with_other_arguments(self, others: _Comparison) -> dict[str, Pending]:
        """Start the checks that compile nothing."""
        pending = {}
        for name in self._other_names(others.suffix):
            begun = others.flags_off(name, self._task.converted) if name == FLAGS_OFF else others.with_flags(name)
            pending[with_end(name, others.suffix)] = begun
        if others.suffix == SHORT_EPISODES and WORKERS in find_flags(self._task.whole).by_use:
            pending[with_end(WORKERS, others.suffix)] = others.with_workers()
        return pending

    def _end_others(self, pending: Mapping[str, Pending]) -> None:
        """Add finished checks with other arguments."""
        for name, check in pending.items():
            try:
                self._append(self._blocked(name) or check())
            except CannotVerify as failure:  # as far as known, it is reproducible with the usual arguments
                self._append(Check(name, "not run", reason=str(failure)))
                return


def _check_names(task: Task) -> list[str]:
    """The checks to run, in order, with :data:`OTHER_ARGUMENTS` for those with other arguments."""
    uses = find_flags(task.whole).by_use
    upper = CHECKS[1 : CHECKS.index(task.up_to) + 1]
    names = [*(name for name, _ in task.prefixes), FLAGS_OFF]
    names += [WORKERS] if WORKERS in uses else []
    for name in upper:
        names += [name] if task.other_arguments or name != OTHER_ARGUMENTS else []
        names += [COMPILED_OTHERS] if name == COMPILED and task.other_arguments else []
    if PRECISION in uses:
        names += [*PRECISIONS, *(f"{COMPILED}-{p}" for p in PRECISIONS if COMPILED in upper)]
    return names


def _scripts(task: Task) -> dict[str, dict[str, str]]:
    name, before = task.original.script.name, task.original.source or text.read(task.original.script).content
    return {
        "original": {"name": name, "digest": header.digest(before)},
        "converted": {"name": task.converted_name or name, "digest": header.digest(task.converted)},
    }


def _episodes(original: Recording) -> Episodes:
    """Short episodes, one of which is truncated by a rollout's last step, and an iteration of barren ones.

    A barren iteration has what a usual one lacks: returns that do not vary, advantages that hardly do, and values both
    above and below their targets.
    """
    steps = original.steps[0].moment.env_steps
    truncated = next((n for n in range(_FEW_STEPS, steps) if steps % n == 0), steps)
    return Episodes(truncated, OTHER_ITERATIONS * steps)


def _short_episodes(original: Recording) -> Episodes:
    """Episodes of the minimum length, so that logs after every tenth or twentieth episode appear."""
    return Episodes(_FEW_STEPS, OTHER_ITERATIONS * original.steps[-1].moment.env_steps)


class _Comparison:
    """The original, run with some arguments, and the checks that compare converted scripts with it."""

    def __init__(
        self,
        task: Task,
        progress: Progress,
        runs: Runs,
        length: Length,
        run: Run,
        iterations: int,
        suffix: str = "",
        episodes: Episodes | None = None,
    ) -> None:
        """Start the original, optionally with truncated episodes; names of its checks end in `suffix`."""
        self._task = task
        self._progress = progress
        self._runs = runs
        self._iterations = iterations
        self.suffix = suffix
        self.episodes = episodes
        self._before = run.source or text.read(run.script).content
        self.run = length.shortened(run, iterations)
        self._stepwise = length.stepwise
        self._stop_after = iterations if length.option is None else None
        self._original = runs.begin(lambda: self._record("original", self.run, watch=True))
        self._emulated_original: Callable[[], Recording] | None = None
        self._by_clock: dict[bool, Callable[[], Recording]] = {}

    @property
    def original(self) -> Recording:
        """The original's recording; waits for it.

        Raises:
            RunFailed: it ended with an error, or ran out of time.
        """
        return self._original()

    def flags_off(self, name: str, source: str) -> Pending:
        """The check of a script with its flags off."""
        return self._with_suffix(self._recorded(name, replace(self.run, source=source)))

    def with_workers(self) -> Pending:
        """The check of the converted script with its environments in worker processes."""
        options = find_flags(self._task.whole).options([WORKERS]) or []
        run = replace(self.run, source=self._task.converted, args=(*self.run.args, *options, str(NUM_WORKERS)))
        recorded = self._recorded(WORKERS, run)

        def judge() -> Check:
            check = recorded()
            if check.status == "equal" and check.recording is not None and check.recording.forks <= self.original.forks:
                reason = "no environment was stepped in a worker: give the script more environments, `-- --num-envs 4`"
                check = Check(WORKERS, "not run", reason=reason)
            return check

        return self._with_suffix(judge)

    def with_precision(self, name: str) -> Pending:
        """The check of the converted script in lower precision.

        With float32 forced, its bits must be the original's. Then the functions passed to torch.compile are compared
        with float32; they are compiled only if the check's name says so.
        """
        precision, flags = name.rpartition("-")[2], find_flags(self._task.whole)
        options = flags.options(["compile"])
        if options is None:
            return _not_run(name, "the converted script has no --compile")
        if precision == "tf32" and not self.original.versions["cuda"]:
            return _not_run(name, "there is no CUDA device here, and TF32 needs one")
        args = (*self.run.args, flags.by_use[PRECISION], precision)
        run = replace(self.run, source=self._task.converted, args=args)
        taken_away = self._recorded(name, run, in_float32=True) if name == precision else None
        run = replace(run, args=(*args, *options))
        lockstep = self._lockstep(name, run, uncompiled=name == precision, in_float32=True)

        def judge() -> Check:
            if taken_away is not None and (check := taken_away()).status != "equal":
                return check
            try:
                return precision_check(name, lockstep(), DTYPES[precision])
            except RunFailed as failure:
                return self._crashed(name, failure)

        return judge

    def with_flags(self, name: str) -> Pending:
        """A check of the converted script with its flags on, on an emulated device if it needs a missing one.

        What CUDA would refuse fails; what the emulation lacks does not.
        """
        flags = find_flags(self._task.whole)
        wanted = FLAGS[name]
        if name in EAGER and "compile" not in flags.by_use:
            wanted = wanted[1:] or wanted  # all flags that the script has
        options = flags.options(wanted)
        if options is None:
            absent = " and no ".join(f"--{flag}" for flag in wanted if flag not in flags.by_use)
            return self._with_suffix(_not_run(name, f"the converted script has no {absent}"))
        run = replace(self.run, source=self._task.converted, args=(*self.run.args, *options))
        emulated = "cudagraphs" in wanted and not self.original.versions["cuda"]
        if emulated and self.run.processes is not None:
            return _not_run(name, "there is no CUDA device here, and an emulated one serves one process")
        begun = self._recorded(name, run, emulated) if name in EAGER else self._compiled(name, run, emulated)

        def judge() -> Check:
            try:
                check = begun()
            except RunFailed as failure:
                if not emulated:
                    raise
                reason = f"there is no CUDA device here, and an emulated one does not run the original: {failure}"
                return Check(name, "not run", reason=reason)
            return replace(check, status="emulated") if emulated and check.status == "equal" else check

        return self._with_suffix(judge)

    def compiled_calls(self) -> Pending:
        """The check of compiled functions, call by call, without logs, which show the rounding of longer steps."""
        options = find_flags(self._task.whole).options(FLAGS[COMPILED]) or []
        run = replace(self.run, source=self._task.converted, args=(*self.run.args, *options))
        lockstep = self._lockstep(COMPILED, run)

        def judge() -> Check:
            try:
                return lockstep_check(COMPILED, replace(lockstep(), compilations=()))  # perhaps one per branch
            except RunFailed as failure:
                return self._crashed(COMPILED, failure)

        return self._with_suffix(judge)

    def _with_suffix(self, pending: Pending) -> Pending:
        def judge() -> Check:
            check = pending()
            return replace(check, name=with_end(check.name, self.suffix))

        return judge

    def _record(self, name: str, run: Run, iterations: int | None = None, **options: Any) -> Recording:
        with self._progress.run(with_end(name, self.suffix), iterations or self._iterations) as on_iteration:
            return record_run(
                run,
                iterations=iterations or self._stop_after,
                on_iteration=on_iteration,
                episodes=self.episodes,
                stepwise=self._stepwise,
                **options,
            )

    def _begin(self, *args: Any, **options: Any) -> Callable[[], Recording]:
        """Start a recording."""
        return self._runs.begin(lambda: self._record(*args, **options))

    def _lockstep(self, name: str, run: Run, **options: bool) -> Callable[[], Lockstep]:
        """Start comparing fast functions with eager ones."""

        def begin() -> Lockstep:
            with self._progress.run(with_end(name, self.suffix), self._iterations) as on_iteration:
                return run_in_lockstep(
                    run, every=self._task.every, iterations=self._stop_after, on_iteration=on_iteration, **options
                )

        return self._runs.begin(begin)

    def _crashed(self, name: str, failure: RunFailed) -> Check:
        """The failed check of a converted script that ended with an error, with its own file and lines."""
        if failure.not_emulated:
            last = str(failure).rstrip().rpartition("\n")[2]
            reason = f"there is no CUDA device here, and an emulated one does not run the script: {last}"
            if "needs a CUDA device" in last:
                reason = (
                    "there is no CUDA device here, and the script trains on the CPU with these arguments; the emulated "
                    "device is for a script that asks torch.cuda.is_available()"
                )
            return Check(name, "not run", reason=reason)
        script, converted = self.run.script.name, self._task.converted_name
        said = str(failure).replace(f'File "{script}"', f'File "{converted or "the converted " + script}"')
        return Check(name, "failed", reason=f"the converted script {converted or script} failed: {said}")

    def _original_on(self, emulated: bool) -> Callable[[], Recording]:
        """The original's recording on a device; raises RunFailed if the original does not run on the emulated one."""
        if not emulated:
            return self._original
        if self._emulated_original is None:
            self._emulated_original = self._begin("original, emulated", self.run, emulated=True)
        return self._emulated_original

    def _by_other_clock(self, emulated: bool) -> Callable[[], Recording]:
        """The first iteration of the original with another clock, on a device."""
        if emulated not in self._by_clock:
            name = "original by another clock"
            self._by_clock[emulated] = self._begin(name, self.run, 1, emulated=emulated, clock_rate=OTHER_CLOCK)
        return self._by_clock[emulated]

    def timed(self) -> frozenset[str]:
        """Tags of scalars that the original logs differently with another clock; runs it."""
        other = self._record("original by another clock", self.run, clock_rate=OTHER_CLOCK)
        both = zip(self.original.scalars, other.scalars, strict=False)
        return frozenset(a.tag for a, b in both if a.tag != b.tag or not same_number(a.value, b.value))

    def _recorded(self, name: str, run: Run, emulated: bool = False, *, in_float32: bool = False) -> Pending:
        """A check of equal bits.

        It raises CannotVerify if the original is not reproducible, and RunFailed if it does not run on the emulated
        device.
        """
        original_run = self._original_on(emulated)
        converted_run = self._begin(name, run, uncompiled=name in EAGER, emulated=emulated, in_float32=in_float32)

        def judge() -> Check:
            original = original_run()
            try:
                converted = converted_run()
            except RunFailed as failure:
                return self._crashed(name, failure)
            source = self._before if run.source is None else run.whole(run.source)
            converted = without_options(converted, added_options(self._before, source, run.script), on=name in EAGER)
            differences = compare(original, converted)
            if differences:
                again = compare(original, self._record("original again", self.run, emulated=emulated))
                if again:
                    raise CannotVerify(
                        f"two runs of the original differ, so nothing can be compared: {again[0]}\n"
                        "Make them repeatable: seed what draws random numbers, and the environments, as by "
                        "`env.reset(seed=1)`."
                    )
            return recorded_check(name, original, converted, differences)

        return judge

    def _compiled(self, name: str, run: Run, emulated: bool) -> Pending:
        """A check that compares compiled functions with eager ones, and also the first iteration's log.

        It raises RunFailed if the original does not run on the emulated device.
        """
        original_run = self._original_on(emulated)
        lockstep_run = self._lockstep(name, run, emulated=emulated)
        other_run = self._by_other_clock(emulated)

        def judge() -> Check:
            original = original_run()
            if original.ranks_part:
                return Check(name, "not run", reason=f"{RANKS_PART}, so calls have no counterparts in other processes")
            try:
                lockstep = lockstep_run()
            except RunFailed as failure:
                return self._crashed(name, failure)
            other = other_run()
            added = added_options(self._before, self._task.whole, self._task.original.script)
            logs = (replace(log, prints=lines_without_options(log.prints, added, on=True)) for log in lockstep.logs)
            runs = zip((original, *original.peers), (other, *other.peers), logs, strict=True)
            return lockstep_check(name, lockstep, [compare_first_log(*of_rank) for of_rank in runs])

        return judge


def _not_run(name: str, reason: str) -> Pending:
    return lambda: Check(name, "not run", reason=reason)


def _check_usable(original: Recording) -> None:
    if not original.steps:
        raise CannotVerify(
            "the original stepped no torch optimizer in what was run of it, so there is no training to compare. Let "
            "it make more steps in all, if they are fewer than one rollout; if it learns from a later step on, let it "
            "start earlier (--learning-starts), or run more of it (--iterations)"
        )
    if not original.actions:
        raise CannotVerify("the original never calls step(action) on an environment, so there is no rollout to compare")
