"""Scripts on which a careless transform computes something else are converted with care, and run alike."""

from pathlib import Path

import pytest
from hostile import HOSTILE, Hostile
from scripts import script
from tiers import slow_but_each

from transformer import Applied, Skipped, all_transforms, convert
from transformer.verify import compare, record

NAMES = [transform.name for transform in all_transforms()]


@pytest.mark.parametrize("hostile", slow_but_each(3, HOSTILE, lambda h: h.transform), ids=str)
def test_the_transform_says_what_holds_it_back(hostile: Hostile) -> None:
    conversion = convert(script(hostile.parts), select=NAMES[: NAMES.index(hostile.transform) + 1])
    outcome = next(s.outcome for s in conversion.steps if s.transform.name == hostile.transform)
    said = outcome.reason if isinstance(outcome, Skipped) else "; ".join(outcome.notes)
    assert hostile.said in said
    assert isinstance(outcome, Applied) or hostile.said


@pytest.mark.slow
@pytest.mark.parametrize("hostile", HOSTILE, ids=str)
@pytest.mark.usefixtures("runs_forked")
def test_every_state_is_equal(hostile: Hostile, tmp_path: Path) -> None:
    source = script(hostile.parts)
    path = tmp_path / "hostile.py"
    path.write_text(source, encoding="utf-8")
    original = record(path, hostile.args, timeout=300)
    conversion = convert(source)
    turn = next(s for s in conversion.steps if s.transform.name == hostile.transform)
    for state in {turn.after: None, conversion.source: None}:
        assert compare(original, record(path, hostile.args, source=state, timeout=300)) == ()
