"""--env-workers replaces SyncVectorEnv with a class that gives the same bits and ends in good order."""

import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from running import heed_interrupts
from same_bits import same
from tiers import slow_but_each

from transformer.syntax.templates import render
from transformer.transforms.scaling.async_envs import MODULES, RESULTS

GYMS = "gymnasium", "gym"
gymnasium = pytest.importorskip("gymnasium")
pytestmark = pytest.mark.skipif(
    not gymnasium.__version__.startswith("0."), reason="--env-workers is for gymnasium 0.29 and for gym"
)


def emitted(gym: str = "gymnasium") -> str:
    """A module with the class, as conversions contain it."""
    listed = gym == "gym"
    text = render(
        "env_workers", name="WorkerVectorEnv", chunk="EnvChunk", wait="wait_for", sync="gym.vector.SyncVectorEnv",
        vector_env="gym.vector.VectorEnv", listed=listed, dtypes=", ".join(RESULTS[:1] + RESULTS[1:] * (2 - listed)),
    )  # fmt: skip
    imports = "".join(f"import {module}\n" for module in MODULES)
    return f"{imports}import {gym} as gym\nimport numpy as np\nimport torch\n\n\n{text}"


def worker_class(gym: str = "gymnasium") -> Any:
    module = types.ModuleType("emitted")
    exec(emitted(gym), module.__dict__)
    return module.WorkerVectorEnv


WorkerVectorEnv = worker_class()


class Walk(gymnasium.Env):  # type: ignore[misc, name-defined]
    """A random walk with its own generator and infos of many kinds; `trick` runs in each step."""

    def __init__(self, place: int = 0, trick: Callable[["Walk"], Any] | None = None, *, limit: int = 7) -> None:
        self.observation_space = gymnasium.spaces.Box(-9, 9, (3,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        self.place, self.trick, self.limit = place, trick, limit
        self.last: Any = 0.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.age = 0
        self.at = self.np_random.normal(size=3)
        info: dict[str, Any] = {"begun": self.place, "where": self.at.copy()}
        return self.at.astype(np.float32), info | ({"pid": os.getpid()} if self.trick == "pid" else {})

    def step(self, action: Any) -> Any:
        self.age += 1
        noise = self.np_random.normal(size=3)
        self.at = self.at + 0.1 * noise + np.sum(action) - np.sum(self.last)
        self.last = action  # the next step reads it: nobody may write into it
        info: dict[str, Any] = {"pid": os.getpid()} if self.trick == "pid" else {}
        if self.age % 2:
            info |= {"level": self.age if self.place % 2 else 0.5, "kind": type(action).__name__, "deep": {"a": noise}}
        if callable(self.trick):
            info |= self.trick(self) or {}
        return self.at, np.float32(noise[0]), bool(self.at[0] > 1), self.age >= self.limit + self.place, info


def walks(count: int, trick: Any = None, of: Sequence[int] | None = None) -> list[Callable[[], Walk]]:
    """Functions that make walks; only those at the places `of` run the trick."""
    return [lambda i=i: Walk(i, trick if of is None or i in of else None) for i in range(count)]  # type: ignore[misc]


def assert_same(make: Callable[[type], Any], actions: Sequence[Any], seed: Any = 3) -> None:
    """Assert that a vector environment takes the same steps as SyncVectorEnv."""
    sync, workers = make(gymnasium.vector.SyncVectorEnv), make(lambda fns: WorkerVectorEnv(fns, 2))
    with closing(sync), closing(workers):
        assert same(sync.reset(seed=seed), workers.reset(seed=seed))
        for action in actions:
            assert same(sync.step(action), workers.step(action))
        assert same(sync.reset(), workers.reset())


@contextmanager
def closing(envs: Any) -> Iterator[None]:
    try:
        yield
    finally:
        envs.close()
        assert not multiprocessing.active_children()


def some_actions(count: int, envs: int, dtype: Any = np.float32) -> list[Any]:
    return list(np.random.default_rng(0).normal(size=(count, envs, 2)).astype(dtype))


@pytest.mark.parametrize(("count", "workers"), [(5, 1), (5, 2), (4, 3), (2, 7), (1, 2), (3, 0)])
def test_same_bits(count: int, workers: int) -> None:
    sync, forked = gymnasium.vector.SyncVectorEnv(walks(count)), WorkerVectorEnv(walks(count), workers)
    with closing(sync), closing(forked):
        for name in (
            "num_envs",
            "single_observation_space",
            "single_action_space",
            "observation_space",
            "action_space",
        ):
            assert getattr(sync, name) == getattr(forked, name)
        assert len(multiprocessing.active_children()) == min(workers, count - 1)
        assert same(sync.reset(seed=3), forked.reset(seed=3))
        ended = 0
        for action in some_actions(40, count):
            left, right = sync.step(action), forked.step(action)
            assert same(left, right), (left, right)
            assert right[1].dtype == np.float64
            ended += "final_info" in right[4]
        assert ended > 3
        kept = right[0].copy()
        forked.step(action)
        assert same(right[0], kept), "what was given is not written into"


@pytest.mark.parametrize("seed", [None, 3, [5, None, 7, 1]], ids=str)
def test_seeds(seed: Any) -> None:
    if seed is None:  # the machine seeds each environment
        with closing(envs := WorkerVectorEnv(walks(4), 2)):
            rows = envs.reset()[0]
        assert len({row.tobytes() for row in rows}) == 4
        return
    if isinstance(seed, list):
        seed = [s if s is not None else 9 for s in seed]
    assert_same(lambda cls: cls(walks(4)), some_actions(3, 4), seed)


@pytest.mark.parametrize("dtype", [np.float64, list], ids=["float64", "lists"])
def test_unusual_actions(dtype: Any) -> None:
    usual = some_actions(12, 4)
    unusual = [a.tolist() if dtype is list else a.astype(dtype) for a in usual]
    assert_same(lambda cls: cls(walks(4)), [*unusual, *usual])


WRAPPERS = {
    "statistics": lambda envs: gymnasium.wrappers.RecordEpisodeStatistics(envs),
    "rewards": lambda envs: gymnasium.wrappers.NormalizeReward(envs, gamma=0.9),
    "observations": lambda envs: gymnasium.wrappers.TransformObservation(envs, lambda rows: 2 * rows),
    "several": lambda envs: gymnasium.wrappers.NormalizeObservation(gymnasium.wrappers.RecordEpisodeStatistics(envs)),
}


@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=WRAPPERS)
def test_wrappers_around_them(wrapper: Callable[[Any], Any]) -> None:
    assert_same(lambda cls: wrapper(cls(walks(4))), some_actions(30, 4))


def test_gym_before_its_infos_were_one() -> None:
    gym = pytest.importorskip("gym")
    if not gym.__version__.startswith("0.23"):
        pytest.skip("another gym")

    def make(i: int) -> Any:
        env = gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1"))
        env.seed(i)
        return env

    fns = [lambda i=i: make(i) for i in range(4)]
    sync, forked = gym.vector.SyncVectorEnv(fns), worker_class("gym")(fns, 2)
    with closing(sync), closing(forked):
        assert same(sync.reset(), forked.reset())
        ended = 0
        for action in np.random.default_rng(0).integers(0, 2, (120, 4)):
            left, right = sync.step(action), forked.step(action)
            assert same(left, right)
            ended += sum("terminal_observation" in info for info in right[3])
        assert ended > 3
        assert same(sync.reset(seed=5, return_info=True), forked.reset(seed=5, return_info=True))


def test_the_first_environments_stay_here() -> None:
    """What the first ones write, such as a video, is written by the script's own process."""
    with closing(envs := WorkerVectorEnv(walks(5, "pid"), 2)):
        pids = envs.reset(seed=1)[1]["pid"].tolist()
    here, *others = pids
    assert here == os.getpid() and others[0] == others[1] != others[2] == others[3] and here not in others


DRAWS = {
    "numpy": lambda env: np.random.rand() * 0 and None,
    "random": lambda env: __import__("random").random() * 0 and None,
    "torch": lambda env: bool(torch.rand(()) < 0) and None,
    "a seed": lambda env: np.random.seed(env.age),
}


@pytest.mark.parametrize("kind", slow_but_each(len(DRAWS), DRAWS))
def test_global_generators_are_told(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    envs = WorkerVectorEnv(walks(4, DRAWS[kind]), 1)
    envs.reset(seed=1)
    with pytest.raises(RuntimeError, match="the worker of environments 2 to 3 has ended: 1"):
        for action in some_actions(101, 4):
            envs.step(action)
    said = capfd.readouterr().err
    assert "Process environments 2 to 3:" in said
    assert "<Walk instance> draws from a generator that all share" in said
    envs.close()


def test_global_generators_are_told_at_the_end(capfd: pytest.CaptureFixture[str]) -> None:
    envs = WorkerVectorEnv(walks(4, DRAWS["numpy"]), 1)
    envs.reset(seed=1)
    envs.step(some_actions(1, 4)[0])
    with pytest.raises(RuntimeError, match="environments 2 to 3 failed"):
        envs.close()
    assert "draws from a generator that all share" in capfd.readouterr().err


def test_global_generators_may_be_drawn_from_here() -> None:
    """Environments in the script's own process draw what they draw under SyncVectorEnv."""
    results = []
    for make in (gymnasium.vector.SyncVectorEnv, lambda fns: WorkerVectorEnv(fns, 1)):
        np.random.seed(1)
        with closing(envs := make(walks(4, lambda env: {"drawn": np.random.rand()}, of=[0]))):
            results.append([envs.reset(seed=1), *(envs.step(action) for action in some_actions(10, 4))])
    assert same(*results)


def fail(env: Walk) -> None:
    if env.age == 3:
        raise ValueError("fell off the table")


@pytest.mark.parametrize(
    ("trick", "words"),
    [
        (fail, "fell off the table"),
        (lambda env: {"self": lambda: env}, "pickle"),
        (lambda env: os.kill(os.getpid(), signal.SIGKILL), ""),
        (lambda env: sys.exit(4), ""),
    ],
    ids=["raises", "an info that cannot be pickled", "killed", "exits"],
)
def test_a_worker_that_ends(trick: Any, words: str, capfd: pytest.CaptureFixture[str]) -> None:
    envs = WorkerVectorEnv(walks(4, trick, of=[3]), 1)
    envs.reset(seed=1)
    began = time.monotonic()
    with pytest.raises(RuntimeError, match=r"environments 2 to 3 has ended: (1|4|-9)"):
        for action in some_actions(20, 4):
            envs.step(action)
    assert time.monotonic() - began < 10
    assert words in capfd.readouterr().err
    envs.close()
    assert not multiprocessing.active_children()


def test_killed_between_steps() -> None:
    envs = WorkerVectorEnv(walks(4), 1)
    envs.reset(seed=1)
    (worker,) = multiprocessing.active_children()
    worker.kill()
    worker.join()
    with pytest.raises(RuntimeError, match="has ended: -9"):
        envs.step(some_actions(1, 4)[0])
    envs.close()


def test_an_environment_that_cannot_be_made(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> Any:
        raise ValueError("no such level")

    envs = WorkerVectorEnv([Walk, fail], 1)
    with pytest.raises(RuntimeError, match="environments 1 to 1 has ended: 1"):
        envs.reset()
    assert "no such level" in capfd.readouterr().err


def test_spaces_must_agree(capfd: pytest.CaptureFixture[str]) -> None:
    class Other(Walk):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)

    envs = WorkerVectorEnv([Walk, Other], 1)
    with pytest.raises(RuntimeError, match="has ended: 1"):
        envs.reset()
    assert "have an observation space different from" in capfd.readouterr().err


def test_spaces_of_many_parts() -> None:
    class Parts(Walk):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = gymnasium.spaces.Dict({"a": self.observation_space})

    with pytest.raises(TypeError, match="one array each"):
        WorkerVectorEnv([Parts, Parts], 1)


def test_large_infos_do_not_block() -> None:
    """An info is larger than a pipe's 64 KiB."""
    assert_same(lambda cls: cls(walks(4, lambda env: {"picture": np.full(10**5, env.age)})), some_actions(3, 4))


def test_after_cuda() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_initialized", lambda: True)
        with pytest.raises(RuntimeError, match="make the environments before anything is on the GPU"):
            WorkerVectorEnv(walks(2), 1)


def test_close_twice_and_never() -> None:
    envs = WorkerVectorEnv(walks(3), 2)
    envs.reset()
    envs.close()
    envs.close()
    forgotten = WorkerVectorEnv(walks(3), 2)
    forgotten.reset()
    del forgotten
    time.sleep(0.1)
    assert not multiprocessing.active_children()


TRAINER = """\
import os, signal, sys

sys.path.insert(0, {tests!r})
from emitted import WorkerVectorEnv
from walk import walks

def kill(*_):
    os.kill(trainer, signal.SIGKILL)
    while os.getppid() == trainer:
        pass

if __name__ == "__main__":
    trainer = os.getpid()
    envs = WorkerVectorEnv(walks(3, {trick}, of=[2]), 2)
    envs.reset(seed=1)
    print(*(process.pid for _, _, process, *_ in envs.workers), flush=True)
    while True:
        envs.step({action})
"""
ACTION = "envs.action_space.sample()"


@pytest.mark.parametrize("number", slow_but_each(3, [signal.SIGKILL, signal.SIGINT, signal.SIGTERM]), ids=str)
def test_no_process_is_left_behind(number: signal.Signals, tmp_path: Path) -> None:
    with trains(tmp_path) as (trainer, pids):
        assert all(map(lives, pids))
        if number == signal.SIGINT:  # as a terminal does
            os.killpg(trainer.pid, number)
        else:
            trainer.send_signal(number)
        assert ends_and_says(trainer, pids).count("Traceback") == (number == signal.SIGINT)


@pytest.mark.parametrize(
    ("trick", "action"),
    [("kill", ACTION), pytest.param(None, 'type("Actions", (), {"__getitem__": kill})()', marks=pytest.mark.slow)],
    ids=["a worker sends infos", "a worker waits for actions"],
)
def test_trainer_is_killed_while(trick: str | None, action: str, tmp_path: Path) -> None:
    """A worker ends without a word."""
    with trains(tmp_path, trick=trick, action=action) as (trainer, pids):
        assert ends_and_says(trainer, pids) == ""
        assert trainer.returncode == -signal.SIGKILL


@contextmanager
def trains(folder: Path, trick: str | None = None, action: str = ACTION) -> Iterator[tuple[Any, list[int]]]:
    """A process that steps environments with two workers, and the workers' process ids."""
    (folder / "emitted.py").write_text(emitted())
    here = Path(__file__).read_text()
    walk = here[here.index("class Walk") : here.index("def assert_same")]
    needed = "import os", "import gymnasium", "import numpy as np", "from collections.abc import Callable, Sequence"
    head = "\n".join([*needed, "from typing import Any", "", ""])
    (folder / "walk.py").write_text(head + walk)
    (folder / "train.py").write_text(TRAINER.format(tests=str(folder), trick=trick, action=action))
    command = [sys.executable, "-W", "ignore", str(folder / "train.py")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, start_new_session=True, preexec_fn=heed_interrupts, **pipes) as trainer:
        try:
            assert trainer.stdout is not None
            pids = [int(word) for word in trainer.stdout.readline().split()]
            assert len(pids) == 2
            yield trainer, pids
        finally:
            with suppress(ProcessLookupError):
                os.killpg(trainer.pid, signal.SIGKILL)


def ends_and_says(trainer: Any, pids: list[int]) -> str:
    """Wait until a trainer and its workers have ended; returns what they wrote to stderr."""
    trainer.wait(20)
    until = time.monotonic() + 10
    while any(map(lives, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(lives, pids))
    return str(trainer.stderr.read())


def lives(pid: int) -> bool:
    """Whether a process runs; a zombie, which has ended but was not waited for, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_context_is_said() -> None:
    text = emitted()
    assert 'multiprocessing.get_context("fork")' in text and text.count("get_context") == 1
    assert importlib.import_module("multiprocessing")
