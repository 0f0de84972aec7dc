"""The host is set up above everything that may load torch."""

import ctypes
import os
import platform
import subprocess
import sys
from typing import Literal

import pytest
from cases import NoOp, converted_by, turn
from scripts import PARTS, script

from transformer import Applied, Skipped, convert

ABOVE = "# Host tuning, above everything that loads torch; it changes the speed, but no result\n"
THREADS = """\
if "OMP_WAIT_POLICY" not in os.environ:
    # OpenMP's idle threads would spin for milliseconds on the processors that the environments' threads need
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")
"""
VECTORS = """\
if platform.machine() == "x86_64":
    # torch's own kernels use the vector instructions, so Inductor need not build programs to see that they work
    os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")
"""
MEMORY = """\
libc = ctypes.CDLL(None) if sys.platform == "linux" else None
if hasattr(libc, "mallopt"):
    # glibc would return a minibatch's images to the system, which zeroes every page for the next minibatch
    libc.mallopt(-3, 64 << 20) or libc.mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD; older versions take less
    libc.mallopt(-1, 256 << 20)  # M_TRIM_THRESHOLD
"""
SETTING = ABOVE + THREADS
POOL = {"third_party": "import envpool", "functions": "def make():\n    return envpool.make_gym('Pong-v5')\n\n\n"}
CONVOLUTIONS = {
    "agent": PARTS["agent"].replace(
        "        self.critic",
        "        self.images = nn.Sequential(nn.Conv2d(1, 4, (1, 2)), nn.ReLU(), nn.Flatten(), nn.Linear(4, 2))\n"
        "        self.critic",
        1,
    ),
}


def named(imported: str, used: str) -> dict[str, str]:
    """Parts with a function that makes environments."""
    return {"third_party": imported, "functions": f"def make():\n    return {used}\n\n\n"}


def applied(source: str) -> str:
    """The script after the transform."""
    step = turn("tune-host", source)
    assert isinstance(step.outcome, Applied), step.outcome
    assert step.after.count(ABOVE) == 1
    return step.after


def test_all_settings_are_in_one_block() -> None:
    source = converted_by(script({**POOL, **CONVOLUTIONS}), "policy", "compile", "tune-host").source
    assert f"import sys\n\n{ABOVE}{THREADS}{VECTORS}{MEMORY}\nimport " in source
    above = source.partition(ABOVE)[0]
    assert all(f"import {name}\n" in above for name in ("ctypes", "os", "platform", "sys"))


def test_convolutions_of_a_part() -> None:
    part = CONVOLUTIONS["agent"].replace("class Agent", "class Images")
    agent = PARTS["agent"].replace("        self.critic", "        self.images = Images()\n        self.critic", 1)
    assert f"{ABOVE}{MEMORY}\nimport numpy" in applied(script({"agent": f"{part}\n\n\n{agent}"}))


@pytest.mark.parametrize("target", ["any", "cpu", "cuda"])
def test_vectors_where_something_is_compiled_for_this_host(target: Literal["any", "cpu", "cuda"]) -> None:
    source = convert(script(), select={"flags", "policy", "compile", "tune-host"}, target=target).source
    assert (f"{ABOVE}{VECTORS}\nimport " in source) == (target != "cuda")
    assert "TORCHINDUCTOR" not in convert(script(), select={"tune-host"}).source


@pytest.mark.parametrize(
    "own", ["torch._inductor.config.cpp.vec_isa_ok = False", "os.environ['TORCHINDUCTOR_VEC_ISA_OK'] = '0'"]
)
def test_the_scripts_own_vector_setting_is_kept(own: str) -> None:
    parts = {"stdlib": "import os", "setup": f'{own}\ndevice = torch.device("cpu")'}
    step = turn("tune-host", script(parts), ("policy", "compile"))
    assert isinstance(step.outcome, Skipped)
    assert step.outcome.kind == "not needed"
    assert "already configures Inductor's check of the processor" in step.outcome.reason


@pytest.mark.parametrize(
    ("imported", "used"),
    [
        ("import envpool", "envpool.make('Pong-v5', env_type='gym')"),
        ("import gymnasium as gym", "gym.vector.AsyncVectorEnv([])"),
        ("from gym.vector import AsyncVectorEnv as Envs_1", "Envs_1([])"),
        ("import gymnasium as gym", "(gym.vector.SyncVectorEnv if args.slow else gym.vector.AsyncVectorEnv)([])"),
        ("import gymnasium as gym", "gym.make_vec('CartPole-v1', 4, 'async')"),
        ("import gymnasium as gym", "gym.make_vec('CartPole-v1', 4, vectorization_mode=gym.VectorizeMode.ASYNC)"),
        ("import gym", "gym.vector.make('CartPole-v1', 4)"),
        ("from stable_baselines3.common.vec_env import SubprocVecEnv", "make_envs(vec_env_cls=SubprocVecEnv)"),
        ("from procgen import ProcgenEnv", "ProcgenEnv(num_envs=4)"),
    ],
)
def test_environments_in_threads_or_processes(imported: str, used: str) -> None:
    assert SETTING in applied(script(named(imported, used)))


def test_it_is_above_the_first_third_party_import() -> None:
    source = script({**POOL, "stdlib": "import os"})
    assert applied(source) == source.replace("import numpy", f"{SETTING}\nimport numpy", 1)


def test_narrow_lines() -> None:
    text = convert(script({**POOL, "stdlib": "import os"}), select={"tune-host"}, line_length=60).source
    assert f"import os\n\n{SETTING}\nimport numpy" in text


def test_the_import_that_it_needs_comes_first() -> None:
    source = script(POOL)
    expected = source.replace("import numpy", f"{SETTING}\nimport numpy", 1)
    assert applied(source) == expected.replace("import argparse\n", "import argparse\nimport os\n", 1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch\n", f"import os\n\n{SETTING}\nimport torch\n"),
        ("# PPO\nimport torch\n", f"# PPO\nimport os\n\n{SETTING}\nimport torch\n"),
        ('"""PPO."""\n\nimport torch\n', f'"""PPO."""\n\nimport os\n\n{SETTING}\nimport torch\n'),
        (
            "from __future__ import annotations\n\nimport torch\nimport os\n",
            f"from __future__ import annotations\n\nimport os\n\n{SETTING}\nimport torch\n",
        ),
        (
            "from distutils.util import strtobool\nimport sys, os\n# nets\nimport torch\n",
            f"from distutils.util import strtobool\nimport sys, os\n\n{SETTING}\n# nets\nimport torch\n",
        ),
        (
            "import os\nos.environ['MUJOCO_GL'] = 'egl'\n\nfrom .nets import Agent\n",
            f"import os\nos.environ['MUJOCO_GL'] = 'egl'\n\n{SETTING}\nfrom .nets import Agent\n",
        ),
    ],
)
def test_other_beginnings_of_a_script(before: str, after: str) -> None:
    assert applied(before + script(POOL)).startswith(after)


def test_later_imports_go_below_it() -> None:
    text = convert(script(POOL), select={"flags", "tune-host", "measure"}).source
    assert "import time\n" in text.partition(SETTING)[0]
    assert "import tqdm\n" in text.partition(SETTING)[2]


NOOPS = [
    NoOp("plain environments", {}, "the environments are stepped in the script's own thread", kind="not needed"),
    NoOp(
        "environments one after the other",
        named("import gymnasium as gym", "gym.make_vec('CartPole-v1', 4), gym.vector.SyncVectorEnv([])"),
        "the environments are stepped in the script's own thread",
        kind="not needed",
    ),
    NoOp(
        "environments that are asked not to be parallel",
        named("import gym", "gym.vector.make('CartPole-v1', 4, asynchronous=False)"),
        "the environments are stepped in the script's own thread",
        kind="not needed",
    ),
    NoOp(
        "a variable of OpenMP",
        {**POOL, "stdlib": "import os\nos.environ['OMP_NUM_THREADS'] = '2'"},
        "line {line} already sets a variable of OpenMP",
        at="OMP_NUM_THREADS",
        kind="not needed",
    ),
    NoOp(
        "a single thread",
        {**POOL, "setup": 'torch.set_num_threads(1)\ndevice = torch.device("cpu")'},
        "line {line} limits torch to a single thread",
        at="set_num_threads",
        kind="not needed",
    ),
    NoOp(
        "an import that may fail",
        {**POOL, "stdlib": "try:\n    import torch\nexcept ImportError:\n    raise SystemExit"},
        "line {line} contains an import that may load torch",
        at="try:",
    ),
    NoOp(
        "a script that steers its memory",
        {**CONVOLUTIONS, "stdlib": "import ctypes\nctypes.CDLL('libc.so.6').mallopt(-1, 1 << 30)"},
        "line {line} already configures the C library's memory",
        at="mallopt",
        kind="not needed",
    ),
    NoOp("another sys", {**CONVOLUTIONS, "setup": 'sys = 1\ndevice = torch.device("cpu")'}, "the name sys is taken"),
    NoOp("small networks", {}, "no network of this file that rollouts train has conv", kind="not needed"),
    NoOp(
        "another os",
        {**POOL, "third_party": "import envpool\nfrom machine import os"},
        "the name os is taken",
    ),
]


@pytest.mark.parametrize("case", NOOPS, ids=str)
def test_left_alone(case: NoOp) -> None:
    case.check("tune-host")


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, "3000"),
        ({"GOMP_SPINCOUNT": "7"}, "7"),
        ({"OMP_WAIT_POLICY": "passive"}, "None"),
    ],
)
def test_the_users_own_setting_is_kept(own: dict[str, str], expected: str) -> None:
    head = applied(script(POOL)).partition("import numpy")[0]
    environment = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run(
        [sys.executable, "-c", head + "print(os.environ.get('GOMP_SPINCOUNT'))"],
        env={**environment, **own},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{expected}\n"


INDUCTORS = "import torch._inductor.config as config\nprint(config.cpp.vec_isa_ok)"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="another processor")
@pytest.mark.parametrize(
    ("own", "shown", "expected"),
    [
        pytest.param({}, INDUCTORS, "True", marks=pytest.mark.slow),
        pytest.param({"TORCHINDUCTOR_VEC_ISA_OK": "0"}, INDUCTORS, "False", marks=pytest.mark.slow),
        ({"TORCHINDUCTOR_VEC_ISA_OK": "0"}, "print(os.environ['TORCHINDUCTOR_VEC_ISA_OK'])", "0"),
    ],
)
def test_inductor_reads_the_variable(own: dict[str, str], shown: str, expected: str) -> None:
    code = f"import os\nimport platform\n{VECTORS}\n{shown}"
    environment = {k: v for k, v in os.environ.items() if k != "TORCHINDUCTOR_VEC_ISA_OK"}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**environment, **own}, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{expected}\n"


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
    code = f"import ctypes\nimport sys\n{MEMORY}{ROUNDS}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 100, "60 MiB are 15,360 pages"


class Library:
    """A C library that accepts a threshold up to a size."""

    def __init__(self, largest: int) -> None:
        self.largest, self.taken = largest, dict[int, int]()

    def mallopt(self, name: int, value: int) -> int:
        """0 if it refuses."""
        if name == -3 and value > self.largest:
            return 0
        self.taken[name] = value
        return 1


@pytest.mark.parametrize("largest", [32 << 20, 64 << 20])
def test_older_c_libraries_take_less(largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(largest)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    exec(MEMORY, {"ctypes": ctypes, "sys": sys})
    assert library.taken == {-3: largest, -1: 256 << 20}


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_other_c_libraries_are_left_alone(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def library(name: None) -> object:
        if system == "win32":
            raise TypeError
        return object()

    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(ctypes, "CDLL", library)
    exec(MEMORY, {"ctypes": ctypes, "sys": sys})
