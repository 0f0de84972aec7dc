"""Where a script is clean by ruff's formatter and default rules, so is its conversion, at any line length."""

import subprocess
import sys
from pathlib import Path

import golden
import pytest

from transformer import convert


def ruff(*args: str, length: int, content: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ruff", *args, "--isolated", "--config", f"line-length={length}", "-"]
    return subprocess.run(command, input=content, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("length", [88, pytest.param(127, marks=pytest.mark.slow)])
@pytest.mark.parametrize("fixture", sorted(golden.FIXTURES.glob("*.py")), ids=lambda p: p.stem)
def test_conversion_is_as_clean_as_the_original(fixture: Path, length: int) -> None:
    original = ruff("format", length=length, content=fixture.read_text(encoding="utf-8")).stdout
    assert original
    assert ruff("check", length=length, content=original).returncode == 0, "the fixture itself"
    converted = convert(original, line_length=length).source
    assert converted != original
    assert ruff("format", "--diff", length=length, content=converted).stdout == ""
    found = ruff("check", length=length, content=converted)
    assert found.returncode == 0, found.stdout
