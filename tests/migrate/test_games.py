"""The names of games."""

import pytest

from transformer.migrate.games import GAMES, envpool_id


def test_names() -> None:
    assert envpool_id("BreakoutNoFrameskip-v4") == "Breakout-v5"
    for other in (
        "Breakout-v4",
        "BreakoutNoFrameskip-v0",
        "ALE/Breakout-v5",
        "BreakoutDeterministic-v4",
        "FooNoFrameskip-v4",
    ):
        assert envpool_id(other) is None


def test_envpool_has_them_all() -> None:
    envpool = pytest.importorskip("envpool")
    assert {f"{game}-v5" for game in GAMES} <= set(envpool.list_all_envs())
