"""The fixtures and their golden conversions."""

import hashlib
import inspect
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformer import Conversion, convert
from transformer.conversion.of_file import convert_script

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FIXTURES = Path(__file__).parents[2] / "fixtures"
CONVERTED = FIXTURES / "converted"
ARGS = tomllib.loads((FIXTURES / "ARGS.toml").read_text(encoding="utf-8"))
"""For each fixture, the arguments of a run, and the files to convert with it, if any."""


shared: Path | None = None
"""A folder through which the processes of a test run share conversions; conftest.py sets it."""
_kept: dict[str, Conversion] = {}
_DEFAULTS = {name: option.default for name, option in inspect.signature(convert).parameters.items()}


def converted(source: str, **options: Any) -> Conversion:
    """The result of `convert`, made only once for all tests that need the same conversion."""
    if options.get("held") is not None:
        return convert(source, **options)
    options = {name: value for name, value in options.items() if value != _DEFAULTS[name]}  # commands pass defaults
    if not options.get("ignore"):
        options.pop("ignore", None)
    asked = repr((source, sorted(options.items())))
    return _once(hashlib.sha256(asked.encode()).hexdigest(), lambda: convert(source, **options))


def conversion_of(fixture: Path) -> Conversion:
    """The conversion of a fixture, made only once for all tests."""
    together = [FIXTURES / path for path in ARGS.get(fixture.name, {}).get("together", ())]
    if together:
        return _once(fixture.stem, lambda: convert_script(str(fixture), together)[1])
    return converted(fixture.read_text(encoding="utf-8"))


def _once(name: str, make: Callable[[], Conversion]) -> Conversion:
    if name in _kept:
        return _kept[name]
    file = None if shared is None else shared / f"{name}.pickle"
    if file is not None and file.exists():
        found = pickle.loads(file.read_bytes())
        assert isinstance(found, Conversion)
    else:
        found = make()
        if file is not None:
            file.parent.mkdir(exist_ok=True)
            new = file.with_suffix(f".{os.getpid()}")
            new.write_bytes(pickle.dumps(found))
            new.rename(file)
    _kept[name] = found
    return found


def convert_fixture(fixture: Path) -> str:
    """The conversion of a fixture.

    Raises:
        ValueError: the fixture is refused.
    """
    conversion = conversion_of(fixture)
    if not conversion.converted:
        raise ValueError("\n".join(f"{fixture}:{d.line}:{d.column}: {d.code} {d.message}" for d in conversion.errors))
    return conversion.source
