"""The fixtures and their golden conversions."""

from functools import cache
from pathlib import Path

from transformer import Conversion, convert

FIXTURES = Path(__file__).parents[2] / "fixtures"
CONVERTED = FIXTURES / "converted"


@cache
def conversion_of(fixture: Path) -> Conversion:
    """The conversion of a fixture, made once for all tests that look at it."""
    return convert(fixture.read_text(encoding="utf-8"))


def convert_fixture(fixture: Path) -> str:
    """What a fixture is converted to.

    Raises:
        ValueError: the fixture is refused.
    """
    conversion = conversion_of(fixture)
    if not conversion.converted:
        raise ValueError("\n".join(f"{fixture}:{d.line}:{d.column}: {d.code} {d.message}" for d in conversion.errors))
    return conversion.source
