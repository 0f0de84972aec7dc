"""The converter neither raises nor takes long on mutants of the fixtures, and converts completely what it accepts."""

import json
import random
from pathlib import Path

import fuzz
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


@pytest.mark.slow
@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@given(changes=_MUTATIONS)
def test_mutants_of_a_short_script(changes: list[Mutation]) -> None:
    assert examine(mutate(SCRIPTS[SHORT], tuple(changes)))[1] == []


@pytest.mark.parametrize("number", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 4))])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if k % 6 else []) for k, name in enumerate(SCRIPTS)]
)
def test_mutants_of_every_fixture(name: str, number: int) -> None:
    changes = mutations(random.Random(f"{name} {number}"))
    assert examine(mutate(SCRIPTS[name], changes))[1] == [], changes


def test_a_run_counts_every_mutant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scripts = [FIXTURES / SHORT, FIXTURES / "refused" / "reinforce.py"]
    command = ["fuzz.py", *map(str, scripts), "--mutants", "3", "--seed", "3", "--failures", str(tmp_path)]
    monkeypatch.setattr("sys.argv", command)
    assert fuzz.main() == 0
    tally = json.loads((tmp_path / "tally_3.json").read_text())
    assert tally["mutants"] == 3 == tally["accepted"] + sum(tally["refused"].values())
    assert "3 mutants" in capsys.readouterr().out


def test_mutants_are_the_same_whatever_their_order() -> None:
    scripts = [FIXTURES / SHORT]
    forth = [fuzz.mutant(scripts, 1, n).source for n in range(5)]
    back = [fuzz.mutant(scripts, 1, n).source for n in reversed(range(5))]
    assert forth == back[::-1]
    assert len(set(forth)) > 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_mutation_changes_the_script(kind: str) -> None:
    changed = [mutate(SCRIPTS[SHORT], (Mutation(kind, n * 7919, n * 104729, training=True),)) for n in range(10)]
    assert sum(c != SCRIPTS[SHORT] for c in changed) >= 5
