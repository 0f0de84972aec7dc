"""Several scripts converted in worker processes: same conversions, same order, and separate failures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from transformer.conversion import of_files
from transformer.conversion.of_file import convert_script
from transformer.conversion.of_files import converting

SCRIPT = "import torch\nx = {}\n"


@pytest.fixture
def scripts(tmp_path: Path) -> list[str]:
    paths = [tmp_path / f"script_{number}.py" for number in range(of_files.FEW)]
    for number, path in enumerate(paths):
        path.write_text(SCRIPT.format(number), encoding="utf-8")
    return [str(path) for path in paths]


@pytest.mark.parametrize("cpus", [1, 2])
def test_each_gets_its_own_conversion(cpus: int, scripts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_files, "processors", lambda: cpus)
    with converting(scripts) as conversions:
        assert [converted() for converted in conversions] == [convert_script(script) for script in scripts]


@pytest.mark.parametrize("cpus", [1, 2])
def test_what_one_raises_is_its_own(cpus: int, scripts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_files, "processors", lambda: cpus)
    with converting([*scripts, "missing.py"]) as conversions:
        *found, missing = conversions
        with pytest.raises(FileNotFoundError):
            missing()
        assert [converted()[0].content for converted in found] == [SCRIPT.format(n) for n in range(len(scripts))]


def _process(script: str) -> int:
    return os.getpid()


def test_few_are_converted_here_and_many_elsewhere(scripts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_files, "convert_script", _process)
    monkeypatch.setattr(of_files, "processors", lambda: 2)
    with converting(scripts[1:]) as conversions:
        assert {converted() for converted in conversions} == {os.getpid()}
    with converting(scripts) as conversions:
        assert os.getpid() not in {converted() for converted in conversions}
