"""An option chooses the class of the agent; the file defines one of the classes."""

from pathlib import Path

import pytest
from forking import python_forked
from test_several_critics import MADE, SCRIPT

from transformer import convert
from transformer.conversion.result import Applied

CHOICE = """parser = argparse.ArgumentParser()
parser.add_argument("--learner", default="own")
args = parser.parse_args()
walk = Walk()
if args.learner == "own":
    learner = Learner()
elif args.learner == "other":
    learner = others.Learner()
"""
CHOOSING = SCRIPT.replace("import random\n", "import argparse\nimport random\n\nimport others\n", 1).replace(
    MADE, CHOICE
)


def test_the_default_is_converted_and_the_other_stops(tmp_path: Path) -> None:
    conversion = convert(CHOOSING, select=("inline", "update"))
    (outcome,) = (s.outcome for s in conversion.steps if s.transform.name == "inline")
    assert isinstance(outcome, Applied)
    assert outcome.notes == ("the new file is for Learner alone: with others.Learner (line 63) it ends with a message",)
    assert "def update(" in conversion.source
    told = []
    for name, text in (("original", CHOOSING), ("converted", conversion.source)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "others.py").write_text("")
        (tmp_path / name / "script.py").write_text(text)
        told.append(python_forked(tmp_path / name / "script.py").stdout)
    assert told[0] and told[0] == told[1]
    stopped = python_forked(tmp_path / "converted" / "script.py", "--learner", "other")
    assert stopped.returncode == 1 and "run the original" in stopped.stderr


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('default="own"', 'default="other"'),
        ("others.Learner()", "make()"),
        ("    learner = others.Learner()\n", "    learner = others.Learner()\nlearner = others.wrapped(learner)\n"),
        ("elif args", "if args"),
        ('if args.learner == "own"', "if len(args.learner) == 3"),
    ],
    ids=["another default", "a function", "wrapped", "both may be made", "another test"],
)
def test_a_class_that_the_default_does_not_decide(old: str, new: str) -> None:
    assert CHOOSING.count(old) == 1
    conversion = convert(CHOOSING.replace(old, new), select=("inline", "update"))
    assert not conversion.converted and "which method that is" in conversion.errors[0].message
