"""If a script is clean by ruff's formatter and default rules, so is its conversion, at any line length."""

import subprocess
from pathlib import Path

import golden
import pytest
from ruff import find_ruff_bin

from transformer import convert


def ruff(*args: str, length: int, content: str) -> subprocess.CompletedProcess[str]:
    command = [find_ruff_bin(), *args, "--isolated", "--config", f"line-length={length}", "-"]
    return subprocess.run(command, input=content, capture_output=True, text=True, check=False)


QUICK = ("gymnasium_continuous", "in_methods", "two_optimizers")
"""The fixtures whose conversions have the least in common."""
CASES = [
    pytest.param(f, n, id=f"{f.stem}-{n}", marks=[] if n == 88 and f.stem in QUICK else pytest.mark.slow)
    for f in sorted(golden.FIXTURES.glob("*.py"))
    if "together" not in golden.ARGS.get(f.name, {})  # which are converted as they stand
    for n in (88, 127)
]


@pytest.mark.parametrize(("fixture", "length"), CASES)
def test_conversion_is_as_clean_as_the_original(fixture: Path, length: int) -> None:
    original = ruff("format", length=length, content=fixture.read_text(encoding="utf-8")).stdout
    assert original
    assert ruff("check", length=length, content=original).returncode == 0, "the fixture itself"
    converted = convert(original, line_length=length).source
    assert converted != original
    assert ruff("format", "--diff", length=length, content=converted).stdout == ""
    found = ruff("check", length=length, content=converted)
    assert found.returncode == 0, found.stdout
