"""The converter neither raises nor takes long on mutants of the fixtures, and what it accepts it converts whole."""

import random
from pathlib import Path

import pytest
from examine import examine
from fuzz import mutations
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutate import KINDS, Mutation, mutate

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
PATHS = sorted([*FIXTURES.glob("*.py"), *FIXTURES.glob("refused/*.py")])
SCRIPTS = {p.name: text for p in PATHS if (text := p.read_text(encoding="utf-8"))}
SHORT = "plain_prints.py"

_MUTATIONS = st.lists(
    st.builds(Mutation, st.sampled_from(sorted(KINDS)), st.integers(0, 10**6), st.integers(0, 10**6)),
    min_size=1,
    max_size=3,
)


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@given(changes=_MUTATIONS)
def test_mutants_of_a_short_script(changes: list[Mutation]) -> None:
    assert examine(mutate(SCRIPTS[SHORT], tuple(changes)))[1] == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_mutants_of_every_fixture(name: str) -> None:
    source = random.Random(name)
    for _ in range(2):
        _examine(name, source)


def _examine(name: str, source: random.Random) -> None:
    changes = mutations(source)
    assert examine(mutate(SCRIPTS[name], changes))[1] == [], changes
