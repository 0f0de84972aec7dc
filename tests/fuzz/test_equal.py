"""Mutants are run against their conversions, and a wrong conversion is noticed."""

from pathlib import Path

import equal
import pytest

from transformer.conversion.pipeline import all_transforms
from transformer.conversion.result import Applied, Conversion, Step

SCRIPT = equal.FIXTURES / "plain_prints.py"
ARGS = ["--total-timesteps", "256", "--num-envs", "2", "--num-steps", "64", "--epochs", "1"]


@pytest.fixture
def source() -> str:
    equal.preload()
    return Path(SCRIPT).read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_right_conversion_is_equal(source: str) -> None:
    assert equal.check(SCRIPT, source, ARGS) == equal.Outcome("equal")


@pytest.mark.slow
def test_a_script_that_fails_itself_is_left_out(source: str) -> None:
    assert equal.check(SCRIPT, source.replace("optimizer.step()", "optimizer.step(), 1 / 0"), ARGS).kind == "fails"


@pytest.mark.slow
@pytest.mark.parametrize("replaced", [("loss.backward()", "(loss * 2).backward()"), ("optimizer.step()", "1 / 0")])
def test_a_wrong_conversion_is_found(source: str, monkeypatch: pytest.MonkeyPatch, replaced: tuple[str, str]) -> None:
    wrong = Conversion(source, (Step(all_transforms()[0], Applied(), source, source.replace(*replaced)),))
    assert wrong.source != source
    monkeypatch.setattr(equal, "examine", lambda _: (wrong, []))
    assert equal.check(SCRIPT, source, ARGS).kind == "wrong"
