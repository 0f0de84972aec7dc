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
"""Options that most scripts have, with values that make runs small; with a seed, because some scripts draw one."""
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
"""The length of a run, in rollouts with their updates; off-policy, in environment steps; and its limit in seconds."""


@dataclass(frozen=True)
class Setting:
    """What a script needs to run here, besides what all scripts get."""

    args: Sequence[str] = ()
    """The script's arguments, followed by those that make runs small; an option here replaces one of those."""
    speed_args: Sequence[str] | None = None
    """The arguments for measuring its speed, with its own sizes; None means `args`."""
    ending: str = ""
    """Code to add below the script, original and converted, if it only defines what other modules call."""
    observations: str = ""
    """The observation space of the stand-in environment, in the notation of wild_standins/noise_world.py."""
    actions: str = ""
    """The action space of the stand-in environment, in the same notation."""
    infos: Sequence[str] = ()
    """Names of the numbers in the environment's infos."""
    gym: str = ""
    """`gym` or `gymnasium`: the package that both names refer to."""
    cpu: bool = False
    """Whether the CPU replaces devices named `cuda` in the script's text."""
    cpu_tensors: bool = False
    """Whether `.cpu()` replaces calls of `.cuda()`; only if all are on tensors, because compiled code calls these."""
    files: Sequence[str] = ()
    """Files that the script looks for in the working directory, from the stand-ins' folder or the script's own."""
    folders: Sequence[str] = ()
    """Folders that the script expects in the working directory, to save into."""
    iterations: int | None = None
    """The number of iterations for comparing compiled functions, if the usual number calls some of them too rarely."""
    packages: Sequence[str] = ()
    """Packages that must have other versions than the installed ones, in pip's notation."""


@dataclass(frozen=True)
class Told:
    """The results of a run, each `equal`, `differs` or `not run`."""

    ran: str
    """The result with flags off."""
    note: str = ""
    """What differs, or the last lines of a script that did not run."""
    uncompiled: str = ""
    """The result with flags on and nothing compiled; empty if the script has no flags, or differs with them off."""


def run(
    path: Path, root: Path, converted: str, setting: Setting, packages: Path, together: Sequence[Path] = ()
) -> Told:
    """Run the original, and the converted script with its flags off and on, and compare the results.

    Args:
        path: the original.
        root: the folder of its repository, from which it may import.
        converted: the text of the conversion.
        setting: what the script needs.
        packages: the folder for packages in other versions.
        together: the files that were converted with the script.
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
        `equal`, `differs` or `not run`, and the reason.
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
    """The text to run of a script, original or converted: with the setting's ending, and the CPU in place of CUDA."""
    if setting.ending:
        source = f"{source}\n\n{setting.ending}\n"
    if setting.cpu:
        source = re.sub(r"""(torch\.device\(|device=|\.to\()(["'])cuda\2""", r'\1"cpu"', source)
    return re.sub(r"(?<!\bself)\.cuda\(\)", ".cpu()", source) if setting.cpu_tensors else source


def options(text: str, given: Sequence[str] = ()) -> list[str]:
    """`given`, and the options of the script that make runs small; only `given` if it reads no command line."""
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
    """Whether a script has an option for when it starts to learn, as off-policy scripts do."""
    return re.search(r"\blearning[_-]starts\b", text) is not None


@contextmanager
def environment(path: Path, root: Path, text: str, setting: Setting, packages: Path) -> Iterator[None]:
    """Set the environment variables that the stand-ins, and imports of the repository's own modules, need."""
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
    """The folder into which pip has installed a package, without its dependencies."""
    folder = packages / package
    if not folder.exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), package]
        subprocess.run(command, check=True)
    return folder
