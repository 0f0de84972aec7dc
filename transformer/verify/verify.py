"""Climbs the rungs: the converted script against the original, and compiled against eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from transformer.syntax import text
from transformer.verify.arguments import added_options, lines_without_options, without_options
from transformer.verify.compare import compare
from transformer.verify.exercised import not_exercised, sites_of
from transformer.verify.first_iteration import OTHER_CLOCK, compare_first_log
from transformer.verify.flags import PRECISION, PRECISIONS, WORKERS, find_flags
from transformer.verify.harness.job import Episodes
from transformer.verify.length import Length, find_length
from transformer.verify.lockstep import EVERY, Lockstep, run_in_lockstep
from transformer.verify.options import with_option
from transformer.verify.record import record_run
from transformer.verify.recording import Recording
from transformer.verify.run import Run, RunFailed
from transformer.verify.rungs import Rung, lockstep_rung, precision_rung, recorded_rung
from transformer.verify.stress import STRESS_ITERATIONS, every_other_switch, most_that_run, stress_arguments

ITERATIONS = 3
STEPS = 130
"""So many steps of the environment that are learned from: enough for what is done in each hundredth."""
REFACTORED = "refactored"
UNCOMPILED = "uncompiled"
RUNGS = (REFACTORED, UNCOMPILED, f"{UNCOMPILED} + cudagraphs", "compile", "cudagraphs", "compile + cudagraphs")
"""In the order in which they are climbed."""
NUM_WORKERS = 2
"""Worker processes on the rung with some, which is climbed where the converted script has an option for them."""
DTYPES = dict(zip(PRECISIONS, ("bfloat16", "float16"), strict=True))
"""For each precision, climbed where the converted script has an option for it, the dtype whose tolerances it has."""
SAME = ("equal", "emulated")
"""The statuses of a rung on which no difference was seen."""
UNDER_STRESS = " (stress)"
"""Ends the name of a rung under arguments that exercise more of the training."""
UNDER_OTHER_STRESS = " (other stress)"
"""Ends the name of the rung on which every other switch is as usual, and episodes are truncated."""
_FEW_STEPS = 5
"""No episode is truncated after fewer steps."""

PERMUTATIONS = (
    "Original and converted script drew their minibatch permutations from one private stream, which leaves the "
    "generators of torch, numpy and Python alone."
)


class CannotVerify(Exception):
    """The original gives nothing to compare with, or does not repeat itself. The message says what to do."""


class Progress(Protocol):
    """Is told of each run as it goes on."""

    def run(self, name: str, iterations: int | None) -> AbstractContextManager[Callable[[int], None]]:
        """A run begins; within the context, call the result with the number of finished iterations."""


class NoProgress:
    """Tells nobody."""

    def run(self, name: str, iterations: int | None) -> AbstractContextManager[Callable[[int], None]]:
        """Nothing is shown."""
        return nullcontext(lambda done: None)


@dataclass(frozen=True)
class Task:
    """What to verify."""

    original: Run
    converted: str
    """Text of the converted script."""
    iterations: int | None = None
    """Iterations of rollout and update to run, or steps of the environment from the first update on; ITERATIONS or
    STEPS where None."""
    every: int = EVERY
    """Each so-manieth call of a compiled function is compared."""
    up_to: str = RUNGS[-1]
    """The last rung to climb."""
    prefixes: tuple[tuple[str, str], ...] = ()
    """Name and text of each state of the conversion, to be compared with the original before anything else."""
    stress: bool = True
    """Whether what a usual run does not exercise is compared in a run with other arguments."""


@dataclass(frozen=True)
class Stress:
    """What both scripts got under stress."""

    args: tuple[str, ...]
    episodes: Episodes | None
    """How episodes were cut short; None where they were not."""


@dataclass(frozen=True)
class Verification:
    """The rungs, in the order in which they were climbed, and the original's recording."""

    rungs: tuple[Rung, ...]
    original: Recording
    args: tuple[str, ...]
    """Arguments that both scripts got."""
    notes: tuple[str, ...] = field(default=(PERMUTATIONS,))
    stress: tuple[Stress, ...] = ()
    """For the rungs under stress and those under the other stress; none where there were no such rungs."""
    not_exercised: tuple[str, ...] = ()
    """Ways of the original's training code that no run of it took, one sentence each."""

    def verdict(self, required: Sequence[str] = ()) -> Rung | None:
        """The first rung that is different or failed, or was required and did not run here; None where all is well."""
        for rung in self.rungs:
            if rung.status in ("different", "failed") or (rung.status != "equal" and rung.name in required):
                return rung
        return None


def verify(task: Task, progress: Progress | None = None) -> Verification:
    """Run original and converted script and compare them, rung by rung; after one that is not equal, none is run.

    Raises:
        CannotVerify: the original never steps an optimizer, logs nothing, or is not reproducible.
        RunFailed: the original ended with an error, or ran out of time.
        OSError: the script or the interpreter cannot be read or started.
    """
    return _Climb(task, progress or NoProgress()).climb()


class _Climb:
    def __init__(self, task: Task, progress: Progress) -> None:
        self._task = task
        self._progress = progress
        self._length = find_length(task.original)
        usual = STEPS if self._length.stepwise else ITERATIONS
        self._usual = _Comparison(task, progress, self._length, task.original, task.iterations or usual)
        self._notes = [PERMUTATIONS]
        _check_usable(self._usual.original)

    def climb(self) -> Verification:
        rungs: list[Rung] = []
        for name, source in (*self._task.prefixes, (REFACTORED, self._task.converted)):
            rungs.append(self._blocked(rungs, name) or self._usual.flags_off(name, source))
        if WORKERS in find_flags(self._task.converted).by_rung:
            rungs.append(self._blocked(rungs, WORKERS) or self._usual.with_workers())
        upper = RUNGS[1 : RUNGS.index(self._task.up_to) + 1]
        for name in (name for name in upper if UNCOMPILED in name):
            rungs.append(self._blocked(rungs, name) or self._usual.with_flags(name))
        stressed = self._stressed() if self._task.stress and self._blocked(rungs, "") is None else []
        for comparison in stressed:
            if self._blocked(rungs, "") is None:
                rungs += self._under_stress(comparison, UNCOMPILED in upper)
        for name in (name for name in upper if UNCOMPILED not in name):
            rungs.append(self._blocked(rungs, name) or self._usual.with_flags(name))
        if PRECISION in find_flags(self._task.converted).by_rung:
            names = [*PRECISIONS, *(f"compile + {p}" for p in PRECISIONS if "compile" in upper)]
            for name in names:
                rungs.append(self._blocked(rungs, name) or self._usual.with_precision(name))
        return Verification(
            tuple(rungs),
            self._usual.original,
            self._usual.run.args,
            tuple(self._notes),
            tuple(Stress(comparison.run.args, comparison.episodes) for comparison in stressed),
            not_exercised(sites_of(c.original for c in (self._usual, *stressed))),
        )

    @staticmethod
    def _blocked(rungs: list[Rung], name: str) -> Rung | None:
        """The rung, not run, where one below it is not equal."""
        failed = next((r.name for r in rungs if r.status in ("different", "failed")), None)
        return None if failed is None else Rung(name, "not run", reason=f"{failed} comes first")

    def _stressed(self) -> list[_Comparison]:
        """The original under arguments that exercise more of it, and under the other stress; empty without any."""
        original = self._task.original
        source = original.source or text.read(original.script).content
        wanted = stress_arguments(source, self._length.options, sites_of([self._usual.original]))
        failures: list[str] = []

        def run(
            changes: tuple[tuple[str, ...], ...], suffix: str = UNDER_STRESS, episodes: Episodes | None = None
        ) -> _Comparison:
            args = original.args
            for change in changes:
                args = with_option(args, change)
            run = replace(original, args=args)
            try:
                iterations = STEPS if self._length.stepwise else STRESS_ITERATIONS + (episodes is not None)
                return _Comparison(self._task, self._progress, self._length, run, iterations, suffix, episodes)
            except RunFailed as failure:
                failures.append(str(failure).splitlines()[-1])
                raise

        kept, stressed = most_that_run(wanted, run) if wanted else ((), None)
        if left_out := [" ".join(change) for change in wanted if change not in kept]:
            names = ", ".join(left_out)
            self._notes.append(f"Under stress, the original fails with {names}, which was left out: {failures[-1]}")
        if stressed is None:
            return []
        other = every_other_switch(kept, self._length.options)
        if other in ((), kept):
            return [stressed]
        try:
            return [stressed, run(other, UNDER_OTHER_STRESS, _episodes(self._usual.original))]
        except RunFailed:  # the one says more than the other
            return [stressed]

    def _under_stress(self, stressed: _Comparison, uncompiled: bool) -> list[Rung]:
        """Both rungs that compile nothing; under the other stress one of them, the one with flags if there is one."""
        names = [REFACTORED, UNCOMPILED] if uncompiled else [REFACTORED]
        rungs: list[Rung] = []
        for name in names if stressed.suffix == UNDER_STRESS else names[-1:]:
            suffixed = name + stressed.suffix
            try:
                flags_off = name == REFACTORED
                rungs.append(
                    self._blocked(rungs, suffixed)
                    or (stressed.flags_off(name, self._task.converted) if flags_off else stressed.with_flags(name))
                )
            except CannotVerify as failure:  # as usual it does repeat itself, or is not known to differ
                return [*rungs, Rung(suffixed, "not run", reason=str(failure))]
        if stressed.suffix == UNDER_OTHER_STRESS and WORKERS in find_flags(self._task.converted).by_rung:
            rungs.append(self._blocked(rungs, WORKERS + stressed.suffix) or stressed.with_workers())
        return rungs


def _episodes(original: Recording) -> Episodes:
    """Episodes so short that one is truncated with a rollout's last step, rather soon; an iteration of barren ones.

    A barren iteration has what a usual one lacks: returns that do not vary, advantages that hardly do, and values above
    their targets as well as below.
    """
    steps = original.steps[0].moment.env_steps
    truncated = next((n for n in range(_FEW_STEPS, steps) if steps % n == 0), steps)
    return Episodes(truncated, STRESS_ITERATIONS * steps)


class _Comparison:
    """The original, run with some arguments, and the rungs on which converted scripts are compared with it."""

    def __init__(
        self,
        task: Task,
        progress: Progress,
        length: Length,
        run: Run,
        iterations: int,
        suffix: str = "",
        episodes: Episodes | None = None,
    ) -> None:
        """Run the original, whose rungs get names that end in `suffix`, with episodes cut short if asked for.

        Raises:
            RunFailed: it ended with an error, or ran out of time.
        """
        self._task = task
        self._progress = progress
        self._iterations = iterations
        self.suffix = suffix
        self.episodes = episodes
        self._before = run.source or text.read(run.script).content
        self.run = length.shortened(run, iterations)
        self._stepwise = length.stepwise
        self._stop_after = iterations if length.option is None else None
        self.original = self._record("original", self.run, watch=True)
        self._emulated_original: Recording | None = None

    def flags_off(self, name: str, source: str) -> Rung:
        """The rung of a script with its flags off.

        Raises:
            CannotVerify: the original does not repeat itself.
        """
        return self._named(self._recorded(name, replace(self.run, source=source)))

    def with_workers(self) -> Rung:
        """The rung of the converted script with its environments in worker processes.

        Raises:
            CannotVerify: the original does not repeat itself.
        """
        options = find_flags(self._task.converted).options([WORKERS]) or []
        run = replace(self.run, source=self._task.converted, args=(*self.run.args, *options, str(NUM_WORKERS)))
        rung = self._recorded(WORKERS, run)
        if rung.status == "equal" and rung.recording is not None and rung.recording.forks <= self.original.forks:
            reason = "no environment was stepped in a worker: give the script more environments, `-- --num-envs 4`"
            rung = Rung(WORKERS, "not run", reason=reason)
        return self._named(rung)

    def with_precision(self, name: str) -> Rung:
        """The rung of the converted script in other arithmetic.

        With that taken away its bits must be the original's. With it, the functions that torch.compile is given are
        compared with float32's; they are compiled only where the rung's name says so.

        Raises:
            CannotVerify: the original does not repeat itself.
        """
        precision, flags = name.rpartition(" ")[2], find_flags(self._task.converted)
        options = flags.options(["compile"])
        if options is None:
            return Rung(name, "not run", reason="the converted script has no flag for compile")
        if precision == "tf32" and not self.original.versions["cuda"]:
            return Rung(name, "not run", reason="there is no CUDA device here, and TF32 is its arithmetic")
        args = (*self.run.args, flags.by_rung[PRECISION], precision)
        run = replace(self.run, source=self._task.converted, args=args)
        if name == precision:
            taken_away = self._recorded(name, run, in_float32=True)
            if taken_away.status != "equal":
                return taken_away
        run = replace(run, args=(*args, *options))
        try:
            lockstep = self._lockstep(name, run, uncompiled=name == precision, in_float32=True)
        except RunFailed as failure:
            return _failed(name, failure)
        return precision_rung(name, lockstep, DTYPES[precision])

    def with_flags(self, name: str) -> Rung:
        """A rung of the converted script with its flags on.

        Raises:
            CannotVerify: the original does not repeat itself.
        """
        return self._named(self._with_flags(name))

    def _named(self, rung: Rung) -> Rung:
        return replace(rung, name=rung.name + self.suffix)

    def _with_flags(self, name: str) -> Rung:
        """A rung of the converted script with its flags on, on an emulated device where it needs one that is not here.

        What CUDA would refuse fails; what the emulation lacks does not.
        """
        flags = find_flags(self._task.converted)
        wanted = [part.replace(UNCOMPILED, "compile") for part in name.split(" + ")]
        if UNCOMPILED in name and "compile" not in flags.by_rung:
            wanted = wanted[1:] or wanted  # all flags that there are
        options = flags.options(wanted)
        if options is None:
            return Rung(name, "not run", reason=f"the converted script has no flag for {' + '.join(wanted)}")
        run = replace(self.run, source=self._task.converted, args=(*self.run.args, *options))
        emulated = "cudagraphs" in wanted and not self.original.versions["cuda"]
        if emulated and self.run.processes is not None:
            return Rung(name, "not run", reason="there is no CUDA device here, and an emulated one serves one process")
        try:
            rung = self._recorded(name, run, emulated) if UNCOMPILED in name else self._compiled(name, run, emulated)
        except RunFailed as failure:
            if not emulated:
                raise
            reason = f"there is no CUDA device here, and an emulated one does not run the original: {failure}"
            return Rung(name, "not run", reason=reason)
        return replace(rung, status="emulated") if emulated and rung.status == "equal" else rung

    def _record(self, name: str, run: Run, iterations: int | None = None, **options: Any) -> Recording:
        with self._progress.run(name + self.suffix, iterations or self._iterations) as on_iteration:
            return record_run(
                run,
                iterations=iterations or self._stop_after,
                on_iteration=on_iteration,
                episodes=self.episodes,
                stepwise=self._stepwise,
                **options,
            )

    def _lockstep(self, name: str, run: Run, **options: bool) -> Lockstep:
        with self._progress.run(name + self.suffix, self._iterations) as on_iteration:
            return run_in_lockstep(
                run, every=self._task.every, iterations=self._stop_after, on_iteration=on_iteration, **options
            )

    def _original_on(self, emulated: bool) -> Recording:
        """The original's recording on the device of a rung.

        Raises:
            RunFailed: it does not run on the emulated one.
        """
        if not emulated:
            return self.original
        if self._emulated_original is None:
            self._emulated_original = self._record("original, emulated", self.run, emulated=True)
        return self._emulated_original

    def _recorded(self, name: str, run: Run, emulated: bool = False, *, in_float32: bool = False) -> Rung:
        """A rung on which bits must be equal.

        Raises:
            RunFailed: the original does not run on the emulated device.
        """
        original = self._original_on(emulated)
        try:
            converted = self._record(name, run, uncompiled=UNCOMPILED in name, emulated=emulated, in_float32=in_float32)
        except RunFailed as failure:
            return _failed(name, failure)
        converted = without_options(
            converted, added_options(self._before, run.source or self._before), on=UNCOMPILED in name
        )
        differences = compare(original, converted)
        if differences:
            again = compare(original, self._record("original again", self.run, emulated=emulated))
            if again:
                raise CannotVerify(
                    f"the original does not repeat itself: {again[0]}\n"
                    "Seed its environments and generators, so that two runs of it can be compared."
                )
        return recorded_rung(name, original, converted, differences)

    def _compiled(self, name: str, run: Run, emulated: bool) -> Rung:
        """A rung on which compiled functions are compared with eager ones, and the first iteration's log beside them.

        Raises:
            RunFailed: the original does not run on the emulated device.
        """
        original = self._original_on(emulated)
        try:
            lockstep = self._lockstep(name, run, emulated=emulated)
        except RunFailed as failure:
            return _failed(name, failure)
        other = self._record("original by another clock", self.run, 1, emulated=emulated, clock_rate=OTHER_CLOCK)
        added = added_options(self._before, self._task.converted)
        logs = (replace(log, prints=lines_without_options(log.prints, added, on=True)) for log in lockstep.logs)
        runs = zip((original, *original.peers), (other, *other.peers), logs, strict=True)
        return lockstep_rung(name, lockstep, [compare_first_log(*of_rank) for of_rank in runs])


def _failed(name: str, failure: RunFailed) -> Rung:
    """The rung of a script that ended with an error."""
    if failure.not_emulated:
        last = str(failure).rstrip().rpartition("\n")[2]
        reason = f"there is no CUDA device here, and an emulated one does not run the script: {last}"
        return Rung(name, "not run", reason=reason)
    return Rung(name, "failed", reason=str(failure))


def _check_usable(original: Recording) -> None:
    if not original.steps:
        raise CannotVerify("the original never steps a torch optimizer, so there is no training to compare")
    if not original.actions:
        raise CannotVerify("the original never calls step(action) on an environment, so there is no rollout to compare")
    if not original.scalars and not original.prints:
        raise CannotVerify("the original logs no scalar and prints nothing in these iterations: try more --iterations")
