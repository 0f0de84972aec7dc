"""The options of a conversion that `run` turns on by itself."""

import pytest
from golden import FIXTURES, converted

from transformer.conversion.settings import Settings
from transformer.run.flags import with_all_that_pays
from transformer.run.prepare import facts_of
from transformer.syntax.text import read


@pytest.mark.parametrize(
    ("settings", "fused"),
    [
        (Settings(), True),
        (Settings(fuse_envs=True), True),
        (Settings(fuse_envs=False), False),
        (Settings(select=("flags",)), None),
        (Settings(ignore=("gae",)), True),
    ],
)
def test_environments_are_fused_by_default(settings: Settings, fused: bool | None) -> None:
    assert with_all_that_pays(settings).fuse_envs is fused


def test_options_turned_on_are_reported() -> None:
    source = read(FIXTURES / "target_kl.py").content
    taken = [facts_of(converted(source, fuse_envs=fused)).taken for fused in (True, False)]
    assert taken == [["fused environments"], []]
