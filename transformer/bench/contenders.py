"""The contenders of a benchmark: the original, the converted script in each mode, and other scripts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from transformer.conversion.of_file import convert_script
from transformer.syntax import text
from transformer.verify.flags import PRECISION, PRECISIONS, WORKERS, find_flags
from transformer.verify.run import Run

ORIGINAL = "original"
FLAGS_OFF = "flags off"
RUNGS = (FLAGS_OFF, "compile", "cudagraphs", "compile + cudagraphs")
"""The modes of a converted script, in the order in which they run."""


class CannotBench(Exception):
    """There is nothing to measure. The message says why."""


@dataclass(frozen=True)
class Contender:
    """One script, in one mode, that the benchmark measures."""

    name: str
    run: Run
    needs_cuda: bool = False
    reason: str = ""
    """Why the contender cannot run; empty if it can."""
    other: bool = False
    """Whether the script is neither the original nor a conversion of it."""


def line_up(
    original: Run,
    converted: Path | None,
    against: Sequence[str],
    rungs: Sequence[str],
    *,
    tune: bool = False,
    fuse_envs: bool = False,
    env_workers: Sequence[int] = (),
    precision: bool = False,
) -> list[Contender]:
    """The contenders: the original, then the modes in order, then those in lower precision, then the other scripts.

    Args:
        original: how to run the original.
        converted: the converted script; None to convert the original.
        against: other scripts, each as `SCRIPT [ARGS...]`, quoted as in a shell; they get the original's arguments,
            followed by their own.
        rungs: the modes of RUNGS to measure.
        tune: also measure each mode of the original's conversion with --tune.
        fuse_envs: also measure each mode of the original's conversion with --fuse-envs, as `lean-convert run` does it.
        env_workers: also measure each mode with these numbers of worker processes for the environments; 0 means none.
        precision: convert the original with --precision. Modes are also measured in lower precision, after all those in
            float32, if the converted script has the option for it.

    Raises:
        CannotBench: --tune or --fuse-envs is given with a converted script, the original cannot be converted, or a
            script is not Python or does not exist.
        OSError: a script cannot be read.
        SelectionError: a file is given with the original that it does not import.
    """
    contenders = [Contender(ORIGINAL, original)]
    if rungs:
        asked = {"precision": True} if precision else {}
        source = _converted_source(original, converted, **asked)
        if precision and PRECISION not in find_flags(original.whole(source)).by_use:
            raise CannotBench("--precision: the script has no such flag; `lean-convert --precision -v` says why")
        contenders += _rungs(original, source, rungs)
        contenders += _in_other_arithmetic(original, source, rungs)
    for option, wanted, name in (("tune", tune, "tuned"), ("fuse_envs", fuse_envs, "fused")):
        if not rungs or not wanted:
            continue
        if converted is not None:
            flag = f"--{option.replace('_', '-')}"
            raise CannotBench(f"{flag} converts the original itself: leave the converted script out")
        with_option = _converted_source(original, None, **{option: True})
        why = "nothing in this script can be" if with_option == source else ""
        for rung in _rungs(original, with_option, rungs):
            contenders.append(replace(rung, name=f"{rung.name}, {name}", reason=why or rung.reason))
    numbers = [number for number in dict.fromkeys(env_workers) if number]
    if rungs and numbers:
        contenders += _with_workers(original, _converted_source(original, converted, workers=True), rungs, numbers)
    return contenders + [_other(original, described) for described in against]


def _in_other_arithmetic(original: Run, source: str, rungs: Sequence[str]) -> Iterator[Contender]:
    """The modes in each precision except float32, if the script has an option for it; TF32 only on CUDA."""
    option = find_flags(original.whole(source)).by_use.get(PRECISION)
    for precision in PRECISIONS if option is not None else ():
        run = replace(original, args=(*original.args, str(option), precision))
        for rung in _rungs(run, source, rungs):
            name = precision if rung.name == FLAGS_OFF else f"{rung.name} + {precision}"
            yield replace(rung, name=name, needs_cuda=rung.needs_cuda or precision == "tf32")


def _with_workers(original: Run, source: str, rungs: Sequence[str], numbers: Sequence[int]) -> Iterator[Contender]:
    """The modes with each number of worker processes.

    Raises:
        CannotBench: the script has no option for them.
    """
    option = find_flags(original.whole(source)).by_use.get(WORKERS)
    if option is None:
        raise CannotBench("--env-workers: the converted script has no such flag; `lean-convert --workers -v` says why")
    for number in numbers:
        run = replace(original, args=(*original.args, option, str(number)))
        name = f"{number} env worker{'s' * (number > 1)}"
        yield from (replace(rung, name=f"{rung.name}, {name}") for rung in _rungs(run, source, rungs))


def _rungs(original: Run, source: str, rungs: Sequence[str]) -> Iterator[Contender]:
    flags = find_flags(original.whole(source))
    for rung in (r for r in RUNGS if r in rungs):
        wanted = () if rung == FLAGS_OFF else rung.split(" + ")
        options = flags.options(wanted)
        reason = "" if options is not None else f"the converted script has no flag for {rung}"
        run = replace(original, source=source, args=(*original.args, *(options or ())))
        yield Contender(rung, run, "cudagraphs" in wanted, reason)


def _converted_source(original: Run, converted: Path | None, **asked: bool) -> str:
    try:
        if converted is not None:
            return text.read(converted).content
        _, conversion = convert_script(str(original.script), original.together, **asked)
    except text.NotText as error:
        raise CannotBench(str(error)) from None
    if not conversion.converted:
        raise CannotBench(conversion.refusal(str(original.script)))
    return conversion.source


def _other(original: Run, described: str) -> Contender:
    try:
        words = shlex.split(described)
    except ValueError as error:
        raise CannotBench(f"--against {described!r}: {error}") from None
    if not words:
        raise CannotBench("--against is empty")
    path, own = Path(words[0]), words[1:]
    if not path.is_file():
        raise CannotBench(f"--against: {words[0]!r} does not exist")
    run = replace(original, script=path, args=(*original.args, *own), together=())
    return Contender(shlex.join([path.name, *own]), run, other=True)
