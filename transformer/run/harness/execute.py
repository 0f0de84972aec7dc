"""Execute a text as a script, in this process and in those that `multiprocessing` spawns."""

from __future__ import annotations

import builtins
import json
import linecache
import os
import sys
import types
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from .pace import Pace, compile_with
from .program import SUMS, Damaged, Program, checked, facts_file
from .traces import Traces, install

VARIABLE = "LEAN_CONVERT_RUN"
"""The environment variable that tells spawned processes the script and the text to import."""
SPAWNED = Path(__file__).with_name("spawned.py")


def become(script: str, args: Sequence[str]) -> None:
    """Set everything that `python script args...` sets before it reads the script."""
    sys.argv = [script, *args]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.path.dirname(os.path.realpath(script))  # noqa: PTH120
    file = absolute(script)
    module = types.ModuleType("__main__")
    module.__dict__.update(
        __file__=file,
        __cached__=None,
        __loader__=SourceFileLoader("__main__", file),
        __builtins__=builtins,
        __annotations__={},
    )
    sys.modules["__main__"] = module


def absolute(script: str) -> str:
    """The script's file as Python names it in `__file__`: neither links nor parent folders are resolved."""
    return os.path.join(os.getcwd(), script)  # noqa: PTH109, PTH118


def execute(program: Program, pace: Pace | None) -> None:
    """Execute a program in place of the script that this process became.

    Raises:
        BaseException: whatever the script raises, SystemExit included.
    """
    module = sys.modules["__main__"]
    file = str(module.__file__)
    if str(program.text) != file:
        _stand_in(program, file)
        os.environ[VARIABLE] = json.dumps([file, str(program.text)])
    exec(_code_of(program, pace), module.__dict__)


def become_spawned() -> tuple[Any, str]:
    """Set up a spawned process; returns the code to execute as its main module, and the script's file."""
    file, text = json.loads(os.environ[VARIABLE])
    sys.argv[0] = file  # runpy has put the file that it runs there
    path = Path(text)
    try:
        program = checked(path, *(f.read_bytes() for f in (path, facts_file(path), path.with_name(SUMS))))
    except (Damaged, OSError) as error:
        sys.exit(f"lean-convert: the conversion that is running was damaged: {error}")
    _stand_in(program, file)
    return _code_of(program, None), file


def _code_of(program: Program, pace: Pace | None) -> Any:
    if pace is not None and program.facts.loop is not None:
        return compile_with(pace, program.source, str(program.text), program.facts.loop, program.facts.counter)
    return compile(program.source, str(program.text), "exec", dont_inherit=True)


def _stand_in(program: Program, file: str) -> None:
    """Make linecache and the like return this text for the file."""
    try:
        original = Path(file).read_bytes()
    except OSError:  # the original was removed meanwhile; the text to execute is in memory
        original = b""
    install(Traces(program, file, original))
    # inspect searches for a class's text in its module's `__file__`, with the line numbers of the executed code
    lines = program.source.decode(errors="replace").splitlines(keepends=True)
    linecache.cache[file] = len(program.source), None, lines, file
    _patch_spawn(os.path.normpath(file))


def _patch_spawn(file: str) -> None:
    """Make spawned processes import the text that is executed here.

    Otherwise they would import the original, by `__file__`: classes would lack the added flags, and a parser at the top
    of the module would reject `--compile`.
    """
    from multiprocessing import spawn

    prepare = spawn.get_preparation_data

    def prepared(name: str) -> dict[str, object]:
        data = prepare(name)
        if data.get("init_main_from_path") == file:
            data["init_main_from_path"] = str(SPAWNED)
        return data

    spawn.get_preparation_data = prepared
