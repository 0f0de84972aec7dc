"""Files beside a script that its conversion still imports."""

from pathlib import Path

import pytest

from transformer.conversion.of_files import not_looked_into

CHOSEN = """import argparse
import networks, texts
from parts import heads
parser = argparse.ArgumentParser()
parser.add_argument("--policy", default="plain")
args = parser.parse_args()
if args.policy == {first!r}:
    agent = networks.Agent()
elif args.policy == {second!r}:
    agent = heads.Agent()
"""
"""An option chooses the file."""


@pytest.mark.parametrize(
    ("script", "files"),
    [
        ("import networks\nnetworks.Actor()", ["networks.py"]),
        ("import networks", ["networks.py"]),
        ("from networks import Actor\nActor()", ["networks.py"]),
        ("from networks import Actor, Critic\nCritic()", ["networks.py"]),
        ("from parts import heads\nheads.Head()", ["parts/heads.py"]),
        ("import parts.heads\nparts.heads.Head()", ["parts/heads.py"]),
        ("import parts.heads as h\nh.Head()", ["parts/heads.py"]),
        ("def main():\n    from parts.heads import Head\n    Head()", ["parts/heads.py"]),
        ("import networks, networks\nfrom networks import *", ["networks.py"]),
        ("import texts, numpy, missing\nprint(texts, numpy, missing)", []),
        ("from . import networks\nnetworks.Actor()", []),
        (CHOSEN.format(first="plain", second="wide"), ["networks.py"]),
        (CHOSEN.format(first="wide", second="plain"), ["parts/heads.py"]),
        (CHOSEN.format(first="wide", second="wider"), []),
        (CHOSEN.format(first="plain", second="wide") + "print(heads)\n", ["networks.py", "parts/heads.py"]),
        (CHOSEN.format(first="plain", second="wide").replace(', default="plain"', ""),
         ["networks.py", "parts/heads.py"]),
    ],
)  # fmt: skip
def test_those_that_speak_of_torch(tmp_path: Path, script: str, files: list[str]) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "heads.py").write_text("import torch\n")
    (tmp_path / "networks.py").write_text("from torch import nn\n")
    (tmp_path / "texts.py").write_text("words = []\n")
    assert not_looked_into(script, tmp_path) == [tmp_path / file for file in files]
