"""Tracebacks and warnings of a run name the original's lines, and converted lines where these differ."""

import re
import sys
from pathlib import Path

import pytest
from running import Runner

from transformer.run.harness.program import Facts

ORIGINAL = """\
import logging, sys, threading, traceback, warnings

class Agent:
    def act(self, x, table):
        return x + table["key"]  # the expression is marked from 3.11 on

how, table = sys.argv[1], {"key": None}

if True:
    if how == "raise":
        value = 1 + Agent().act(1, table)
    if how == "deep":
        def down(n):
            down(n + 1)
        down(0)
    if how == "chain":
        try:
            table["no"]
        except KeyError as error:
            raise RuntimeError("no key") from error
    if how == "log":
        try:
            table["no"]
        except KeyError:
            logging.exception("logged")
            traceback.print_exc()
            print(traceback.format_exc())
    if how == "thread":
        thread = threading.Thread(target=Agent().act, args=(1, table), name="a thread")
        thread.start()
        thread.join()
    if how == "warn":
        warnings.warn("careful")
        warnings.warn("careful", DeprecationWarning)
        logging.captureWarnings(True)
        warnings.warn("careful again")
    if how == "group":
        errors = []
        for key in ("a", "b"):
            try:
                table[key]
            except KeyError as error:
                errors.append(error)
        raise ExceptionGroup("both", errors)
"""
PUSHED = 3
HOWS = ["raise", "deep", "chain", "log", "thread", "warn"]


def pushed_down(runner: Runner) -> Path:
    """A script whose conversion has three more lines at the top and less indentation in a block."""
    script = runner.write(ORIGINAL)
    head, block = ORIGINAL.split("if True:\n")
    converted = "#\n" * PUSHED + head + "pass\n" + re.sub("^    ", "", block, flags=re.MULTILINE)
    lines = ORIGINAL.count("\n")
    origins = [None] * PUSHED + list(range(1, lines + 2))
    runner.keep(script, converted, Facts(origins, ["flags"] * PUSHED + [None] * (lines + 1)))
    return script


@pytest.mark.parametrize("how", [*HOWS, *(["group"] if sys.version_info >= (3, 11) else [])])
def test_unchanged_lines_read_as_the_originals(runner: Runner, how: str) -> None:
    """Down to the caret, although each line is at another place."""
    script = pushed_down(runner)
    runner.variables["PYTHONWARNINGS"] = "always"
    before, after = runner.python(script, how), runner.run("-q", script, script_args=[how])
    assert f'"{script}", line ' in before.stderr or f"{script}:" in before.stderr
    assert before.returncode == after.returncode == (how not in ("warn", "log", "thread"))
    # The command's own frames are below the script's on the stack, which leaves fewer for the script
    assert re.sub("repeated 9.. more", "repeated", after.stderr) == re.sub(
        "repeated 9.. more", "repeated", before.stderr
    )
    assert after.stdout == before.stdout


CONVERTED = """\
import sys, warnings
def rollout(envs):
    for env in envs:
        action = env(
            0,
        )
def written():
    raise ValueError("by a transform")
if sys.argv[1] == "changed":
    rollout([int, len])
elif sys.argv[1] == "warn":
    warnings.warn("careful" + "!")
else:
    written()
"""
CHANGED = """\
import sys, warnings
action = len(0)
warnings.warn("careful")
"""
ORIGINS = [1, None, None, 2, 2, 2, None, None, None, None, None, 3, None, None, None]


@pytest.fixture
def changed(runner: Runner) -> Path:
    script = runner.write(CHANGED)
    transforms = [None if origin else "some-transform" for origin in ORIGINS]
    runner.keep(script, CONVERTED, Facts(ORIGINS, transforms))  # type: ignore[arg-type]
    return script


def without_carets(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip(" ^~")]


def test_both_versions_of_a_changed_line_are_shown(runner: Runner, changed: Path) -> None:
    done = runner.run("-q", changed, script_args=["changed"])
    entry = next(runner.cache.glob("*/ppo.py"))
    shown = without_carets(done.stderr)
    assert shown[:7] == [
        "Traceback (most recent call last):",
        f'  File "{entry}", line 10, in <module>, written by some-transform',
        "    rollout([int, len])",
        f'  File "{changed}", line 2, in rollout',
        "    action = len(0)",
        f'  File "{entry}", line 4, in rollout, as converted',
        "    action = env(",
    ]
    assert shown[-1].startswith("TypeError: ")


def test_emitted_lines_name_their_transform(runner: Runner, changed: Path) -> None:
    done = runner.run("-q", changed, script_args=["written"])
    entry = next(runner.cache.glob("*/ppo.py"))
    assert f'  File "{entry}", line 8, in written, written by some-transform\n    raise ValueError' in done.stderr
    assert str(changed) not in done.stderr


def test_a_warning_of_a_changed_line_shows_both(runner: Runner, changed: Path) -> None:
    done = runner.run("-q", changed, script_args=["warn"])
    entry = next(runner.cache.glob("*/ppo.py"))
    assert done.stderr.splitlines() == [
        f"{changed}:3: UserWarning: careful!",
        '  warnings.warn("careful")',
        f'  converted, {entry}:12: warnings.warn("careful" + "!")',
    ]


def test_a_debugger_finds_the_converted_text(runner: Runner) -> None:
    script = runner.write(CHANGED)
    converted = CONVERTED.replace("    rollout([", "    breakpoint()\n    rollout([")
    runner.keep(script, converted, Facts([None] * 16, ["some-transform"] * 16))
    shown, _ = runner.popen("-q", script, "--", "changed").communicate()
    assert f"> {next(runner.cache.glob('*/ppo.py'))}(1" in shown
    assert "-> rollout([int, len])" in shown or "-> breakpoint()" in shown  # since Python 3.13
