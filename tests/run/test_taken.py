"""What `run` takes of what a conversion offers."""

import pytest
from golden import FIXTURES

from transformer import convert
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
def test_environments_are_fused_unless_somebody_chose(settings: Settings, fused: bool | None) -> None:
    assert with_all_that_pays(settings).fuse_envs is fused


def test_what_was_taken_is_told() -> None:
    source = read(FIXTURES / "target_kl.py").content
    taken = [facts_of(convert(source, fuse_envs=fused)).taken for fused in (True, False)]
    assert taken == [["fused environments"], []]
