"""A learning method that is called several times in a row: the calls become one loop over their arguments."""

import re
from pathlib import Path

import pytest
from forking import assert_same_output
from test_several_critics import MADE, SCRIPT

from transformer import convert

LEARNS = "        learner.learn()\n"
DEFINED = "    def learn(self):\n"
SAMPLED = "random.sample(self.past, 8)"
TWO = (
    (DEFINED, "    def learn(self, count, *, late=False):\n"),
    (SAMPLED, "random.sample(self.past[9 * late:], count)"),
)


def edited(calls: str, *edits: tuple[str, str]) -> str:
    code = SCRIPT.replace(MADE, "walk = Walk()\nlearner = Learner()")
    for old, new in ((LEARNS, calls), *edits):
        assert code.count(old) == 1
        code = code.replace(old, new)
    return code


@pytest.mark.parametrize(
    ("calls", "loop", "edits"),
    [
        (2 * LEARNS, r"for _ in range\(2\):", ()),
        (
            "        learner.learn(8)\n        # the newer ones\n        learner.learn(4, late=True)  # few\n",
            r"for \w+, late\w* in \(\(8, False\), \(4, True\)\):",
            TWO,
        ),
        (
            "        if step % 2:\n" + "".join(f"            learner.learn(count={n})\n" for n in (8, 6, 4)),
            r"for \w+ in \(8, 6, 4\):",
            TWO,
        ),
        (
            "        learner.more(8)\n        learner.more(7)\n",
            r"for \w+ in \(8, 7\):",
            (
                (DEFINED, "    def more(self, count):\n        self.learn(count)\n\n    def learn(self, count):\n"),
                (SAMPLED, "random.sample(self.past, count)"),
            ),
        ),
    ],
    ids=["nothing differs", "two arguments, one left out", "three calls under a condition", "through another method"],
)
def test_the_calls_are_one(calls: str, loop: str, edits: tuple[tuple[str, str], ...], tmp_path: Path) -> None:
    script = edited(calls, *edits)
    converted = convert(script, select=("dissolve", "inline", "update"))
    assert converted.converted and converted.source.count("def update(") == 1
    assert re.search(loop, converted.source)
    assert all(converted.source.count(comment) == calls.count(comment) for comment in ("# the newer ones", "# few"))
    assert_same_output(tmp_path, script, converted.source)


@pytest.mark.parametrize(
    ("calls", "edits"),
    [
        ("        learner.learn(8)\n        print(step)\n        learner.learn(4)\n", TWO),
        ("        learner.learn(step % 4 + 1)\n        learner.learn(step % 3 + 1)\n", TWO),
        ("        learner.learn(8); learner.learn(4)\n", TWO),
        (
            "        learner.learn(8)\n        learner.learn(4)\n",
            (*TWO, ("print(learner", "learner.learn(3)\nprint(learner")),
        ),
        ("        first = learner.learn(8)\n        second = learner.learn(4)\n", TWO),
        (2 * LEARNS, (("walk.step(push)\n", "walk.step(push)\n    learner.learn = print\n"),)),
        (
            "        learner.learn(8)\n        learner.learn(4, late=True)\n",
            ((DEFINED, "    def learn(self, count, late=np.bool_(False)):\n"), TWO[1]),
        ),
    ],
    ids=["something between", "other expressions", "one line", "called below", "two results", "replaced", "a default"],
)
def test_calls_that_are_no_row(calls: str, edits: tuple[tuple[str, str], ...]) -> None:
    conversion = convert(edited(calls, *edits), select=("dissolve", "inline", "update"))
    assert not re.search(r"range\(2\)|for [\w, ]+ in \(\(?\d", conversion.source)
