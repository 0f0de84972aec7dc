"""Scripts that differ from the skeleton as users' scripts do: most transforms apply, and results stay equal."""

from __future__ import annotations

from pathlib import Path

import pytest
from family import BY_DATA
from host import host_copies
from scripts import script
from tiers import slow_but_each
from variations import VARIATIONS
from variations.base import Variation

from transformer import Applied, Skipped, convert
from transformer.verify import compare, record

NOT_NEEDED = {
    "dissolve": "no class of this file trains",
    "scatter-rows": "no loop adds to the rows of a tensor",
    "acting": "the actions are already chosen under torch.no_grad()",
    "inline": "rollout and update are already in one training loop",
    "acting-method": "the call that chooses the actions already has a name",
    "acting-statements": "the code that chooses the actions already has a name",
    "step-networks": "a step calls no network but the one that chooses the actions",
    "auxiliary-update": "the minibatch loop is the only one that steps an optimizer",
    "plain-sizes": "no network uses a space's number of actions as a size",
}
"""Transforms that most scripts do not need, with a piece of the reason."""


@pytest.mark.parametrize("variation", slow_but_each(9, VARIATIONS), ids=str)
def test_the_transforms_that_are_skipped(variation: Variation) -> None:
    conversion = convert(script(variation.parts), tune=True, measure=True)
    assert conversion.converted, conversion.diagnostics
    expected = {name: why for name, why in {**NOT_NEEDED, **variation.skipped}.items() if why is not None}
    for step in conversion.steps:
        name = step.transform.name
        derived = isinstance(step.outcome, Skipped) and step.outcome.reason.startswith("needs ")
        unasked = isinstance(step.outcome, Skipped) and not step.outcome.chosen
        if derived or unasked or (name in BY_DATA and name not in variation.skipped):
            continue
        if isinstance(step.outcome, Skipped):
            assert expected.get(name, "not expected") in step.outcome.reason
        else:
            assert isinstance(step.outcome, Applied) and name not in expected


@pytest.mark.slow
@pytest.mark.parametrize("variation", VARIATIONS, ids=str)
@pytest.mark.usefixtures("runs_forked")
def test_variation(variation: Variation, tmp_path: Path) -> None:
    source = script(variation.parts)
    path = tmp_path / "ppo.py"
    path.write_text(source)
    left, right = record(path, []), record(path, [], source=convert(source, tune=True, measure=True).source)
    assert left.steps and right.iterations == 3
    assert compare(left, right) == ()


def test_an_environment_on_the_device_stays_there() -> None:
    (variation,) = (v for v in VARIATIONS if v.title == "an environment on the device")
    source = script(variation.parts)
    assert host_copies(convert(source).source) == host_copies(source)
