"""Runs one of other people's scripts against its conversion: rung 1 of `lean-convert verify`, with little data."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from transformer.checking import RunFailed, compare, record
from transformer.text import read

HERE = Path(__file__).parent
STANDINS = (HERE / "wild_standins", HERE.parent / "tests" / "standins")
LITTLE = {"num-envs": 4, "num-steps": 16, "num-minibatches": 2, "update-epochs": 2, "total-timesteps": 256}
"""Options that most of the scripts know, and what they get."""
ITERATIONS, LIMIT = 2, 240.0


def run(path: Path, root: Path, converted: str) -> tuple[str, str]:
    """Run original and converted, and compare what they did.

    Args:
        path: the original.
        root: the folder of its repository, where it may import from.
        converted: the text of the conversion.

    Returns:
        `equal`, `differs` or `not run`, and what differs, or why it was not run.
    """
    text = read(path).content
    args = options(text)
    with environment(path, root, text):
        try:
            original = record(path, args, iterations=ITERATIONS, timeout=LIMIT)
        except (RunFailed, OSError) as failed:
            return "not run", f"with stand-ins the original stops: {_last(failed)}"
        if not original.steps:
            return "not run", "its optimizer steps were not seen"
        try:
            other = record(path, args, source=converted, iterations=ITERATIONS, timeout=LIMIT)
        except (RunFailed, OSError) as failed:
            return "differs", f"the converted script stops: {_last(failed)}"
    differences = compare(original, other)
    return ("differs", str(differences[0])) if differences else ("equal", "")


def _last(failed: Exception) -> str:
    return str(failed).strip().splitlines()[-1][:160]


def options(text: str) -> list[str]:
    """Arguments that make a run small, of those that the script has; none where it reads no command line."""
    if "tyro.cli" not in text and "parse_args" not in text:
        return []
    args: list[str] = []
    for option, value in LITTLE.items():
        spellings = (option, option.replace("-", "_"))
        if "tyro.cli" in text:
            known = [s for s in spellings[:1] if re.search(rf"^\s+{spellings[1]}\s*:", text, re.MULTILINE)]
        else:
            known = [s for s in spellings if f'"--{s}"' in text or f"'--{s}'" in text]
        if known:
            args += [f"--{known[0]}", str(value)]
    return args


@contextmanager
def environment(path: Path, root: Path, text: str) -> Iterator[None]:
    """The variables that the stand-ins and the import of the repository's own modules need."""
    folders = [*map(str, STANDINS), str(path.parent), str(root)]
    given = {
        "PYTHONPATH": os.pathsep.join([*folders, os.environ.get("PYTHONPATH", "")]),
        "WILD_MISSING": " ".join(sorted(_missing(text))),
        "WILD_ACTIONS": "continuous" if "Normal(" in text else "discrete",
        "WILD_OBSERVATIONS": "image" if "Conv2d" in text else "vector",
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


def _missing(text: str) -> set[str]:
    """Modules that a script imports and that are not installed: made up, where no folder has them."""
    names = {"wandb"}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return {name for name in names if name not in sys.modules and find_spec(name) is None}
