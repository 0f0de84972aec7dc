"""The scripts of the speed benchmark, and their goals."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """Ratios to the original."""

    by_hand: str
    """The ratio of LeanRL's script, measured by its authors, or by us with their fixed script before this project."""
    least: float
    aim: float
    rung: str


@dataclass(frozen=True)
class Row:
    """One script."""

    key: str
    title: str
    script: str
    """The file in cleanrl's package; with `repository`, in its repository."""
    args: tuple[str, ...]
    leanrl: str | None
    """LeanRL's version of the script."""
    leanrl_rounds: int | None
    """The number of rounds in which LeanRL's version takes part on a CPU; None means all."""
    goals: dict[str, Goal]
    """The goals by device, `cpu` and `gpu`."""
    readme: bool = True
    """Whether the row is also in the README's table."""
    repository: bool = False
    """Whether the script is the repository's, because the package's needs buffers and environments of old packages."""
    workers: tuple[int, ...] = ()
    """Numbers of worker processes for the environments with which the goal's mode is also measured."""
    migrated: tuple[str, ...] = ()
    """Additional arguments for the script migrated by `lean-convert migrate` and converted, if it takes part."""


ROWS = (
    Row(
        "halfcheetah",
        "PPO, HalfCheetah-v4",
        "ppo_continuous_action.py",
        (),
        "ppo_continuous_action_torchcompile.py",
        1,  # LeanRL's script warms up for minutes
        {
            "cpu": Goal("1.2", 2.0, 2.4, "compile"),
            "gpu": Goal("2.7 published", 3.0, 4.0, "compile + cudagraphs"),
        },
    ),
    Row(
        "cartpole",
        "PPO, CartPole-v1, 4 envs",
        "ppo.py",
        (),
        None,
        None,
        {"cpu": Goal("-", 2.0, 2.7, "compile")},
    ),
    Row(
        "breakout",
        "PPO, Breakout, envpool, 8 envs",
        "ppo_atari_envpool.py",
        ("--env-id", "Breakout-v5"),
        "ppo_atari_envpool_torchcompile.py",
        1,
        {
            "cpu": Goal("1.7", 1.75, 2.2, "compile"),
            "gpu": Goal("6.8 published", 7.0, 10.0, "compile + cudagraphs"),
        },
    ),
    Row(
        "td3",
        "TD3, HalfCheetah-v4",
        "td3_continuous_action.py",
        ("--env-id", "HalfCheetah-v4"),
        None,
        None,
        {"cpu": Goal("0.39", 1.45, 1.53, "compile"), "gpu": Goal("3.4 published", 3.4, 4.0, "compile + cudagraphs")},
        repository=True,
    ),
    Row(
        "sac",
        "SAC, HalfCheetah-v4",
        "sac_continuous_action.py",
        ("--env-id", "HalfCheetah-v4"),
        None,
        None,
        {"cpu": Goal("0.66", 1.65, 1.7, "compile"), "gpu": Goal("5.7 published", 5.7, 7.0, "compile + cudagraphs")},
        repository=True,
    ),
    Row(
        "dqn",
        "DQN, CartPole-v1",
        "dqn.py",
        (),
        None,
        None,
        {"cpu": Goal("0.73", 1.4, 1.5, "compile"), "gpu": Goal("-", 1.4, 2.0, "compile + cudagraphs")},
        repository=True,
    ),
    Row(
        "c51",
        "C51, CartPole-v1",
        "c51.py",
        (),
        None,
        None,
        {"cpu": Goal("-", 1.3, 1.5, "flags off"), "gpu": Goal("-", 1.3, 2.0, "compile + cudagraphs")},
        repository=True,
    ),
    Row(
        "cheetahs",
        "PPO, HalfCheetah-v4, 4 envs",
        "ppo_continuous_action.py",
        ("--env-id", "HalfCheetah-v4", "--num-envs", "4"),
        None,
        None,
        {"cpu": Goal("-", 2.0, 2.4, "compile"), "gpu": Goal("-", 3.0, 4.0, "compile + cudagraphs")},
        repository=True,
        readme=False,
        workers=(1,),
    ),
    Row(
        "atari",
        "PPO, Breakout, SyncVectorEnv, 8 envs",
        "ppo_atari.py",
        ("--env-id", "ale_py:BreakoutNoFrameskip-v4", "--num-steps", "32"),
        None,
        None,
        {"cpu": Goal("-", 1.5, 2.0, "compile"), "gpu": Goal("-", 3.0, 4.0, "compile + cudagraphs")},
        repository=True,
        readme=False,
        workers=(1,),
        migrated=("--env-id", "Breakout-v5"),
    ),
)
