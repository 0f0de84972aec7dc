"""The scripts of the speed benchmark, and what they are to reach."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """Ratios to the original."""

    by_hand: str
    """What LeanRL's authors, or we with their mended script, measured before this project began."""
    least: float
    aim: float
    rung: str


@dataclass(frozen=True)
class Row:
    """One script."""

    key: str
    title: str
    script: str
    """File in cleanrl's package."""
    args: tuple[str, ...]
    leanrl: str | None
    """LeanRL's version of it."""
    leanrl_rounds: int | None
    """In how many rounds that takes part on a CPU; in all where None."""
    goals: dict[str, Goal]
    """By `cpu` and `gpu`."""


ROWS = (
    Row(
        "halfcheetah",
        "continuous, HalfCheetah-v4",
        "ppo_continuous_action.py",
        (),
        "ppo_continuous_action_torchcompile.py",
        1,  # its warm-up takes minutes
        {
            "cpu": Goal("1.2", 2.0, 2.4, "compile"),
            "gpu": Goal("2.7 published", 3.0, 4.0, "compile + cudagraphs"),
        },
    ),
    Row(
        "cartpole",
        "discrete MLP, CartPole-v1, 4 envs",
        "ppo.py",
        (),
        None,
        None,
        {"cpu": Goal("-", 2.0, 2.7, "compile")},
    ),
    Row(
        "breakout",
        "Atari, Breakout, envpool, 8 envs",
        "ppo_atari_envpool.py",
        ("--env-id", "Breakout-v5"),
        "ppo_atari_envpool_torchcompile.py",
        1,
        {
            "cpu": Goal("1.7", 1.75, 2.2, "compile"),
            "gpu": Goal("6.8 published", 7.0, 10.0, "compile + cudagraphs"),
        },
    ),
)
