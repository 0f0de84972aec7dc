"""Runs somebody's script against its conversion, as `lean-convert verify` does, with little data."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from transformer.syntax.text import read
from transformer.verify import RunFailed, compare
from transformer.verify.arguments import added_options, without_options
from transformer.verify.flags import find_flags
from transformer.verify.names import COMPILED
from transformer.verify.record import record_run
from transformer.verify.recording import Recording
from transformer.verify.run import Run
from transformer.verify.verify import CannotVerify, Task, verify

HERE = Path(__file__).parent
STANDINS = (HERE / "wild_standins", HERE.parent / "tests" / "support" / "standins")
LITTLE = {"seed": 1, "num-envs": 4, "num-steps": 16, "num-minibatches": 2, "update-epochs": 2, "total-timesteps": 4096}
"""Options of most of the scripts, with values; including a seed, because some draw one."""
REPLAYED = {
    "num-envs": 1,
    "learning-starts": 60,
    "total-timesteps": 300,
    "buffer-size": 200,
    "batch-size": 16,
    "target-network-frequency": 20,
}
"""The same for off-policy scripts: the buffer is filled more than once."""
STOPS = "the converted script stops"
ITERATIONS, STEPS, LIMIT = 2, 240, 600.0
"""Rollouts with their updates; of scripts that learn from stored steps, steps of the environment; seconds."""


@dataclass(frozen=True)
class Setting:
    """What a script needs to run here, in addition to what all get."""

    args: Sequence[str] = ()
    """Its arguments, before those that make it small; an option here replaces one of those."""
    speed_args: Sequence[str] | None = None
    """Its arguments where its speed is measured, with its own sizes; None if these are `args`."""
    ending: str = ""
    """What is put below it, original and converted, where it only defines what other modules of its own call."""
    observations: str = ""
    """The space of the environment that replaces its own, in the notation of wild_standins/noise_world.py."""
    actions: str = ""
    """Likewise."""
    infos: Sequence[str] = ()
    """Names of the numbers in its infos."""
    gym: str = ""
    """`gym` or `gymnasium`: the package that both names refer to."""
    cpu: bool = False
    """Whether devices called `cuda` in its text are replaced by the CPU."""
    cpu_tensors: bool = False
    """Whether its calls of `.cuda()` are, too: all are of tensors, whose own method compiled code calls."""
    files: Sequence[str] = ()
    """Paths that it looks for in the working directory: in the folder that stands in for its modules, or its own."""
    folders: Sequence[str] = ()
    """Folders that it expects in the working directory, to save into."""
    iterations: int | None = None
    """How many iterations compiled functions are compared in, where in the usual number some are called too rarely."""
    packages: Sequence[str] = ()
    """Packages in versions other than the installed ones, in pip's notation."""


@dataclass(frozen=True)
class Told:
    """The result of a run: `equal`, `differs` or `not run`, with flags off and with flags on and nothing compiled."""

    ran: str
    note: str = ""
    """What differs, or the last lines of the one that did not run."""
    uncompiled: str = ""
    """Empty where the script has no flags, or was not equal with them off."""


def run(
    path: Path, root: Path, converted: str, setting: Setting, packages: Path, together: Sequence[Path] = ()
) -> Told:
    """Run the original and the converted script, with its flags off and on, and compare what they did.

    Args:
        path: the original.
        root: the folder of its repository, where it may import from.
        converted: the text of the conversion.
        setting: what it needs.
        packages: where packages of other versions are kept.
        together: the files that were converted with it.
    """
    text = read(path).content
    stepwise = replays(text)

    def recorded(source: str, flags: Sequence[str] = ()) -> Recording:
        ran = Run(
            path,
            (*options(text, setting.args), *flags),
            as_run(source, setting),
            timeout=LIMIT,
            together=tuple(together),
        )
        iterations = STEPS if stepwise else ITERATIONS
        return record_run(ran, iterations=iterations, stepwise=stepwise, uncompiled=bool(flags))

    def differs(flags: Sequence[str] = ()) -> str:
        try:
            other = recorded(converted, flags)
        except (RunFailed, OSError) as failed:
            return f"{STOPS}: {failed}"
        added = added_options(text, converted, path)
        differences = compare(original, without_options(other, added, on=bool(flags)))
        return str(differences[0]) if differences else ""

    with environment(path, root, text, setting, packages):
        try:
            original = recorded(text)
        except (RunFailed, OSError) as failed:
            return Told("not run", str(failed))
        if not original.steps:
            return Told("not run", "its optimizer steps were not seen")
        if different := differs():
            if not different.startswith(STOPS) and (own := compare(original, recorded(text))):
                return Told("not run", f"two runs of it differ from one another: {own[0]}")
            return Told("differs", different)
        flags = find_flags(converted).options(["compile"])
        if not flags:
            return Told("equal")
        different = differs(flags)
    return Told("equal", different, "differs" if different else "equal")


def run_compiled(
    path: Path, root: Path, converted: str, setting: Setting, packages: Path, together: Sequence[Path] = ()
) -> tuple[str, str]:
    """Verify, as `lean-convert verify` does, up to the check that compares compiled functions with eager ones.

    Returns:
        `equal`, `differs` or `not run`, and why.
    """
    text = read(path).content
    if not find_flags(converted).options(["compile"]):
        return "not run", "nothing is compiled: it has no --compile"
    with environment(path, root, text, setting, packages):
        args = tuple(options(text, setting.args))
        original = Run(path, args, as_run(text, setting), timeout=2 * LIMIT, together=tuple(together))
        try:
            task = Task(original, as_run(converted, setting), setting.iterations, up_to=COMPILED)
            checks = verify(task).checks
        except (CannotVerify, RunFailed, OSError) as failed:
            return "not run", str(failed)
    for check in (r for r in checks if r.status in ("different", "failed") or r.name == COMPILED):
        if check.status != "equal":
            why = (*check.findings, check.reason)[0]
            if setting.cpu and "not compiled with CUDA" in why:
                return "not run", "torch.compile cannot trace what runs it on the CPU here"
            return "not run" if check.status == "not run" else "differs", f"{check.name}: {why}"
    return "equal", ""


def as_run(source: str, setting: Setting) -> str:
    """A script, original or converted, with its setting's ending, and the CPU for the devices that it calls `cuda`."""
    if setting.ending:
        source = f"{source}\n\n{setting.ending}\n"
    if setting.cpu:
        source = re.sub(r"""(torch\.device\(|device=|\.to\()(["'])cuda\2""", r'\1"cpu"', source)
    return re.sub(r"(?<!\bself)\.cuda\(\)", ".cpu()", source) if setting.cpu_tensors else source


def options(text: str, given: Sequence[str] = ()) -> list[str]:
    """`given`, and what makes a run small, as far as the script knows it; none where it reads no command line."""
    if "tyro.cli" not in text and "parse_args" not in text:
        return list(given)
    args: list[str] = []
    for option, value in (LITTLE | REPLAYED if replays(text) else LITTLE).items():
        spellings = (option, option.replace("-", "_"))
        if any(f"--{s}" in given for s in spellings):
            continue
        if "tyro.cli" in text:
            known = [s for s in spellings[:1] if re.search(rf"^\s+{spellings[1]}\s*:", text, re.MULTILINE)]
        else:
            known = [s for s in spellings if f'"--{s}"' in text or f"'--{s}'" in text]
        if known:
            args += [f"--{known[0]}", str(value)]
    if re.search(r"^\s+capture_video\s*:\s*bool\s*=\s*True", text, re.MULTILINE):
        args.append("--no-capture-video")
    return [*given, *args]


def replays(text: str) -> bool:
    """Whether a script says from when on it learns from stored steps."""
    return re.search(r"\blearning[_-]starts\b", text) is not None


@contextmanager
def environment(path: Path, root: Path, text: str, setting: Setting, packages: Path) -> Iterator[None]:
    """The variables that the stand-ins and the import of the repository's own modules need."""
    own = HERE / "wild_standins" / "+".join(root.parts[-2:])
    others = [str(installed(package, packages)) for package in setting.packages]
    folders = [*others, *map(str, STANDINS), str(path.parent), str(root)]
    given = {
        "PYTHONPATH": os.pathsep.join([*folders, os.environ.get("PYTHONPATH", "")]),
        "WILD_OBSERVATIONS": setting.observations or ("Image(84, 84, 3)" if "Conv2d" in text else "Box(6)"),
        "WILD_ACTIONS": setting.actions
        or ("Box(2)" if re.search(r"Normal\(|action_space\.high", text) else "Discrete(4)"),
        "WILD_FOLDER": str(own) if own.exists() else "",
        "WILD_INFOS": " ".join(setting.infos),
        "WILD_GYM": setting.gym,
        "WILD_FILES": os.pathsep.join(
            str(((own if (own / name).exists() else root) / name).resolve()) for name in setting.files
        ),
        "WILD_FOLDERS": os.pathsep.join(setting.folders),
        "WILD_CPU": "yes" if setting.cpu else "",
        "OMP_NUM_THREADS": "1",
    }
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


def installed(package: str, packages: Path) -> Path:
    """The folder of a package that pip has put there by itself, without what it needs."""
    folder = packages / package
    if not folder.exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), package]
        subprocess.run(command, check=True)
    return folder
