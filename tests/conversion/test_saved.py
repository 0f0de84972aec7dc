"""Whole objects that are saved: only the files whose classes they hold stay files of their own."""

from __future__ import annotations

import pickle
import pickletools
from pathlib import Path

import pytest
from joined import join, printed, write, written

TRAIN = """\
from agent import Learner


def train(learner):
    learner.learn()
    learner.save("saved")


learner = Learner()
train(learner)
"""
LEARNER = """\
import pickle
from net import Net


class Learner:
    def __init__(self):
        self.net = Net(3)
        self.steps = []

    def learn(self):
        self.steps.append(self.net.size)

    def save(self, path):
        with open(path, "wb") as file:
            pickle.dump(self.net, file)
"""
NET = """\
class Net:
    def __init__(self, size):
        self.size = size
        self.held = []
"""
HOLDING = {
    "an attribute": ("        self.steps = []\n", "        self.steps = []\n        self.net.owner = self\n"),
    "a list": ("        self.steps = []\n", "        self.steps = []\n        self.net.held.append(self)\n"),
    "its method": ("self.net = Net(3)", "self.net = Net(self.learn)"),
    "its class": ("self.net = Net(3)", "self.net = Net(type(self))"),
    "by text": (
        "        self.steps = []\n",
        "        self.steps = []\n        setattr(self.net, 'ow' + 'ner', self)\n",
    ),
    "both are saved": ("pickle.dump(self.net, file)", "pickle.dump([self.net, self], file)"),
    "what may be either": ("pickle.dump(self.net, file)", "pickle.dump(self.net if path else self, file)"),
}
APART = {
    "nothing else": ("", ""),
    "its number": ("self.net = Net(3)", "self.net = Net(len(self.__class__.__name__))"),
    "its list": ("        self.steps = []\n", "        self.steps = []\n        self.net.steps = self.steps\n"),
}


def saved_names(folder: Path, script: str) -> set[str]:
    """The texts in what a script saves: the modules and names of classes among them."""
    printed(folder, script)
    return {str(given) for _, given, _ in pickletools.genops((folder / "saved").read_bytes()) if isinstance(given, str)}


@pytest.mark.parametrize("edit", [*HOLDING.values(), *APART.values()], ids=[*HOLDING, *APART])
def test_the_files_whose_classes_are_saved_stay(edit: tuple[str, str], tmp_path: Path) -> None:
    assert edit[0] in LEARNER
    files = {"train.py": TRAIN, "agent.py": LEARNER.replace(*edit) if edit[0] else LEARNER, "net.py": NET}
    write(tmp_path, files)
    one = join(tmp_path, files, "agent.py", "net.py")
    text = written(one, one.text) if one.staying is not None else one.text
    assert saved_names(tmp_path, text) == saved_names(tmp_path, TRAIN)
    stay = {path.name for path in one.staying.files} if one.staying is not None else set()
    assert "net.py" in stay
    assert ("agent.py" in stay) == (edit in HOLDING.values())


@pytest.mark.parametrize(
    "method",
    [
        "def __getstate__(self):\n        import __main__\n        return {'of': __main__.learner}",
        "def __reduce__(self):\n        return Net, (3,), {'of': of[0]}",
    ],
)
def test_an_object_that_says_what_is_saved_of_it(method: str, tmp_path: Path) -> None:
    files = {"train.py": TRAIN, "agent.py": LEARNER, "net.py": f"{NET}\n    {method}\n\nof = []\n"}
    one = join(tmp_path, files, "agent.py", "net.py")
    assert one.staying is not None
    assert {path.name for path in one.staying.files} == {"agent.py", "net.py"}


def test_what_unknown_code_is_handed(tmp_path: Path) -> None:
    """It may give the network anything that it has seen."""
    change = ("        self.steps = []\n", "        self.steps = []\n        self.net.log = unknown.Log(self)\n")
    agent = f"import unknown\n{LEARNER.replace(*change)}"
    one = join(tmp_path, {"train.py": TRAIN, "agent.py": agent, "net.py": NET}, "agent.py", "net.py")
    assert one.staying is not None
    assert {path.name for path in one.staying.files} == {"agent.py", "net.py"}


def test_the_protocols_are_read() -> None:
    """What `saved_names` goes through holds the module of a class by its name."""
    found = [given for _, given, _ in pickletools.genops(pickle.dumps(Path)) if isinstance(given, str)]
    assert any("pathlib" in text for text in found)
