"""Letting OpenMP's idle threads sleep early, above everything that may load torch."""

import os
import subprocess
import sys

import pytest
from cases import NoOp, turn
from scripts import script

from transformer import Applied, convert

SETTING = """\
# OpenMP's idle threads would spin for milliseconds on the processors that the environments' threads need
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")
"""
POOL = {"third_party": "import envpool", "functions": "def make():\n    return envpool.make_gym('Pong-v5')\n\n\n"}


def named(imported: str, used: str) -> dict[str, str]:
    """Parts with a function that makes environments."""
    return {"third_party": imported, "functions": f"def make():\n    return {used}\n\n\n"}


def applied(source: str) -> str:
    """The text after the transform."""
    step = turn("idle-threads", source)
    assert isinstance(step.outcome, Applied), step.outcome
    assert step.after.count("GOMP_SPINCOUNT") == 1
    return step.after


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


def test_it_stands_above_the_first_import_of_another_library() -> None:
    source = script({**POOL, "stdlib": "import os"})
    assert applied(source) == source.replace("import numpy", f"{SETTING}\nimport numpy", 1)


def test_narrow_lines() -> None:
    text = convert(script({**POOL, "stdlib": "import os"}), select={"idle-threads"}, line_length=60).source
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
def test_other_ways_to_begin(before: str, after: str) -> None:
    assert applied(before + script(POOL)).startswith(after)


def test_later_imports_find_their_place_below_it() -> None:
    text = convert(script(POOL), select={"flags", "idle-threads", "measure"}).source
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
        "line {line} names a variable of OpenMP itself",
        at="OMP_NUM_THREADS",
        kind="not needed",
    ),
    NoOp(
        "a single thread",
        {**POOL, "setup": 'torch.set_num_threads(1)\ndevice = torch.device("cpu")'},
        "line {line} leaves torch a single thread",
        at="set_num_threads",
        kind="not needed",
    ),
    NoOp(
        "an import that may fail",
        {**POOL, "stdlib": "try:\n    import torch\nexcept ImportError:\n    raise SystemExit"},
        "line {line} holds an import that may load torch",
        at="try:",
    ),
    NoOp(
        "another os",
        {**POOL, "third_party": "import envpool\nfrom machine import os"},
        "the name os is taken",
    ),
]


@pytest.mark.parametrize("case", NOOPS, ids=str)
def test_what_is_left_alone(case: NoOp) -> None:
    case.check("idle-threads")


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
