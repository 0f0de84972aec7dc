"""Refresh the golden conversions, and show how they changed: `make golden`."""

import difflib
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "support"))
from golden import CONVERTED, FIXTURES, convert_fixture


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
