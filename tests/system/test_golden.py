"""The committed conversions of the fixtures are those that the converter makes; `make golden` refreshes them."""

from pathlib import Path

import golden
import pytest


@pytest.mark.parametrize("fixture", sorted(golden.FIXTURES.glob("*.py")), ids=lambda p: p.stem)
def test_conversion_is_the_committed_one(fixture: Path) -> None:
    assert golden.convert_fixture(fixture) == (golden.CONVERTED / fixture.name).read_text(encoding="utf-8")


def test_every_golden_file_has_a_fixture() -> None:
    fixtures = {p.name for p in golden.FIXTURES.glob("*.py")}
    assert fixtures
    assert {p.name for p in golden.CONVERTED.glob("*.py")} == fixtures
