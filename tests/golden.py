"""Refresh the golden conversions, and show how they changed: `make golden`."""

import difflib
import sys
from functools import cache
from pathlib import Path

from transformer import Conversion, convert

FIXTURES = Path(__file__).parent.parent / "fixtures"
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


def main() -> None:
    """Write fixtures/converted/ anew and print a diff of what changed."""
    CONVERTED.mkdir(exist_ok=True)
    fixtures = sorted(FIXTURES.glob("*.py"))
    for stale in sorted({p.name for p in CONVERTED.glob("*.py")} - {p.name for p in fixtures}):
        print(f"removed {stale}")
        (CONVERTED / stale).unlink()
    for fixture in fixtures:
        golden = CONVERTED / fixture.name
        old = golden.read_text(encoding="utf-8") if golden.exists() else ""
        new = convert_fixture(fixture)
        golden.write_text(new, encoding="utf-8")
        names = f"old/{golden.name}", f"new/{golden.name}"
        sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), *names))


if __name__ == "__main__":
    main()
