"""Taking what is permanent out of the garbage collector's view."""

import subprocess
import sys
from pathlib import Path

import pytest
from cases import turn
from scripts import PARTS, script

from transformer import Applied, Skipped, convert

ADDED = """\
        if not collected:
            # What exists by now, torch and compiled code, stays: the garbage collector need not look through it again
            gc.collect()
            gc.freeze()
            collected = True
"""


def test_the_end_of_the_training_loop() -> None:
    step = turn("collect-once", script({}))
    assert isinstance(step.outcome, Applied), step.outcome
    assert ADDED in step.after
    assert "    collected = False\n    for iteration in range" in step.after
    assert "import gc\n" in step.after


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"stdlib": "import gc"}, "the script uses the garbage collector itself"),
        ({"functions": "def gc():\n    pass\n\n\n"}, "the name gc is taken"),
        ({"report": PARTS["report"] + "\nif iteration < 9:\n    continue\nbreak"}, "the training loop ends with line"),
    ],
)
def test_what_is_left_alone(parts: dict[str, str], reason: str) -> None:
    step = turn("collect-once", script(parts))
    assert isinstance(step.outcome, Skipped)
    assert step.outcome.reason.startswith(reason)


def test_it_is_done_once_and_later_garbage_is_collected(tmp_path: Path) -> None:
    watched = """\
import gc as watched
froze, freeze = [], watched.freeze
watched.freeze = lambda: (froze.append(1), freeze())
class Cycle:
    def __init__(self):
        self.me = self
    def __del__(self):
        alive.discard(id(self))
alive = set()
"""
    making = "cycle = Cycle()\nalive.add(id(cycle))\nif iteration == 3:\n    del cycle\n    watched.collect()\n"
    source = convert(script({"report": making + PARTS["report"]}), select={"storage", "collect-once"}).source
    path = tmp_path / "watched.py"
    checks = "\nprint('once' if len(froze) == 1 else froze, 'collected' if len(alive) <= 1 else alive)\n"
    path.write_text(watched + source + checks)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "once collected"
