"""Keeping the memory of images from one minibatch to the next."""

import ctypes
import subprocess
import sys
import textwrap

import pytest
from cases import NoOp, turn
from scripts import PARTS, script

from transformer import Applied, convert

CONVOLUTIONS = {
    "agent": PARTS["agent"].replace(
        "        self.critic",
        "        self.images = nn.Sequential(nn.Conv2d(1, 4, (1, 2)), nn.ReLU(), nn.Flatten(), nn.Linear(4, 2))\n"
        "        self.critic",
        1,
    ),
}
ADDED = """\
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if hasattr(libc, "mallopt"):
        # glibc would give a minibatch's images back to the system, which zeroes each page that the next one asks for
        libc.mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD, as much as older versions take
        libc.mallopt(-3, 64 << 20)
        libc.mallopt(-1, 256 << 20)  # M_TRIM_THRESHOLD
"""


def applied(parts: dict[str, str]) -> str:
    """The text after the transform."""
    step = turn("keep-memory", script(parts))
    assert isinstance(step.outcome, Applied), step.outcome
    return step.after


def test_thresholds_are_set_above_the_training_loop() -> None:
    before, after = script(CONVOLUTIONS), applied(CONVOLUTIONS)
    assert "import argparse\nimport ctypes\nimport sys\n\nimport numpy" in after
    assert ADDED + "\n    for iteration in range" in after
    assert len(after) == len(before) + len(ADDED + "\nimport ctypes\nimport sys\n"), "nothing else changed"


def test_convolutions_of_a_part() -> None:
    part = CONVOLUTIONS["agent"].replace("class Agent", "class Images")
    agent = PARTS["agent"].replace("        self.critic", "        self.images = Images()\n        self.critic", 1)
    assert ADDED in applied({"agent": f"{part}\n\n\n{agent}"})


def test_the_rows_of_the_rollout_go_before_the_minibatches() -> None:
    lines = convert(script(CONVOLUTIONS), tune=True, ignore=["rollout"]).source.splitlines()
    freed = next(i for i, line in enumerate(lines) if line.strip().startswith("transitions.clear()"))
    uses = [i for i, line in enumerate(lines) if "transitions" in line and i != freed]
    loop = next(i for i, line in enumerate(lines) if "for iteration in" in line)
    minibatches = next(i for i, line in enumerate(lines) if "for mb_inds in" in line)
    assert loop < max(uses) < freed < minibatches


def test_rows_that_go_with_their_function_are_left() -> None:
    source = convert(script(CONVOLUTIONS), tune=True).source
    assert "\n    transitions = []\n" in source, "they are rollout()'s own"
    assert "transitions.clear()" not in source


NOOPS = [
    NoOp(
        "small networks", {}, "no network that is trained, of a class of this file, has convolutions", kind="not needed"
    ),
    NoOp("another sys", {**CONVOLUTIONS, "setup": 'sys = 1\ndevice = torch.device("cpu")'}, "the name sys is taken"),
    NoOp(
        "a script that does it",
        {**CONVOLUTIONS, "stdlib": "import ctypes\nctypes.CDLL('libc.so.6').mallopt(-1, 1 << 30)"},
        "line {line} steers the C library's memory itself",
        at="mallopt",
        kind="not needed",
    ),
]


@pytest.mark.parametrize("case", NOOPS, ids=str)
def test_what_is_left_alone(case: NoOp) -> None:
    case.check("keep-memory")


ROUNDS = """
import resource
import numpy as np
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    held = [np.ones(20 << 20, dtype=np.int8) for _ in range(3)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print([faults() for _ in range(4)][-1])
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="no C library that takes thresholds"
)
def test_freed_memory_is_used_again() -> None:
    code = f"import ctypes\nimport sys\n{textwrap.dedent(ADDED)}{ROUNDS}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 100, "60 MiB are 15,360 pages"


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_other_c_libraries_are_left_alone(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def library(name: None) -> object:
        if platform == "win32":
            raise TypeError
        return object()

    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(ctypes, "CDLL", library)
    exec(textwrap.dedent(ADDED), {"ctypes": ctypes, "sys": sys})
