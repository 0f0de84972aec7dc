"""The fixtures and their golden conversions."""

import os
import pickle
import sys
from functools import cache
from pathlib import Path

from transformer import Conversion, convert
from transformer.conversion.of_file import convert_script

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FIXTURES = Path(__file__).parents[2] / "fixtures"
CONVERTED = FIXTURES / "converted"
ARGS = tomllib.loads((FIXTURES / "ARGS.toml").read_text(encoding="utf-8"))
"""How each fixture is run, and the files of several that are converted with it."""


shared: Path | None = None
"""A folder in which the processes of a test run share conversions; conftest.py sets it."""


@cache
def conversion_of(fixture: Path) -> Conversion:
    """The conversion of a fixture, made once for all tests."""
    kept = None if shared is None else shared / f"{fixture.stem}.pickle"
    if kept is not None and kept.exists():
        found = pickle.loads(kept.read_bytes())
        assert isinstance(found, Conversion)
        return found
    together = [FIXTURES / path for path in ARGS.get(fixture.name, {}).get("together", ())]
    text = fixture.read_text(encoding="utf-8")
    conversion = convert_script(str(fixture), together)[1] if together else convert(text)
    if kept is not None:
        kept.parent.mkdir(exist_ok=True)
        new = kept.with_suffix(f".{os.getpid()}")
        new.write_bytes(pickle.dumps(conversion))
        new.rename(kept)
    return conversion


def convert_fixture(fixture: Path) -> str:
    """The conversion of a fixture.

    Raises:
        ValueError: the fixture is refused.
    """
    conversion = conversion_of(fixture)
    if not conversion.converted:
        raise ValueError("\n".join(f"{fixture}:{d.line}:{d.column}: {d.code} {d.message}" for d in conversion.errors))
    return conversion.source
