"""A sample of the hostile scripts is converted rightly; `make hostile` tries them all."""

import ast
from collections import Counter
from pathlib import Path

import pytest
from effects import NETWORK, OPTIMIZER
from forking import preload
from judge import judge
from loops import LOOPS
from reaches import FORMS, PATHS, PLACES
from scenarios import FAMILIES, Scenario, scenarios
from signatures import SIGNATURES

ALL = scenarios()
SAMPLE = [s for family in FAMILIES for s in [t for t in ALL if t.family == family][5::120]]


@pytest.mark.parametrize("scenario", SAMPLE, ids=str)
def test_a_hostile_script_is_converted_rightly(scenario: Scenario, tmp_path: Path) -> None:
    preload()
    outcome = judge(tmp_path / "hostile.py", scenario.source)
    assert outcome.right, (outcome.kind, *outcome.said)


def test_there_are_enough_of_them_and_all_are_scripts() -> None:
    assert len(ALL) >= 500
    assert len({s.title for s in ALL}) == len(ALL) == len({s.source for s in ALL})
    for scenario in ALL:
        ast.parse(scenario.source)


def test_they_are_the_same_at_every_call() -> None:
    assert scenarios() == ALL


def test_everything_is_met() -> None:
    parts = Counter(part for s in ALL for part in s.title.split("; "))
    titles = [
        *(e.title for e in (*NETWORK, *OPTIMIZER)),
        *(x.title for x in (*PATHS, *PLACES)),
        *SIGNATURE_TITLES,
        *LOOPS,
    ]
    assert [t for t in titles if not parts[t]] == []
    assert [f.title for f in FORMS if not parts[f"in {f.title}"]] == []


SIGNATURE_TITLES = [s.title for s in SIGNATURES]
