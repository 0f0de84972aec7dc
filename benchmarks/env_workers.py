"""How long a step of all environments takes with SyncVectorEnv, AsyncVectorEnv and --env-workers.

The vector environments of a row take the same random actions, in turns of a second while the others wait. As in a
script, the process computes for a while after each step, so that workers may fall asleep. The figure of a turn is its
mean; the page has the median turn and the fastest. Results of SyncVectorEnv and of the workers are compared bit by bit.

    python benchmarks/env_workers.py            # measure, and write benchmarks/logs/env_workers.md
    python benchmarks/env_workers.py CartPole   # only this row; writes nothing
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import json
import os
import statistics
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import gymnasium as gym
import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from transformer.bench.machine import describe  # noqa: E402
from transformer.syntax.templates import render  # noqa: E402
from transformer.transforms.scaling.async_envs import MODULES, RESULTS  # noqa: E402

PAGE = ROOT / "benchmarks" / "logs" / "env_workers.md"
KEPT = ROOT / "benchmarks" / "results" / "env_workers.json"
CHECKED = 300
"""The number of steps whose results are compared before anything is measured."""


def worker_vector_env() -> Any:
    """The vector environment class that a conversion writes."""
    text = render(
        "env_workers", name="WorkerVectorEnv", chunk="EnvChunk", wait="wait_for", sync="gym.vector.SyncVectorEnv",
        vector_env="gym.vector.VectorEnv", listed=False, dtypes=", ".join(RESULTS[:1] + 2 * RESULTS[1:]),
    )  # fmt: skip
    module = types.ModuleType("emitted")
    imports = [f"import {name}" for name in (*MODULES, "gymnasium as gym", "numpy as np", "torch")]
    exec("\n".join([*imports, text]), module.__dict__)
    return module.WorkerVectorEnv


def cart_pole() -> gym.Env[Any, Any]:
    """CartPole, as cleanrl's ppo.py makes it."""
    return gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1"))


def half_cheetah() -> gym.Env[Any, Any]:
    """HalfCheetah, as cleanrl's ppo_continuous_action.py makes it."""
    env = gym.wrappers.FlattenObservation(gym.make("HalfCheetah-v4"))
    env = gym.wrappers.ClipAction(gym.wrappers.RecordEpisodeStatistics(env))
    env = gym.wrappers.TransformObservation(gym.wrappers.NormalizeObservation(env), lambda obs: np.clip(obs, -10, 10))
    return gym.wrappers.TransformReward(gym.wrappers.NormalizeReward(env), lambda reward: np.clip(reward, -10, 10))


def breakout() -> gym.Env[Any, Any]:
    """Breakout, as cleanrl's ppo_atari.py makes it, with stable-baselines3's wrappers."""
    importlib.import_module("ale_py")
    made = importlib.import_module("stable_baselines3.common.atari_wrappers")
    env = gym.wrappers.RecordEpisodeStatistics(gym.make("BreakoutNoFrameskip-v4"))
    env = made.EpisodicLifeEnv(made.MaxAndSkipEnv(made.NoopResetEnv(env, noop_max=30), skip=4))
    env = made.ClipRewardEnv(made.FireResetEnv(env))
    env = gym.wrappers.GrayScaleObservation(gym.wrappers.ResizeObservation(env, (84, 84)))
    return gym.wrappers.FrameStack(env, 4)


ROWS: dict[str, tuple[Callable[[], Any], int, float]] = {
    "CartPole-v1": (cart_pole, 4, 0.0003),
    "HalfCheetah-v4": (half_cheetah, 4, 0.0003),
    "Breakout": (breakout, 8, 0.003),
}
"""By name: a function that makes an environment, the number of environments, and the policy's seconds per step."""


def contenders(make: Callable[[], Any], count: int) -> dict[str, Any]:
    """The vector environments to measure, by name."""
    workers, fns = worker_vector_env(), [make] * count
    return {
        "SyncVectorEnv": gym.vector.SyncVectorEnv(fns),
        "AsyncVectorEnv": gym.vector.AsyncVectorEnv(fns, context="fork"),
        "1 worker": workers(fns, 1),
        "2 workers": workers(fns, 2),
    }


def actions(envs: Any, seed: int = 0) -> Iterator[Any]:
    """Actions for all environments, the same ones for each vector environment."""
    rng, space = np.random.default_rng(seed), envs.single_action_space
    while True:
        if isinstance(space, gym.spaces.Discrete):
            yield rng.integers(0, space.n, envs.num_envs)
        else:
            yield rng.uniform(-1, 1, (envs.num_envs, *space.shape)).astype(space.dtype)


def digest(envs: Any) -> str:
    """A digest of all observations, rewards and episode ends in the first steps, and of the episodes' returns."""
    found = hashlib.sha256(envs.reset(seed=1)[0].tobytes())
    for action in itertools.islice(actions(envs), CHECKED):
        *arrays, infos = envs.step(action)
        for array in arrays:
            found.update(array.dtype.str.encode() + array.tobytes())
        for info in infos.get("final_info", ()):
            if info and "episode" in info:
                found.update(np.asarray([info["episode"]["r"], info["episode"]["l"]], np.float64).tobytes())
    return found.hexdigest()


def turn(envs: Any, chosen: Iterator[Any], seconds: float, think: float) -> float:
    """Step for some time; returns the mean time of a step in milliseconds."""
    taken, steps, until = 0.0, 0, time.perf_counter() + seconds
    while time.perf_counter() < until:
        action, began = next(chosen), time.perf_counter()
        envs.step(action)
        ended = time.perf_counter()
        taken, steps = taken + ended - began, steps + 1
        while time.perf_counter() < ended + think:
            pass
    return 1000 * taken / steps


def measure(name: str, turns: int, seconds: float) -> dict[str, Any]:
    """Measure one row."""
    make, count, think = ROWS[name]
    made = contenders(make, count)
    digests = {which: digest(envs) for which, envs in made.items()}
    chosen = {which: actions(envs, seed=1) for which, envs in made.items()}
    taken: dict[str, list[float]] = {which: [] for which in made}
    for _ in range(turns):
        for which, envs in made.items():
            taken[which].append(turn(envs, chosen[which], seconds, think))
            click.echo(f"{name} {which} {taken[which][-1]:.3f} ms", err=True)
    for envs in made.values():
        envs.close()
    equal = {which: digests[which] == digests["SyncVectorEnv"] for which in made}
    return {"row": name, "envs": count, "think": think, "milliseconds": taken, "equal": equal}


def page(result: dict[str, Any]) -> str:
    """The results as a page."""
    machine, (low, high) = result["machine"], result["load"]
    lines = [
        "# Environments in worker processes",
        "",
        "Written by `python benchmarks/env_workers.py`, whose head says what is measured: milliseconds that a step of",
        "all environments keeps the script's own thread waiting, the median of its turns and in brackets the fastest.",
        f"Measured on {machine['processor']}, {machine['cores']} cores, under a load of {low:.1f} to {high:.1f}"
        f"{': other' if high > 3 else '.'}",
        *(["processes ran beside these, so that single figures are worth little."] if high > 3 else []),
        "",
        "| environments | SyncVectorEnv | AsyncVectorEnv | 1 worker | 2 workers | same bits as SyncVectorEnv |",
        "|-|-|-|-|-|-|",
    ]
    for row in result["rows"]:
        cells = [f"{statistics.median(ms):.2f} ({min(ms):.2f})" for ms in row["milliseconds"].values()]
        equal = ", ".join(which for which, same in row["equal"].items() if same and which != "SyncVectorEnv")
        lines.append(f"| {row['row']}, {row['envs']} | {' | '.join(cells)} | {equal} |")
    return "\n".join(lines) + "\n"


@click.command()
@click.argument("names", nargs=-1)
@click.option("--turns", default=7, help="Turns of each vector environment.")
@click.option("--seconds", default=1.0, help="Length of a turn.")
def main(names: tuple[str, ...], turns: int, seconds: float) -> None:
    """Measure the rows."""
    load = [os.getloadavg()[0]]
    rows = [measure(name, turns, seconds) for name in ROWS if not names or any(name.startswith(n) for n in names)]
    load.append(os.getloadavg()[0])
    result = {"machine": describe(), "load": sorted(load), "rows": rows}
    click.echo(page(result))
    if not names:
        KEPT.write_text(json.dumps(result, indent=1) + "\n")
        written = PAGE.read_text().partition("\n## ") if PAGE.exists() else ("", "", "")
        PAGE.write_text(page(result) + written[1] + written[2])


if __name__ == "__main__":
    main()
